#include "passes/strategy.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "passes/assign_memory.h"
#include "passes/planner/planned.h"
#include "passes/schedule.h"

namespace millrace {
namespace {

absl::StatusOr<SwapChoice> Baseline(const AccessGraph& graph, const PlanningOptions&, const Machine&) {
  return KeepEverything(graph);
}

absl::StatusOr<SwapChoice> TensorFlowMem(const AccessGraph& graph, const PlanningOptions& options, const Machine&) {
  return SwapByDistance(graph, {options.swap_distance, options.min_swap_bytes});
}

// Moves nothing when everything fits: only then may variables stay on the device from step to step.
absl::StatusOr<SwapChoice> LeastRecentlyUsed(const AccessGraph& graph, const PlanningOptions& options, const Machine&) {
  const int64_t budget_bytes = options.device_memory_bytes;
  SwapChoice keep = KeepEverything(graph);
  if (budget_bytes == 0 || AssignMemory(graph, BuildSchedule(graph, keep), keep, budget_bytes).ok()) return keep;
  return SwapLeastRecentlyUsed(graph, budget_bytes);
}

absl::StatusOr<SwapChoice> Planned(const AccessGraph& graph, const PlanningOptions& options, const Machine& machine) {
  return SwapPlanned(graph, machine, options.device_memory_bytes);
}

const std::vector<Strategy>& Table() {
  static const std::vector<Strategy>& table = *new std::vector<Strategy>{
      {"baseline", "creation order, no swaps, everything on the device", Strategy::Order::kCreation, Baseline},
      {"tensorflowmem", "depth-first partitions of --partition_size nodes; values used more than --swap_distance "
                        "partitions later are swapped; variables and constants in host memory", Strategy::Order::kDepthFirst, TensorFlowMem},
      {"lru", "creation order; on demand, the least recently used tensors leave", Strategy::Order::kCreation, LeastRecentlyUsed},
      {"planned", "gap by gap, what saves most transfers for its room stays, the rest leaves early and comes back when "
                  "there is room", Strategy::Order::kBest, Planned},
  };
  return table;
}

}  // namespace

absl::StatusOr<const Strategy*> FindStrategy(const std::string& name) {
  for (const Strategy& strategy : Table()) {
    if (strategy.name == name) return &strategy;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("unknown strategy '", name, "', expected one of ", absl::StrJoin(StrategyNames(), ", ")));
}

std::vector<std::string> StrategyNames() {
  std::vector<std::string> names;
  for (const Strategy& strategy : Table()) names.push_back(strategy.name);
  return names;
}

}  // namespace millrace
