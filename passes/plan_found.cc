#include "passes/plan_found.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <iterator>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "passes/access/swap_choice.h"
#include "passes/access/work_budget.h"
#include "passes/at_once.h"
#include "passes/planner/gaps.h"
#include "passes/planner/planned.h"
#include "passes/planner/trial_maker.h"
#include "passes/planner/trial_settings.h"

namespace millrace {
namespace {

// Of what is left: for the first plan of an order, at most.
constexpr double kWorkForTheFirst = 0.65;
// A plan may take so much less than the look at its order.
constexpr double kLeastOfLook = 0.94;
// A first plan is given up that takes so much longer than the best. An order without one counts as so much longer than its look.
constexpr double kWorthImproving = 1.05, kNotBegun = 1.06;
// Pieces of work, of what the graph is worth; and how much longer a step counts on which all of that has been spent.
constexpr int64_t kPieces = 50;
constexpr double kSpent = 0.1;
// Orders whose plans are begun and improved beside each other. The first plan of a larger graph may take more than all its work: no other is
// begun before it is known what it has to beat.
constexpr size_t kBeside = 2;
// When all searches have ended before the work has: a plan for less memory is one for more, and an order that looked too slow may yet be faster
// than the bound of the others lets them become. These parts of the budget, for a part of what the graph is worth; not of large graphs, whose first plan
// may take all of that.
constexpr double kLessMemoryOfTheBest[] = {0.97, 0.94, 0.9};
constexpr int64_t kPartsForOthers = 4;
// An order's bound must be so much below the best plan.
constexpr double kWorthTheBound = 0.99;

class Finder {
 public:
  Finder(int64_t budget_bytes, const PlanLimits& limits, int64_t worth, int64_t end, std::vector<FoundOrder>& found)
      : budget_(budget_bytes),
        limits_(limits),
        worth_(worth),
        end_(end),
        found_(found),
        plans_(found.size()) {
    for (size_t k = 0; k < found.size(); ++k) plans_[k].order = k;
  }

  std::vector<size_t> Run() {
    order_.resize(found_.size());
    std::iota(order_.begin(), order_.end(), 0);
    std::stable_sort(order_.begin(), order_.end(), [&](size_t a, size_t b) {
      return found_[a].ordered.looked_seconds < found_[b].ordered.looked_seconds;
    });
    while (Round() && !Over()) {}
    if (!Over()) TryOthers();
    std::vector<size_t> planned;
    for (const size_t k : order_) {
      const bool fits = plans_[k].search && (plans_[k].search->step_seconds() < kNotKnown || Known() == kNotKnown);
      if (fits) planned.push_back(k);
    }
    std::stable_sort(planned.begin(), planned.end(), [&](size_t a, size_t b) {
      return plans_[a].search->step_seconds() < plans_[b].search->step_seconds();
    });
    std::vector<bool> taken(found_.size(), false);
    std::vector<size_t> orders;
    for (const size_t k : planned) {
      const size_t order = plans_[k].order;
      if (taken[order] || !Take(k)) continue;
      taken[order] = true;
      orders.push_back(order);
    }
    return orders;
  }

 private:
  // Of an order: one thread's while others have theirs.
  struct Plan {
    size_t order = 0;
    double part = 1;     // of the budget
    bool asked = false;  // for the sake of its bound
    std::optional<PlannedSearch> search;  // once there is a first plan
    WorkBudget work{0};                   // of its pieces
    int64_t spent = 0;
    bool given_up = false;
  };

  bool Late() const { return limits_.deadline.passed(); }

  double Known() const {
    double seconds = kNotKnown;
    for (const Plan& plan : plans_) {
      if (plan.search) seconds = std::min(seconds, plan.search->step_seconds());
    }
    return seconds;
  }

  // What another search has found is known, too.
  double ToBeat() const { return std::min(Known(), limits_.known_seconds); }

  // No plan of the graph is faster: nothing is computed twice, and no copy is waited for.
  bool AllHidden() const {
    return std::any_of(plans_.begin(), plans_.end(), [&](const Plan& plan) {
      return plan.search && found_[plan.order].ordered.recomputed_nodes == 0 && Hidden(plan);
    });
  }

  bool Hidden(const Plan& plan) const { return plan.search->step_seconds() <= kHidden * GapsOf(plan).compute_seconds(); }
  GapGraph& GapsOf(const Plan& plan) const { return found_[plan.order].looked[0].gaps; }
  double Looked(size_t k) const { return found_[plans_[k].order].ordered.looked_seconds; }
  int64_t BudgetOf(const Plan& plan) const { return static_cast<int64_t>(plan.part * static_cast<double>(budget_)); }

  void Begin(size_t k, double known_seconds) {
    PlanLimits limits = limits_;
    limits.effort = PlanEffort::kFull;
    limits.known_seconds = kWorthImproving * std::min(known_seconds, limits_.known_seconds);
    limits.work_part = PartForTheFirst(plans_[k]);
    limits.work = &plans_[k].work;
    std::optional<PlannedSearch>& search = plans_[k].search;
    search.emplace(GapsOf(plans_[k]), BudgetOf(plans_[k]), limits);
    plans_[k].given_up = !search->Begin().ok();
    if (plans_[k].given_up) search.reset();
  }

  double PartForTheFirst(const Plan& plan) const {
    const double part = found_.size() > 1 ? kWorkForTheFirst : 1;
    const auto left = static_cast<double>(plan.work.left());
    return plan.asked ? std::min(part, (left - static_cast<double>(end_of_others_)) / left) : part;
  }

  // What order k promises: its step, longer by what has been spent on it. Where there is no plan of it yet, what was looked at, as much
  // shorter or longer as the best has become.
  double Promise(size_t k) const {
    const double spent = 1 + kSpent * static_cast<double>(plans_[k].spent) / static_cast<double>(worth_);
    if (plans_[k].search) return spent * plans_[k].search->step_seconds();
    const double known = Known();
    const double became = known < kNotKnown ? known / Looked(order_.front()) : 1;
    return kNotBegun * spent * Looked(k) * became;
  }

  bool MayGoOn(size_t k) const {
    if (plans_[k].given_up) return false;
    return plans_[k].search ? !plans_[k].search->finished() : plans_[k].asked || kLeastOfLook * Looked(k) < ToBeat();
  }

  bool Over() const { return Late() || (Known() < kNotKnown && (limits_.work->left() <= end_ || AllHidden())); }

  // Whether there is room for a plan, made for a part of the work, that is faster by more than a little.
  bool MayBeat(const Plan& plan, double known_seconds) const {
    const int64_t budget = BudgetOf(plan);
    const GapGraph& gaps = GapsOf(plan);
    if (gaps.num_operations() > kLargeGraph || budget < gaps.largest_working_set()) return false;
    return CutBound(gaps, budget) < kWorthTheBound * known_seconds;
  }

  // What is left to try when all searches have ended.
  void TryOthers() {
    const double known = Known();
    if (known == kNotKnown) return;
    for (Plan& plan : plans_) plan.asked = !plan.search && !plan.given_up && MayBeat(plan, known);
    const auto best = std::find_if(plans_.begin(), plans_.end(), [&](const Plan& plan) { return plan.search && plan.search->step_seconds() == known; });
    if (!Hidden(*best)) {
      const size_t order = best->order;
      for (const double part : kLessMemoryOfTheBest) {
        Plan less;
        less.order = order;
        less.part = part;
        less.asked = true;
        if (!MayBeat(less, known)) break;
        order_.push_back(plans_.size());
        plans_.push_back(std::move(less));
      }
    }
    end_of_others_ = limits_.work->left() - worth_ / kPartsForOthers;
    end_ = std::max(end_, end_of_others_);
    while (Round() && !Over()) {}
  }

  // Improves the plans of the most promising orders for a while, or begins them. False when there is nothing to be done any more.
  bool Round() {
    const double known = Known();
    std::vector<size_t> next;
    std::copy_if(order_.begin(), order_.end(), std::back_inserter(next), [&](size_t k) { return MayGoOn(k); });
    std::stable_sort(next.begin(), next.end(), [&](size_t a, size_t b) { return Promise(a) < Promise(b); });
    next.resize(std::min(next.size(), MostBeside(known)));
    if (next.empty()) return false;
    const int64_t left = limits_.work->left();
    RunAtOnce(next.size(), [&](size_t n) { Piece(next[n], known, left); });
    int64_t most = 0;
    for (const size_t k : next) {
      const int64_t spent = left - plans_[k].work.left();
      plans_[k].spent += spent;
      most = std::max(most, spent);
    }
    limits_.work->Spend(most);
    return true;
  }

  size_t MostBeside(double known_seconds) const {
    const bool first_of_large = known_seconds == kNotKnown && found_[0].ordered.graph->num_nodes() > kLargeGraphNodes;
    return first_of_large || std::isfinite(limits_.deadline.seconds_left()) ? 1 : kBeside;
  }

  void Piece(size_t k, double known_seconds, int64_t left) {
    plans_[k].work = WorkBudget(left);
    if (!plans_[k].search) return Begin(k, known_seconds);
    plans_[k].search->Improve(known_seconds < kNotKnown ? std::min(worth_ / kPieces, left - end_) : worth_ / kPieces);
  }

  bool Take(size_t k) {
    absl::StatusOr<SwapChoice> choice = plans_[k].search->Take();
    if (!choice.ok()) return false;
    DevicePlan& device = found_[plans_[k].order].looked[0];
    device.choice = *std::move(choice);
    device.decided = true;
    return true;
  }

  const int64_t budget_;
  const PlanLimits limits_;
  const int64_t worth_;
  int64_t end_;
  int64_t end_of_others_ = 0;  // what is left when those that are asked for have had their part
  std::vector<FoundOrder>& found_;
  std::deque<Plan> plans_;     // searches point at the work of theirs, also when plans are added
  std::vector<size_t> order_;  // of plans: what looked fastest first
};

}  // namespace

std::vector<size_t> PlanFound(int64_t budget_bytes, const PlanLimits& limits, int64_t worth, int64_t end,
                              std::vector<FoundOrder>& found) {
  return Finder(budget_bytes, limits, worth, end, found).Run();
}

}  // namespace millrace
