// The bound that is reported: the longest of cuts, cuts with times, and what must come in.
#ifndef MILLRACE_PASSES_PLANNER_LOWER_BOUND_H_
#define MILLRACE_PASSES_PLANNER_LOWER_BOUND_H_

#include <cstdint>

#include "passes/planner/gaps.h"

namespace millrace {

// Seconds below which no schedule of this order stays under the budget; 0: no budget. `plan_seconds`: what the plan at hand
// takes, beyond which nothing is looked for; infinite: not known.
double LowerBound(const GapGraph& gaps, int64_t budget_bytes, double plan_seconds);

}  // namespace millrace

#endif  // MILLRACE_PASSES_PLANNER_LOWER_BOUND_H_
