// A bound at single moments of the step, as CutBound, that knows when bytes may leave and when they are needed again.
#ifndef MILLRACE_PASSES_PLANNER_TIMED_CUT_BOUND_H_
#define MILLRACE_PASSES_PLANNER_TIMED_CUT_BOUND_H_

#include <cstdint>

#include "passes/planner/gaps.h"

namespace millrace {

// Seconds below which no schedule of this order can stay under `budget_bytes`, from a few cuts of the step where most bytes
// have no room: what is not on the device then has left after its last write, and comes back before its next use with all
// that follows still to be computed. Copies cost their latency, as few of them as can carry the bytes. What the host has before the cut and what
// is not needed after it go first; of all ways to divide the rest, the shortest counts.
double TimedCutBound(const GapGraph& gaps, int64_t budget_bytes);

}  // namespace millrace

#endif  // MILLRACE_PASSES_PLANNER_TIMED_CUT_BOUND_H_
