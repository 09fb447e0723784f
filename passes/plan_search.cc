#include "passes/plan_search.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include "millrace/status.h"
#include "passes/order/order_frees_first.h"
#include "passes/plan_devices.h"

namespace millrace {
namespace {

constexpr int64_t kDepthFirstSize = 20;
// Looks that a graph of n nodes is worth: what keeps planning within a second. A count, not a clock, so that plans do not
// depend on the machine's load.
int LooksFor(int32_t nodes) { return std::clamp(200'000 / std::max(nodes, 1), 2, 64); }
constexpr double kHidden = 1.002;         // step / compute at which nothing is left to gain
constexpr double kWorthRecompute = 1.02;  // … from which on recompute is looked at
constexpr double kLeastGain = 0.995;      // of the step, for another round of recompute
// Quick plans only estimate: what they find at most so much slower than the best is planned in full as well.
constexpr double kWorthAPlan = 1.3;
constexpr int kFirstFreesFirst = 3;       // orders from here on free first
// With at most so many looks, an order is rewritten again as soon as a rewriting helped.
constexpr int kFewLooks = 12;
// A rewriting that computes so much of what the one before does is the same.
constexpr double kTheSame = 0.9;
constexpr int kRecomputeRounds = 32;
// Depths of recomputed chains. The next one is tried when the one before has no more to give and the step is still long.
constexpr int kDepths[] = {3, 5, 8};
constexpr double kWorthDeeper = 1.1;      // step / compute
// Where what leaves has no more to give, what would leave with these parts of the budget is computed again; from the start
// where the step is so long (times compute, per look that there is) that there are not looks enough to go step by step.
constexpr double kTighter[] = {0.5, 0.3};
constexpr double kLongPerLook = 1 / 5.5, kLong = 2.5, kVeryLong = 1.3;  // the last: times the others
constexpr int kVeryFewLooks = 5;          // with which a step is long from here on:
constexpr double kLongForFew = 1.5;
constexpr double kNearlyHidden = 1.05;    // step / compute, from which on less may be computed again
constexpr double kFractions[] = {1, 0.5, 0.25};
constexpr int kHalvings = 2;              // between two of them
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
  double compute_seconds = 0;
};

class Search {
 public:
  Search(const CompileRequest& request, Prepared& prepared, const Strategy& strategy, PlanLimits limits)
      : request_(request),
        prepared_(prepared),
        graph_(std::make_shared<Graph>(std::move(prepared.graph))),
        strategy_(strategy),
        limits_(limits),
        all_looks_(LooksFor(graph_->num_nodes())),
        looks_(all_looks_) {
    limits_.effort = PlanEffort::kQuick;
  }

  absl::StatusOr<std::vector<OrderedGraph>> Run() {
    MR_RETURN_IF_ERROR(TryOrders());
    if (request_.options.recompute != Recompute::kOff && request_.options.num_devices() == 1) RewriteOrders();
    std::vector<OrderedGraph> found;
    const double worth_a_plan = kWorthAPlan * best_->step_seconds;
    const auto worth = [&](const std::optional<Looked>& also) {
      return also && also->step_seconds <= worth_a_plan && request_.options.recompute == Recompute::kAuto;
    };
    // What computes least comes first: where its copies all hide, the others need not be planned.
    if (worth(as_it_is_)) Add(*as_it_is_, found);
    Add(*best_, found);
    if (worth(rewritten_other_)) Add(*rewritten_other_, found);
    return found;
  }

 private:
  absl::StatusOr<Looked> Look(OrderedGraph ordered) {
    --looks_;
    Graph& graph = *ordered.graph;
    MR_RETURN_IF_ERROR(VerifyPartitioning(graph, ordered.partitioning));
    Looked looked;
    for (int32_t i = 0; i < graph.num_ids(); ++i) looked.partitions.push_back(graph.node(NodeId{i}).partition);
    MR_ASSIGN_OR_RETURN(looked.devices, DecideDevices(request_, strategy_, ordered.partitioning, ordered.inferred,
                                                      limits_, graph));
    for (const DevicePlan& device : looked.devices) {
      double compute = 0;
      for (double seconds : device.device.access.seconds) compute += seconds;
      looked.compute_seconds = std::max(looked.compute_seconds, compute);
      looked.step_seconds = std::max({looked.step_seconds, compute, device.choice.predicted_seconds});
    }
    looked.ordered = std::move(ordered);
    return looked;
  }

  absl::StatusOr<OrderedGraph> Order(int which) const {
    const PassClock::Run run(request_.clock, "order");
    OrderedGraph ordered;
    ordered.graph = graph_;
    ordered.inferred = prepared_.inferred;
    if (which == 0) {
      MR_ASSIGN_OR_RETURN(ordered.partitioning, KeepCreationOrder(*ordered.graph));
    } else if (which == 1) {
      MR_ASSIGN_OR_RETURN(ordered.partitioning, UpdateEarly(*ordered.graph, request_.ops));
    } else if (which == 2 || which == 4) {
      MR_ASSIGN_OR_RETURN(ordered.partitioning,
                          PartitionDepthFirst(*ordered.graph, request_.options.num_devices(), kDepthFirstSize));
    } else {
      MR_ASSIGN_OR_RETURN(ordered.partitioning, KeepCreationOrder(*ordered.graph));
    }
    if (which >= kFirstFreesFirst) ordered.partitioning = FreesFirst(*ordered.graph, request_.ops, ordered.partitioning.order);
    return ordered;
  }

  bool Late() const { return std::chrono::steady_clock::now() >= limits_.deadline; }

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
    for (int which = 0; which < orders; ++which) {
      if (which != 0 && which != 2 && request_.options.num_devices() > 1) continue;  // orders of one device
      if (best_.ok() && (Late() || best_->step_seconds <= kHidden * best_->compute_seconds)) break;
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
    TryRecompute();
    if (!other_ || Late() || best_->step_seconds <= kWorthDeeper * other_->compute_seconds) return;
    std::optional<Looked> first_as_it_is = std::move(as_it_is_);
    as_it_is_.reset();
    std::swap(*best_, *other_);
    looks_ = std::max(looks_, all_looks_ / 2);
    TryRecompute();
    rewritten_other_ = std::move(other_);
    if (best_->step_seconds < rewritten_other_->step_seconds) return;
    std::swap(*best_, *rewritten_other_);
    as_it_is_ = std::move(first_as_it_is);
  }

  void TryRecompute() {
    const bool always = request_.options.recompute == Recompute::kOn;
    const double compute = best_->compute_seconds;
    size_t depth = 0, tighter = FirstPart(best_->step_seconds / compute);
    for (int round = 0; round < kRecomputeRounds && (looks_ > 0 || (always && round == 0)); ++round) {
      if (Late() || (!always && best_->step_seconds <= kWorthRecompute * compute)) return;
      if ((depth > 0 || tighter > 0) && best_->step_seconds <= kWorthDeeper * compute) return;
      const double before = best_->step_seconds;
      absl::StatusOr<Looked> base = std::move(best_);
      best_ = absl::InternalError("no fraction was tried");
      const absl::StatusOr<SwapChoice> choice = tighter == 0 ? base->devices[0].choice : Tighter(*base, kTighter[tighter - 1]);
      TryFractions(*base, choice.ok() ? *choice : base->devices[0].choice, kDepths[depth]);
      const bool better = best_.ok() && (best_->step_seconds < kLeastGain * before || (always && round == 0));
      if (!better) {
        best_ = std::move(base);
        if (tighter < std::size(kTighter)) {
          ++tighter;
        } else if (++depth < std::size(kDepths)) {
          tighter = FirstPart(best_->step_seconds / compute);
        } else {
          return;
        }
      } else if (!as_it_is_) {
        as_it_is_ = *std::move(base);
      }
    }
  }

  // 0 for all of the budget, else one more than the index of the part of it that values to compute again are looked for with.
  size_t FirstPart(double step_over_compute) const {
    const double is_long = all_looks_ <= kVeryFewLooks ? kLongForFew : std::max(kLong, kLongPerLook * all_looks_);
    if (step_over_compute <= is_long) return 0;
    return step_over_compute <= kVeryLong * is_long ? 1 : 2;
  }

  // What would leave with a part of the budget.
  absl::StatusOr<SwapChoice> Tighter(const Looked& base, double part) const {
    PlanningOptions options = request_.options;
    options.device_memory_bytes = static_cast<int64_t>(part * static_cast<double>(request_.options.BudgetOf(0)));
    const PassClock::Run run(request_.clock, "choose swaps");
    return strategy_.swaps({base.devices[0].device.access, options, request_.machine, *base.ordered.graph,
                            base.devices[0].device, limits_});
  }

  void TryFractions(const Looked& base, const SwapChoice& choice, int depth) {
    UsePartitions(base);
    const bool few = all_looks_ <= kFewLooks;
    int64_t recomputed = 0;
    double adopted = 0;  // fraction
    for (double fraction : kFractions) {
      if (best_.ok() && (Late() || looks_ <= 0)) return;
      OrderedGraph rewritten = Rewrite(base, choice, fraction, depth);
      const int64_t more = rewritten.recomputed_nodes - base.ordered.recomputed_nodes;
      if (more == 0) break;
      if (recomputed > 0 && static_cast<double>(more) >= kTheSame * static_cast<double>(recomputed)) continue;
      recomputed = more;
      if (Adopt(Look(std::move(rewritten)), 1)) adopted = fraction;
      const bool gained = best_.ok() && best_->step_seconds < kLeastGain * base.step_seconds;
      if (few && gained && best_->step_seconds > kNearlyHidden * best_->compute_seconds) return;
    }
    ComputeLess(base, choice, depth, adopted);
  }

  // Where the copies that are left hide, fewer values need be computed again: between `fraction` and the next lower one.
  void ComputeLess(const Looked& base, const SwapChoice& choice, int depth, double fraction) {
    double low = fraction / 2;
    for (int k = 0; k < kHalvings && best_.ok() && looks_ > 0 && !Late(); ++k) {
      if (best_->step_seconds > kNearlyHidden * best_->compute_seconds || fraction == 0) return;
      const double middle = (low + fraction) / 2;
      if (Adopt(Look(Rewrite(base, choice, middle, depth)), 1)) fraction = middle;
      else low = middle;
    }
  }

  static void UsePartitions(const Looked& looked) {
    Graph& graph = *looked.ordered.graph;
    for (int32_t i = 0; i < graph.num_ids(); ++i) graph.mutable_node(NodeId{i}).partition = looked.partitions[i];
  }

  OrderedGraph Rewrite(const Looked& base, const SwapChoice& choice, double fraction, int depth) const {
    const PassClock::Run run(request_.clock, "recompute");
    return RecomputeSwapped(base.ordered, base.devices[0].device, choice, request_.machine,
                            {fraction, depth});
  }

  // To be planned in full: with the partitions it was looked at with, or its final ones, in a graph of its own.
  void Add(Looked& looked, std::vector<OrderedGraph>& found) const {
    std::shared_ptr<Graph>& graph = looked.ordered.graph;
    const bool shared = std::any_of(found.begin(), found.end(), [&](const OrderedGraph& other) { return other.graph == graph; });
    if (shared) graph = std::make_shared<Graph>(graph->Clone());
    UsePartitions(looked);
    CutPartitions(looked);
    found.push_back(std::move(looked.ordered));
  }

  void CutPartitions(Looked& looked) const {
    for (const DevicePlan& plan : looked.devices) {
      if (looked.devices.size() > 1) return;  // ids run over all devices: the order's own cuts stay
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
  const Prepared& prepared_;
  const std::shared_ptr<Graph> graph_;  // as prepared: its nodes' partitions are those of the last order
  const Strategy& strategy_;
  PlanLimits limits_;
  const int all_looks_;
  int looks_;  // left
  absl::StatusOr<Looked> best_ = absl::InternalError("no order was tried");
  std::optional<Looked> as_it_is_;  // what best_ was before anything was computed again
  bool best_frees_first_ = false;
  std::optional<Looked> other_;            // the best order of the other kind, as it is
  std::optional<Looked> rewritten_other_;  // the slower of both kinds as rewritten
};

}  // namespace

absl::StatusOr<std::vector<OrderedGraph>> SearchOrders(const CompileRequest& request, Prepared& prepared,
                                         const Strategy& strategy, const PlanLimits& limits) {
  return Search(request, prepared, strategy, limits).Run();
}

}  // namespace millrace
