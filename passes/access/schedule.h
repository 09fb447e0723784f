// Schedule: operations and copies in one total order, and how long each storage stays on the device.
//
// Around operation i the order is: copies in anchored at i, operation i, copies out of what i wrote last.
//
//   … | in(x) in(y) | op i | out(z) | in(…) | op i+1 | …
//
// Needs: an AccessGraph and verified swap decisions. Establishes: a position for every step, a Residence for every
// stay of a storage in device memory, and the residence that each access finds.
#ifndef MILLRACE_PASSES_ACCESS_SCHEDULE_H_
#define MILLRACE_PASSES_ACCESS_SCHEDULE_H_

#include <cstdint>
#include <vector>

#include "passes/access/access_graph.h"
#include "passes/access/access_lists.h"
#include "passes/access/swap_choice.h"

namespace millrace {

struct ScheduleItem {
  enum class Kind : uint8_t { kOperation, kCopyOut, kCopyIn };
  Kind kind = Kind::kOperation;
  int32_t index = 0;      // of the operation, or of the decision
  int32_t residence = -1; // of a copy
};

// A stay in device memory over the positions [first, last].
struct Stay {
  int32_t storage = 0;
  int64_t first = 0;
  int64_t last = 0;
  int32_t decision = -1;   // the copy that brings it, or -1: made here, or resident
  // Over the step's end: a variable or constant that is there when the step begins. If it leaves within the step, its
  // last stay is again at this one's address and lasts until the end.
  bool resident = false;
};

struct Schedule {
  std::vector<ScheduleItem> items;
  std::vector<int64_t> position_of_operation;
  std::vector<Stay> residences;            // by storage, then by time
  std::vector<int32_t> residence_of;       // of access k of the AccessGraph
};

Schedule BuildSchedule(const AccessGraph& graph, const SwapChoice& choice);
// With the graph's lists of accesses at hand.
Schedule BuildSchedule(const AccessGraph& graph, const AccessLists& lists, const std::vector<SwapDecision>& decisions);

}  // namespace millrace

#endif  // MILLRACE_PASSES_ACCESS_SCHEDULE_H_
