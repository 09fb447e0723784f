#include "passes/pipeline.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "graph/parameters.h"
#include "millrace/status.h"
#include "passes/assign_memory.h"
#include "passes/build_plan.h"
#include "passes/infer_shapes.h"
#include "passes/inline_functions.h"
#include "passes/insert_swaps.h"
#include "passes/order_variable_accesses.h"
#include "passes/partition.h"
#include "passes/place_devices.h"
#include "passes/planner/gaps.h"
#include "passes/schedule.h"
#include "passes/storage.h"
#include "passes/strategy.h"
#include "plan/plan_verifier.h"
#include "plan/simulator.h"

namespace millrace {
namespace {

// Partition sizes tried when none is asked for: the largest plans fastest to run come from few cuts, the smallest
// memory from many.
constexpr int64_t kPartitionSizes[] = {1, 2, 5, 10, 20, 50, 100, 200, 500};
// Without a budget there is nothing to choose by; the size at which the paper's figures start.
constexpr int64_t kDefaultPartitionSize = 20;

// The graph before any order is chosen.
struct Prepared {
  Graph graph;
  std::vector<uint64_t> by_value;
};

absl::StatusOr<Prepared> Prepare(const CompileRequest& request) {
  Prepared prepared;
  // Prune first: nothing later should look at nodes that do not run.
  MR_ASSIGN_OR_RETURN(prepared.graph, Prune(request.graph, request.signature));
  // Calls before types: shape rules know ops only. Every call left is needed, so its effects are, too.
  MR_ASSIGN_OR_RETURN(const InlineResult inlined, InlineFunctions(prepared.graph, request.ops));
  Signature needed = request.signature;
  needed.targets.insert(needed.targets.end(), inlined.effects.begin(), inlined.effects.end());
  // Types next: every later pass counts bytes. Shape arithmetic is folded on the way, because rules need its values.
  MR_ASSIGN_OR_RETURN(InferenceResult inferred, InferShapesAndFold(prepared.graph, request.ops, request.oracle,
                                                                   request.variable_types));
  prepared.by_value = std::move(inferred.by_value);
  // What only fed the folded nodes is gone now.
  RemoveUnneeded(prepared.graph, needed, prepared.by_value);
  // Variables before any order: their reads and writes must come out the same under every one.
  MR_RETURN_IF_ERROR(OrderVariableAccesses(prepared.graph, request.ops).status());
  prepared.by_value.resize(prepared.graph.num_ids(), 0);
  // Variables and constants have their home in host memory, the rest runs on the device.
  PlaceDevices(prepared.graph, request.ops);
  return prepared;
}

// Nodes that run at once hold their memory at once: under a budget they get a small part of it.
int64_t MaxJoinedBytes(const PlanningOptions& options) {
  constexpr int64_t kUnlimited = int64_t{64} << 20;
  return options.device_memory_bytes > 0 ? std::min(kUnlimited, options.device_memory_bytes / 32) : kUnlimited;
}

std::vector<std::string> OperationNames(const Graph& graph, const DeviceGraph& device) {
  std::vector<std::string> names;
  for (const Operation& operation : device.operations) names.push_back(graph.node(operation.node()).name);
  return names;
}

GraphSummary Summarize(const Graph& graph, const DeviceGraph& device) {
  GraphSummary summary;
  summary.nodes = graph.num_nodes();
  for (int32_t i = 0; i < graph.num_ids(); ++i) {
    summary.edges += static_cast<int64_t>(graph.node(NodeId{i}).inputs.size());
  }
  summary.parameter_bytes = ParametersOf(graph).bytes;
  for (int32_t i = 0; i < device.access.num_operations(); ++i) {
    int64_t bytes = device.access.scratch_bytes[i];
    for (const Access& access : device.access.of(i)) bytes += device.access.storages[access.storage].size_bytes;
    if (bytes <= summary.largest_node_bytes) continue;
    summary.largest_node_bytes = bytes;
    summary.largest_node = graph.node(device.operations[i].node()).name;
  }
  return summary;
}

absl::Status CheckHostMemory(const ExecutionPlan& plan, int64_t budget_bytes) {
  if (budget_bytes == 0 || plan.host_bytes <= budget_bytes) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(
      "does not fit: variables, constants and swapped tensors need ", plan.host_bytes, " bytes of host memory (",
      FormatBytes(plan.host_bytes), ", of it ", FormatBytes(plan.host_pool_bytes), " swapped), the budget is ",
      budget_bytes, " (", FormatBytes(budget_bytes), "), short by ", plan.host_bytes - budget_bytes));
}

// Seconds that no schedule of this order can beat, whatever it swaps.
double LowerBound(const AccessGraph& graph, const Machine& machine, int64_t budget_bytes) {
  const GapGraph gaps = FindGaps(graph, machine);
  return budget_bytes > 0 ? CutBound(gaps, budget_bytes) : gaps.compute_seconds();
}

// One plan of the prepared graph; partition_size 0 keeps creation order in one partition.
absl::StatusOr<Compiled> PlanOnce(const CompileRequest& request, const Prepared& prepared, const Strategy& strategy,
                                  int64_t partition_size) {
  const PlanningOptions& options = request.options;
  Compiled compiled;
  compiled.graph = prepared.graph.Clone();
  // The order decides all lifetimes, so everything after it is about memory.
  Partitioning partitioning;
  if (partition_size > 0) {
    MR_ASSIGN_OR_RETURN(partitioning, PartitionDepthFirst(compiled.graph, 1, partition_size));
  } else {
    MR_ASSIGN_OR_RETURN(partitioning, KeepCreationOrder(compiled.graph));
  }
  MR_RETURN_IF_ERROR(VerifyPartitioning(compiled.graph, partitioning));
  // Tensors to storages: views and in-place results share memory before anything is counted.
  MR_ASSIGN_OR_RETURN(DeviceGraph device, BuildDeviceGraph(compiled.graph, request.ops, request.oracle,
                                                           request.machine, partitioning.order, prepared.by_value,
                                                           MaxJoinedBytes(options)));
  compiled.summary = Summarize(compiled.graph, device);
  if (options.device_memory_bytes > 0) {
    MR_RETURN_IF_ERROR(CheckWorkingSets(device.access, options.device_memory_bytes,
                                        OperationNames(compiled.graph, device)));
  }
  // The policy decides on storages and times alone …
  MR_ASSIGN_OR_RETURN(const SwapChoice choice, strategy.swaps({device.access, options, request.machine, compiled.graph, device}));
  MR_RETURN_IF_ERROR(VerifySwaps(device.access, choice));
  // … and the rest is the same for every policy: one total order, copies as nodes, addresses, lanes.
  const Schedule schedule = BuildSchedule(device.access, choice);
  MR_ASSIGN_OR_RETURN(const MemoryAssignment memory,
                      AssignMemory(device.access, schedule, choice, options.device_memory_bytes));
  MR_RETURN_IF_ERROR(VerifyMemory(device.access, schedule, memory));
  const SwapNodes swaps = InsertSwaps(compiled.graph, device, choice, schedule);
  MR_RETURN_IF_ERROR(VerifySwapNodes(compiled.graph, request.ops));
  compiled.plan = BuildPlan({compiled.graph, request.ops, request.signature, request.machine, device, choice,
                             schedule, memory, swaps, !options.early_start});
  compiled.plan.strategy = strategy.name;
  compiled.plan.notes = choice.notes;
  compiled.plan.partition_size = partition_size;
  compiled.plan.devices[0].name = absl::StrCat(request.machine.name, ":0");
  compiled.plan.devices[0].budget_bytes = options.device_memory_bytes;
  MR_RETURN_IF_ERROR(CheckHostMemory(compiled.plan, options.host_memory_bytes));
  // The plan is checked from its steps alone, by code that shares nothing with the passes.
  MR_RETURN_IF_ERROR(VerifyPlan(compiled.plan));
  MR_RETURN_IF_ERROR(FillPredictions(request.machine, &compiled.plan));
  compiled.plan.lower_bound_seconds = LowerBound(device.access, request.machine, options.device_memory_bytes);
  return compiled;
}

// Partition sizes to try, 0 for creation order uncut. The fastest plan wins.
std::vector<int64_t> PartitionSizes(const Strategy& strategy, const PlanningOptions& options) {
  if (strategy.order == Strategy::Order::kCreation) return {0};
  if (options.partition_size != 0) return {options.partition_size};
  if (strategy.order == Strategy::Order::kBest) return {0, kDefaultPartitionSize};
  if (options.device_memory_bytes == 0) return {kDefaultPartitionSize};
  return {std::begin(kPartitionSizes), std::end(kPartitionSizes)};
}

}  // namespace

absl::StatusOr<Compiled> Compile(const CompileRequest& request) {
  MR_ASSIGN_OR_RETURN(const Strategy* strategy, FindStrategy(request.options.strategy));
  MR_ASSIGN_OR_RETURN(const Prepared prepared, Prepare(request));
  absl::StatusOr<Compiled> best = absl::InternalError("no partition size was tried");
  for (int64_t size : PartitionSizes(*strategy, request.options)) {
    absl::StatusOr<Compiled> compiled = PlanOnce(request, prepared, *strategy, size);
    if (!compiled.ok() && !absl::IsResourceExhausted(compiled.status())) return compiled.status();
    const bool better = compiled.ok() && (!best.ok() || compiled->plan.predicted_step_seconds <
                                                            best->plan.predicted_step_seconds);
    // Of the plans that do not fit, the first (smallest partitions) says most about what is missing.
    if (better || (!best.ok() && absl::IsInternal(best.status()))) best = std::move(compiled);
  }
  return best;
}

}  // namespace millrace
