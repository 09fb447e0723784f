#include "plan/plan_verifier.h"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>

#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"
#include "graph/one_line.h"
#include "graph/with_message.h"
#include "millrace/status.h"
#include "plan/byte_range_map.h"
#include "plan/check_tables.h"
#include "plan/disk_layout.h"
#include "plan/happens_before.h"
#include "plan/name_ids.h"
#include "plan/plan_text.h"
#include "plan/step_order.h"

namespace millrace {
namespace {

constexpr int32_t kUnknownOwner = -1;  // holds something, the plan does not say of whom
constexpr int32_t kGarbage = -2;       // scratch: written, never to be read

// What some bytes hold, who wrote it and who has read it since.
struct Content {
  bool from_start = true;  // there before the first step
  StepRef writer;
  int32_t owner = kUnknownOwner;
  int32_t variable = -1;  // holds `version` of this variable's values
  int64_t version = 0;
  int64_t base = 0;       // where the variable begins
  absl::InlinedVector<StepRef, 3> readers;  // the latest of each lane
};
using Memory = ByteRangeMap<Content>;

// Whether a kernel knows an input by value, of the type that it is to have.
bool KnowsValue(const OpInstance& instance, size_t input) {
  return input < instance.input_values.size() && instance.input_values[input].type() == instance.inputs[input];
}

class Verifier {
 public:
  explicit Verifier(const ExecutionPlan& plan) : plan_(plan), order_(StepsInOrder(plan)), owners_(plan.tensors.size()) {}
  absl::Status Run();

 private:
  struct Range {
    int64_t begin = 0;
    int64_t bytes = 0;
    int64_t end() const { return begin + bytes; }
  };

  void PlaceStart();
  absl::Status CheckCompute(const StepRef& ref, const ComputeStep& step);
  absl::Status CheckComputeShape(const StepRef& ref, const ComputeStep& step);
  absl::Status CheckDynamic(const StepRef& ref, const ComputeStep& step);
  absl::Status CheckWithinStep(const StepRef& ref, const ComputeStep& step) const;
  absl::Status CheckVariableWrites(const StepRef& ref, const ComputeStep& step);
  // An output at `address` is a variable that the step writes.
  static bool ReturnsVariable(const ComputeStep& step, int64_t address) {
    for (size_t i = 0; i < step.input_variables.size(); ++i) {
      const auto& written = step.writes_variables;
      if (step.inputs[i] == address && std::count(written.begin(), written.end(), step.input_variables[i]) > 0) return true;
    }
    return false;
  }
  absl::Status WritePart(const StepRef& ref, const Range& part, int32_t variable);
  absl::Status CheckCopy(const StepRef& ref, const CopyStep& step, LaneKind kind);
  int32_t WrittenBy(const CopyStep& step, LaneKind kind) const;
  absl::Status CheckCopyIn(const StepRef& ref, const CopyStep& step, const Range& device);
  absl::Status CheckCopyOut(const StepRef& ref, const CopyStep& step, const Range& device);
  absl::Status CheckDisk(const StepRef& ref, const CopyStep& step, LaneKind kind);
  absl::Status CheckHostSide(const StepRef& ref, const CopyStep& step) const;
  absl::Status CheckEnd();

  absl::Status CheckAddress(const StepRef& ref, const Range& range, int64_t limit, const char* where) const;
  // The bytes are there, nobody writes them at once, and they are `owner`'s (kUnknownOwner: anybody's).
  absl::Status Read(const StepRef& ref, Memory& memory, const Range& range, int32_t owner, const char* where);
  // The bytes hold values of this version of the variable.
  absl::Status HoldsVariable(const StepRef& ref, Memory& memory, const Range& range, int32_t variable, int64_t version);
  // … the newest ones.
  absl::Status ReadVariable(const StepRef& ref, const Range& range, int32_t variable) {
    return HoldsVariable(ref, DeviceMemory(ref), range, variable, version_[variable]);
  }
  // Nobody else uses the bytes any more.
  absl::Status Write(const StepRef& ref, Memory& memory, const Range& range, int32_t owner, const char* where,
                     int32_t variable = -1);

  absl::Status Error(const StepRef& ref, const std::string& what) const {
    return absl::InternalError(absl::StrCat("plan: step ", StepToText(plan_, ref.lane, ref.index), ": ", what));
  }
  std::string Describe(const StepRef& ref) const {
    return absl::StrCat("step ", ref.position, " (", NameOf(plan_, ref.lane, ref.index), ")");
  }
  std::string OwnerName(int32_t owner) const {
    if (owner == kGarbage) return "scratch";
    return owner == kUnknownOwner ? "an unnamed tensor" : absl::StrCat("'", std::string(owners_.name(owner)), "'");
  }
  int32_t Owner(std::string_view name) { return owners_.Add(name); }
  static int32_t OwnerAt(const StepIndices& owners, size_t i) {
    return owners.empty() || owners[i] < 0 ? kUnknownOwner : owners[i];
  }
  Memory& DeviceMemory(const StepRef& ref) { return device_memory_[plan_.lanes[ref.lane].device]; }
  const PlanDevice& DeviceOf(const StepRef& ref) const { return plan_.devices[plan_.lanes[ref.lane].device]; }

  const ExecutionPlan& plan_;
  const std::vector<StepRef> order_;
  const HappensBefore* before_ = nullptr;
  // The plan's strings. Owners: plan.tensors, then other names that copies use.
  NameIds owners_;
  std::vector<Memory> device_memory_;
  Memory pool_;
  Memory homes_;  // variable v is byte v
  Memory disk_;   // scratch
  std::vector<int64_t> version_;       // of each variable, as of the position reached
  std::vector<int64_t> home_version_;
  std::vector<bool> fetched_;
  std::vector<std::optional<StepRef>> shape_writers_;  // per dynamic tensor
};

absl::Status Verifier::Run() {
  MR_RETURN_IF_ERROR(CheckTables(plan_));
  MR_ASSIGN_OR_RETURN(const HappensBefore before, HappensBefore::Create(plan_, order_));
  before_ = &before;
  for (const std::string& name : plan_.tensors) Owner(name);
  device_memory_.resize(plan_.devices.size());
  version_.assign(plan_.variables.size(), 0);
  // Between steps a resident variable that steps write is newer than its home.
  for (const PlanVariable& v : plan_.variables) home_version_.push_back(v.written && v.resident_offset != kNoAddress ? -1 : 0);
  fetched_.assign(plan_.fetches.size(), false);
  PlaceStart();
  for (const StepRef& ref : order_) {
    const Lane& lane = plan_.lanes[ref.lane];
    if (lane.kind == LaneKind::kCompute) {
      MR_RETURN_IF_ERROR(CheckCompute(ref, lane.compute[ref.index]));
    } else {
      MR_RETURN_IF_ERROR(CheckCopy(ref, lane.copies[ref.index], lane.kind));
    }
  }
  MR_RETURN_IF_ERROR(CheckEnd());
  return CheckResidences(plan_);
}

// What is there before the first step.
void Verifier::PlaceStart() {
  for (size_t i = 0; i < plan_.variables.size(); ++i) {
    const PlanVariable& v = plan_.variables[i];
    Content content;
    content.owner = Owner(v.name);
    content.variable = static_cast<int32_t>(i);
    homes_.Assign(i, i + 1, content);
    if (v.host_offset != kNoAddress && v.read_before_write) {
      pool_.Assign(v.host_offset, v.host_offset + v.type.size_bytes(), content);
    }
    if (v.resident_offset == kNoAddress || !v.read_before_write) continue;
    content.base = v.resident_offset;
    device_memory_[v.device].Assign(v.resident_offset, v.resident_offset + v.type.size_bytes(), content);
  }
  for (const PlanConstant& c : plan_.constants) {
    if (c.resident_offset == kNoAddress) continue;
    Content content;
    content.owner = Owner(c.name);
    device_memory_[c.device].Assign(c.resident_offset, c.resident_offset + c.value.size_bytes(), content);
  }
}

absl::Status Verifier::CheckAddress(const StepRef& ref, const Range& range, int64_t limit, const char* where) const {
  // The end is not reckoned with: what a file says may be near the largest integer.
  if (range.begin >= 0 && range.bytes >= 0 && range.begin % kTensorAlignment == 0 && range.begin <= limit &&
      range.bytes <= limit - range.begin) {
    return absl::OkStatus();
  }
  return Error(ref, absl::StrCat(range.bytes, " bytes at ", range.begin, " are outside of the ", where, " of ", limit,
                                 " bytes or not aligned"));
}

absl::Status Verifier::Read(const StepRef& ref, Memory& memory, const Range& range, int32_t owner, const char* where) {
  absl::Status status;
  const int64_t set = memory.ForEach(range.begin, range.end(), [&](int64_t begin, int64_t end, Content& content) {
    const auto fail = [&](const std::string& what) {
      if (status.ok()) status = Error(ref, absl::StrCat("reads ", where, " bytes [", begin, ",", end, ") ", what));
    };
    if (!content.from_start && !(*before_)(content.writer, ref)) {
      return fail(absl::StrCat("without waiting for ", Describe(content.writer), ", which writes them"));
    }
    if (content.owner == kGarbage || (owner >= 0 && content.owner >= 0 && owner != content.owner)) {
      return fail(absl::StrCat("for ", OwnerName(owner), ", but they hold ", OwnerName(content.owner)));
    }
    for (StepRef& reader : content.readers) {
      if (reader.lane == ref.lane) {
        reader = ref;
        return;
      }
    }
    content.readers.push_back(ref);
  });
  if (status.ok() && set < range.bytes) {
    return Error(ref, absl::StrCat("reads ", where, " bytes [", range.begin, ",", range.end(), "), of which ",
                                   range.bytes - set, " have never been written"));
  }
  return status;
}

absl::Status Verifier::HoldsVariable(const StepRef& ref, Memory& memory, const Range& range, int32_t variable,
                                     int64_t version) {
  absl::Status status;
  memory.ForEach(range.begin, range.end(), [&](int64_t begin, int64_t end, Content& content) {
    if (content.variable == variable && content.version == version) return;
    status = Error(ref, absl::StrCat("bytes [", begin, ",", end, ") do not hold the newest value of variable '",
                                     plan_.variables[variable].name, "'"));
  });
  return status;
}

absl::Status Verifier::Write(const StepRef& ref, Memory& memory, const Range& range, int32_t owner, const char* where,
                             int32_t variable) {
  absl::Status status;
  memory.ForEach(range.begin, range.end(), [&](int64_t begin, int64_t end, Content& content) {
    const auto check = [&](const StepRef& other, const char* use) {
      if (!status.ok() || (other.lane == ref.lane && other.index == ref.index) || (*before_)(other, ref)) return;
      status = Error(ref, absl::StrCat("writes ", where, " bytes [", begin, ",", end, ") without waiting for ",
                                       Describe(other), ", which ", use, " them"));
    };
    if (!content.from_start) check(content.writer, "writes");
    for (const StepRef& reader : content.readers) check(reader, "reads");
  });
  MR_RETURN_IF_ERROR(status);
  Content content;
  content.from_start = false;
  content.writer = ref;
  content.owner = owner;
  content.variable = variable;
  content.base = range.begin;
  if (variable >= 0) content.version = version_[variable];
  memory.Assign(range.begin, range.end(), std::move(content));
  return absl::OkStatus();
}

absl::Status Verifier::CheckComputeShape(const StepRef& ref, const ComputeStep& step) {
  const OpInstance& instance = plan_.instances[step.instance];
  const auto indices = [](const auto& list, size_t limit) {
    return std::all_of(list.begin(), list.end(),
                       [&](int32_t i) { return i >= -1 && i < static_cast<int64_t>(limit); });
  };
  if (step.inputs.size() != instance.inputs.size() || step.outputs.size() != instance.outputs.size() ||
      (!step.input_variables.empty() && step.input_variables.size() != step.inputs.size()) ||
      (!step.input_owners.empty() && step.input_owners.size() != step.inputs.size()) ||
      (!step.output_owners.empty() && step.output_owners.size() != step.outputs.size())) {
    return Error(ref, "has a wrong number of addresses, variables or owners");
  }
  if (!indices(step.input_owners, plan_.tensors.size()) || !indices(step.output_owners, plan_.tensors.size()) ||
      !indices(step.input_variables, plan_.variables.size()) ||
      !indices(step.writes_variables, plan_.variables.size()) ||
      std::count(step.writes_variables.begin(), step.writes_variables.end(), -1) > 0) {
    return Error(ref, "names a tensor or variable that is not in the plan");
  }
  MR_RETURN_IF_ERROR(CheckDynamic(ref, step));
  for (int32_t v : step.writes_variables) {
    if (!plan_.variables[v].written) return Error(ref, "writes a variable that the plan says nobody writes");
  }
  return absl::OkStatus();
}

// A step knows the shapes of what it takes: those that are known only when running have been stored by then.
absl::Status Verifier::CheckDynamic(const StepRef& ref, const ComputeStep& step) {
  if (!step.is_dynamic()) {
    return step.is_view || step.run_time_values != 0 ? Error(ref, "has values or a view of a dynamic step")
                                                     : absl::OkStatus();
  }
  if (step.input_shapes.size() != step.inputs.size() || step.output_shapes.size() != step.outputs.size()) {
    return Error(ref, "has a wrong number of dynamic tensors");
  }
  shape_writers_.resize(plan_.dynamic_tensors.size());
  const int32_t count = static_cast<int32_t>(plan_.dynamic_tensors.size());
  for (int32_t t : step.input_shapes) {
    if (t == -1) continue;
    if (t < 0 || t >= count) return Error(ref, "names a dynamic tensor that is not in the plan");
    if (!shape_writers_[t].has_value() || !(*before_)(*shape_writers_[t], ref)) {
      return Error(ref, absl::StrCat("takes the shape of '", plan_.dynamic_tensors[t], "' before it is known"));
    }
  }
  for (int32_t t : step.output_shapes) {
    if (t == -1) continue;
    if (t < 0 || t >= count) return Error(ref, "names a dynamic tensor that is not in the plan");
    if (shape_writers_[t].has_value()) {
      return Error(ref, absl::StrCat("makes '", plan_.dynamic_tensors[t], "', which an earlier step made"));
    }
    shape_writers_[t] = ref;
  }
  return absl::OkStatus();
}

// Outputs may overlap inputs only by being in place, and nothing else within a step may overlap.
absl::Status Verifier::CheckWithinStep(const StepRef& ref, const ComputeStep& step) const {
  const OpInstance& instance = plan_.instances[step.instance];
  const auto overlap = [](const Range& a, const Range& b) {
    return a.bytes > 0 && b.bytes > 0 && a.begin < b.end() && b.begin < a.end();
  };
  using Ranges = absl::InlinedVector<Range, 8>;
  Ranges inputs, outputs;
  for (size_t i = 0; i < step.inputs.size(); ++i) {
    if (step.inputs[i] != kNoAddress) inputs.push_back({step.inputs[i], instance.inputs[i].size_bytes()});
  }
  for (size_t i = 0; i < step.outputs.size(); ++i) {
    if (step.outputs[i] != kNoAddress) outputs.push_back({step.outputs[i], instance.outputs[i].size_bytes()});
  }
  for (const Range& output : outputs) {
    for (const Range& input : inputs) {
      if (overlap(output, input) && output.begin != input.begin) {
        return Error(ref, absl::StrCat("an output at ", output.begin, " overlaps an input at ", input.begin));
      }
    }
  }
  const Range scratch{step.scratch_offset, step.scratch_bytes};
  for (const Ranges* list : {&inputs, &outputs}) {
    for (const Range& range : *list) {
      if (overlap(scratch, range)) return Error(ref, absl::StrCat("its scratch overlaps the tensor at ", range.begin));
    }
  }
  std::sort(outputs.begin(), outputs.end(), [](const Range& a, const Range& b) { return a.begin < b.begin; });
  for (size_t i = 1; i < outputs.size(); ++i) {
    if (overlap(outputs[i - 1], outputs[i])) return Error(ref, "two of its outputs overlap");
  }
  return absl::OkStatus();
}

absl::Status Verifier::CheckCompute(const StepRef& ref, const ComputeStep& step) {
  MR_RETURN_IF_ERROR(CheckComputeShape(ref, step));
  const OpInstance& instance = plan_.instances[step.instance];
  const int64_t arena = DeviceOf(ref).arena_bytes;
  Memory& memory = DeviceMemory(ref);
  for (size_t i = 0; i < step.inputs.size(); ++i) {
    const Range range{step.inputs[i], instance.inputs[i].size_bytes()};
    const int32_t variable = step.input_variables.empty() ? -1 : step.input_variables[i];
    // Of a variable a node may ask only whether it has a value.
    if (range.begin == kNoAddress && range.bytes > 0 && variable < 0 && !KnowsValue(instance, i)) {
      return Error(ref, absl::StrCat("input ", i, " has neither an address nor a known value"));
    }
    if (range.begin == kNoAddress || range.bytes == 0) continue;
    MR_RETURN_IF_ERROR(CheckAddress(ref, range, arena, "arena"));
    const bool written = std::count(step.writes_variables.begin(), step.writes_variables.end(), variable) > 0;
    if (variable >= 0 && written && step.overwrites_variables) continue;
    MR_RETURN_IF_ERROR(Read(ref, memory, range, OwnerAt(step.input_owners, i), "device"));
    if (variable >= 0) MR_RETURN_IF_ERROR(ReadVariable(ref, range, variable));
  }
  for (size_t i = 0; i < step.outputs.size(); ++i) {
    const Range range{step.outputs[i], instance.outputs[i].size_bytes()};
    if (range.bytes == 0) continue;
    if (range.begin == kNoAddress) return Error(ref, absl::StrCat("output ", i, " has no address"));
    MR_RETURN_IF_ERROR(CheckAddress(ref, range, arena, "arena"));
  }
  if (step.scratch_bytes != 0) {
    MR_RETURN_IF_ERROR(CheckAddress(ref, {step.scratch_offset, step.scratch_bytes}, arena, "arena"));
  }
  MR_RETURN_IF_ERROR(CheckWithinStep(ref, step));
  if (step.scratch_bytes > 0) {
    MR_RETURN_IF_ERROR(Write(ref, memory, {step.scratch_offset, step.scratch_bytes}, kGarbage, "device"));
  }
  for (size_t i = 0; i < step.outputs.size() && !step.is_view; ++i) {
    const Range range{step.outputs[i], instance.outputs[i].size_bytes()};
    if (range.bytes == 0 || ReturnsVariable(step, range.begin)) continue;
    MR_RETURN_IF_ERROR(Write(ref, memory, range, OwnerAt(step.output_owners, i), "device"));
  }
  return CheckVariableWrites(ref, step);
}

absl::Status Verifier::CheckVariableWrites(const StepRef& ref, const ComputeStep& step) {
  const OpInstance& instance = plan_.instances[step.instance];
  for (int32_t v : step.writes_variables) ++version_[v];
  for (int32_t v : step.writes_variables) {
    bool addressed = plan_.variables[v].type.size_bytes() == 0;
    for (size_t i = 0; i < step.input_variables.size(); ++i) {
      if (step.input_variables[i] != v || step.inputs[i] == kNoAddress) continue;
      addressed = true;
      const Range range{step.inputs[i], instance.inputs[i].size_bytes()};
      MR_RETURN_IF_ERROR(range.bytes < plan_.variables[v].type.size_bytes()
                             ? WritePart(ref, range, v)
                             : Write(ref, DeviceMemory(ref), range, Owner(plan_.variables[v].name), "device", v));
    }
    if (!addressed) {
      return Error(ref, absl::StrCat("writes variable '", plan_.variables[v].name, "' without an address for it"));
    }
  }
  return absl::OkStatus();
}

// The rest of the variable must hold its newest value, and does so again when the part is written.
absl::Status Verifier::WritePart(const StepRef& ref, const Range& part, int32_t variable) {
  const PlanVariable& v = plan_.variables[variable];
  Memory& memory = DeviceMemory(ref);
  Range whole{-1, v.type.size_bytes()};
  memory.ForEach(part.begin, part.begin + 1, [&](int64_t, int64_t, Content& content) {
    if (content.variable == variable) whole.begin = content.base;
  });
  if (whole.begin < 0 || part.end() > whole.end()) {
    return Error(ref, absl::StrCat("writes bytes [", part.begin, ",", part.end(), ") as a part of variable '", v.name,
                                   "', which is not there"));
  }
  MR_RETURN_IF_ERROR(HoldsVariable(ref, memory, whole, variable, version_[variable] - 1));
  MR_RETURN_IF_ERROR(Write(ref, memory, part, Owner(v.name), "device", variable));
  memory.ForEach(whole.begin, whole.end(), [&](int64_t, int64_t, Content& content) {
    content.version = version_[variable];
    content.base = whole.begin;
  });
  return absl::OkStatus();
}

absl::Status Verifier::CheckHostSide(const StepRef& ref, const CopyStep& step) const {
  int64_t bytes = step.bytes;
  const auto there = [&](size_t size) { return step.host.index >= 0 && step.host.index < static_cast<int64_t>(size); };
  bool known = true;
  switch (step.host.kind) {
    case HostRef::Kind::kPool:
      return CheckAddress(ref, {step.host.offset_bytes, step.bytes}, plan_.host_pool_bytes, "host pool");
    case HostRef::Kind::kVariable:
      known = there(plan_.variables.size());
      if (!known) break;
      bytes = plan_.variables[step.host.index].type.size_bytes();
      if (plan_.tiered) {
        MR_RETURN_IF_ERROR(CheckAddress(ref, {step.host.offset_bytes, step.bytes}, plan_.host_pool_bytes, "host pool"));
      }
      break;
    case HostRef::Kind::kConstant:
      known = there(plan_.constants.size());
      if (known) bytes = plan_.constants[step.host.index].value.size_bytes();
      break;
    case HostRef::Kind::kFeed:
      known = there(plan_.feeds.size());
      if (known) bytes = plan_.feeds[step.host.index].type.size_bytes();
      break;
    case HostRef::Kind::kFetch:
      known = there(plan_.fetches.size());
      if (known) bytes = plan_.fetches[step.host.index].type.size_bytes();
      break;
  }
  if (!known) return Error(ref, "names a place in host memory that is not there");
  if (bytes != step.bytes) return Error(ref, absl::StrCat("its host side has ", bytes, " bytes"));
  return absl::OkStatus();
}

// The variable whose value for good the copy makes newer: at its home, or, in a tiered plan, at its place in the pool if it has one.
int32_t Verifier::WrittenBy(const CopyStep& step, LaneKind kind) const {
  const auto in_pool = [&](int32_t v) { return plan_.variables[v].host_offset != kNoAddress; };
  const int32_t host = step.host.kind == HostRef::Kind::kVariable ? step.host.index : -1;
  if (kind == LaneKind::kToHost && host >= 0 && (!plan_.tiered || in_pool(host))) return host;
  if (kind == LaneKind::kToDisk && host >= 0 && !in_pool(host)) return host;
  return -1;
}

absl::Status Verifier::CheckCopy(const StepRef& ref, const CopyStep& step, LaneKind kind) {
  MR_RETURN_IF_ERROR(CheckHostSide(ref, step));
  if (step.writes_variable != WrittenBy(step, kind)) return Error(ref, "writes another variable's home than it says");
  if (kind == LaneKind::kToDisk || kind == LaneKind::kFromDisk) return CheckDisk(ref, step, kind);
  const Range device{step.device_offset, step.bytes};
  MR_RETURN_IF_ERROR(CheckAddress(ref, device, DeviceOf(ref).arena_bytes, "arena"));
  return kind == LaneKind::kToHost ? CheckCopyOut(ref, step, device) : CheckCopyIn(ref, step, device);
}

absl::Status Verifier::CheckCopyIn(const StepRef& ref, const CopyStep& step, const Range& device) {
  const int32_t owner = Owner(step.tensor);
  int32_t variable = -1;
  switch (step.host.kind) {
    case HostRef::Kind::kPool:
      MR_RETURN_IF_ERROR(Read(ref, pool_, {step.host.offset_bytes, step.bytes}, owner, "host pool"));
      break;
    case HostRef::Kind::kVariable:
      variable = step.host.index;
      if (plan_.tiered) {
        const Range place{step.host.offset_bytes, step.bytes};
        MR_RETURN_IF_ERROR(Read(ref, pool_, place, owner, "host pool"));
        MR_RETURN_IF_ERROR(HoldsVariable(ref, pool_, place, variable, version_[variable]));
        break;
      }
      if (home_version_[variable] != version_[variable]) {
        return Error(ref, "reads the home of a variable whose newest value has not been copied there");
      }
      MR_RETURN_IF_ERROR(Read(ref, homes_, {variable, 1}, owner, "variable home"));
      break;
    case HostRef::Kind::kFetch: return Error(ref, "reads a fetch");
    case HostRef::Kind::kConstant:
    case HostRef::Kind::kFeed: break;
  }
  return Write(ref, DeviceMemory(ref), device, owner, "device", variable);
}

absl::Status Verifier::CheckCopyOut(const StepRef& ref, const CopyStep& step, const Range& device) {
  // Fetches may go by the name of a view; a swapped tensor goes by its owner's.
  const bool fetch = step.host.kind == HostRef::Kind::kFetch;
  const int32_t owner = fetch && !owners_.Has(step.tensor) ? kUnknownOwner : Owner(step.tensor);
  MR_RETURN_IF_ERROR(Read(ref, DeviceMemory(ref), device, owner, "device"));
  switch (step.host.kind) {
    case HostRef::Kind::kPool:
      return Write(ref, pool_, {step.host.offset_bytes, step.bytes}, owner, "host pool");
    case HostRef::Kind::kVariable: {
      const int32_t variable = step.host.index;
      if (plan_.tiered) {
        MR_RETURN_IF_ERROR(ReadVariable(ref, device, variable));
        return Write(ref, pool_, {step.host.offset_bytes, step.bytes}, owner, "host pool", variable);
      }
      MR_RETURN_IF_ERROR(ReadVariable(ref, device, variable));
      home_version_[variable] = version_[variable];
      return Write(ref, homes_, {variable, 1}, owner, "variable home", variable);
    }
    case HostRef::Kind::kFetch: fetched_[step.host.index] = true; return absl::OkStatus();
    case HostRef::Kind::kConstant:
    case HostRef::Kind::kFeed: return Error(ref, "writes a constant or a feed");
  }
  return absl::OkStatus();
}

// A step between host pool and disk. A variable's home may be written with a value that is not the newest one, as long
// as the newest is there when the step ends.
absl::Status Verifier::CheckDisk(const StepRef& ref, const CopyStep& step, LaneKind kind) {
  const int32_t variable = step.disk.variable;
  const bool pool = step.host.kind == HostRef::Kind::kPool || step.host.kind == HostRef::Kind::kVariable;
  if (!plan_.tiered || !pool || variable >= static_cast<int32_t>(plan_.variables.size()) ||
      (step.host.kind == HostRef::Kind::kVariable ? step.host.index : -1) != variable) {
    return Error(ref, "does not go between the host pool and its place on disk");
  }
  const Range place{step.host.offset_bytes, step.bytes};
  const Range scratch{step.disk.offset_bytes, step.bytes};
  if (place.begin % kDiskPageBytes != 0 || scratch.begin % kDiskPageBytes != 0) {
    return Error(ref, "is not aligned to pages");
  }
  if (variable < 0) MR_RETURN_IF_ERROR(CheckAddress(ref, scratch, plan_.disk_scratch_bytes, "disk"));
  const int32_t owner = Owner(step.tensor);
  if (kind == LaneKind::kFromDisk) {
    MR_RETURN_IF_ERROR(variable < 0 ? Read(ref, disk_, scratch, owner, "disk")
                                    : Read(ref, homes_, {variable, 1}, owner, "variable home"));
    MR_RETURN_IF_ERROR(Write(ref, pool_, place, owner, "host pool", variable));
    pool_.ForEach(place.begin, place.end(), [&](int64_t, int64_t, Content& content) {
      if (variable >= 0) content.version = home_version_[variable];
    });
    return absl::OkStatus();
  }
  MR_RETURN_IF_ERROR(Read(ref, pool_, place, owner, "host pool"));
  if (variable < 0) return Write(ref, disk_, scratch, owner, "disk");
  int64_t version = -1;
  pool_.ForEach(place.begin, place.end(), [&](int64_t, int64_t, Content& content) { version = content.version; });
  MR_RETURN_IF_ERROR(HoldsVariable(ref, pool_, place, variable, version));
  home_version_[variable] = version;
  return Write(ref, homes_, {variable, 1}, owner, "variable home", variable);
}

absl::Status Verifier::CheckEnd() {
  for (size_t i = 0; i < plan_.fetches.size(); ++i) {
    const PlanFetch& fetch = plan_.fetches[i];
    if (fetched_[i] || !fetch.value.empty() || fetch.type.size_bytes() == 0) continue;
    return absl::InternalError(absl::StrCat("plan: fetch '", fetch.name, "' is never copied to the host"));
  }
  for (size_t i = 0; i < plan_.variables.size(); ++i) {
    const PlanVariable& variable = plan_.variables[i];
    if (variable.type.size_bytes() == 0) continue;
    const bool on_device = variable.resident_offset != kNoAddress, in_pool = variable.host_offset != kNoAddress;
    bool newest = home_version_[i] == version_[i];
    if (on_device || in_pool) {
      newest = true;
      Memory& memory = on_device ? device_memory_[variable.device] : pool_;
      const int64_t offset = on_device ? variable.resident_offset : variable.host_offset;
      memory.ForEach(offset, offset + variable.type.size_bytes(), [&](int64_t, int64_t, Content& c) {
        newest = newest && c.variable == static_cast<int32_t>(i) && c.version == version_[i];
      });
    }
    if (newest) continue;
    return absl::InternalError(absl::StrCat("plan: the newest value of variable '", variable.name, "' is not ",
                                            on_device || in_pool ? "at its address" : "copied home",
                                            " when the step ends"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status VerifyPlan(const ExecutionPlan& plan) {
  const absl::Status verified = Verifier(plan).Run();
  return WithMessage(verified, OnOneLine(std::string(verified.message())));  // of names that may hold anything
}

}  // namespace millrace
