// What a trial of the planner is made with. The numbers are indices of the lists here, whose first entries are the defaults.
#ifndef MILLRACE_PASSES_PLANNER_TRIAL_SETTINGS_H_
#define MILLRACE_PASSES_PLANNER_TRIAL_SETTINGS_H_

#include <cstddef>
#include <iterator>

#include "passes/planner/select_gaps.h"

namespace millrace {

// Step / compute, or bound, at which all copies hide: there is nothing left to gain.
inline constexpr double kHidden = 1.002;

// Length of the windows in which bytes stay for their copies, in units of a gap's copy time; 0: none.
inline constexpr double kWindows[] = {1, 0.5, 2, 4, 0};
// Parts of the budget that trials may plan for, so that placing finds holes.
inline constexpr double kTargets[] = {1, 0.97, 0.94, 0.9, 0.85, 0.8, 0.7, 0.985, 0.99, 0.98, 0.975};
// Of the step: how much earlier than necessary bytes may come back.
inline constexpr double kAnchorSlack[] = {0.05, 0.02, 0.12, 0.3};
// Of the step: PlacementPolicy's bounds.
inline constexpr double kLongLived[] = {0.1, -1, 0.3, 0.02, 0.05, 0.2, 0.5};
// Of the budget: what is large to policies by size, which come behind those.
inline constexpr double kLargeParts[] = {0.05, 0.2};
inline constexpr size_t kPolicies = std::size(kLongLived) + std::size(kLargeParts);
// What goes home when the next step begins, in parts of what the best trial without that copies home. The first setting
// carries nothing over the step's end, the second only what leaves after its first use.
inline constexpr double kCarried[] = {-1, 0, 0.2, 0.1, 0.4, 0.7};

struct TrialSettings {
  double window = 1;
  TransferWeights weights;
  size_t target = 0, slack = 0, policy = 0, carried = 0;
};

}  // namespace millrace

#endif  // MILLRACE_PASSES_PLANNER_TRIAL_SETTINGS_H_
