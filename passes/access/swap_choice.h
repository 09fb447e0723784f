// What a swap policy decides, and how long it may think: the one form in which all of them answer.
#ifndef MILLRACE_PASSES_ACCESS_SWAP_CHOICE_H_
#define MILLRACE_PASSES_ACCESS_SWAP_CHOICE_H_

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "passes/access/access_graph.h"
#include "passes/access/deadline.h"
#include "passes/access/work_budget.h"

namespace millrace {

// Decisions by storage, then by time. A policy that places bytes itself (lru) gives an address to every residence
// (in the order of Schedule::residences) and to every operation's scratch; others leave both empty.
struct SwapChoice {
  std::vector<SwapDecision> decisions;
  std::vector<int64_t> residence_offsets;
  std::vector<int64_t> scratch_offsets;
  double predicted_seconds = 0;  // of a step, by a policy that simulates; 0: not known
  std::vector<std::string> notes;  // what the policy tells of its choice, a line each
};

enum class PlanEffort {
  kQuick,  // a trial or two: to tell orders and rewritings of a graph apart
  kFull,
};

// Of a plan that there is not, or whose step is not known.
inline constexpr double kNotKnown = std::numeric_limits<double>::infinity();

// How long a policy may think. Without a deadline plans do not depend on the clock.
struct PlanLimits {
  PlanEffort effort = PlanEffort::kFull;
  Deadline deadline;
  // The step of a plan that is known: one that is not faster is not wanted, Aborted may be the answer.
  double known_seconds = kNotKnown;
  // Of a plan that is made for less memory than there is: what there is of every device, for the bounds of their steps. Empty: what it is made for.
  absl::Span<const int64_t> whole_budgets;
  // What all plans of the graph may take together, and the part of what is left of it that this one may. Without it a plan
  // takes what SearchWork gives.
  WorkBudget* work = nullptr;
  double work_part = 1;
  // Variables that stay on the device over the step's end may be elsewhere in the middle of the step. Not with a disk
  // tier: a step that fails could leave such a value in the host pool alone.
  bool residents_leave = true;
  // Of several devices: the time in which one waits for others is time in which its copies are hidden (device_timeline.h). Otherwise each
  // is planned as if it never waited.
  bool waits_hide_copies = false;
};

}  // namespace millrace

#endif  // MILLRACE_PASSES_ACCESS_SWAP_CHOICE_H_
