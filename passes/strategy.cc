#include "passes/strategy.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "passes/assign_memory.h"
#include "passes/planner/planned.h"
#include "passes/schedule.h"
#include "passes/swap_tflms.h"

namespace millrace {
namespace {

absl::StatusOr<SwapChoice> Baseline(const SwapRequest& request) {
  return KeepEverything(request.graph);
}

absl::StatusOr<SwapChoice> TensorFlowMem(const SwapRequest& request) {
  const PlanningOptions& options = request.options;
  return SwapByDistance(request.graph, {options.swap_distance, options.min_swap_bytes, options.place_variables_on_host,
                                        options.swap_activations});
}

// Moves nothing when everything fits: only then may variables stay on the device from step to step.
absl::StatusOr<SwapChoice> LeastRecentlyUsed(const SwapRequest& request) {
  const AccessGraph& graph = request.graph;
  const int64_t budget_bytes = request.options.device_memory_bytes;
  SwapChoice keep = KeepEverything(graph);
  if (budget_bytes == 0 || AssignMemory(graph, BuildSchedule(graph, keep), keep, budget_bytes).ok()) return keep;
  return SwapLeastRecentlyUsed(graph, budget_bytes);
}

absl::StatusOr<SwapChoice> Planned(const SwapRequest& request) {
  return SwapPlanned(request.graph, request.machine, request.options.device_memory_bytes);
}

absl::StatusOr<SwapChoice> Reactive(const SwapRequest& request) {
  const PlanningOptions& options = request.options;
  if (!(options.occupancy_threshold > 0) || options.occupancy_threshold > 1) {
    return absl::InvalidArgumentError(absl::StrCat("--occupancy_threshold is ", options.occupancy_threshold,
                                                   ", expected more than 0 and at most 1"));
  }
  if (options.device_memory_bytes == 0) return KeepEverything(request.graph);
  return SwapReactive(request.graph, options.device_memory_bytes, options.occupancy_threshold);
}

const std::vector<Strategy>& Table() {
  static const std::vector<Strategy>& table = *new std::vector<Strategy>{
      {"baseline", "creation order, no swaps, everything on the device", Strategy::Order::kCreation, Baseline},
      {"tensorflowmem", "depth-first partitions of --partition_size nodes; values used more than --swap_distance "
                        "partitions later are swapped; variables and constants in host memory", Strategy::Order::kDepthFirst, TensorFlowMem},
      {"lru", "creation order; on demand, the least recently used tensors leave", Strategy::Order::kCreation, LeastRecentlyUsed},
      {"reactive", "creation order; above --occupancy_threshold of the device memory the oldest saved activations leave, and "
                   "come back on demand; variables on the device", Strategy::Order::kCreation, Reactive},
      {"tflms", "levels of the graph; values used more than --swapout_threshold levels later are swapped, parameters tuned "
                "where not given; variables on the device", Strategy::Order::kLevels, SwapTflms},
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
