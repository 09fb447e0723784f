#include "passes/plan_search.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "millrace/status.h"
#include "passes/access/swap_choice.h"
#include "passes/access/work_budget.h"
#include "passes/at_once.h"
#include "passes/look.h"
#include "passes/order/order_frees_first.h"
#include "passes/pass_clock.h"
#include "passes/planner/trial_settings.h"
#include "passes/rewrite_order.h"
#include "passes/spare_recompute.h"

namespace millrace {
namespace {

constexpr int64_t kDepthFirstSize = 20;
constexpr int kFewestLooks = 3;  // two orders, one rewriting
constexpr int kFewLooks = 12, kMostLooks = 64;
// Looks that a graph of n nodes is worth: what keeps planning within a second. A count, not a clock, so that plans do not
// depend on the machine's load.
int LooksFor(int32_t nodes) { return std::clamp(200'000 / std::max(nodes, 1), kFewestLooks, kMostLooks); }
// For planning in full what was found: a part of all work, or so many units for a node if that is less, and no more than so many in a graph
// that is not large, whose rewritings gain more.
constexpr double kWorkForPlans = 0.5;
constexpr double kPlansWork = 25'000, kMostPlansWork = 108e6;
// Quick plans only estimate: what they find at most so much slower than the best is planned in full as well.
constexpr double kWorthAPlan = 1.3;
constexpr double kFormerWorthAPlan = 1.1;  // the same, of what was rewritten again
constexpr int kOrders = 5, kFirstFreesFirst = 3;  // orders from there on free first
// Kinds of order, of each of which the best is rewritten: creation, depth first, creation with what frees memory first. Which is best rewritten they
// do not show before.
constexpr int kKinds = 3, kKindOf[kOrders] = {0, 0, 1, 2, 1};
constexpr double kLongStep = 1.02;        // step / least compute of any, up to which other kinds are not needed
// Step / compute, up to which all copies hide: then less to compute is what makes the step shorter. Of the work that is not for plans, what one search
// for copies to take away may spend; and the part of the budget for which more is computed again, to choose from.
constexpr double kAllHidden = 1.01, kWorkToSpare = 0.25, kForLessMemory = 0.9;
// Against a plan that is known over several devices, in its seconds: what an order may look like, and what it must compute for less than.
constexpr double kSlowLook = 1.15, kWorthASearch = 0.98;
// Partitions are cut at these parts of the budget and of the step, and at so many operations that are not tiny.
constexpr int64_t kBytesPart = 32;
constexpr double kTimePart = 0.02;
constexpr int kOperations = 16;
constexpr double kTinySeconds = 100e-6;

class Search {
 public:
  Search(const CompileRequest& request, Prepared& prepared, const Strategy& strategy, const PlanLimits& limits, OrdersOfSeveral orders)
      : request_(request),
        graph_(std::make_shared<Graph>(std::move(prepared.graph))),
        inferred_(std::make_shared<const InferenceResult>(std::move(prepared.inferred))),
        strategy_(strategy),
        limits_(limits),
        few_orders_(request.options.num_devices() > 1 && orders == OrdersOfSeveral::kFew),
        against_known_(request.options.num_devices() > 1 && orders == OrdersOfSeveral::kAll),
        all_looks_(LooksFor(graph_->num_nodes())),
        looks_(all_looks_),
        work_for_plans_(static_cast<int64_t>(
            std::min({kWorkForPlans * static_cast<double>(limits.work->left()), kPlansWork * graph_->num_nodes(),
                      graph_->num_nodes() > kLargeGraphNodes ? kNotKnown : kMostPlansWork}))) {}

  absl::StatusOr<std::vector<FoundOrder>> Run() {
    MR_RETURN_IF_ERROR(TryOrders());
    if (against_known_) MR_RETURN_IF_ERROR(DropSlowKinds());
    std::vector<Looked> orders = ToRewrite();
    if (request_.options.recompute != Recompute::kOff) {
      RewriteOrders(std::move(orders));
      SpareRecomputed();
    } else {
      best_ = std::move(orders[0]);
    }
    std::vector<FoundOrder> found;
    const double worth_a_plan = kWorthAPlan * best_->step_seconds;
    const auto worth = [&](const Looked& also) { return also.step_seconds <= worth_a_plan && request_.options.recompute == Recompute::kAuto; };
    // What looks fastest comes first: it shows that others need not be planned. Over several devices only the first two are: other kinds come behind
    // what the best was before.
    const bool several = best_->devices.size() > 1;
    std::vector<Looked*> looked = {&*best_};
    const auto add_others = [&] {
      for (Looked& other : others_) {
        if (worth(other)) looked.push_back(&other);
      }
    };
    if (as_it_is_ && worth(*as_it_is_)) looked.push_back(&*as_it_is_);
    if (!several) add_others();
    for (Looked& former : former_) {
      if (worth(former) && former.step_seconds <= kFormerWorthAPlan * best_->step_seconds) looked.push_back(&former);
    }
    std::stable_sort(looked.begin(), looked.end(), [](const Looked* a, const Looked* b) { return a->step_seconds < b->step_seconds; });
    if (several) add_others();
    for (Looked* one : looked) Add(*one, found);
    return found;
  }

 private:
  absl::StatusOr<OrderedGraph> Order(int which) {
    const PassClock::Run run(request_.clock, "order");
    OrderedGraph ordered;
    ordered.graph = graph_;
    ordered.inferred = inferred_;
    if (which == 0) {
      MR_ASSIGN_OR_RETURN(ordered.partitioning, KeepCreationOrder(*ordered.graph, fanout_));
    } else if (which == 1) {
      MR_ASSIGN_OR_RETURN(ordered.partitioning, UpdateEarly(*ordered.graph, request_.ops, fanout_));
    } else if (which == 2 || which == 4) {
      MR_ASSIGN_OR_RETURN(ordered.partitioning, PartitionDepthFirst(*ordered.graph, request_.options.num_devices(),
                                                                    AskedSize() > 0 ? AskedSize() : kDepthFirstSize, fanout_));
    } else {
      MR_ASSIGN_OR_RETURN(ordered.partitioning, KeepCreationOrder(*ordered.graph, fanout_));
    }
    if (which >= kFirstFreesFirst) ordered.partitioning = FreesFirst(*ordered.graph, request_.ops, ordered.partitioning.order);
    CutAsAsked(request_, ordered);
    return ordered;
  }

  int64_t AskedSize() const { return request_.options.partition_size; }
  bool TimeIsOver() const { return limits_.deadline.passed(); }
  bool Late() const { return limits_.work->left() <= work_for_plans_ || TimeIsOver(); }

  absl::Status TryOrders() {
    const int orders = looks_ > 10 ? kOrders : looks_ > 6 ? 3 : 2;
    std::vector<int> tried(orders);
    std::iota(tried.begin(), tried.end(), 0);
    // When the time is over before the search, bounds tell two orders apart.
    const bool over = request_.options.num_devices() == 1 && TimeIsOver();
    if (over) tried = {1, 0};
    absl::Status refused;
    for (const int which : tried) {
      if (few_orders_ && which != 0 && which != 2) continue;
      const std::optional<int> best = BestKind();
      if (best && ((Late() && !over) || IsFastest(*kinds_[*best]))) break;
      MR_ASSIGN_OR_RETURN(OrderedGraph ordered, Order(which));
      --looks_;
      absl::StatusOr<Looked> looked = Look(request_, strategy_, limits_, std::move(ordered));
      if (!looked.ok() && !absl::IsResourceExhausted(looked.status())) return looked.status();
      if (!looked.ok()) {
        if (refused.ok()) refused = looked.status();
        continue;
      }
      std::optional<Looked>& kept = kinds_[kKindOf[which]];
      if (!kept || looked->step_seconds < kept->step_seconds / kHidden) kept = *std::move(looked);
    }
    return BestKind() ? absl::OkStatus() : refused;
  }

  // No other order is faster. Another one may make what is fetched earlier. Of small graphs it may hide what this one waits for feeds, over several
  // devices what they wait for each other.
  bool IsFastest(const Looked& looked) const {
    const bool several = against_known_, small = request_.options.BudgetOf(0) > 0 && all_looks_ == kMostLooks;
    double compute = several || (small && !few_orders_) ? 0 : looked.fed_seconds;
    if (few_orders_) return looked.step_seconds <= kHidden * compute;
    for (const DevicePlan& device : looked.devices) {
      const std::vector<double>& seconds = several ? device.own_seconds : device.device.access.seconds;
      compute = std::max(compute, std::accumulate(seconds.begin(), seconds.end(), 0.0));
    }
    return looked.step_seconds <= kHidden * compute;
  }

  // Those of which nothing comes that is faster than what is known. Computing again what looks slower makes it shorter, but not than it computes for.
  absl::Status DropSlowKinds() {
    for (std::optional<Looked>& kind : kinds_) {
      const bool slow = kind && (kind->step_seconds > kSlowLook * limits_.known_seconds || kind->fed_seconds > kWorthASearch * limits_.known_seconds);
      if (slow) kind.reset();
    }
    return BestKind() ? absl::OkStatus() : absl::AbortedError("no other order is faster");
  }

  // Of those that are about as fast, the first.
  std::optional<int> BestKind() const {
    std::optional<int> best;
    for (int kind = 0; kind < kKinds; ++kind) {
      if (kinds_[kind] && (!best || kinds_[kind]->step_seconds < kinds_[*best]->step_seconds / kHidden)) best = kind;
    }
    return best;
  }

  // Of the order that computes for the least time: over several devices, which wait for each other, some take much longer than others.
  double LeastCompute() const {
    double least = kNotKnown;
    for (const std::optional<Looked>& kind : kinds_) {
      if (kind) least = std::min(least, kind->fed_seconds);
    }
    return least;
  }

  // The best first, and behind it, where there may be something to gain, those of other kinds; over several devices only of graphs that are worth many
  // looks, since there are more searches beside this one.
  std::vector<Looked> ToRewrite() {
    const int best = *BestKind();
    least_compute_seconds_ = few_orders_ ? kinds_[best]->fed_seconds : LeastCompute();
    std::vector<Looked> orders;
    orders.push_back(*std::move(kinds_[best]));
    const bool dear = orders[0].devices.size() > 1 && all_looks_ <= kFewLooks;
    if (orders[0].step_seconds <= kLongStep * least_compute_seconds_ || Late() || dear) return orders;
    for (int kind = 0; kind < kKinds; ++kind) {
      if (kind != best && kinds_[kind]) orders.push_back(*std::move(kinds_[kind]));
    }
    return orders;
  }

  // Beside each other.
  void RewriteOrders(std::vector<Looked> orders) {
    const double short_step = kLongStep * least_compute_seconds_;
    std::vector<std::optional<RewrittenOrder>> rewritten(orders.size());
    std::vector<int64_t> spent(orders.size(), 0);
    std::atomic<bool> short_enough = false;  // the first: the others are not needed
    for (size_t k = 1; k < orders.size(); ++k) HasOwnGraph(orders[k]);
    RunWithin(limits_.deadline, orders.size(), [&](size_t k) {
      WorkBudget own(limits_.work->left());
      RewriteLimits limits{limits_, work_for_plans_, looks_, all_looks_ <= kFewLooks, k > 0 ? &short_enough : nullptr};
      limits.plan.work = &own;
      rewritten[k] = RewriteOrder(request_, strategy_, limits, std::move(orders[k]));
      spent[k] = limits_.work->left() - own.left();
      if (k == 0) short_enough = rewritten[0]->best.step_seconds <= short_step;
      return true;
    });
    if (short_enough) rewritten.resize(1);
    limits_.work->Spend(*std::max_element(spent.begin(), spent.begin() + static_cast<std::ptrdiff_t>(rewritten.size())));
    for (std::optional<RewrittenOrder>& one : rewritten) {
      if (one) TakeRewritten(*std::move(one));  // there was time for it
    }
  }

  // Without what the best computes again in vain; then the same where more is computed again than is needed, of which other values may be left.
  // Beside a disk tier host memory is short, of which fewer copies take more.
  void SpareRecomputed() {
    const bool asked = request_.options.recompute == Recompute::kOn, hidden = best_->step_seconds <= kAllHidden * best_->compute_seconds;
    if (asked || request_.disk_tier || !hidden || best_->devices.size() > 1 || best_->ordered.recomputed_nodes == 0) return;
    Spare(*best_);
    if (all_looks_ <= kFewLooks || Late() || !request_.oracle.MayGoOn().ok()) return;
    std::optional<Looked> more = RewriteForLess(request_, strategy_, limits_, work_for_plans_, kForLessMemory, *best_);
    if (!more) return;
    Spare(*more);
    TakeIfFaster(*std::move(more));
  }

  void Spare(const Looked& order) {
    const auto most = static_cast<int64_t>(kWorkToSpare * static_cast<double>(limits_.work->left() - work_for_plans_));
    std::optional<Looked> spared = SpareRecompute(request_, strategy_, limits_, limits_.work->left() - most, all_looks_, order);
    if (spared) TakeIfFaster(*std::move(spared));
  }

  void TakeIfFaster(Looked other) {
    if (other.step_seconds >= best_->step_seconds) return;
    Remember(*std::move(best_));  // which may yet pack better
    best_ = std::move(other);
  }

  void Remember(Looked former) {
    former_.push_back(std::move(former));
    std::stable_sort(former_.begin(), former_.end(), [](const Looked& a, const Looked& b) { return a.step_seconds < b.step_seconds; });
    if (former_.size() > kFormer) former_.pop_back();
  }

  // Nodes' partitions are a graph's: what another thread rewrites, or what is planned beside another, must not share them.
  static void HasOwnGraph(Looked& looked) { looked.ordered.graph = std::make_shared<Graph>(looked.ordered.graph->Clone()); }

  void TakeRewritten(RewrittenOrder rewritten) {
    if (best_ && rewritten.best.step_seconds >= best_->step_seconds) {
      others_.push_back(std::move(rewritten.best));
    } else {
      if (best_) others_.push_back(*std::move(best_));
      best_ = std::move(rewritten.best);
      as_it_is_ = std::move(rewritten.as_it_is);
    }
    for (Looked& former : rewritten.former) Remember(std::move(former));
  }

  // To be planned in full: with the partitions it was looked at with, or its final ones, in a graph of its own.
  void Add(Looked& looked, std::vector<FoundOrder>& found) const {
    const auto shared = [&](const FoundOrder& other) { return other.ordered.graph == looked.ordered.graph; };
    if (std::any_of(found.begin(), found.end(), shared)) HasOwnGraph(looked);
    UsePartitions(looked);
    CutPartitions(looked);
    looked.ordered.looked_seconds = looked.step_seconds;
    found.push_back({std::move(looked.ordered), std::move(looked.devices)});
  }

  void CutPartitions(Looked& looked) const {
    // The cuts that were asked for stay, and those over several devices.
    if (AskedSize() > 0 || looked.devices.size() > 1) return;
    const DevicePlan& plan = looked.devices[0];
    const AccessGraph& access = plan.device.access;
    std::vector<bool> cut(looked.ordered.graph->num_ids(), false);
    int64_t bytes = 0;
    double seconds = 0;
    int operations = 0;
    for (int32_t i = 0; i < access.num_operations(); ++i) {
      int64_t made = access.scratch_bytes[i];
      for (const Access& a : access.of(i)) {
        if (a.writes && !a.reads) made += access.storages[a.storage].size_bytes;
      }
      const bool full = (request_.options.BudgetOf(0) > 0 && bytes + made > request_.options.BudgetOf(0) / kBytesPart) ||
                        seconds + access.seconds[i] > kTimePart * looked.step_seconds ||
                        (operations >= kOperations && seconds >= kTinySeconds);
      if (operations > 0 && full) {
        cut[plan.device.operations[i].node().value] = true;
        bytes = 0;
        seconds = 0;
        operations = 0;
      }
      bytes += made;
      seconds += access.seconds[i];
      ++operations;
    }
    NumberPartitions(cut, looked.ordered);
  }

  static void NumberPartitions(const std::vector<bool>& cut, OrderedGraph& ordered) {
    int32_t partition = 0;
    for (NodeId id : ordered.partitioning.order) {
      Node& node = ordered.graph->mutable_node(id);
      if (cut[id.value]) ++partition;
      if (node.device != kHostDevice) node.partition = partition;
    }
    ordered.partitioning.num_partitions = partition + 1;
  }

  const CompileRequest& request_;
  const std::shared_ptr<Graph> graph_;  // as prepared: its nodes' partitions are those of the last order
  LazyFanout fanout_{*graph_};
  const std::shared_ptr<const InferenceResult> inferred_;
  const Strategy& strategy_;
  const PlanLimits limits_;
  // Over several devices: of the first search, and of that of what may be faster than its plan.
  const bool few_orders_, against_known_;
  const int all_looks_;
  int looks_;  // left
  const int64_t work_for_plans_;  // left to them
  std::array<std::optional<Looked>, kKinds> kinds_;  // the best of each as it is, then they are rewritten
  double least_compute_seconds_ = 0;                 // of these
  std::optional<Looked> best_;
  std::optional<Looked> as_it_is_;  // what best_ was before anything was computed again
  std::vector<Looked> others_;      // the slower kinds as rewritten
  std::vector<Looked> former_;      // what orders were before they were rewritten again, the fastest few
};

}  // namespace

absl::StatusOr<std::vector<FoundOrder>> SearchOrders(const CompileRequest& request, Prepared& prepared,
                                                     const Strategy& strategy, const PlanLimits& limits, OrdersOfSeveral orders) {
  return Search(request, prepared, strategy, limits, orders).Run();
}

}  // namespace millrace
