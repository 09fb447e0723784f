#include "passes/plan_devices.h"

#include <algorithm>
#include <string>

#include "millrace/status.h"
#include "passes/planner/gaps.h"

namespace millrace {
namespace {

// Nodes that run at once hold their memory at once: under a budget they get a small part of it.
int64_t MaxJoinedBytes(int64_t budget_bytes) {
  constexpr int64_t kUnlimited = int64_t{64} << 20;
  return budget_bytes > 0 ? std::min(kUnlimited, budget_bytes / 32) : kUnlimited;
}

std::vector<std::string> OperationNames(const Graph& graph, const DeviceGraph& device) {
  std::vector<std::string> names;
  for (const Operation& operation : device.operations) names.push_back(graph.node(operation.node()).name);
  return names;
}

double LowerBound(const AccessGraph& graph, const Machine& machine, int64_t budget_bytes) {
  const GapGraph gaps = FindGaps(graph, machine);
  return budget_bytes > 0 ? CutBound(gaps, budget_bytes) : gaps.compute_seconds();
}

// Everything about one device but its nodes in the graph.
absl::StatusOr<DevicePlan> PlanOneDevice(const CompileRequest& request, const PlanningOptions& options,
                                         const Strategy& strategy, const std::vector<NodeId>& order,
                                         const InferenceResult& inferred, Graph& graph) {
  const int64_t budget_bytes = options.device_memory_bytes;
  DevicePlan plan;
  // Tensors to storages: views and in-place results share memory before anything is counted.
  MR_ASSIGN_OR_RETURN(plan.device, BuildDeviceGraph(graph, request.ops, request.oracle, request.machine, order,
                                                    inferred, MaxJoinedBytes(budget_bytes)));
  const AccessGraph& access = plan.device.access;
  if (budget_bytes > 0) MR_RETURN_IF_ERROR(CheckWorkingSets(access, budget_bytes, OperationNames(graph, plan.device)));
  // The policy decides on storages and times alone …
  MR_ASSIGN_OR_RETURN(plan.choice, strategy.swaps({access, options, request.machine, graph, plan.device}));
  MR_RETURN_IF_ERROR(VerifySwaps(access, plan.choice));
  // … and the rest is the same for every policy: one total order, addresses.
  plan.schedule = BuildSchedule(access, plan.choice);
  MR_ASSIGN_OR_RETURN(plan.memory, AssignMemory(access, plan.schedule, plan.choice, budget_bytes));
  MR_RETURN_IF_ERROR(VerifyMemory(access, plan.schedule, plan.memory));
  plan.lower_bound_seconds = LowerBound(access, request.machine, budget_bytes);
  return plan;
}

}  // namespace

absl::StatusOr<std::vector<DevicePlan>> PlanDevices(const CompileRequest& request, const Strategy& strategy,
                                                    const Partitioning& partitioning,
                                                    const InferenceResult& inferred, Graph& graph) {
  std::vector<DevicePlan> plans;
  for (int32_t d = 0; d < request.options.num_devices(); ++d) {
    PlanningOptions options = request.options;
    options.device_memory_bytes = request.options.BudgetOf(d);
    MR_ASSIGN_OR_RETURN(DevicePlan plan,
                        PlanOneDevice(request, options, strategy, partitioning.order, inferred, graph));
    plans.push_back(std::move(plan));
  }
  // Copies become nodes when all devices are decided: until then the graph's edges are those of the tensors.
  for (DevicePlan& plan : plans) plan.swaps = InsertSwaps(graph, plan.device, plan.choice, plan.schedule);
  MR_RETURN_IF_ERROR(VerifySwapNodes(graph, request.ops));
  return plans;
}

}  // namespace millrace
