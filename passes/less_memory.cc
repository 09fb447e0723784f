#include "passes/less_memory.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "passes/access/does_not_fit.h"
#include "passes/access/work_budget.h"
#include "passes/pass_clock.h"
#include "passes/planner/trial_settings.h"

namespace millrace {
namespace {

// As prepared. Of graphs of more than a few nodes every fourth budget is tried, where the plan is so far above its bound; of more than the most none:
// the search for all of the memory takes what they are worth.
constexpr int32_t kFewNodes = 1'000, kMostNodes = 4'000;
constexpr int kOfMoreNodes = 4;
constexpr double kFarAboveItsBound = 1.05;
// Budgets are powers of two, and so many between one and the next.
constexpr double kBudgetsOfDouble = 32;
// Of what a graph is worth: for the plans of an order and their improvement, for each budget.
constexpr double kWorkOfEach = 0.1;
// Of what a graph is worth, for all budgets; of the smallest graphs so many units for a node beside each other.
constexpr double kWorkOfAll = 0.4, kPairWork = 20'000;
// For the passes before the search and after it, units of a node.
constexpr int64_t kNodeWork = 10'000;
// Seconds that another plan takes, and the verification behind it, in those of the last plan.
constexpr double kFinishing = 2;
// A first plan is worth improving that takes at most so much longer than the best.
constexpr double kWorthImproving = 1.3;
// Step / bound at which there is nothing left to gain, and how much faster a plan for less must be.
constexpr double kAtItsBound = 1.003, kLeastGain = 0.999;

// The k-th of all budgets there are, rising.
int64_t BudgetAt(int k) { return static_cast<int64_t>(std::exp2(k / kBudgetsOfDouble)); }

// The last of them that is below this one.
int LastBelow(int64_t budget_bytes) {
  auto k = static_cast<int>(kBudgetsOfDouble * std::log2(static_cast<double>(budget_bytes))) + 1;
  while (BudgetAt(k) >= budget_bytes) --k;
  return k;
}

bool MayGain(const ExecutionPlan& plan, int32_t nodes) {
  const bool hidden = plan.counts.recomputed_nodes == 0 && plan.predicted_step_seconds <= kHidden * plan.predicted_compute_seconds;
  return !hidden && plan.predicted_step_seconds > (nodes <= kFewNodes ? kAtItsBound : kFarAboveItsBound) * plan.lower_bound_seconds;
}

bool AllStays(const ExecutionPlan& plan) { return plan.counts.swap_outs + plan.counts.swap_ins + plan.counts.recomputed_nodes == 0; }

// The last budget to try of those up to the k-th: where all stays, plans for as much as that takes are the same.
int NextToTry(int k, const ExecutionPlan& plan, int32_t nodes) {
  const int64_t taken = plan.devices[0].arena_bytes;
  if (AllStays(plan) && taken > 1) k = std::min(k, LastBelow(taken));
  return nodes <= kFewNodes ? k : k / kOfMoreNodes * kOfMoreNodes;
}

int64_t WorkFor(int32_t nodes) {
  const double n = nodes;
  return static_cast<int64_t>(std::min(kWorkOfAll * static_cast<double>(SearchWork(nodes)), kPairWork * n * n));
}

// Beside a disk tier host memory is short, of which such a plan takes more.
bool IsSearched(const CompileRequest& request, int32_t nodes) {
  const PlanningOptions& options = request.options;
  return nodes <= kMostNodes && options.num_devices() == 1 && options.BudgetOf(0) > 1 && !request.disk_tier &&
         request.work >= 1;
}

}  // namespace

absl::StatusOr<Compiled> FindPlanForLess(const CompileRequest& request, int32_t prepared_nodes, Compiled best, double best_took_seconds,
                                         const Deadline& deadline, const CompileForLess& compile) {
  if (!IsSearched(request, prepared_nodes)) return best;
  const PassClock::Run run(request.clock, "less memory");
  const int64_t budget = request.options.BudgetOf(0);
  CompileRequest less = request;
  less.work = kWorkOfEach;
  less.clock = nullptr;
  less.options.plan_seconds = 0;
  less.options.device_memory_bytes_of.clear();
  WorkBudget work(WorkFor(prepared_nodes));
  PlanLimits limits;
  limits.whole_budget_bytes = budget;
  limits.work = &work;
  double took_seconds = best_took_seconds;
  int next = NextToTry(LastBelow(budget), best.plan, prepared_nodes);
  while (next > 0 && work.left() > 0 && MayGain(best.plan, prepared_nodes)) {
    if (deadline.passed(kFinishing * took_seconds)) {
      best.plan.notes.push_back("plans for less memory: the time for planning is over before all have been tried");
      break;
    }
    const double left = deadline.seconds_left();
    less.options.device_memory_bytes = BudgetAt(next);
    next = NextToTry(next - 1, best.plan, prepared_nodes);
    limits.known_seconds = kWorthImproving * best.plan.predicted_step_seconds;
    work.Spend(kNodeWork * prepared_nodes);
    absl::StatusOr<Compiled> other = compile(less, limits);
    if (std::isfinite(left)) took_seconds = left - deadline.seconds_left();
    if (absl::IsAborted(other.status()) || IsOfHostMemory(other.status())) continue;
    if (!other.ok()) break;
    next = NextToTry(next, other->plan, prepared_nodes);
    if (other->plan.predicted_step_seconds > kLeastGain * best.plan.predicted_step_seconds) continue;
    if (AllStays(best.plan) && !AllStays(other->plan)) continue;
    best = *std::move(other);
    best.plan.devices[0].budget_bytes = budget;
  }
  return best;
}

}  // namespace millrace
