// Choose swaps: which storages leave the device, when, and when they come back. One function per policy; all
// give the same plain decisions (access_graph.h), which insert_swaps turns into SwapOut and SwapIn nodes.
//
// Needs: an AccessGraph. Establishes: every access of a storage finds it on the device.
#ifndef MILLRACE_PASSES_SWAPS_CHOOSE_SWAPS_H_
#define MILLRACE_PASSES_SWAPS_CHOOSE_SWAPS_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "passes/access/access_graph.h"
#include "passes/access/does_not_fit.h"
#include "passes/access/swap_choice.h"

namespace millrace {

// Feeds come in before the first operation, everything else stays: baseline.
SwapChoice KeepEverything(const AccessGraph& graph);

struct DistancePolicy {
  int64_t swap_distance = 2;
  int64_t min_swap_bytes = 0;
  bool place_variables_on_host = true;  // false: variables and constants stay on the device
  bool swap_activations = true;
  // How tightly memory is used; the defaults are TensorFlowMem's.
  bool early_in = true;        // a copy in begins one partition before its consumer; false: at the consumer
  int64_t share_distance = 1;  // consumers up to so many partitions later share a copy in
};
// TensorFlowMem's rule over partitions: a value is swapped out where it is made and in one partition before a
// consumer more than `swap_distance` partitions later; a consumer at most one partition after that shares the
// swap-in. Variables and constants live in host memory and follow the same sharing rule for every use.
SwapChoice SwapByDistance(const AccessGraph& graph, const DistancePolicy& policy);

// On demand: bytes come when an operation needs them; for room, the least recently used leave. Needs: CheckWorkingSets.
absl::StatusOr<SwapChoice> SwapLeastRecentlyUsed(const AccessGraph& graph, int64_t budget_bytes);

// As TensorFlow's while loops do with swap_memory: above `occupancy_threshold` of the budget the oldest saved
// activations leave, and come back when an operation needs them. For room, where the hard budget asks for it, the oldest
// leave, too. Variables and constants stay on the device. Needs: CheckWorkingSets beside them.
absl::StatusOr<SwapChoice> SwapReactive(const AccessGraph& graph, int64_t budget_bytes, double occupancy_threshold);

// Checks that decisions are ordered, anchors lie inside their gaps and every copied-in byte exists on the host.
absl::Status VerifySwaps(const AccessGraph& graph, const SwapChoice& choice);

// ResourceExhausted naming the operation, working set, budget, shortfall and largest storages when an operation
// cannot run within `budget_bytes`: alone, or beside all variables and constants where they stay on the device.
// `operation_name(i)` names operation i.
enum class AtHome { kLeaves, kStays };
absl::Status CheckWorkingSets(const AccessGraph& graph, int64_t budget_bytes, OperationName operation_name,
                              AtHome variables = AtHome::kLeaves);

}  // namespace millrace

#endif  // MILLRACE_PASSES_SWAPS_CHOOSE_SWAPS_H_
