// Place: replays a trial on three lanes against an allocator of exactly the budget, so that every byte has an address
// and every address that is used again is free by then.
//
// Words: an operation *takes* its outputs and scratch when it starts; a copy in takes its bytes when it starts; bytes
// are *given back* when their last reader, or their copy out, is done in simulated time. So an address that the lanes
// are still emptying is not handed out while others are free, and the plan's waits cost what the replay says.
//
// When room is scattered so that an operation cannot start and nothing under way will free any, the cheapest
// neighbouring blocks are *evicted*: a copy in that has not been read yet is taken back, a kept gap becomes a swap.
#ifndef MILLRACE_PASSES_PLANNER_PLACE_H_
#define MILLRACE_PASSES_PLANNER_PLACE_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "passes/access/swap_choice.h"
#include "passes/planner/gaps.h"

namespace millrace {

// Where blocks go: those that live longer than `long_lived_seconds` to the lowest place that holds them, the others to
// the highest; negative: all into the smallest hole that holds them. With `large_bytes`, blocks of at least so many go to
// the lowest place and the others to the highest, so that small ones do not lie where a large one needs its room in one piece.
struct PlacementPolicy {
  double long_lived_seconds = -1;
  int64_t large_bytes = 0;
};
// By number: those of kLongLived, in parts of the step, then those of kLargeParts, in parts of the budget (trial_settings.h).
PlacementPolicy PolicyAt(size_t number, double step_seconds, int64_t budget_bytes);

struct Placement {
  SwapChoice choice;  // decisions as replayed, with addresses
  double step_seconds = 0;
  int64_t evictions = 0;
};

// `decisions` by storage, then by time. Requires what stays resident and every working set to fit together.
// ResourceExhausted when an operation finds no room even after all else has left, Aborted when it shows that the step takes
// `known_seconds` or more. `work`: units of WorkBudget.
absl::StatusOr<Placement> PlaceDecisions(const GapGraph& gaps, int64_t budget_bytes,
                                         const std::vector<SwapDecision>& decisions, const PlacementPolicy& policy,
                                         double known_seconds, int64_t& work);

}  // namespace millrace

#endif  // MILLRACE_PASSES_PLANNER_PLACE_H_
