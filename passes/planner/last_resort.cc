#include "passes/planner/last_resort.h"

#include "passes/swaps/choose_swaps.h"

namespace millrace {

absl::StatusOr<SwapChoice> LastResort(const GapGraph& gaps, int64_t budget_bytes) {
  absl::StatusOr<SwapChoice> choice = SwapLeastRecentlyUsed(*gaps.graph, budget_bytes);
  if (!choice.ok()) return choice;
  choice->predicted_seconds = gaps.compute_seconds();
  for (const SwapDecision& d : choice->decisions) {
    const auto bytes = static_cast<double>(gaps.graph->storages[d.storage].size_bytes);
    if (d.copy_out) choice->predicted_seconds += bytes * gaps.seconds_per_byte_out;
    if (d.copy_in && d.before != SwapDecision::kToHost) choice->predicted_seconds += bytes * gaps.seconds_per_byte_in;
  }
  return choice;
}

}  // namespace millrace
