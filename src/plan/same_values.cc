#include "plan/same_values.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"
#include "graph/fingerprint.h"
#include "graph/fused_norm.h"
#include "millrace/kernel.h"
#include "millrace/status.h"
#include "millrace/stream_name.h"
#include "plan/byte_range_map.h"
#include "plan/step_order.h"

namespace millrace {
namespace {

uint64_t Mix(uint64_t hash, uint64_t number) {
  constexpr uint64_t kOdd = 0x9e3779b97f4a7c15;
  hash = (hash ^ hash >> 29 ^ number) * kOdd;
  return hash ^ hash >> 32;
}

uint64_t HashOf(std::string_view text) { return std::hash<std::string_view>()(text); }

// What a number is of, so that no two kinds are alike.
enum Kind : uint64_t { kOutput = 1, kShape, kWritten, kVariable, kFeed, kPiece, kPresence, kOverwritten, kNothing };

// Of the bytes of a value that lie somewhere.
struct Held {
  uint64_t value = 0;
  int64_t begin = 0;  // of the whole value
  int64_t bytes = 0;
};
using Memory = ByteRangeMap<Held>;
using Numbers = absl::InlinedVector<uint64_t, 8>;

class Walk {
 public:
  explicit Walk(const ExecutionPlan& plan)
      : plan_(plan), device_(plan.devices.size()), home_(plan.variables.size()), shapes_(plan.dynamic_tensors.size(), 0), fetched_(plan.fetches.size(), 0) {
    for (const PlanConstant& constant : plan.constants) constants_.push_back(Fingerprint(constant.value));
    for (size_t v = 0; v < plan.variables.size(); ++v) PlaceVariable(v);
    for (size_t c = 0; c < plan.constants.size(); ++c) {
      const PlanConstant& constant = plan.constants[c];
      if (constant.resident_offset != kNoAddress) Place(device_[constant.device], constant.resident_offset, constant.value.size_bytes(), constants_[c]);
    }
  }

  // `see` takes the number of each compute step, in order, and that of its instance, and may end the walk with an error.
  template <typename See>
  absl::Status Run(See&& see) {
    for (const StepRef& ref : StepsInOrder(plan_)) {
      const Lane& lane = plan_.lanes[ref.lane];
      if (lane.kind != LaneKind::kCompute) {
        Copy(lane, lane.copies[ref.index]);
        continue;
      }
      const ComputeStep& step = lane.compute[ref.index];
      const uint64_t instance = InstanceOf(step);
      MR_RETURN_IF_ERROR(see(step, Compute(device_[lane.device], step, instance), instance));
    }
    return absl::OkStatus();
  }

  // After Run: what fetches and variables that are written hold, by what messages call them.
  std::map<std::string, uint64_t> Results() {
    std::map<std::string, uint64_t> results;
    for (size_t f = 0; f < plan_.fetches.size(); ++f) {
      const PlanFetch& fetch = plan_.fetches[f];
      uint64_t value = fetch.value.empty() ? fetched_[f] : Fingerprint(fetch.value);
      value = Mix(value, TypeOf(fetch.type));
      results.emplace(absl::StrCat("what is fetched as ", fetch.name), fetch.shape < 0 ? value : Mix(value, shapes_[fetch.shape]));
    }
    for (size_t v = 0; v < plan_.variables.size(); ++v) {
      const PlanVariable& variable = plan_.variables[v];
      const uint64_t value = Mix(variable.written ? ValueAtEnd(v) : initial_[v], 2 * variable.read_before_write + variable.first_reader.empty());
      results.emplace(absl::StrCat("the value of variable '", variable.name, "' after the step"), value);
    }
    return results;
  }

 private:
  static uint64_t TypeOf(const TensorType& type) { return HashOf(type.ToString()); }

  static void Place(Memory& memory, int64_t begin, int64_t bytes, uint64_t value) { memory.Assign(begin, begin + bytes, {value, begin, bytes}); }

  void PlaceVariable(size_t v) {
    const PlanVariable& variable = plan_.variables[v];
    uint64_t value = Mix(Mix(kVariable, HashOf(variable.home_name())), TypeOf(variable.home_type()));
    value = Mix(Mix(value, TypeOf(variable.type)), static_cast<uint64_t>(variable.home_offset));
    initial_.push_back(value);
    latest_.push_back(value);
    const int64_t bytes = variable.type.size_bytes();
    Place(home_[v], 0, bytes, value);
    if (variable.host_offset != kNoAddress) Place(pool_, variable.host_offset, bytes, value);
    if (variable.resident_offset != kNoAddress) Place(device_[variable.device], variable.resident_offset, bytes, value);
  }

  // Of a value that is whole, its own; of parts of values one after another, one that follows from them.
  static uint64_t At(Memory& memory, int64_t begin, int64_t bytes) {
    absl::InlinedVector<std::pair<Held, Held>, 2> runs;  // the value, and what of it lies here
    memory.ForEach(begin, begin + bytes, [&](int64_t from, int64_t to, const Held& held) {
      if (!runs.empty()) {
        auto& [last, run] = runs.back();
        if (last.value == held.value && last.begin == held.begin && run.begin + run.bytes == from) {
          run.bytes += to - from;
          return;
        }
      }
      runs.push_back({held, {held.value, from, to - from}});
    });
    if (runs.size() == 1 && runs[0].first.begin == runs[0].second.begin && runs[0].first.bytes == runs[0].second.bytes) return runs[0].first.value;
    uint64_t hash = kPiece;
    for (const auto& [held, run] : runs) {
      hash = Mix(Mix(Mix(hash, held.value), static_cast<uint64_t>(run.begin - held.begin)), static_cast<uint64_t>(run.bytes));
    }
    return hash;
  }

  static void Carry(Memory& from, int64_t source, Memory& to, int64_t target, int64_t bytes) {
    struct Piece {
      int64_t begin, end;
      Held held;
    };
    absl::InlinedVector<Piece, 2> pieces;
    const int64_t by = target - source;
    from.ForEach(source, source + bytes, [&](int64_t begin, int64_t end, Held held) {
      held.begin += by;
      pieces.push_back({begin + by, end + by, held});
    });
    for (const Piece& piece : pieces) to.Assign(piece.begin, piece.end, piece.held);
  }

  // Of a step's instance and of what the plan says of it beside addresses.
  uint64_t InstanceOf(const ComputeStep& step) const {
    static constexpr std::string_view kLeftOut[] = {kKernelChoice};
    const OpInstance& instance = plan_.instances[step.instance];
    uint64_t hash = Mix(Fingerprint(instance, kLeftOut), static_cast<uint64_t>(step.state_bytes));
    if (step.state_bytes > 0) hash = Mix(hash, HashOf(StreamName(instance)));
    hash = Mix(hash, 4 * step.is_dynamic() + 2 * step.is_view + step.overwrites_variables);
    return Mix(hash, step.run_time_values);
  }

  // Of input i; nothing of one that is known by value, which the instance tells.
  uint64_t InputOf(Memory& memory, const ComputeStep& step, size_t i) const {
    const int64_t bytes = plan_.instances[step.instance].inputs[i].size_bytes();
    const int32_t variable = step.input_variables.empty() ? -1 : step.input_variables[i];
    const bool written = std::find(step.writes_variables.begin(), step.writes_variables.end(), variable) != step.writes_variables.end();
    uint64_t value = kNothing;
    if (written && step.overwrites_variables) {
      value = kOverwritten;
    } else if (step.inputs[i] != kNoAddress && bytes > 0) {
      value = At(memory, step.inputs[i], bytes);
    } else if (variable >= 0) {
      value = Mix(kPresence, latest_[variable]);
    }
    if (variable >= 0) value = Mix(Mix(value, initial_[variable]), written);
    if (!step.input_shapes.empty() && step.input_shapes[i] >= 0) value = Mix(value, shapes_[step.input_shapes[i]]);
    return value;
  }

  uint64_t Compute(Memory& memory, const ComputeStep& step, uint64_t instance) {
    Numbers inputs;
    for (size_t i = 0; i < step.inputs.size(); ++i) inputs.push_back(InputOf(memory, step, i));
    uint64_t hash = instance;
    for (const uint64_t input : inputs) hash = Mix(hash, input);
    for (size_t o = 0; o < step.output_shapes.size(); ++o) hash = Mix(hash, step.output_shapes[o] >= 0);
    const uint64_t first = OfNorm(plan_.instances[step.instance], inputs, hash);
    SetOutputs(memory, step, first, hash);
    return first;
  }

  // `first`: of output 0, `hash`: of the others.
  void SetOutputs(Memory& memory, const ComputeStep& step, uint64_t first, uint64_t hash) {
    const OpInstance& instance = plan_.instances[step.instance];
    for (size_t o = 0; o < step.outputs.size(); ++o) {
      const uint64_t value = Mix(Mix(o == 0 ? first : hash, kOutput), o);
      if (!step.is_view && step.outputs[o] != kNoAddress) Place(memory, step.outputs[o], instance.outputs[o].size_bytes(), value);
      if (o < step.output_shapes.size() && step.output_shapes[o] >= 0) shapes_[step.output_shapes[o]] = Mix(Mix(hash, kShape), o);
    }
    for (const int32_t variable : step.writes_variables) {
      const auto found = std::find(step.input_variables.begin(), step.input_variables.end(), variable);
      const size_t i = static_cast<size_t>(found - step.input_variables.begin());
      latest_[variable] = Mix(Mix(hash, kWritten), i);
      if (i < step.inputs.size() && step.inputs[i] != kNoAddress) Place(memory, step.inputs[i], instance.inputs[i].size_bytes(), latest_[variable]);
    }
  }

  // A batch norm that is computed again from the statistics of the batch has the result of the one that found them.
  uint64_t OfNorm(const OpInstance& instance, const Numbers& inputs, uint64_t hash) {
    if (!IsBatchNorm(instance.op) && instance.op != kFusedNorm) return hash;
    const bool given = instance.attrs.GetOr<bool>(kGivenStatistics, false);
    if (!given && !instance.attrs.GetOr<bool>("is_training", true)) return hash;
    OpInstance alike = instance;
    alike.inputs.clear();  // in training there are no statistics
    static constexpr std::string_view kLeftOut[] = {"is_training", kGivenStatistics, kKernelChoice};
    uint64_t key = Fingerprint(alike, kLeftOut);
    for (size_t i = 0; i < inputs.size(); ++i) {
      const bool statistic = std::find(std::begin(kNormStatistics), std::end(kNormStatistics), static_cast<int>(i)) != std::end(kNormStatistics);
      key = Mix(key, !statistic ? inputs[i] : given ? inputs[i] : Mix(Mix(hash, kOutput), i));
    }
    if (!given) return norms_.emplace(key, hash).first->second;
    const auto found = norms_.find(key);
    return found == norms_.end() ? hash : found->second;
  }

  void Copy(const Lane& lane, const CopyStep& step) {
    const int32_t index = step.host.index;
    const bool in_pool = step.host.kind == HostRef::Kind::kPool || (step.host.kind == HostRef::Kind::kVariable && plan_.tiered);
    Memory& host = in_pool || step.host.kind != HostRef::Kind::kVariable ? pool_ : home_[index];
    const int64_t place = in_pool ? step.host.offset_bytes : 0;
    Memory& disk = step.disk.variable < 0 ? disk_ : home_[step.disk.variable];
    const int64_t on_disk = step.disk.variable < 0 ? step.disk.offset_bytes : 0;
    Memory& device = device_[lane.device];
    switch (lane.kind) {
      case LaneKind::kCompute: return;
      case LaneKind::kToDisk: return Carry(pool_, place, disk, on_disk, step.bytes);
      case LaneKind::kFromDisk: return Carry(disk, on_disk, pool_, place, step.bytes);
      case LaneKind::kToHost:
        if (step.host.kind != HostRef::Kind::kFetch) return Carry(device, step.device_offset, host, place, step.bytes);
        fetched_[index] = At(device, step.device_offset, step.bytes);
        return;
      case LaneKind::kToDevice:
        if (step.host.kind == HostRef::Kind::kConstant) return Place(device, step.device_offset, step.bytes, constants_[index]);
        if (step.host.kind == HostRef::Kind::kFeed) return Place(device, step.device_offset, step.bytes, Mix(kFeed, HashOf(plan_.feeds[index].name)));
        return Carry(host, place, device, step.device_offset, step.bytes);
    }
  }

  uint64_t ValueAtEnd(size_t v) {
    const PlanVariable& variable = plan_.variables[v];
    const int64_t bytes = variable.type.size_bytes();
    if (bytes == 0) return latest_[v];
    if (variable.resident_offset != kNoAddress) return At(device_[variable.device], variable.resident_offset, bytes);
    return variable.host_offset != kNoAddress ? At(pool_, variable.host_offset, bytes) : At(home_[v], 0, bytes);
  }

  const ExecutionPlan& plan_;
  std::vector<Memory> device_, home_;  // by device, by variable
  Memory pool_, disk_;
  std::vector<uint64_t> shapes_;  // of dynamic tensors
  std::vector<uint64_t> fetched_, constants_;
  std::vector<uint64_t> initial_, latest_;  // of variables: before the step, by the last node that wrote it
  std::unordered_map<uint64_t, uint64_t> norms_;  // batch norms in training, by what one that is given its statistics has in common
};

}  // namespace

absl::Status CheckSameValues(const ExecutionPlan& plan, const ExecutionPlan& wanted) {
  std::unordered_map<uint64_t, bool> found;  // by the number of a node that is wanted
  std::unordered_set<uint64_t> instances;
  std::vector<std::pair<uint64_t, int32_t>> nodes;
  Walk right(wanted), walk(plan);
  MR_RETURN_IF_ERROR(right.Run([&](const ComputeStep& step, uint64_t number, uint64_t instance) {
    found.emplace(number, false);
    instances.insert(instance);
    nodes.emplace_back(number, step.instance);
    return absl::OkStatus();
  }));
  const auto name = [](const OpInstance& instance) { return absl::StrCat("node '", instance.name, "' (", instance.op, ")"); };
  MR_RETURN_IF_ERROR(walk.Run([&](const ComputeStep& step, uint64_t number, uint64_t instance) {
    const OpInstance& node = plan.instances[step.instance];
    const auto known = found.find(number);
    if (known == found.end()) {
      const bool other = instances.count(instance) == 0;
      return absl::InvalidArgumentError(absl::StrCat(name(node), other ? " has another op, other attributes, types or known values than any node here"
                                                                       : " takes other values than such nodes take here"));
    }
    if (step.state_bytes > 0 && known->second) return absl::InvalidArgumentError(absl::StrCat(name(node), " runs twice, and keeps a state"));
    known->second = true;
    return absl::OkStatus();
  }));
  for (const auto& [number, instance] : nodes) {
    if (!found[number]) return absl::InvalidArgumentError(absl::StrCat(name(wanted.instances[instance]), " does not run"));
  }
  const std::map<std::string, uint64_t> results = walk.Results(), expected = right.Results();
  for (const auto& [result, value] : expected) {
    const auto it = results.find(result);
    if (it == results.end() || it->second != value) return absl::InvalidArgumentError(absl::StrCat(result, " is another"));
  }
  if (results.size() == expected.size()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("there are ", results.size(), " fetches and variables, here ", expected.size()));
}

}  // namespace millrace
