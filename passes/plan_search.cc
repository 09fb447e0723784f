#include "passes/plan_search.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "millrace/status.h"
#include "passes/order/order_frees_first.h"
#include "passes/plan_devices.h"
#include "passes/planner/trial_settings.h"
#include "passes/weigh_recompute.h"

namespace millrace {
namespace {

constexpr int64_t kDepthFirstSize = 20;
constexpr int kFewestLooks = 3;  // two orders, one rewriting
// Looks that a graph of n nodes is worth: what keeps planning within a second. A count, not a clock, so that plans do not
// depend on the machine's load.
int LooksFor(int32_t nodes) { return std::clamp(200'000 / std::max(nodes, 1), kFewestLooks, 64); }
// Units of WorkBudget for a node of what is looked at, and of what is rewritten.
constexpr int64_t kLookWork = 300, kRewriteWork = 500;
// What it takes at least to weigh what to compute again, of a node; from so many nodes on it is not begun where less is left.
constexpr int64_t kLeastWeighWork = 1000;
constexpr int32_t kManyNodes = 100'000;
// For planning in full what was found: a part of all work, or so many units for a node if that is less, and no more than so many in a graph
// that is not large, whose rewritings gain more.
constexpr double kWorkForPlans = 0.5;
constexpr double kPlansWork = 25'000, kMostPlansWork = 108e6;
constexpr int32_t kLargeGraph = 15'000;
constexpr double kNotKnown = std::numeric_limits<double>::infinity();
constexpr double kWorthRecompute = 1.01;  // … from which on recompute is looked at
constexpr double kLeastGain = 0.995;      // of the step, for a rewriting to be taken
// Quick plans only estimate: what they find at most so much slower than the best is planned in full as well.
constexpr double kWorthAPlan = 1.3;
constexpr double kFormerWorthAPlan = 1.1;  // the same, of what was rewritten again
constexpr int kFirstFreesFirst = 3;       // orders from here on free first
constexpr double kLongStep = 1.02;        // step / compute, from which on the other kind of order is rewritten, too
// What a second of the link may cost in seconds of compute, tried in turn: cheap chains first, since what is computed again
// decides what else can be.
constexpr double kPrices[] = {0.05, 0.1, 0.2, 0.4, 0.8, 1.5}, kPricesForFew[] = {0.1, 0.4, 1.5};
constexpr int kFewLooks = 12;
// Where there is work left for fewer rewritings than this, and the step is so much longer than what it computes, the price is at least the
// third: what is cheaper would not get that far.
constexpr double kLastRewritings = 2, kFarFromCompute = 1.2;
constexpr size_t kLastPrice = 3;
constexpr double kPriceIfAsked[] = {0.5}; // where moving is as fast: what takes no longer again than the copy back
constexpr size_t kFormer = 3;              // rewritings that are planned in full beside the last
constexpr int kMaxDepth = 8;              // nodes in a chain
constexpr double kTargets[] = {0.98, 0.9, 0.8};  // of the budget
// A rewriting that gains less than this, of the step, makes room for the next price.
constexpr double kMuch = 0.99, kMuchForFew = 0.97;
constexpr double kLeastByTrial = 0.998;   // of the step, for a look
constexpr int kLooksToWeigh = 3;          // there are at least
// Partitions are cut at these parts of the budget and of the step, and at so many operations that are not tiny.
constexpr int64_t kBytesPart = 32;
constexpr double kTimePart = 0.02;
constexpr int kOperations = 16;
constexpr double kTinySeconds = 100e-6;

struct Looked {
  OrderedGraph ordered;
  std::vector<int32_t> partitions;  // per node: other orders of the same graph have others
  std::vector<DevicePlan> devices;  // as PlanEffort::kQuick decides
  double step_seconds = 0;
  double compute_seconds = 0;       // with what feeds make it wait: no step of this graph is shorter
};

// Compute seconds, and those of feeds that no operation can hide: they come in when the step has begun.
double WithFeeds(const AccessGraph& access, const Machine& machine) {
  double compute = 0, fed = 0, start = 0, most = 0;
  for (const double seconds : access.seconds) compute += seconds;
  std::vector<bool> seen(access.storages.size(), false);
  for (int32_t i = 0; i < access.num_operations(); ++i) {
    for (const Access& a : access.of(i)) {
      const StorageInfo& info = access.storages[a.storage];
      if (info.kind != StorageKind::kFeed || seen[a.storage]) continue;
      seen[a.storage] = true;
      fed += static_cast<double>(info.size_bytes) / machine.to_device_bytes_per_second;
      most = std::max(most, fed - start);
    }
    start += access.seconds[i];
  }
  return compute + most;
}

class Search {
 public:
  Search(const CompileRequest& request, Prepared& prepared, const Strategy& strategy, PlanLimits limits)
      : request_(request),
        graph_(std::make_shared<Graph>(std::move(prepared.graph))),
        inferred_(std::make_shared<const InferenceResult>(std::move(prepared.inferred))),
        strategy_(strategy),
        limits_(limits),
        all_looks_(LooksFor(graph_->num_nodes())),
        looks_(all_looks_),
        work_for_plans_(static_cast<int64_t>(
            std::min({kWorkForPlans * static_cast<double>(limits.work->left()), kPlansWork * graph_->num_nodes(),
                      graph_->num_nodes() > kLargeGraph ? kNotKnown : kMostPlansWork}))) {
    limits_.effort = PlanEffort::kQuick;
  }

  absl::StatusOr<std::vector<FoundOrder>> Run() {
    MR_RETURN_IF_ERROR(TryOrders());
    if (request_.options.recompute != Recompute::kOff) RewriteOrders();
    std::vector<FoundOrder> found;
    const double worth_a_plan = kWorthAPlan * best_->step_seconds;
    const auto worth = [&](const std::optional<Looked>& also) {
      return also && also->step_seconds <= worth_a_plan && request_.options.recompute == Recompute::kAuto;
    };
    // What looks fastest comes first: it shows that others need not be planned.
    std::vector<Looked*> looked = {&*best_};
    if (worth(as_it_is_)) looked.push_back(&*as_it_is_);
    if (worth(rewritten_other_)) looked.push_back(&*rewritten_other_);
    for (std::optional<Looked>& former : former_) {
      if (worth(former) && former->step_seconds <= kFormerWorthAPlan * best_->step_seconds) looked.push_back(&*former);
    }
    std::stable_sort(looked.begin(), looked.end(), [](const Looked* a, const Looked* b) { return a->step_seconds < b->step_seconds; });
    for (Looked* one : looked) Add(*one, found);
    return found;
  }

 private:
  // `known_seconds`: a step from which on it does not matter how long this one's is.
  absl::StatusOr<Looked> Look(OrderedGraph ordered, double known_seconds = kNotKnown) {
    --looks_;
    Graph& graph = *ordered.graph;
    PlanLimits limits = limits_;
    limits.known_seconds = known_seconds;
    limits_.work->Spend(kLookWork * graph.num_nodes());
    MR_RETURN_IF_ERROR(VerifyPartitioning(graph, ordered.partitioning));
    Looked looked;
    looked.partitions.reserve(graph.num_ids());
    for (int32_t i = 0; i < graph.num_ids(); ++i) looked.partitions.push_back(graph.node(NodeId{i}).partition);
    MR_ASSIGN_OR_RETURN(looked.devices, DecideDevices(request_, strategy_, ordered.partitioning, *ordered.inferred,
                                                      limits, graph));
    double lost = 0;  // to copies
    for (const DevicePlan& device : looked.devices) {
      const double compute = WithFeeds(device.device.access, request_.machine);
      const double step = std::max(compute, device.choice.predicted_seconds);
      looked.compute_seconds = std::max({looked.compute_seconds, compute, device.timeline_seconds});
      looked.step_seconds = std::max(looked.step_seconds, step);
      lost += step - compute;
    }
    // What one device waits for its copies, others may wait for it.
    if (looked.devices.size() > 1) looked.step_seconds = looked.compute_seconds + lost;
    looked.ordered = std::move(ordered);
    return looked;
  }

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
    CutAsAsked(ordered);
    return ordered;
  }

  int64_t AskedSize() const { return request_.options.partition_size; }
  // Before anything is looked at: nodes of different partitions do not run at once.
  void CutAsAsked(OrderedGraph& ordered) const {
    if (AskedSize() > 0) CutEvery(*ordered.graph, request_.options.num_devices(), AskedSize(), ordered.partitioning);
    ordered.partition_size = AskedSize();
  }

  bool TimeIsOver() const { return limits_.deadline.passed(); }
  bool Late() const { return limits_.work->left() <= work_for_plans_ || TimeIsOver(); }

  // Takes what was looked at if it is faster than the best by `factor`.
  bool Adopt(absl::StatusOr<Looked> looked, double factor) {
    if (!looked.ok()) {
      if (!best_.ok() && absl::IsInternal(best_.status())) best_ = looked.status();
      return false;
    }
    if (best_.ok() && looked->step_seconds >= factor * best_->step_seconds) return false;
    best_ = std::move(looked);
    return true;
  }

  absl::Status TryOrders() {
    const int orders = looks_ > 10 ? 5 : looks_ > 6 ? 3 : 2;
    std::vector<int> tried(orders);
    std::iota(tried.begin(), tried.end(), 0);
    // When the time is over before the search, bounds tell two orders apart.
    const bool over = request_.options.num_devices() == 1 && TimeIsOver();
    if (over) tried = {1, 0};
    for (const int which : tried) {
      if (which != 0 && which != 2 && request_.options.num_devices() > 1) continue;  // orders of one device
      if (best_.ok() && ((Late() && !over) || best_->step_seconds <= kHidden * best_->compute_seconds)) break;
      MR_ASSIGN_OR_RETURN(OrderedGraph ordered, Order(which));
      absl::StatusOr<Looked> looked = Look(std::move(ordered));
      if (!looked.ok() && !absl::IsResourceExhausted(looked.status())) return looked.status();
      Keep(which, std::move(looked));
    }
    return best_.status();
  }

  // The best order goes on; the best of the other kind (as it is, or what frees first) is remembered.
  void Keep(int which, absl::StatusOr<Looked> looked) {
    const bool frees_first = which >= kFirstFreesFirst;
    if (!looked.ok() || !best_.ok()) {
      if (looked.ok()) best_frees_first_ = frees_first;
      Adopt(std::move(looked), 1);
      return;
    }
    const bool better = looked->step_seconds < best_->step_seconds / kHidden;
    if (better) std::swap(*looked, *best_);
    const bool other_kind = best_frees_first_ != frees_first;
    if (other_kind && (better || !other_ || looked->step_seconds < other_->step_seconds)) other_ = *std::move(looked);
    if (better) best_frees_first_ = frees_first;
  }

  // Rewrites the best order and, where the step stays long, the best of the other kind, too.
  void RewriteOrders() {
    Weigh();
    if (!other_ || Late() || best_->step_seconds <= kLongStep * other_->compute_seconds) return;
    std::optional<Looked> first_as_it_is = std::move(as_it_is_);
    as_it_is_.reset();
    std::swap(*best_, *other_);
    looks_ = std::max(looks_, all_looks_ / 2);
    Weigh();
    rewritten_other_ = std::move(other_);
    if (best_->step_seconds < rewritten_other_->step_seconds) return;
    std::swap(*best_, *rewritten_other_);
    as_it_is_ = std::move(first_as_it_is);
  }

  // Weighs at higher and higher prices, each for as long as that helps much; then for less memory, where blocks pack badly.
  void Weigh() {
    const int32_t nodes = best_->ordered.graph->num_nodes();
    if (request_.options.recompute != Recompute::kOn && nodes > kManyNodes &&
        limits_.work->left() - work_for_plans_ < kLeastWeighWork * nodes) {
      return;
    }
    in_vain_.clear();
    looks_ = std::max(looks_, kLooksToWeigh);
    const bool few = all_looks_ <= kFewLooks;
    const absl::Span<const double> prices = few ? absl::MakeConstSpan(kPricesForFew) : absl::MakeConstSpan(kPrices);
    int64_t rewriting_work = 0;  // of the one that took most
    for (const double target : kTargets) {
      size_t price = 0;
      while (price < prices.size() && looks_ > 0 && !Late() && best_->step_seconds > kWorthRecompute * best_->compute_seconds) {
        const int64_t before = limits_.work->left();
        const bool last = static_cast<double>(before - work_for_plans_) < kLastRewritings * static_cast<double>(rewriting_work);
        if (!few && last && best_->step_seconds > kFarFromCompute * best_->compute_seconds) price = std::max(price, kLastPrice);
        price = WeighOnce(target, {kMaxDepth, prices, price, few ? kMuchForFew : kLeastByTrial});
        rewriting_work = std::max(rewriting_work, before - limits_.work->left());
      }
    }
    const double any = std::numeric_limits<double>::infinity();
    if (request_.options.recompute == Recompute::kOn && !as_it_is_) WeighOnce(1, {kMaxDepth, kPriceIfAsked, 0, any});
  }

  // What to compute again on every device.
  struct Weighed {
    std::vector<std::vector<FarUses>> again;
    size_t price = std::numeric_limits<size_t>::max();  // the lowest at which one gains
    bool none() const { return std::all_of(again.begin(), again.end(), [](const auto& uses) { return uses.empty(); }); }
  };

  Weighed WeighDevices(double target, const WeighLimits& limits) {
    Weighed weighed;
    for (size_t d = 0; d < best_->devices.size(); ++d) {
      DevicePlan& plan = best_->devices[d];
      const auto budget = static_cast<int64_t>(target * static_cast<double>(request_.options.BudgetOf(static_cast<int32_t>(d))));
      weighed.again.emplace_back();
      if (budget == 0) continue;
      WeighedRecompute one = WeighRecompute(best_->ordered, plan.device, request_.machine, plan.gaps, budget, limits);
      limits_.work->Spend(one.work);
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
      const OrderedGraph& from = rewritten.graph == nullptr ? best_->ordered : rewritten;
      limits_.work->Spend(kRewriteWork * from.graph->num_nodes());
      rewritten = ComputeAgain(from, best_->devices[d].device, again[d], kMaxDepth);
    }
    CutAsAsked(rewritten);
    return rewritten;
  }

  // Rewrites the best, and takes that if it is faster. The price to go on with: the same where that gained much.
  size_t WeighOnce(double target, WeighLimits limits) {
    limits.most_work = limits_.work->left() - work_for_plans_;
    UsePartitions(*best_);
    const double much = all_looks_ <= kFewLooks ? kMuchForFew : kMuch, before = best_->step_seconds;
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
    const double known_seconds = must || best_->devices.size() > 1 ? kNotKnown : kLeastGain * before;
    absl::StatusOr<Looked> looked = Look(std::move(rewritten), known_seconds);
    if (!looked.ok() || (!must && looked->step_seconds >= kLeastGain * before)) {
      in_vain_ = std::move(weighed.again);
      return weighed.price + 1;
    }
    in_vain_.clear();
    if (!as_it_is_) {
      as_it_is_ = std::move(*best_);
    } else {
      if (former_.size() == kFormer) former_.erase(former_.begin());
      former_.emplace_back(std::move(*best_));
    }
    best_ = std::move(looked);
    return best_->step_seconds < much * before ? weighed.price : weighed.price + 1;
  }

  static void UsePartitions(const Looked& looked) {
    Graph& graph = *looked.ordered.graph;
    for (int32_t i = 0; i < graph.num_ids(); ++i) graph.mutable_node(NodeId{i}).partition = looked.partitions[i];
  }

  // To be planned in full: with the partitions it was looked at with, or its final ones, in a graph of its own.
  void Add(Looked& looked, std::vector<FoundOrder>& found) const {
    std::shared_ptr<Graph>& graph = looked.ordered.graph;
    const bool shared = std::any_of(found.begin(), found.end(), [&](const FoundOrder& other) { return other.ordered.graph == graph; });
    if (shared) graph = std::make_shared<Graph>(graph->Clone());
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
      const bool full = (request_.options.device_memory_bytes > 0 &&
                         bytes + made > request_.options.device_memory_bytes / kBytesPart) ||
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
  PlanLimits limits_;
  const int all_looks_;
  int looks_;  // left
  const int64_t work_for_plans_;  // left to them
  absl::StatusOr<Looked> best_ = absl::InternalError("no order was tried");
  std::optional<Looked> as_it_is_;  // what best_ was before anything was computed again
  std::vector<std::optional<Looked>> former_;  // what best_ was before it was rewritten again, the last few
  std::vector<std::vector<FarUses>> in_vain_;  // what did not help to compute again, of the best, on every device
  bool best_frees_first_ = false;
  std::optional<Looked> other_;            // the best order of the other kind, as it is
  std::optional<Looked> rewritten_other_;  // the slower of both kinds as rewritten
};

}  // namespace

absl::StatusOr<std::vector<FoundOrder>> SearchOrders(const CompileRequest& request, Prepared& prepared,
                                                     const Strategy& strategy, const PlanLimits& limits) {
  return Search(request, prepared, strategy, limits).Run();
}

}  // namespace millrace
