// Replay packed: what a step takes when every item waits for what it needs and for whoever had its bytes before, as the
// finished plan does.
#ifndef MILLRACE_PASSES_PLANNER_REPLAY_PACKED_H_
#define MILLRACE_PASSES_PLANNER_REPLAY_PACKED_H_

#include <cstdint>
#include <vector>

#include "passes/access/schedule.h"
#include "passes/access/swap_choice.h"
#include "passes/memory/assign_memory.h"
#include "passes/planner/gaps.h"

namespace millrace {

// Seconds of a step. `schedule` is that of the choice, which has addresses. Each lane takes its items in the schedule's
// order.
double ReplayPacked(const GapGraph& gaps, const Schedule& schedule, const SwapChoice& choice);

// No finished plan of this schedule at these addresses takes less: copies out wait for what they copy alone.
double LeastPackedSeconds(const GapGraph& gaps, const Schedule& schedule, const SwapChoice& choice, const MemoryAssignment& memory);

}  // namespace millrace

#endif  // MILLRACE_PASSES_PLANNER_REPLAY_PACKED_H_
