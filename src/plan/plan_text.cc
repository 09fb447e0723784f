#include "plan/plan_text.h"

#include <set>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "graph/one_line.h"
#include "plan/step_order.h"

namespace millrace {
namespace {

std::string View(std::string_view text) { return std::string(text); }

std::string Address(int64_t offset) { return offset == kNoAddress ? "-" : absl::StrCat("@", offset); }

std::string Range(int64_t offset, int64_t bytes) {
  return offset == kNoAddress ? "-" : absl::StrCat("@", offset, "+", bytes);
}

// "a:0@0+16 b:0@64+16".
std::string Tensors(const ExecutionPlan& plan, const StepOffsets& offsets, const StepIndices& owners,
                    const std::vector<TensorType>& types, bool with_types) {
  std::string out;
  for (size_t i = 0; i < offsets.size(); ++i) {
    if (i > 0) out += " ";
    if (i < owners.size() && owners[i] >= 0 && owners[i] < static_cast<int32_t>(plan.tensors.size())) {
      out += plan.tensors[owners[i]];
    }
    const TensorType* type = i < types.size() ? &types[i] : nullptr;
    const bool sized = type != nullptr && type->shape.fully_known();
    absl::StrAppend(&out, Range(offsets[i], sized ? type->size_bytes() : 0));
    if (with_types && type != nullptr) absl::StrAppend(&out, ":", type->ToString());
  }
  return out;
}

template <typename T>
std::string NameAt(const std::vector<T>& list, int32_t index) {
  if (index < 0 || index >= static_cast<int32_t>(list.size())) return absl::StrCat("#", index, "?");
  return OnOneLine(list[index].name);
}

std::string WaitsToText(const ExecutionPlan& plan, const StepWaits& waits) {
  if (waits.empty()) return "";
  return absl::StrCat("  [", absl::StrJoin(waits, " ", [&](std::string* out, const Wait& wait) {
    absl::StrAppend(out, LaneName(plan, wait.lane), ">=", wait.count);
  }), "]");
}

std::string ComputeToText(const ExecutionPlan& plan, const ComputeStep& step, const PlanTextOptions& options) {
  const OpInstance& instance = plan.instances[step.instance];
  std::string text = absl::StrCat("p", step.partition);
  if (step.group != 0) absl::StrAppend(&text, " g", step.group);
  const std::string inputs = Tensors(plan, step.inputs, step.input_owners, instance.inputs, options.types);
  const std::string outputs = Tensors(plan, step.outputs, step.output_owners, instance.outputs, options.types);
  absl::StrAppend(&text, "  ", instance.name, " (", instance.op, ") ", inputs.empty() ? "" : " ", inputs,
                  outputs.empty() ? "" : " -> ", outputs);
  if (step.scratch_bytes > 0) absl::StrAppend(&text, "  scratch ", Range(step.scratch_offset, step.scratch_bytes));
  if (step.state_bytes > 0) absl::StrAppend(&text, "  state ", step.state_bytes);
  if (step.is_dynamic()) {
    const auto dynamic = [&](const RareIndices& shapes) {
      std::vector<std::string> names;
      for (int32_t t : shapes) {
        if (t >= 0 && t < static_cast<int32_t>(plan.dynamic_tensors.size())) names.push_back(plan.dynamic_tensors[t]);
      }
      return absl::StrJoin(names, ",");
    };
    absl::StrAppend(&text, step.is_view ? "  view" : "", "  dynamic ", dynamic(step.input_shapes), " -> ",
                    dynamic(step.output_shapes));
    if (step.run_time_values != 0) absl::StrAppend(&text, "  values ", absl::Hex(step.run_time_values));
  }
  if (!step.writes_variables.empty()) {
    absl::StrAppend(&text, step.overwrites_variables ? "  overwrites " : "  writes ",
                    absl::StrJoin(step.writes_variables, ",", [&](std::string* out, int32_t v) {
                      absl::StrAppend(out, NameAt(plan.variables, v));
                    }));
  }
  return text;
}

std::string CopyToText(const ExecutionPlan& plan, const CopyStep& step, LaneKind kind) {
  const std::string device = Range(step.device_offset, step.bytes);
  const std::string host = HostRefToText(plan, step.host);
  std::string text = absl::StrCat("p", step.partition, "  ", step.name, "  ");
  if (kind == LaneKind::kToDisk || kind == LaneKind::kFromDisk) {
    const std::string disk = step.disk.variable >= 0 ? absl::StrCat("disk ", NameAt(plan.variables, step.disk.variable))
                                                     : absl::StrCat("disk@", step.disk.offset_bytes);
    const bool out = kind == LaneKind::kToDisk;
    absl::StrAppend(&text, step.tensor.str(), "  ", out ? host : disk, " -> ", out ? disk : host, "+", step.bytes);
  } else if (kind == LaneKind::kToHost) {
    absl::StrAppend(&text, step.tensor.str(), device, " -> ", host);
  } else {
    absl::StrAppend(&text, host, " -> ", step.tensor.str(), device);
  }
  if (step.writes_variable >= 0) absl::StrAppend(&text, "  writes ", NameAt(plan.variables, step.writes_variable));
  return text;
}

const char* ResidenceKindName(Residence::Kind kind) {
  switch (kind) {
    case Residence::Kind::kActivation: return "activation";
    case Residence::Kind::kVariable: return "variable";
    case Residence::Kind::kConstant: return "constant";
    case Residence::Kind::kFeed: return "feed";
    case Residence::Kind::kScratch: return "scratch";
  }
  return "unknown";
}

void AppendHeader(const ExecutionPlan& plan, const PlanTextOptions& options, std::string* out) {
  const auto line = [&](const auto&... parts) { absl::StrAppend(out, OnOneLine(absl::StrCat(parts...)), "\n"); };
  absl::StrAppend(out, "plan ", OnOneLine(plan.strategy));
  if (plan.partition_size > 0) absl::StrAppend(out, "  partition_size ", plan.partition_size);
  absl::StrAppend(out, "  nodes ", plan.counts.nodes, "  swap_outs ", plan.counts.swap_outs, "  swap_ins ",
                  plan.counts.swap_ins);
  if (plan.counts.recomputed_nodes > 0) absl::StrAppend(out, "  recomputed ", plan.counts.recomputed_nodes);
  absl::StrAppend(out, "\n");
  for (const PlanDevice& device : plan.devices) {
    line("device ", device.name, "  arena ", device.arena_bytes, "  peak_live ", device.peak_live_bytes,
         device.budget_bytes > 0 ? absl::StrCat("  budget ", device.budget_bytes) : "", "  partitions ", device.num_partitions);
  }
  absl::StrAppend(out, "host  pool ", plan.host_pool_bytes, "  all ", plan.host_bytes, "\n");
  if (plan.tiered) {
    absl::StrAppend(out, "disk  scratch ", plan.disk_scratch_bytes, "  to-disk ", plan.bytes_to_disk, "  from-disk ",
                    plan.bytes_from_disk, "  host budget ", plan.host_budget_bytes, "\n");
  }
  absl::StrAppend(out, "copies  to-host ", plan.bytes_to_host, "  to-device ", plan.bytes_to_device, "\n");
  if (options.seconds) {
    absl::StrAppendFormat(out, "seconds  step %.6g  compute %.6g  lower_bound %.6g\n", plan.predicted_step_seconds,
                          plan.predicted_compute_seconds, plan.lower_bound_seconds);
  }
  // Those that stay over the step's end, but not in the middle of it.
  std::set<int32_t> leaving;
  for (const Lane& lane : plan.lanes) {
    for (const CopyStep& copy : lane.copies) {
      const bool in = lane.kind == LaneKind::kToDevice && copy.host.kind == HostRef::Kind::kVariable;
      if (in && copy.host.index >= 0 && copy.host.index < static_cast<int32_t>(plan.variables.size()) &&
          plan.variables[copy.host.index].resident_offset != kNoAddress) {
        leaving.insert(copy.host.index);
      }
    }
  }
  int32_t index = 0;
  for (const PlanVariable& variable : plan.variables) {
    line("variable ", variable.name, "  ", variable.type.ToString(), "  ",
         variable.resident_offset != kNoAddress ? Address(variable.resident_offset)
         : variable.host_offset != kNoAddress   ? absl::StrCat("pool", Address(variable.host_offset))
         : plan.tiered                          ? "disk"
                                                : "host",
         variable.read_before_write ? "  read" : "", variable.written ? "  written" : "", leaving.count(index++) > 0 ? "  leaves" : "",
         variable.whole.empty() ? "" : absl::StrCat("  of ", variable.whole, " ", variable.whole_type.ToString(), " at ", variable.home_offset));
  }
  for (const PlanConstant& constant : plan.constants) {
    line("constant ", constant.name, "  ", constant.value.type().ToString(), "  ",
         constant.resident_offset == kNoAddress ? "host" : Address(constant.resident_offset));
  }
  for (const PlanFeed& feed : plan.feeds) line("feed ", feed.name, "  ", feed.type.ToString());
  for (const PlanFetch& fetch : plan.fetches) line("fetch ", fetch.name, "  ", fetch.type.ToString(), fetch.value.empty() ? "" : "  known");
}

}  // namespace

std::string LaneName(const ExecutionPlan& plan, int32_t lane) {
  if (lane < 0 || lane >= static_cast<int32_t>(plan.lanes.size())) return absl::StrCat("lane#", lane, "?");
  std::string name = View(LaneKindName(plan.lanes[lane].kind));
  if (plan.devices.size() > 1) absl::StrAppend(&name, "/", plan.lanes[lane].device);
  return name;
}

std::string HostRefToText(const ExecutionPlan& plan, const HostRef& ref) {
  switch (ref.kind) {
    case HostRef::Kind::kPool: return absl::StrCat("pool@", ref.offset_bytes);
    case HostRef::Kind::kVariable: {
      const std::string at = plan.tiered ? absl::StrCat("pool@", ref.offset_bytes, " ") : "";
      return absl::StrCat(at, "variable ", NameAt(plan.variables, ref.index));
    }
    case HostRef::Kind::kConstant: return absl::StrCat("constant ", NameAt(plan.constants, ref.index));
    case HostRef::Kind::kFeed: return absl::StrCat("feed ", NameAt(plan.feeds, ref.index));
    case HostRef::Kind::kFetch: return absl::StrCat("fetch ", NameAt(plan.fetches, ref.index));
  }
  return "unknown";
}

std::string StepToText(const ExecutionPlan& plan, int32_t lane, int64_t step, const PlanTextOptions& options) {
  const Lane& l = plan.lanes[lane];
  const bool compute = l.kind == LaneKind::kCompute;
  std::string text = absl::StrCat(PositionOf(l, step), " ", LaneName(plan, lane), "  ",
                                  compute ? ComputeToText(plan, l.compute[step], options)
                                          : CopyToText(plan, l.copies[step], l.kind),
                                  WaitsToText(plan, WaitsOf(l, step)));
  if (options.seconds) absl::StrAppendFormat(&text, "  %.6gs", SecondsOf(l, step));
  if (!compute && !l.copies[step].reason.empty()) absl::StrAppend(&text, "  \"", l.copies[step].reason.str(), "\"");
  return OnOneLine(text);
}

std::string PlanToText(const ExecutionPlan& plan, const PlanTextOptions& options) {
  std::string out;
  AppendHeader(plan, options, &out);
  absl::StrAppend(&out, "steps\n");
  for (const StepRef& step : StepsInOrder(plan)) {
    absl::StrAppend(&out, "  ", StepToText(plan, step.lane, step.index, options), "\n");
  }
  if (!options.residences) return out;
  absl::StrAppend(&out, "residences\n");
  for (const Residence& residence : plan.residences) {
    absl::StrAppend(&out, "  ");
    if (plan.devices.size() > 1) absl::StrAppend(&out, residence.device, " ");
    absl::StrAppend(&out, "[", residence.first, ",", residence.last, "]  ", Range(residence.offset, residence.bytes),
                    "  ", ResidenceKindName(residence.kind), "  ", OnOneLine(residence.tensor.str()));
    if (!residence.reason.empty()) absl::StrAppend(&out, "  \"", OnOneLine(residence.reason.str()), "\"");
    absl::StrAppend(&out, "\n");
  }
  return out;
}

}  // namespace millrace
