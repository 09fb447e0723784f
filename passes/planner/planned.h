// The planner behind --strategy=planned: a small portfolio of trials over windows and transfer weights, the best
// packed into exactly the budget.
#ifndef MILLRACE_PASSES_PLANNER_PLANNED_H_
#define MILLRACE_PASSES_PLANNER_PLANNED_H_

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "millrace/options.h"
#include "passes/access/swap_choice.h"
#include "passes/planner/gaps.h"

namespace millrace {

// One graph's search for a plan, which can go on where it ended.
class PlannedSearch {
 public:
  // The gaps of the graph and limits.work outlive it. Requires every working set to fit, and a budget.
  PlannedSearch(GapGraph& gaps, int64_t budget_bytes, const PlanLimits& limits);
  ~PlannedSearch();
  PlannedSearch(PlannedSearch&&) noexcept;

  // A first plan, with at most its part of the work. Aborted when none is faster than what is known.
  absl::Status Begin();
  // With so many units more, from limits.work. Not after an Aborted.
  void Improve(int64_t units);
  // Whether nothing is left to gain or to try.
  bool finished() const;
  // Infinite as long as nothing fits.
  double step_seconds() const;
  // Of its part of the work.
  int64_t left() const;
  // The best so far, or lru's choice where nothing fits; Aborted where nothing is faster than what is known. Once, at the end.
  absl::StatusOr<SwapChoice> Take();
  // The best of a few trials, instead of all that.
  SwapChoice TakeQuick();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Requires every working set to fit. The best trial is replayed against an allocator of the budget under a few placement
// policies (place.h), the fastest is the plan; lru's is the last resort. `budget_bytes` 0: everything stays.
// Sets SwapChoice::predicted_seconds. `known`: gaps of the graph, empty if not yet found; with room for them.
absl::StatusOr<SwapChoice> SwapPlanned(const AccessGraph& graph, const Machine& machine, int64_t budget_bytes,
                                       const PlanLimits& limits = {}, GapGraph* known = nullptr);

}  // namespace millrace

#endif  // MILLRACE_PASSES_PLANNER_PLANNED_H_
