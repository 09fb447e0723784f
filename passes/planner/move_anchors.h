// Move anchors: copies in of a packed plan begin as soon as nothing else has their bytes.
//
// A copy in waits for all operations before its anchor, which a trial chose before anything had addresses, or a packing that had room
// reserved. Where the bytes are free before that, the anchor moves there:
//
//   compute   | 0  | 1  | 2  | 3  |        x may be back from 3 on, and what had its bytes before is gone after 0: anchored at 1 it is
//   in                       | x< |        there for 3 without a wait
//
// Every lane keeps its order and no byte has another owner, so no step gets longer.
#ifndef MILLRACE_PASSES_PLANNER_MOVE_ANCHORS_H_
#define MILLRACE_PASSES_PLANNER_MOVE_ANCHORS_H_

#include "passes/access/access_graph.h"
#include "passes/access/schedule.h"
#include "passes/access/swap_choice.h"

namespace millrace {

// `schedule` is that of the choice, which has addresses. Whether any anchor moved: then the schedule is another.
bool MoveAnchorsBack(const AccessGraph& graph, const Schedule& schedule, SwapChoice& choice);

}  // namespace millrace

#endif  // MILLRACE_PASSES_PLANNER_MOVE_ANCHORS_H_
