// One trial of the planner: decisions from kept gaps and anchors, and what a step would take with them.
#ifndef MILLRACE_PASSES_PLANNER_TRIAL_H_
#define MILLRACE_PASSES_PLANNER_TRIAL_H_

#include <cstdint>
#include <string>
#include <vector>

#include "passes/access/swap_choice.h"
#include "passes/planner/gaps.h"
#include "passes/planner/select_gaps.h"

namespace millrace {

// Copies out start as soon as the value is written, copies in when they are needed. Reasons are left empty: trials are many,
// and only the winner tells.
std::vector<SwapDecision> DecisionsOf(const GapGraph& gaps, const Selection& selection);

// Copies in start at the anchors that ChooseAnchors gave to the gaps of the selection that was decided on.
void SetAnchors(const GapGraph& gaps, const std::vector<int32_t>& anchors, std::vector<SwapDecision>& decisions);

// Both.
std::vector<SwapDecision> DecisionsOf(const GapGraph& gaps, const Selection& selection, const std::vector<int32_t>& anchors);

// The same for the same decisions, whatever their reasons.
uint64_t HashOf(const std::vector<SwapDecision>& decisions);

std::string ReasonOf(const GapGraph& gaps, const SwapDecision& decision);

struct TrialResult {
  double step_seconds = 0;
  double launch_seconds = 0;  // of these: what copies cost however well they hide
  // Operations that waited: for a copy in, or for room that a copy out had not yet left.
  std::vector<int32_t> waited_for_input, waited_for_room;
  struct Busy {
    double start = 0, end = 0;
  };
  std::vector<Busy> out, in;  // copies in lane order
  std::vector<double> operation_start;
  // Per decision with a copy out: the operation from which on its bytes are off the device, by the lanes' time.
  std::vector<int32_t> gone_at;
};

// Units of WorkBudget for anchors, decisions and simulation of a trial, once its gaps are selected.
int64_t TrialWork(const GapGraph& gaps, size_t decisions);

// Runs the three lanes in order over one step. Bytes that have left in the order of operations but whose copy out
// is not done yet are still there: whoever needs the room waits.
TrialResult SimulateTrial(const GapGraph& gaps, const MemoryTarget& target, const std::vector<SwapDecision>& decisions);

// Weight 1 for transfers in the busy periods that ended in stalls, 0.05 elsewhere.
TransferWeights CriticalWeights(const GapGraph& gaps, const TrialResult& trial);

}  // namespace millrace

#endif  // MILLRACE_PASSES_PLANNER_TRIAL_H_
