#include "passes/strategy.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "millrace/status.h"
#include "passes/access/schedule.h"
#include "passes/memory/assign_memory.h"
#include "passes/planner/planned.h"
#include "passes/swaps/choose_swaps.h"
#include "passes/swaps/swap_tflms.h"

namespace millrace {
namespace {

absl::StatusOr<SwapChoice> Baseline(const SwapRequest& request) {
  return KeepEverything(request.graph);
}

DistancePolicy TensorFlowMemPolicy(const PlanningOptions& options) {
  return {options.swap_distance, options.min_swap_bytes, options.place_variables_on_host, options.swap_activations};
}

absl::StatusOr<SwapChoice> TensorFlowMem(const SwapRequest& request) {
  return SwapByDistance(request.graph, TensorFlowMemPolicy(request.options));
}

// TensorFlowMem's rule holds a value for a partition before its consumer and between near uses. Where that is too much,
// values come in at their consumers, and then leave between nearer and nearer uses.
absl::StatusOr<SwapChoice> TensorFlowMemTight(const SwapRequest& request) {
  DistancePolicy policy = TensorFlowMemPolicy(request.options);
  const int64_t budget_bytes = request.options.device_memory_bytes;
  SwapChoice choice;
  policy.early_in = false;
  const int64_t partitions = request.graph.partition.empty() ? 0 : request.graph.partition.back() + 1;
  policy.swap_distance = std::min(policy.swap_distance, partitions);  // further is none
  // Every distance costs a packing: far ones are tried in halves.
  constexpr int64_t kFar = 8;
  for (int64_t distance = policy.swap_distance; distance >= 0; distance = distance > kFar ? distance / 2 : distance - 1) {
    policy.swap_distance = distance;
    policy.share_distance = std::min<int64_t>(policy.share_distance, distance);
    choice = SwapByDistance(request.graph, policy);
    choice.notes = {absl::StrCat("no partition size fits with copies in one partition ahead: they begin at their "
                                 "consumers, at a swap distance of ", distance)};
    if (PackMemory(request.graph, BuildSchedule(request.graph, choice), choice, budget_bytes).arena_bytes <= budget_bytes) break;
  }
  return choice;
}

// Moves nothing when everything fits: only then may variables stay on the device from step to step.
absl::StatusOr<SwapChoice> LeastRecentlyUsed(const SwapRequest& request) {
  const AccessGraph& graph = request.graph;
  const int64_t budget_bytes = request.options.device_memory_bytes;
  SwapChoice keep = KeepEverything(graph);
  if (budget_bytes == 0 || PackMemory(graph, BuildSchedule(graph, keep), keep, budget_bytes).arena_bytes <= budget_bytes) return keep;
  return SwapLeastRecentlyUsed(graph, budget_bytes);
}

absl::StatusOr<SwapChoice> Planned(const SwapRequest& request) {
  return SwapPlanned(request.graph, request.machine, request.options.device_memory_bytes, request.limits, request.gaps);
}

absl::StatusOr<SwapChoice> Reactive(const SwapRequest& request) {
  const PlanningOptions& options = request.options;
  if (!(options.occupancy_threshold > 0) || options.occupancy_threshold > 1) {
    return absl::InvalidArgumentError(absl::StrCat("--occupancy_threshold is ", options.occupancy_threshold,
                                                   ", expected more than 0 and at most 1"));
  }
  if (options.device_memory_bytes == 0) return KeepEverything(request.graph);
  MR_RETURN_IF_ERROR(CheckWorkingSets(
      request.graph, options.device_memory_bytes, [&](int32_t i) { return request.NameOf(i); }, AtHome::kStays));
  return SwapReactive(request.graph, options.device_memory_bytes, options.occupancy_threshold);
}

const std::vector<Strategy>& Table() {
  static const std::vector<Strategy>& table = *new std::vector<Strategy>{
      {"baseline", "creation order, no swaps, everything on the device", Strategy::Order::kCreation, Baseline},
      {"tensorflowmem", "depth-first partitions of --partition_size nodes; values used more than --swap_distance "
                        "partitions later are swapped; variables and constants in host memory", Strategy::Order::kDepthFirst, TensorFlowMem, TensorFlowMemTight},
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
