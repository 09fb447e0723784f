// Pack a trial: addresses for its decisions, found for the whole step at once (pack_blocks.h) instead of in order of
// time (place.h).
//
// Bytes on their way to the host keep their address for as long as the trial says that the lane needs, so nobody waits
// for an address that the trial did not wait for, and the step takes what the trial took.
#ifndef MILLRACE_PASSES_PLANNER_PACK_TRIAL_H_
#define MILLRACE_PASSES_PLANNER_PACK_TRIAL_H_

#include <vector>

#include "passes/access/schedule.h"
#include "passes/access/swap_choice.h"
#include "passes/memory/pack_blocks.h"
#include "passes/planner/gaps.h"
#include "passes/planner/trial.h"

namespace millrace {

struct PackedTrial {
  // The trial's decisions, with addresses if they fit.
  SwapChoice choice;
  bool fits = false;
  double step_seconds = 0;  // with them
  // Otherwise, per operation: bytes by which what lies there reaches beyond the budget.
  std::vector<int64_t> excess;
  int64_t work = 0;  // units of WorkBudget
};

// `key` as PackSkylines takes it.
PackedTrial PackTrial(const GapGraph& gaps, int64_t budget_bytes, const std::vector<SwapDecision>& decisions,
                      const TrialResult& trial, SkylineKey& key);

// The same in order of time (pack_in_time.h), where copies in may come later than the trial has them and operations wait
// for copies out that they did not wait for. `step_seconds` says what that costs. With `may_send_away`, what nothing uses
// for a while may be swapped beyond the decisions, where room is in pieces (idle_stays.h).
PackedTrial PackTrialInTime(const GapGraph& gaps, int64_t budget_bytes, const std::vector<SwapDecision>& decisions,
                            const TrialResult& trial, int tries, int64_t most_work, bool may_send_away);

// Of a schedule in which nothing else goes to the host: what is fetched keeps its place until its copy is over, as no operation waits for that then.
// Whether anything keeps it for longer.
bool StayUntilFetched(const GapGraph& gaps, Schedule& schedule);

}  // namespace millrace

#endif  // MILLRACE_PASSES_PLANNER_PACK_TRIAL_H_
