#include "passes/plan_found.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <numeric>
#include <optional>
#include <utility>

#include "passes/access/work_budget.h"
#include "passes/at_once.h"
#include "passes/planner/planned.h"
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
constexpr double kNotKnown = std::numeric_limits<double>::infinity();

class Finder {
 public:
  Finder(int64_t budget_bytes, const PlanLimits& limits, int64_t worth, int64_t end, std::vector<FoundOrder>& found)
      : budget_(budget_bytes),
        limits_(limits),
        worth_(worth),
        end_(end),
        found_(found),
        plans_(found.size()) {}

  std::vector<size_t> Run() {
    order_.resize(found_.size());
    std::iota(order_.begin(), order_.end(), 0);
    std::stable_sort(order_.begin(), order_.end(), [&](size_t a, size_t b) {
      return found_[a].ordered.looked_seconds < found_[b].ordered.looked_seconds;
    });
    while (Round() && !Over()) {}
    std::vector<size_t> planned;
    for (const size_t k : order_) {
      const bool fits = plans_[k].search && (plans_[k].search->step_seconds() < kNotKnown || Known() == kNotKnown);
      if (fits) planned.push_back(k);
    }
    std::stable_sort(planned.begin(), planned.end(), [&](size_t a, size_t b) {
      return plans_[a].search->step_seconds() < plans_[b].search->step_seconds();
    });
    std::erase_if(planned, [&](size_t k) { return !Take(k); });
    return planned;
  }

 private:
  // Of an order: one thread's while others have theirs.
  struct Plan {
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

  // No plan of the graph is faster: nothing is computed twice, and no copy is waited for.
  bool AllHidden() const {
    for (size_t k = 0; k < found_.size(); ++k) {
      const double compute = found_[k].looked[0].gaps.compute_seconds();
      const auto& search = plans_[k].search;
      if (search && found_[k].ordered.recomputed_nodes == 0 && search->step_seconds() <= kHidden * compute) return true;
    }
    return false;
  }

  void Begin(size_t k, double known_seconds) {
    PlanLimits limits = limits_;
    limits.effort = PlanEffort::kFull;
    limits.known_seconds = kWorthImproving * known_seconds;
    limits.work_part = found_.size() > 1 ? kWorkForTheFirst : 1;
    limits.work = &plans_[k].work;
    std::optional<PlannedSearch>& search = plans_[k].search;
    search.emplace(found_[k].looked[0].gaps, budget_, limits);
    plans_[k].given_up = !search->Begin().ok();
    if (plans_[k].given_up) search.reset();
  }

  // What order k promises: its step, longer by what has been spent on it. Where there is no plan of it yet, what was looked at, as much
  // shorter or longer as the best has become.
  double Promise(size_t k) const {
    const double spent = 1 + kSpent * static_cast<double>(plans_[k].spent) / static_cast<double>(worth_);
    if (plans_[k].search) return spent * plans_[k].search->step_seconds();
    const double known = Known();
    const double became = known < kNotKnown ? known / found_[order_.front()].ordered.looked_seconds : 1;
    return kNotBegun * spent * found_[k].ordered.looked_seconds * became;
  }

  bool MayGoOn(size_t k) const {
    if (plans_[k].given_up) return false;
    return plans_[k].search ? !plans_[k].search->finished() : kLeastOfLook * found_[k].ordered.looked_seconds < Known();
  }

  bool Over() const { return Late() || (Known() < kNotKnown && (limits_.work->left() <= end_ || AllHidden())); }

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
    found_[k].looked[0].choice = *std::move(choice);
    found_[k].looked[0].decided = true;
    return true;
  }

  const int64_t budget_;
  const PlanLimits limits_;
  const int64_t worth_, end_;
  std::vector<FoundOrder>& found_;
  std::vector<Plan> plans_;
  std::vector<size_t> order_;  // what looked fastest first
};

}  // namespace

std::vector<size_t> PlanFound(int64_t budget_bytes, const PlanLimits& limits, int64_t worth, int64_t end,
                              std::vector<FoundOrder>& found) {
  return Finder(budget_bytes, limits, worth, end, found).Run();
}

}  // namespace millrace
