// Idle stays: what a packing sends away where room is in pieces, because nothing uses it for a while (pack_in_time.h).
//
// A gap that the trial kept becomes one whose bytes go to the host and come back: of the gaps that lie side by side where
// room is needed, those whose copies cost least.
#ifndef MILLRACE_PASSES_PLANNER_IDLE_STAYS_H_
#define MILLRACE_PASSES_PLANNER_IDLE_STAYS_H_

#include <cstdint>
#include <vector>

#include "passes/access/access_graph.h"
#include "passes/access/schedule.h"
#include "passes/memory/pack_in_time.h"
#include "passes/planner/gaps.h"

namespace millrace {

// Blocks are the schedule's stays, slots are operations. Activations alone may leave.
class IdleStays : public IdleTimes {
 public:
  IdleStays(const GapGraph& gaps, const Schedule& schedule);
  bool Find(int32_t b, int32_t slot, IdleTime& time) const override;

 private:
  const GapGraph& gaps_;
  const Schedule& schedule_;
};

// Adds what the packing of the schedule's stays sent away to the decisions of that schedule: each is a swapped gap more, and
// of every value the first gap takes the copy out. Addresses of the stays of the new decisions, in the order in which a
// schedule of those has them, take the place of the old ones at the beginning of `packing.offsets`.
void AddReturns(const GapGraph& gaps, const Schedule& schedule, TimePacking& packing, std::vector<SwapDecision>& decisions);

}  // namespace millrace

#endif  // MILLRACE_PASSES_PLANNER_IDLE_STAYS_H_
