// Select: which gaps are kept on the device, under a hard memory profile.
//
// Greedy by contended area per transfer saved: a gap that blocks little of the contended time for what its copies
// would cost is kept first. Before that every gap gets, where there is room, the *windows* at its ends in which its
// bytes stay even if swapped, so that copies can overlap with compute.
#ifndef MILLRACE_PASSES_PLANNER_SELECT_GAPS_H_
#define MILLRACE_PASSES_PLANNER_SELECT_GAPS_H_

#include <array>
#include <cstdint>
#include <list>
#include <vector>

#include "passes/planner/gaps.h"
#include "passes/planner/segment_tree.h"

namespace millrace {

// Weight of a transfer by the operation around which it happens; 1 everywhere when empty.
struct TransferWeights {
  std::vector<double> out;  // by the operation that made the value
  std::vector<double> in;   // by the operation that needs it
  // Per gap, where not empty: what its transfers together cost at most, in transfers, because its bytes can be had otherwise.
  std::vector<double> most;
  // Of home gaps of about equal worth those are kept, and those are swapped, that are spread over the step; else which
  // comes first in the graph.
  bool spread_homes = false;
  // Per gap, where not empty: what a home gap blocks counts so many times.
  std::vector<double> bias;
};

// Variables may stay over the step's end without staying all through the step.
struct Carrying {
  // A home gap may be kept whose storage leaves in between: it goes home, if steps write it, when the step begins.
  bool allowed = false;
  // Home gaps of variables that stay, where there is room, from their last use until they have gone home when the next
  // step begins; in the order in which they go.
  std::vector<int32_t> late_home;
};

struct Selection {
  std::vector<bool> kept;        // per gap
  // Of a home gap that is not kept but stays over the step's end: the operation by which it has gone home; else 0.
  std::vector<int32_t> carried_until;
  std::vector<int64_t> profile;  // working sets, kept gaps and what is set aside; <= budget everywhere
  int64_t work = 0;              // units of WorkBudget
};

// The home gaps that are not kept whose variables are written last, at most `bytes` of them; the last first.
std::vector<int32_t> WrittenLast(const GapGraph& gaps, const Selection& selection, int64_t bytes);

struct OperationRange {
  int32_t begin = 0;
  int32_t end = 0;
};

// What a selection begins with, whatever its weights: what is kept anyway, and the windows of the other gaps.
struct OpenedWindows {
  // Of which it is: nothing set aside, and nothing that goes home late.
  int64_t budget_bytes = 0, keep_below = 0;
  double window = 0;
  bool carrying = false;

  // What a selection goes on with.
  struct State {
    std::vector<bool> kept;                              // per gap
    std::vector<std::array<OperationRange, 2>> windows;  // as todo
    std::vector<int32_t> carried_until;                  // per gap
    SegmentTree profile{{}};
  } state;
  std::vector<int32_t> todo;   // gaps that are undecided, or were before the windows
  std::vector<int32_t> place;  // of such a gap in todo
  // As todo: contended seconds that the gap blocks, with those kept together with it and alone, weighed by what its bytes are of its copies.
  std::vector<double> area, area_alone;
};

// Trials of one graph share what they begin with: the last few of these.
class SelectionStarts {
 public:
  const OpenedWindows* Find(const MemoryTarget& target, double window, bool carrying);
  const OpenedWindows& Add(OpenedWindows opened);

 private:
  std::list<OpenedWindows> last_;  // the last used first
};

// `window`: length of the windows in units of a gap's copy time; 0 for none (always feasible). Requires every
// working set to fit the budget. `starts`: of this graph, where selections are many.
Selection SelectGaps(const GapGraph& gaps, const MemoryTarget& target, double window, const TransferWeights& weights,
                     const Carrying& carrying = {}, SelectionStarts* starts = nullptr);

// For every swapped gap the operation from which its bytes are back on the device (its anchor): the earliest at
// which the profile has room until they are needed, but not earlier than `slack_seconds` before the last moment at
// which the link can still bring them in time. -1 for kept gaps.
std::vector<int32_t> ChooseAnchors(const GapGraph& gaps, int64_t budget_bytes, const Selection& selection,
                                   double slack_seconds);

}  // namespace millrace

#endif  // MILLRACE_PASSES_PLANNER_SELECT_GAPS_H_
