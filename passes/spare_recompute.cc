#include "passes/spare_recompute.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "graph/fused_norm.h"
#include "passes/access/work_budget.h"
#include "passes/pass_clock.h"

namespace millrace {
namespace {

// Units of WorkBudget for a node of what is rewritten.
constexpr int64_t kWithoutCopiesWork = 300;
// What a try takes at least, of a node.
constexpr int64_t kLeastTryWork = 1000;
// Of the step: what all copies together must take, and what one try must gain.
constexpr double kWorthSparing = 0.002, kLeastShortened = 0.0002;
// Of all copies, the first that are taken away together.
constexpr size_t kFirstParts = 4;

// Where values are made that are computed again: by a node and by its copies, in the order in which they run.
class Incarnations {
 public:
  explicit Incarnations(const OrderedGraph& ordered)
      : position_(ordered.graph->num_ids(), -1), original_(ordered.graph->num_ids()), made_(ordered.graph->num_ids()) {
    for (const auto& [copy, of] : ordered.copies) original_[copy.value] = original_[of.value] = of;
    const std::vector<NodeId>& order = ordered.partitioning.order;
    for (size_t p = 0; p < order.size(); ++p) {
      position_[order[p].value] = static_cast<int32_t>(p);
      const NodeId original = original_[order[p].value];
      if (original.valid()) made_[original.value].push_back(order[p]);
    }
  }

  bool IsCopy(NodeId id) const { return original_[id.value].valid() && original_[id.value] != id; }

  // The last before this copy that is not taken away.
  NodeId Before(NodeId copy, const std::vector<bool>& away) const {
    NodeId before;
    for (const NodeId id : made_[original_[copy.value].value]) {
      if (position_[id.value] >= position_[copy.value]) break;
      if (!away[id.value]) before = id;
    }
    return before;
  }

 private:
  std::vector<int32_t> position_;
  std::vector<NodeId> original_;           // of copies, and of what they are copies of
  std::vector<std::vector<NodeId>> made_;  // per node that is no copy
};

// What changes in a graph when copies are taken away from it.
class TakenAway {
 public:
  TakenAway(const OrderedGraph& ordered, const std::vector<NodeId>& copies)
      : ordered_(ordered),
        graph_(*ordered.graph),
        incarnations_(ordered),
        away_(graph_.num_ids(), false),
        lost_(graph_.num_ids(), false),
        first_user_(graph_.num_ids()) {
    for (const NodeId copy : copies) away_[copy.value] = true;
  }

  // From the last node that runs to the first: what takes a node is known when that is reached. False where what is there before has not all.
  bool Find() {
    const std::vector<NodeId>& order = ordered_.partitioning.order;
    for (auto id = order.rbegin(); id != order.rend(); ++id) {
      if (incarnations_.IsCopy(*id)) {
        away_[id->value] = away_[id->value] || !first_user_[id->value].valid();
        if (away_[id->value]) removed_.push_back(*id);
        else if (lost_[id->value]) otherwise_used_.push_back(*id);
        if (away_[id->value] || lost_[id->value]) LoseInputs(*id);
      }
      if (!away_[id->value] && !UseInputs(*id)) return false;
    }
    return true;
  }

  OrderedGraph Apply() const {
    OrderedGraph result = ordered_;
    result.graph = std::make_shared<Graph>(graph_.Clone());
    for (const Moved& moved : moved_) result.graph->mutable_node(moved.node).inputs[moved.input].node = moved.from;
    for (const NodeId copy : otherwise_used_) {
      result.graph->mutable_node(copy).reason = absl::StrCat("computed again for '", graph_.node(first_user_[copy.value]).name, "'");
    }
    for (const NodeId copy : removed_) {
      if (!ordered_.inferred->defs[copy.value]->is_view) --result.recomputed_nodes;
      result.graph->RemoveNode(copy);
    }
    std::erase_if(result.copies, [&](const auto& copy) { return away_[copy.first.value]; });
    std::erase_if(result.partitioning.order, [&](NodeId id) { return away_[id.value]; });
    return result;
  }

 private:
  struct Moved {
    NodeId node;
    size_t input = 0;
    NodeId from;
  };

  void LoseInputs(NodeId id) {
    for (const OutputRef& input : graph_.node(id).inputs) lost_[input.node.value] = true;
  }

  // What is taken away is taken from where it was made before.
  bool UseInputs(NodeId id) {
    const Node& node = graph_.node(id);
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      NodeId from = node.inputs[i].node;
      if (away_[from.value]) {
        from = incarnations_.Before(from, away_);
        if (node.inputs[i].index > 0 && graph_.node(from).attrs.Has(kGivenStatistics)) return false;
        moved_.push_back({id, i, from});
      }
      first_user_[from.value] = id;
    }
    return true;
  }

  const OrderedGraph& ordered_;
  const Graph& graph_;
  const Incarnations incarnations_;
  std::vector<bool> away_;
  std::vector<bool> lost_;              // what something took, or was computed again for, that is taken away
  std::vector<NodeId> first_user_;      // that stays
  std::vector<Moved> moved_;
  std::vector<NodeId> otherwise_used_;  // copies that stay, for others than they were made for
  std::vector<NodeId> removed_;
};

}  // namespace

std::optional<OrderedGraph> WithoutCopies(const OrderedGraph& ordered, const std::vector<NodeId>& copies) {
  TakenAway taken(ordered, copies);
  if (!taken.Find()) return std::nullopt;
  return taken.Apply();
}

namespace {

class Sparer {
 public:
  Sparer(const CompileRequest& request, const Strategy& strategy, const PlanLimits& limits, int64_t leaves, int looks, const Looked& order)
      : request_(request),
        strategy_(strategy),
        limits_(limits),
        leaves_(leaves),
        looks_(looks),
        dearest_(kLeastTryWork * order.ordered.graph->num_nodes()),
        first_(order) {}

  std::optional<Looked> Run() {
    std::vector<NodeId> copies = Copies();
    if (total_seconds_ < kWorthSparing * first_.step_seconds) return std::nullopt;
    for (size_t size = std::max<size_t>(1, copies.size() / kFirstParts);; size /= 2) {
      for (size_t begin = 0; begin < copies.size() && MayTry(); begin += size) {
        const int64_t before = limits_.work->left();
        Try({copies.begin() + static_cast<std::ptrdiff_t>(begin), copies.begin() + static_cast<std::ptrdiff_t>(std::min(begin + size, copies.size()))});
        dearest_ = std::max(dearest_, before - limits_.work->left());
      }
      if (size == 1) return std::move(best_);
    }
  }

 private:
  const Looked& best() const { return best_ ? *best_ : first_; }
  bool MayTry() const {
    return looks_ > 0 && limits_.work->left() - leaves_ > dearest_ && !limits_.deadline.passed() && request_.oracle.MayGoOn().ok();
  }

  // Those that take most time for the room that they save come first.
  std::vector<NodeId> Copies() {
    struct Copy {
      NodeId id;
      double seconds_per_byte = 0;
    };
    std::vector<Copy> copies;
    for (const auto& [id, of] : first_.ordered.copies) {
      if (first_.ordered.inferred->defs[id.value]->is_view) continue;
      const double seconds = first_.ordered.inferred->estimates[id.value].seconds;
      total_seconds_ += seconds;
      int64_t bytes = 1;
      for (const TensorType& type : first_.ordered.graph->node(id).outputs) bytes += type.size_bytes();
      copies.push_back({id, seconds / static_cast<double>(bytes)});
    }
    std::stable_sort(copies.begin(), copies.end(), [](const Copy& a, const Copy& b) { return a.seconds_per_byte > b.seconds_per_byte; });
    std::vector<NodeId> ids;
    for (const Copy& copy : copies) ids.push_back(copy.id);
    return ids;
  }

  // Takes these away if that makes the step shorter.
  void Try(std::vector<NodeId> copies) {
    std::erase_if(copies, [&](NodeId id) { return !best().ordered.graph->alive(id); });
    if (copies.empty()) return;
    std::optional<OrderedGraph> fewer = Without(copies);
    if (!fewer) return;
    --looks_;
    const double known_seconds = (1 - kLeastShortened) * best().step_seconds;
    absl::StatusOr<Looked> looked = Look(request_, strategy_, limits_, *std::move(fewer), known_seconds);
    if (looked.ok() && looked->step_seconds < known_seconds) best_ = *std::move(looked);
  }

  std::optional<OrderedGraph> Without(const std::vector<NodeId>& copies) const {
    const PassClock::Run run(request_.clock, "spare recompute");
    limits_.work->Spend(kWithoutCopiesWork * best().ordered.graph->num_nodes());
    std::optional<OrderedGraph> fewer = WithoutCopies(best().ordered, copies);
    if (fewer) CutAsAsked(request_, *fewer);
    return fewer;
  }

  const CompileRequest& request_;
  const Strategy& strategy_;
  const PlanLimits& limits_;
  const int64_t leaves_;
  int looks_;        // left
  int64_t dearest_;  // work of a try, the most so far
  const Looked& first_;
  std::optional<Looked> best_;
  double total_seconds_ = 0;  // of all copies
};

}  // namespace

std::optional<Looked> SpareRecompute(const CompileRequest& request, const Strategy& strategy, const PlanLimits& limits, int64_t leaves, int looks,
                                     const Looked& order) {
  return Sparer(request, strategy, limits, leaves, looks, order).Run();
}

}  // namespace millrace
