#include "passes/less_memory.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "passes/access/does_not_fit.h"
#include "passes/access/work_budget.h"
#include "passes/pass_clock.h"
#include "passes/plan_devices.h"
#include "passes/planner/trial_settings.h"

namespace millrace {
namespace {

// As prepared. Of graphs of more than a few nodes every fourth budget is tried, where the plan is so far above its bound; of more than the most none:
// the search for all of the memory takes what they are worth. Every fourth, too, where plans are dear.
constexpr int32_t kFewNodes = 1'000, kMostNodes = 4'000;
constexpr int kOfMoreNodes = 4;
constexpr double kFarAboveItsBound = 1.05;
// Budgets are powers of two, and so many between one and the next.
constexpr double kBudgetsOfDouble = 32;
// Of what a graph is worth: for the plans of an order and their improvement, for each budget; over several devices for the search, too.
constexpr double kWorkOfEach = 0.1, kWorkOfEachOfSeveral = 0.05;
// Of what a graph is worth, for all budgets; of the smallest graphs so many units for a node beside each other.
constexpr double kWorkOfAll = 0.4, kPairWork = 20'000, kPairWorkOfDear = 10'000;
// For the passes before the search and after it, units of a node.
constexpr int64_t kNodeWork = 10'000, kNodeWorkOfDear = 60'000;
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

bool HasSeveralDevices(const CompileRequest& request) { return request.options.num_devices() > 1; }

// Over several devices and beside a disk a plan takes longer.
bool IsDear(const CompileRequest& request) { return HasSeveralDevices(request) || request.disk_tier; }

// Budgets in rows, one for every device that has any: so many steps below what there is of it.
class Rows {
 public:
  Rows(const CompileRequest& request, int32_t nodes) {
    const PlanningOptions& options = request.options;
    if (nodes > kFewNodes || IsDear(request)) apart_ = kOfMoreNodes;
    for (int32_t d = 0; d < options.num_devices(); ++d) {
      whole_.push_back(options.BudgetOf(d));
      last_.push_back(whole_.back() > 1 ? LastBelow(whole_.back()) / apart_ * apart_ : 0);
    }
    most_steps_.resize(whole_.size(), std::numeric_limits<int>::max());
  }

  const std::vector<int64_t>& whole() const { return whole_; }

  bool Has(int steps) const {
    for (size_t d = 0; d < last_.size(); ++d) {
      if (steps <= most_steps_[d] && last_[d] > steps * apart_) return true;
    }
    return false;
  }

  std::vector<int64_t> At(int steps) const {
    std::vector<int64_t> budgets = whole_;
    for (size_t d = 0; d < budgets.size(); ++d) {
      const int own = std::min(steps, most_steps_[d]);
      if (budgets[d] > 1 && own >= 0) budgets[d] = BudgetAt(std::max(last_[d] - own * apart_, 0));
    }
    return budgets;
  }

  // What does not fit that row's budget of this device keeps the one before it, in all rows. False where it is not known which device that is, or it
  // has kept one before. Of the only device no row is left then.
  bool Keep(int32_t device, int steps) {
    if (device < 0 || steps > most_steps_[device]) return false;
    most_steps_[device] = steps - 1;
    return true;
  }

  // The first row to try from that one on: where all stays, plans for as much as that takes are the same.
  int NextToTry(int steps, const ExecutionPlan& plan) const {
    while (AllStays(plan) && Has(steps) && HasRoom(At(steps), plan)) ++steps;
    return steps;
  }

 private:
  bool HasRoom(const std::vector<int64_t>& budgets, const ExecutionPlan& plan) const {
    for (size_t d = 0; d < budgets.size(); ++d) {
      if (whole_[d] > 1 && budgets[d] < plan.devices[d].arena_bytes) return false;
    }
    return true;
  }

  int apart_ = 1;
  std::vector<int64_t> whole_;
  std::vector<int> last_;        // per device: the first row's, of all budgets there are
  std::vector<int> most_steps_;  // per device: -1 keeps the whole budget
};

int64_t WorkFor(const CompileRequest& request, int32_t nodes) {
  const double n = nodes, pair = IsDear(request) ? kPairWorkOfDear : kPairWork;
  return static_cast<int64_t>(std::min(kWorkOfAll * static_cast<double>(SearchWork(nodes)), pair * n * n));
}

bool IsSearched(const CompileRequest& request, int32_t nodes) { return nodes <= kMostNodes && request.work >= 1; }

}  // namespace

absl::StatusOr<Compiled> FindPlanForLess(const CompileRequest& request, int32_t prepared_nodes, Compiled best, double best_took_seconds,
                                         const Deadline& deadline, const CompileForLess& compile) {
  if (!IsSearched(request, prepared_nodes)) return best;
  const PassClock::Run run(request.clock, "less memory");
  Rows rows(request, prepared_nodes);
  CompileRequest less = request;
  less.work = HasSeveralDevices(request) ? kWorkOfEachOfSeveral : kWorkOfEach;
  less.clock = nullptr;
  less.options.plan_seconds = 0;
  WorkBudget work(WorkFor(request, prepared_nodes));
  PlanLimits limits;
  limits.whole_budgets = rows.whole();
  limits.work = &work;
  double took_seconds = best_took_seconds;
  int next = rows.NextToTry(0, best.plan);
  while (rows.Has(next) && work.left() > 0 && MayGain(best.plan, prepared_nodes)) {
    if (deadline.passed(kFinishing * took_seconds)) {
      best.plan.notes.push_back("plans for less memory: the time for planning is over before all have been tried");
      break;
    }
    const double left = deadline.seconds_left();
    const int steps = next;
    less.options.device_memory_bytes_of = rows.At(steps);
    next = rows.NextToTry(steps + 1, best.plan);
    limits.known_seconds = kWorthImproving * best.plan.predicted_step_seconds;
    work.Spend((IsDear(request) ? kNodeWorkOfDear : kNodeWork) * prepared_nodes);
    absl::StatusOr<Compiled> other = compile(less, limits);
    if (std::isfinite(left)) took_seconds = left - deadline.seconds_left();
    if (absl::IsAborted(other.status()) || IsOfHostMemory(other.status())) continue;
    if (absl::IsResourceExhausted(other.status()) && rows.Keep(DeviceOf(other.status()), steps)) continue;
    if (!other.ok()) break;
    next = rows.NextToTry(next, other->plan);
    if (other->plan.predicted_step_seconds > kLeastGain * best.plan.predicted_step_seconds) continue;
    if (AllStays(best.plan) && !AllStays(other->plan)) continue;
    best = *std::move(other);
    for (size_t d = 0; d < rows.whole().size(); ++d) best.plan.devices[d].budget_bytes = rows.whole()[d];
  }
  return best;
}

}  // namespace millrace
