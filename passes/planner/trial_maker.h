// Trial maker: trials of a device's gaps under a budget, from their settings alone.
#ifndef MILLRACE_PASSES_PLANNER_TRIAL_MAKER_H_
#define MILLRACE_PASSES_PLANNER_TRIAL_MAKER_H_

#include <cstdint>
#include <limits>
#include <vector>

#include "passes/access/swap_choice.h"
#include "passes/access/work_budget.h"
#include "passes/planner/gaps.h"
#include "passes/planner/select_gaps.h"
#include "passes/planner/trial.h"
#include "passes/planner/trial_settings.h"

namespace millrace {

// Graphs of more operations are large: bytes come back early by a part of the budget at most, and few selections are alike.
inline constexpr int32_t kLargeGraph = 50'000;
// A trial so much longer than before has given way for much.
inline constexpr double kDearRelief = 1.05;

struct Trial {
  TrialSettings settings;
  TrialResult result;  // its step is infinite, and there are no decisions, where copies alone take too long
  std::vector<SwapDecision> decisions;
};

class TrialMaker {
 public:
  // All that it is given is alive as long as it; `work` pays.
  TrialMaker(const GapGraph& gaps, int64_t budget_bytes, WorkBudget& work);

  // Bytes that a trial plans for.
  int64_t TargetBytes(const TrialSettings& settings) const;
  // Whether each operation has room in them.
  bool HasRoom(const TrialSettings& settings) const { return TargetBytes(settings) >= gaps_.largest_working_set(); }

  // `set_aside`: bytes per operation that it must leave. A trial whose copies alone take `known_seconds` or more is not simulated: its step is as
  // long as a search need know.
  Trial Make(const TrialSettings& settings, std::vector<int64_t> set_aside = {},
             double known_seconds = std::numeric_limits<double>::infinity());

  // The trial again, with what reached beyond the budget (`excess_bytes` per operation) set aside there, and a little more; or with less room everywhere
  // and nothing set aside, where that is shorter. `set_aside` is what the trial had and has.
  Trial Relieved(const Trial& trial, const std::vector<int64_t>& excess_bytes, std::vector<int64_t>& set_aside);

  // What trials that carry variables over the step's end take parts of (kCarried).
  void set_home_bytes(int64_t bytes) { home_bytes_ = bytes; }

 private:
  // The largest target that leaves a part of so many bytes; false where there is none.
  bool LowerTarget(int64_t excess_bytes, TrialSettings& settings) const;
  double SlackSeconds(const TrialSettings& settings) const;
  SelectionStarts* starts();

  const GapGraph& gaps_;
  const int64_t budget_;
  const int64_t small_;
  WorkBudget& work_;
  int64_t home_bytes_ = 0;
  SelectionStarts starts_;
};

}  // namespace millrace

#endif  // MILLRACE_PASSES_PLANNER_TRIAL_MAKER_H_
