// A bound under the copies in of every schedule of an order: CutBound looks at one moment of the step, this at all together.
#ifndef MILLRACE_PASSES_PLANNER_TRANSFER_BOUND_H_
#define MILLRACE_PASSES_PLANNER_TRANSFER_BOUND_H_

#include <cstdint>

#include "passes/planner/gaps.h"

namespace millrace {

// Seconds that the link needs at least for what must come in, when at no operation more than `budget_bytes` are on the device,
// even if tensors could stay in part; in the whole step, or after an operation before which the others run. `target_seconds`: what a plan
// takes, from which lengths of steps follow; no bound is above its true value, whatever the target. `known_seconds`: another bound; what
// comes nowhere near it is not looked at closely. Looks at some hundred prices, fewer for large graphs.
double TransferBound(const GapGraph& gaps, int64_t budget_bytes, double target_seconds, double known_seconds = 0);

}  // namespace millrace

#endif  // MILLRACE_PASSES_PLANNER_TRANSFER_BOUND_H_
