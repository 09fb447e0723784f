// The planner behind --strategy=planned: a small portfolio of trials over windows and transfer weights, the best
// packed into exactly the budget (PLANNING.md, section 4).
#ifndef MILLRACE_PASSES_PLANNER_PLANNED_H_
#define MILLRACE_PASSES_PLANNER_PLANNED_H_

#include "absl/status/statusor.h"
#include "millrace/options.h"
#include "passes/access/swap_choice.h"
#include "passes/planner/gaps.h"

namespace millrace {

// Requires every working set to fit. The best trial is replayed against an allocator of the budget under a few placement
// policies (place.h), the fastest is the plan; lru's is the last resort. `budget_bytes` 0: everything stays.
// Sets SwapChoice::predicted_seconds. `known`: gaps of the graph, empty if not yet found; with room for them.
absl::StatusOr<SwapChoice> SwapPlanned(const AccessGraph& graph, const Machine& machine, int64_t budget_bytes,
                                       const PlanLimits& limits = {}, GapGraph* known = nullptr);

}  // namespace millrace

#endif  // MILLRACE_PASSES_PLANNER_PLANNED_H_
