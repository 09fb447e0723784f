#include "passes/planner/lower_bound.h"

#include <algorithm>
#include <cmath>

#include "passes/planner/timed_cut_bound.h"
#include "passes/planner/transfer_bound.h"

namespace millrace {

double LowerBound(const GapGraph& gaps, int64_t budget_bytes, double plan_seconds) {
  if (budget_bytes == 0) return gaps.compute_seconds();
  double bound = CutBound(gaps, budget_bytes);
  if (bound >= plan_seconds) return bound;
  bound = std::max(bound, TimedCutBound(gaps, budget_bytes));
  // Its steps are as long as what is left to the plan at hand: without one they have no length.
  if (bound >= plan_seconds || !std::isfinite(plan_seconds)) return bound;
  return std::max(bound, TransferBound(gaps, budget_bytes, plan_seconds, bound));
}

}  // namespace millrace
