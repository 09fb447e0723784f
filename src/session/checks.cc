#include "session/checks.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <limits>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/types/span.h"
#include "graph/device_spec.h"
#include "graph/one_line.h"
#include "graph/value_text.h"
#include "millrace/status.h"
#include "passes/access/does_not_fit.h"
#include "passes/shapes/needed_feeds.h"
#include "passes/strategy.h"
#include "passes/swaps/swap_tflms.h"
#include "passes/unroll/questions.h"
#include "plan/machine_limits.h"
#include "plan/resolve_options.h"
#include "session/signature_key.h"

namespace millrace {
namespace {

absl::Status CheckDevices(const SessionOptions& options) {
  const PlanningOptions& planning = options.planning;
  std::set<DeviceSpec> taken;
  for (const std::string& name : planning.devices) {
    MR_ASSIGN_OR_RETURN(const DeviceSpec spec, ParseDeviceSpec(name));
    DeviceSpec numbered = spec;
    numbered.index = std::max(spec.index, 0);
    if (!taken.insert(numbered).second) {
      return absl::InvalidArgumentError(absl::StrCat("device '", name, "' is there twice"));
    }
    const std::string kind = absl::AsciiStrToLower(spec.type);
    if (kind == options.device || (kind == "gpu" && options.on_cuda())) continue;
    // Plans may be for devices of any kind.
    if (options.device == "null" && !spec.type.empty()) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("device '", name, "' is not of the kind '", options.device, "' that this session runs on"));
  }
  const size_t budgets = planning.device_memory_bytes_of.size();
  if (budgets == 0 || static_cast<int32_t>(budgets) == planning.num_devices()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(budgets, budgets == 1 ? " memory budget for " : " memory budgets for ", planning.num_devices(),
                   planning.num_devices() == 1 ? " device" : " devices", ", expected one each"));
}

// A field of the options with the least and the most that it may be. NaN is neither.
struct Range {
  const char* field;
  double value;
  double least;
  double most = std::numeric_limits<double>::max();
};

absl::Status CheckRanges(absl::Span<const Range> ranges) {
  for (const Range& range : ranges) {
    if (range.value >= range.least && range.value <= range.most) continue;
    const std::string most = range.most < std::numeric_limits<double>::max() ? absl::StrCat(" to ", range.most) : " or more";
    return absl::InvalidArgumentError(absl::StrCat(range.field, " is ", range.value, ", expected ", range.least, most));
  }
  return absl::OkStatus();
}

absl::Status CheckPlanning(const PlanningOptions& planning) {
  const auto of = [](int64_t value) { return static_cast<double>(value); };
  MR_RETURN_IF_ERROR(FindStrategy(planning.strategy).status());
  MR_RETURN_IF_ERROR(CheckRanges({
      {"planning.partition_size", of(planning.partition_size), 0},
      {"planning.swap_distance", of(planning.swap_distance), 0},
      {"planning.max_unrolled_nodes", of(planning.max_unrolled_nodes), 1},
      {"planning.min_swap_bytes", of(planning.min_swap_bytes), 0},
      {"planning.occupancy_threshold", planning.occupancy_threshold, 0, 1},
      {"planning.update_part_bytes", of(planning.update_part_bytes), of(PlanningOptions::kAutoBytes)},
      {"planning.plan_seconds", planning.plan_seconds, 0},
      {"planning.device_memory_bytes", of(planning.device_memory_bytes), 0},
      {"planning.host_memory_bytes", of(planning.host_memory_bytes), 0},
  }));
  if (planning.occupancy_threshold == 0) return absl::InvalidArgumentError("planning.occupancy_threshold is 0, expected more");
  for (const int64_t budget : planning.device_memory_bytes_of) {
    MR_RETURN_IF_ERROR(CheckRanges({{"planning.device_memory_bytes_of", of(budget), 0}}));
  }
  return CheckTflmsOptions(planning.tflms);
}

absl::Status CheckMachine(const Machine& machine) {
  if (!IsAlignment(machine.tensor_alignment_bytes)) {
    return absl::InvalidArgumentError(absl::StrCat("machine.tensor_alignment_bytes is ", machine.tensor_alignment_bytes, ", expected a power of two from ",
                                                   kTensorAlignment, " to ", kMostAlignment));
  }
  if (machine.convolution_flops_per_second != 0) {
    MR_RETURN_IF_ERROR(CheckRanges({{"machine.convolution_flops_per_second", machine.convolution_flops_per_second, kLeastRate, kMostRate}}));
  }
  return CheckRanges({
      {"machine.device_memory_bytes", static_cast<double>(machine.device_memory_bytes), 0},
      {"machine.host_memory_bytes", static_cast<double>(machine.host_memory_bytes), 0},
      {"machine.flops_per_second", machine.flops_per_second, kLeastRate, kMostRate},
      {"machine.memory_bytes_per_second", machine.memory_bytes_per_second, kLeastRate, kMostRate},
      {"machine.to_host_bytes_per_second", machine.to_host_bytes_per_second, kLeastRate, kMostRate},
      {"machine.to_device_bytes_per_second", machine.to_device_bytes_per_second, kLeastRate, kMostRate},
      {"machine.disk_bytes_per_second", machine.disk_bytes_per_second, kLeastRate, kMostRate},
      {"machine.copy_latency_seconds", machine.copy_latency_seconds, 0, kMostMachineSeconds},
      {"machine.launch_seconds", machine.launch_seconds, 0, kMostMachineSeconds},
      {"machine.copy_launch_seconds", machine.copy_launch_seconds, 0, kMostMachineSeconds},
      {"machine.disk_latency_seconds", machine.disk_latency_seconds, 0, kMostMachineSeconds},
  });
}

}  // namespace

absl::Status CheckOptions(const SessionOptions& options) {
  constexpr double kMostThreads = 4096;
  MR_RETURN_IF_ERROR(CheckPlanning(options.planning));
  MR_RETURN_IF_ERROR(CheckMachine(options.machine));
  MR_RETURN_IF_ERROR(CheckPace("link_gbps", options.link_gbps));
  MR_RETURN_IF_ERROR(CheckPace("disk_gbps", options.disk_gbps));
  MR_RETURN_IF_ERROR(CheckRanges({
      {"threads", static_cast<double>(options.threads), 0, kMostThreads},
      {"device_timeout_seconds", options.device_timeout_seconds, 0},
      {"replan.skipped_steps", static_cast<double>(options.replan.skipped_steps), 0},
      {"replan.replayed_steps", static_cast<double>(options.replan.replayed_steps), 0},
      {"replan.measured_steps", static_cast<double>(options.replan.measured_steps), 1},
      {"replan.least_gain", options.replan.least_gain, std::numeric_limits<double>::lowest()},
  }));
  const std::string& graph = options.cuda_graph;
  if (graph != "auto" && graph != "on" && graph != "off") {
    return absl::InvalidArgumentError(absl::StrCat("cuda_graph is '", graph, "', expected auto, on or off"));
  }
  return CheckDevices(options);
}

namespace {

// Of ops that write variables some have outputs beside them (CountUpTo, RngReadAndSkip). Shape rules, which would tell, need types.
bool HasNoOutputs(const OpDef& def) {
  constexpr const char* kWriters[] = {"AssignVariableOp", "AssignAddVariableOp", "AssignSubVariableOp", "ResourceApply", "ResourceSparseApply",
                                      "ResourceScatter", "ResourceStridedSliceAssign", "RngSkip"};
  const bool builtin = OpRegistry::Builtin().Find(def.name) != nullptr;
  const auto begins_with = [&](const char* name) { return absl::StartsWith(def.name, name); };
  return def.is_no_op || (builtin && std::any_of(std::begin(kWriters), std::end(kWriters), begins_with));
}

}  // namespace

absl::Status CheckFeeds(const Graph& graph, const OpRegistry& ops, const SignatureKey& key) {
  std::set<std::string> tensors;
  for (const auto& [name, type] : key.feeds) {
    if (!tensors.insert(TensorNameOf(name)).second) {
      return absl::InvalidArgumentError(absl::StrCat("tensor ", TensorNameOf(name), " is fed twice, once by the name of its node"));
    }
    if (type.dtype == DataType::kInvalid) return absl::InvalidArgumentError(absl::StrCat("feed '", name, "' is no tensor: it was never set, or moved from"));
    const absl::StatusOr<OutputRef> fed = graph.FindTensor(name);
    if (!fed.ok()) continue;  // planning says so
    const Node& node = graph.node(fed->node);
    const OpDef* def = ops.Find(node.op);
    if (def == nullptr) continue;
    if (node.op == "VarHandleOp") {
      return absl::InvalidArgumentError(absl::StrCat("feed '", name, "' is the handle of a variable, which cannot be fed: set the variable "
                                                     "by SetVariable (--checkpoint_in), or feed what reads it"));
    }
    if (!HasNoOutputs(*def)) continue;
    return absl::InvalidArgumentError(absl::StrCat("feed '", name, "': node '", node.name, "' (", node.op, ") has no outputs"));
  }
  return absl::OkStatus();
}

absl::Status CheckOps(const OpRegistry& ops) {
  for (const char* own : {"_Feed", "_Fetch", "_View", "Const", "NoOp"}) {
    if (ops.Find(own) != nullptr) continue;
    return absl::InvalidArgumentError(absl::StrCat("ops lacks the built-in ones (there is no ", own, "), of which plans are made, too: make it a copy of ",
                                                   "OpRegistry::Builtin() with one's own added"));
  }
  return absl::OkStatus();
}

absl::Status CheckProfileIsOf(const Graph& graph, const Profile& profile) {
  if (graph.library() != nullptr && !graph.library()->empty()) return absl::OkStatus();
  for (int32_t i = 0; i < graph.num_ids(); ++i) {
    const Node& node = graph.node(NodeId{i});
    const auto it = profile.nodes.find(node.name);
    if (!node.removed && it != profile.nodes.end() && it->second.op == node.op) return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("the profile is of another graph: none of its ", profile.nodes.size(), " nodes is in this one"));
}

absl::Status CheckPlanFeeds(const ExecutionPlan& plan, const Session::FeedTypes& feeds) {
  std::map<std::string, TensorType> expected;
  for (const auto& [name, type] : feeds) expected.emplace(TensorNameOf(name), type);
  for (const PlanFeed& feed : plan.feeds) {
    const auto found = expected.find(feed.name);
    if (found != expected.end() && found->second == feed.type) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "the plan is for a feed ", OnOneLine(feed.name), " of type ", feed.type.ToString(),
        found == expected.end() ? ", which is not fed" : absl::StrCat(", fed is ", found->second.ToString())));
  }
  for (const auto& [name, value] : plan.feed_values) {
    const auto found = expected.find(name);
    if (found != expected.end() && found->second == value.type()) continue;
    return absl::InvalidArgumentError(absl::StrCat("the plan is for a value of the feed ", OnOneLine(name), " of type ", value.type().ToString(),
                                                   found == expected.end() ? ", which is not fed" : absl::StrCat(", fed is ", found->second.ToString())));
  }
  return absl::OkStatus();
}

namespace {

// A few bytes about the one at `byte`, which may be the end.
std::string TextAbout(const std::string& text, size_t byte) {
  constexpr size_t kShown = 60;
  const size_t first = byte < kShown / 2 ? 0 : byte - kShown / 2;
  return absl::StrCat("'", first > 0 ? "..." : "", OnOneLine(text.substr(first, kShown)), text.size() - first > kShown ? "..." : "", "'");
}

// What tells one string, or number, from another.
std::pair<std::string, std::string> TellApart(const std::string& a, const std::string& b) {
  const size_t byte = std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first - a.begin();
  return {TextAbout(a, byte), TextAbout(b, byte)};
}
std::pair<std::string, std::string> TellApart(DataType dtype, const char* a, const char* b) {
  const auto text = [dtype](const char* number) { return FirstValuesText(Tensor::Wrap(dtype, Shape(), const_cast<char*>(number), nullptr), 1); };
  if (text(a) != text(b)) return {text(a), text(b)};
  const auto bits = [size = static_cast<size_t>(DataTypeSize(dtype))](const char* number) {
    return absl::StrCat("of the bytes ", absl::BytesToHexString({number, size}));
  };
  return {bits(a), bits(b)};
}

// "' is 2 in it, here 3", of values that are not the same. Of many elements the first that differs.
std::string Difference(const Tensor& planned, const Tensor& here) {
  if (planned.type() != here.type()) return absl::StrCat("' is ", planned.type().ToString(), " in it, here ", here.type().ToString());
  int64_t element = 0;
  std::pair<std::string, std::string> values;
  if (planned.dtype() == DataType::kString) {
    element = std::mismatch(planned.strings().begin(), planned.strings().end(), here.strings().begin()).first - planned.strings().begin();
    values = TellApart(planned.strings()[element], here.strings()[element]);
  } else {
    const auto bytes = [](const Tensor& tensor) { return static_cast<const char*>(tensor.data()); };
    const int64_t size = DataTypeSize(planned.dtype());
    element = (std::mismatch(bytes(planned), bytes(planned) + planned.size_bytes(), bytes(here)).first - bytes(planned)) / size;
    values = TellApart(planned.dtype(), bytes(planned) + element * size, bytes(here) + element * size);
  }
  const std::string which = planned.shape().rank() == 0 ? "'" : absl::StrCat("': element ", element);
  return absl::StrCat(which, " is ", values.first, " in it, here ", values.second);
}

}  // namespace

absl::Status CheckPlanValues(const ExecutionPlan& plan, const SignatureKey& step, bool all_known) {
  const auto same = [all_known](const std::map<std::string, Tensor>& planned, const std::map<std::string, Tensor>& here, const char* what) {
    for (const auto& [name, value] : planned) {
      const auto found = here.find(name);
      if (found == here.end() ? !all_known : found->second.BitEqual(value)) continue;
      return absl::FailedPreconditionError(absl::StrCat("the plan that was given is for another step: ", what, " '", OnOneLine(name),
                                                        found == here.end() ? "' is in it, and not known here" : Difference(value, found->second),
                                                        "; without it the step would be planned for its values"));
    }
    return absl::OkStatus();
  };
  MR_RETURN_IF_ERROR(same(plan.feed_values, step.feed_values, "feed"));
  return same(plan.answers, step.answers, "what the step computes,");
}

absl::Status CheckPlanFetches(const ExecutionPlan& plan, const std::vector<std::string>& fetches) {
  std::vector<std::string> planned, asked;
  for (const PlanFetch& fetch : plan.fetches) planned.push_back(fetch.name);
  for (const std::string& fetch : fetches) asked.push_back(TensorNameOf(fetch));
  if (planned == asked) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("the plan is for the fetches ", absl::StrJoin(planned, ","),
                                                 ", asked for are ", absl::StrJoin(asked, ",")));
}

absl::Status CheckPlanVariables(const ExecutionPlan& plan, const std::map<std::string, TensorType>& existing) {
  for (const PlanVariable& variable : plan.variables) {
    const auto found = existing.find(variable.home_name());
    if (found == existing.end() || found->second == variable.home_type()) continue;
    return absl::InvalidArgumentError(absl::StrCat("the plan has variable ", variable.home_name(), " of type ",
                                                   variable.home_type().ToString(), ", here it is ",
                                                   found->second.ToString()));
  }
  return absl::OkStatus();
}

absl::Status CheckPlanIsOf(const ExecutionPlan& plan, uint64_t graph_fingerprint, const std::vector<std::string>& targets) {
  if (plan.graph_fingerprint == 0) return absl::OkStatus();
  if (plan.graph_fingerprint != graph_fingerprint) {
    return absl::InvalidArgumentError("the plan is of another graph: nodes, attributes or constants differ");
  }
  const std::set<std::string> planned(plan.targets.begin(), plan.targets.end()), asked(targets.begin(), targets.end());
  if (planned == asked) return absl::OkStatus();
  const auto names = [](const std::set<std::string>& targets) {
    return targets.empty() ? std::string("none") : absl::StrJoin(targets, ",");
  };
  return absl::InvalidArgumentError(absl::StrCat("the plan is for the targets ", names(planned), ", asked for are ", names(asked)));
}

namespace {

// A plan says what runs on its first device, its second: with others in their places, budgets and pins would be of the wrong
// ones. Of their kinds only what kernels need matters (CheckPlanScratch).
absl::Status CheckSameDevices(const ExecutionPlan& plan, const PlanningOptions& options) {
  if (static_cast<int32_t>(plan.devices.size()) != options.num_devices()) {
    return absl::InvalidArgumentError(absl::StrCat("the plan is for ", plan.devices.size(), plan.devices.size() == 1 ? " device" : " devices",
                                                   ", the session has ", options.num_devices()));
  }
  for (size_t d = 0; d < options.devices.size() && options.devices.size() > 1; ++d) {
    MR_ASSIGN_OR_RETURN(const DeviceSpec planned, ParseDeviceSpec(plan.devices[d].name));
    MR_ASSIGN_OR_RETURN(const DeviceSpec here, ParseDeviceSpec(options.devices[d]));
    if (std::max(planned.index, 0) == std::max(here.index, 0)) continue;
    const auto name = [](std::string* out, const PlanDevice& device) { out->append(device.name); };
    return absl::InvalidArgumentError(absl::StrCat("the plan is for the devices ", absl::StrJoin(plan.devices, ",", name), ", the session has ",
                                                   absl::StrJoin(options.devices, ","), ": expected the same in the same order"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckPlanFits(const ExecutionPlan& plan, const PlanningOptions& options) {
  const auto fits = [](const std::string& what, int64_t needed, int64_t budget) {
    if (budget == 0 || needed <= budget) return absl::OkStatus();
    return absl::ResourceExhaustedError(absl::StrCat("does not fit: the plan needs ", needed, " bytes of ", what, " (", FormatBytes(needed), "), ",
                                                     BudgetWords(needed, budget)));
  };
  MR_RETURN_IF_ERROR(CheckSameDevices(plan, options));
  for (size_t d = 0; d < plan.devices.size(); ++d) {
    const PlanDevice& device = plan.devices[d];
    MR_RETURN_IF_ERROR(fits(absl::StrCat("memory of ", device.name), device.arena_bytes, options.BudgetOf(static_cast<int32_t>(d))));
  }
  return fits("host memory", plan.host_bytes, options.host_memory_bytes);
}

absl::Status CheckPlanScratch(const ExecutionPlan& plan, const std::vector<std::unique_ptr<RuntimeDevice>>& devices, KernelCache& kernels) {
  if (devices.empty()) return absl::OkStatus();
  for (const Lane& lane : plan.lanes) {
    for (const ComputeStep& step : lane.compute) {
      if (step.is_dynamic() || !devices[lane.device]->has_data()) continue;
      const OpInstance& instance = plan.instances[step.instance];
      MR_ASSIGN_OR_RETURN(const std::shared_ptr<const Kernel> kernel, kernels.Get(instance, lane.device));
      if (kernel->scratch_bytes() <= step.scratch_bytes) continue;
      return absl::InvalidArgumentError(
          absl::StrCat("the plan is of another kind of device than ", devices[lane.device]->name(), ", of another machine, or of another version of Millrace: node '", instance.name, "' (",
                       instance.op, ") has ", step.scratch_bytes, " bytes of scratch memory in it, the kernel here needs ", kernel->scratch_bytes(),
                       "; plan with this version, with the device that the step is to run on"));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckPlanInputs(const ExecutionPlan& plan, const OpRegistry& ops) {
  for (const Lane& lane : plan.lanes) {
    for (const ComputeStep& step : lane.compute) {
      const OpInstance& instance = plan.instances[step.instance];
      for (size_t i = 0; i < step.input_variables.size(); ++i) {
        if (step.input_variables[i] < 0 || step.inputs[i] != kNoAddress || instance.inputs[i].size_bytes() == 0) continue;
        const OpDef* def = ops.Find(instance.op);
        const auto asks = [i](const VariableUse& use) { return use.input == static_cast<int>(i) && use.access == VariableAccess::kPresence; };
        if (def != nullptr && std::any_of(def->variables.begin(), def->variables.end(), asks)) continue;
        return absl::InvalidArgumentError(absl::StrCat("the plan has no address for input ", i, " of node '", instance.name, "' (", instance.op, ")"));
      }
    }
  }
  return absl::OkStatus();
}

absl::Status CheckHasValues(const absl::Status& planned) {
  const std::vector<std::string> by_value = NeededFeeds(planned);
  if (!by_value.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("shapes or turns of loops depend on the values of the feeds ", absl::StrJoin(by_value, ", "),
                                                   ", and the plan does not say for which it is: make it again"));
  }
  if (!NeedsAnswer(planned)) return planned;
  return absl::InvalidArgumentError(absl::StrCat("shapes or turns of loops depend on what the step computes, and the plan does not say for which results "
                                                 "it is: make it again (", planned.message(), ")"));
}

}  // namespace millrace
