#include "passes/rewrite_order.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "passes/access/swap_choice.h"
#include "passes/access/work_budget.h"
#include "passes/pass_clock.h"
#include "passes/plan_devices.h"
#include "passes/recompute.h"
#include "passes/weigh_recompute.h"

namespace millrace {
namespace {

// Units of WorkBudget for a node of what is rewritten.
constexpr int64_t kRewriteWork = 500;
// What it takes at least to weigh what to compute again, of a node; from so many nodes on it is not begun where less is left.
constexpr int64_t kLeastWeighWork = 1000;
constexpr int32_t kManyNodes = 100'000;
constexpr double kWorthRecompute = 1.01;  // step / compute, from which on recompute is looked at
constexpr double kLeastGain = 0.995;      // of the step, for a rewriting to be taken
// What a second of the link may cost in seconds of compute, tried in turn: cheap chains first, since what is computed again
// decides what else can be.
constexpr double kPrices[] = {0.05, 0.1, 0.2, 0.4, 0.8, 1.5}, kPricesForFew[] = {0.1, 0.4, 1.5};
// Where there is work left for fewer rewritings than this, and the step is so much longer than what it computes, the price is at least the
// third: what is cheaper would not get that far.
constexpr double kLastRewritings = 2, kFarFromCompute = 1.2;
constexpr size_t kLastPrice = 3;
constexpr double kPriceIfAsked[] = {0.5};  // where moving is as fast: what takes no longer again than the copy back
constexpr int kMaxDepth = 8;              // nodes in a chain
constexpr double kTargets[] = {0.98, 0.9, 0.8};  // of the budget
// A rewriting that gains less than this, of the step, makes room for the next price.
constexpr double kMuch = 0.99, kMuchForFew = 0.97;
constexpr double kLeastByTrial = 0.998;   // of the step, for a look
constexpr int kLooksToWeigh = 3;          // there are at least

class Rewriter {
 public:
  Rewriter(const CompileRequest& request, const Strategy& strategy, const RewriteLimits& limits, Looked order)
      : request_(request), strategy_(strategy), limits_(limits), work_(*limits.plan.work), looks_(std::max(limits.looks, kLooksToWeigh)) {
    rewritten_.best = std::move(order);
  }

  // Weighs at higher and higher prices, each for as long as that helps much; then for less memory.
  RewrittenOrder Run() {
    const int32_t nodes = best().ordered.graph->num_nodes();
    const bool asked = request_.options.recompute == Recompute::kOn;
    if (!asked && nodes > kManyNodes && work_.left() - limits_.leaves < kLeastWeighWork * nodes) return std::move(rewritten_);
    const absl::Span<const double> prices = limits_.few_looks ? absl::MakeConstSpan(kPricesForFew) : absl::MakeConstSpan(kPrices);
    int64_t rewriting_work = 0;  // of the one that took most
    for (const double target : kTargets) {
      size_t price = 0;
      while (price < prices.size() && looks_ > 0 && !Late() && best().step_seconds > kWorthRecompute * best().compute_seconds) {
        const int64_t before = work_.left();
        const bool last = static_cast<double>(before - limits_.leaves) < kLastRewritings * static_cast<double>(rewriting_work);
        if (!limits_.few_looks && last && best().step_seconds > kFarFromCompute * best().compute_seconds) price = std::max(price, kLastPrice);
        price = WeighOnce(target, {kMaxDepth, prices, price, limits_.few_looks ? kMuchForFew : kLeastByTrial});
        rewriting_work = std::max(rewriting_work, before - work_.left());
      }
    }
    if (asked && !rewritten_.as_it_is) WeighOnce(1, {kMaxDepth, kPriceIfAsked, 0, kNotKnown});
    return std::move(rewritten_);
  }

 private:
  Looked& best() { return rewritten_.best; }
  bool Late() const {
    return work_.left() <= limits_.leaves || limits_.plan.deadline.passed() || (limits_.not_needed != nullptr && *limits_.not_needed);
  }

  // What to compute again on every device.
  struct Weighed {
    std::vector<std::vector<FarUses>> again;
    size_t price = std::numeric_limits<size_t>::max();  // the lowest at which one gains
    bool none() const { return std::all_of(again.begin(), again.end(), [](const auto& uses) { return uses.empty(); }); }
  };

  Weighed WeighDevices(double target, const WeighLimits& limits) {
    Weighed weighed;
    for (size_t d = 0; d < best().devices.size(); ++d) {
      DevicePlan& plan = best().devices[d];
      const auto budget = static_cast<int64_t>(target * static_cast<double>(request_.options.BudgetOf(static_cast<int32_t>(d))));
      weighed.again.emplace_back();
      if (budget == 0) continue;
      WeighedRecompute one = WeighRecompute(best().ordered, plan.device, WithCopyPrice(request_), plan.gaps, budget, limits);
      work_.Spend(one.work);
      if (one.again.empty()) continue;
      weighed.price = std::min(weighed.price, one.price);
      weighed.again.back() = std::move(one.again);
    }
    return weighed;
  }

  // Rewriting a device's part leaves the nodes of the others what they were.
  OrderedGraph RewriteDevices(const std::vector<std::vector<FarUses>>& again) {
    OrderedGraph rewritten;
    for (size_t d = 0; d < again.size(); ++d) {
      if (again[d].empty()) continue;
      const OrderedGraph& from = rewritten.graph == nullptr ? best().ordered : rewritten;
      work_.Spend(kRewriteWork * from.graph->num_nodes());
      rewritten = ComputeAgain(from, best().devices[d].device, again[d], kMaxDepth);
    }
    CutAsAsked(request_, rewritten);
    return rewritten;
  }

  // Rewrites the best, and takes that if it is faster. The price to go on with: the same where that gained much.
  size_t WeighOnce(double target, WeighLimits limits) {
    limits.most_work = work_.left() - limits_.leaves;
    UsePartitions(best());
    const double much = limits_.few_looks ? kMuchForFew : kMuch, before = best().step_seconds;
    const bool must = limits.least_gain > 1;
    OrderedGraph rewritten;
    Weighed weighed;
    {
      const PassClock::Run run(request_.clock, "recompute");
      weighed = WeighDevices(target, limits);
      if (weighed.none()) return limits.prices.size();
      if (!must && weighed.again == in_vain_) return weighed.price + 1;
      rewritten = RewriteDevices(weighed.again);
    }
    // A device's step alone says little of that of all.
    const double known_seconds = must || best().devices.size() > 1 ? kNotKnown : kLeastGain * before;
    --looks_;
    absl::StatusOr<Looked> looked = Look(request_, strategy_, limits_.plan, std::move(rewritten), known_seconds);
    if (!looked.ok() || (!must && looked->step_seconds >= kLeastGain * before)) {
      in_vain_ = std::move(weighed.again);
      return weighed.price + 1;
    }
    in_vain_.clear();
    Replace(*std::move(looked));
    return best().step_seconds < much * before ? weighed.price : weighed.price + 1;
  }

  // The best becomes what it was.
  void Replace(Looked faster) {
    if (!rewritten_.as_it_is) {
      rewritten_.as_it_is = std::move(best());
    } else {
      if (rewritten_.former.size() == kFormer) rewritten_.former.erase(rewritten_.former.begin());
      rewritten_.former.push_back(std::move(best()));
    }
    best() = std::move(faster);
  }

  const CompileRequest& request_;
  const Strategy& strategy_;
  const RewriteLimits& limits_;
  WorkBudget& work_;
  int looks_;  // left
  RewrittenOrder rewritten_;
  std::vector<std::vector<FarUses>> in_vain_;  // what did not help to compute again, of the best, on every device
};

}  // namespace

RewrittenOrder RewriteOrder(const CompileRequest& request, const Strategy& strategy, const RewriteLimits& limits, Looked order) {
  return Rewriter(request, strategy, limits, std::move(order)).Run();
}

std::optional<Looked> RewriteForLess(const CompileRequest& request, const Strategy& strategy, const PlanLimits& limits, int64_t leaves, double part,
                                     Looked& order) {
  UsePartitions(order);
  OrderedGraph rewritten;
  {
    const PassClock::Run run(request.clock, "recompute");
    DevicePlan& plan = order.devices[0];
    const auto budget = static_cast<int64_t>(part * static_cast<double>(request.options.BudgetOf(0)));
    const WeighLimits weigh{kMaxDepth, kPrices, 0, kLeastByTrial, limits.work->left() - leaves};
    const WeighedRecompute weighed = WeighRecompute(order.ordered, plan.device, WithCopyPrice(request), plan.gaps, budget, weigh);
    limits.work->Spend(weighed.work + kRewriteWork * order.ordered.graph->num_nodes());
    if (weighed.again.empty()) return std::nullopt;
    rewritten = ComputeAgain(order.ordered, plan.device, weighed.again, kMaxDepth);
    CutAsAsked(request, rewritten);
  }
  absl::StatusOr<Looked> looked = Look(request, strategy, limits, std::move(rewritten));
  if (!looked.ok()) return std::nullopt;
  return *std::move(looked);
}

}  // namespace millrace
