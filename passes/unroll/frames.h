// The loops of TensorFlow 1 in a graph: frames between Enter and Exit nodes, one in another.
//
//   outer ── Enter ──► Merge ──► Switch ──► body ──► NextIteration
//                        ▲  └► LoopCond ┘└► Exit ── outer     │
//                        └─────────────────────────────────────┘
//
// A frame is one unit in the order of the frame around it: it begins when all that enters is there. Where something enters that follows
// from what the loop gives (a gradient's counter of turns behind control dependencies), the loop has parts, each a frame of its own: the
// first one runs all turns as far as it can, the next one goes through the same turns once more, with what the first one kept of each.
//
//   loop: i, x ── Exit x ──► loss ── Enter ──► loop, part 2: count turns, push x of each on a stack
#ifndef MILLRACE_PASSES_UNROLL_FRAMES_H_
#define MILLRACE_PASSES_UNROLL_FRAMES_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "millrace/graph.h"

namespace millrace {

struct LoopFrame {
  std::string name;  // of the frame; empty outside of all
  int32_t parent = -1;
  // What is run once per turn: a node, or an inner frame ( ~index ), after those that it takes values from.
  std::vector<int32_t> units;
  NodeId condition;  // LoopCond; invalid outside
  int32_t first = -1;        // of a later part: the loop's first one, where the condition is
  std::vector<NodeId> kept;  // what later parts take of each turn

  bool is_later_part() const { return first >= 0; }
};

// Frame 0 is the graph outside of all loops. Loops that share a name and a place, but nothing else, are frames of their own.
// InvalidArgument names a node that takes values of two frames, a frame without a condition or with two, or a circle that parts of loops
// do not open.
absl::StatusOr<std::vector<LoopFrame>> FindFrames(const Graph& graph);

}  // namespace millrace

#endif  // MILLRACE_PASSES_UNROLL_FRAMES_H_
