#include "passes/rewrite/find_groups.h"

#include <algorithm>
#include <set>
#include <string>

#include "graph/fused_reduce.h"
#include "passes/rewrite/fuse_elementwise.h"
#include "passes/rewrite/group_ops.h"
#include "passes/rewrite/positions.h"
#include "passes/rewrite/strided_views.h"

namespace millrace {
namespace {

bool TypeFuses(DataType dtype) { return IsFloating(dtype) || dtype == DataType::kBool; }

// What a group takes from outside, and the one length of its repeated rows.
struct Outside {
  std::vector<FusedInput> inputs;
  int64_t row = 0;
  bool spreads = false;  // some of it repeats in other ways
  bool fits = true;
};

class GroupFinder {
 public:
  GroupFinder(const Graph& graph, const Fanout& fanout, const std::vector<NodeId>& order, const std::vector<bool>& repeated)
      : graph_(graph), fanout_(fanout), order_(order), repeated_(repeated) {}

  Groups Find() {
    FindLastUses();
    groups_.of.assign(graph_.num_ids(), -1);
    // Users first: a root takes what it can of what comes before it.
    for (auto id = order_.rbegin(); id != order_.rend(); ++id) {
      if (groups_.of[id->value] >= 0 || repeated_[id->value]) continue;
      if (graph_.node(*id).op == "ConcatV2") {
        GrowInto(*id);
      } else if (MayBeInGroup(graph_, *id)) {
        Grow(*id);
      }
    }
    return std::move(groups_);
  }

 private:
  const Shape& ShapeOf(NodeId id) const { return graph_.node(id).outputs[0].shape; }
  static bool Has(const Draft& draft, NodeId id) { return Groups::Has(draft, id); }

  void FindLastUses() {
    position_ = PositionsIn(order_, graph_.num_ids());
    last_use_.assign(graph_.num_ids(), -1);
    runs_at_ = position_;
    for (NodeId id : order_) {
      for (OutputRef input : graph_.node(id).inputs) {
        last_use_[input.node.value] = std::max(last_use_[input.node.value], position_[id.value]);
      }
    }
    for (auto id = order_.rbegin(); id != order_.rend(); ++id) {
      if (!repeated_[id->value]) continue;
      for (OutputRef input : graph_.node(*id).inputs) {
        last_use_[input.node.value] = std::max(last_use_[input.node.value], last_use_[id->value]);
      }
    }
  }

  Outside OutsideOf(const Draft& draft) const {
    Outside outside;
    if (draft.concat) outside.row = PartsOf(graph_, draft.root)[0].length;
    for (NodeId id : draft.members) {
      for (OutputRef input : graph_.node(id).inputs) {
        if (Has(draft, input.node)) continue;
        const FusedInput read = ReadFor(graph_, input);
        int64_t row = 0;
        const Operand operand = OperandOf(graph_.type(read.ref).shape, draft.shape, &row);
        if (operand == Operand::kRow && !read.spread) {
          outside.fits = outside.fits && (outside.row == 0 || outside.row == row);
          outside.row = row;
        }
        outside.spreads = outside.spreads || read.spread || operand == Operand::kSpread;
        if (std::find(outside.inputs.begin(), outside.inputs.end(), read) == outside.inputs.end()) {
          outside.inputs.push_back(read);
        }
      }
    }
    outside.fits = outside.fits && outside.inputs.size() <= kMaxFusedInputs;
    return outside;
  }

  static bool Reduces(const Draft& draft, NodeId id) {
    return std::find(draft.reductions.begin(), draft.reductions.end(), id) != draft.reductions.end();
  }

  // Whether someone else takes the member's result.
  bool NeededOutside(const Draft& draft, NodeId id) const { return !repeated_[id.value] && ReadOutside(draft, id); }

  bool ReadOutside(const Draft& draft, NodeId id) const {
    return !AllUses(id, false, [&](const Fanout::Use& use) { return Has(draft, use.consumer) || Reduces(draft, use.consumer); });
  }

  // Whether it holds for all that take the node's result (or also wait for it), or that of what is repeated and does so.
  template <typename Holds>
  bool AllUses(NodeId id, bool waits, Holds&& holds) const {
    std::vector<NodeId> open = {id};
    std::set<int32_t> seen;
    for (size_t at = 0; at < open.size(); ++at) {
      for (const Fanout::Use& use : fanout_.of(open[at])) {
        if (use.input < 0 && !waits) continue;
        if (repeated_[use.consumer.value]) {
          if (seen.insert(use.consumer.value).second) open.push_back(use.consumer);
        } else if (!holds(use)) {
          return false;
        }
      }
    }
    return true;
  }

  void Grow(NodeId root) {
    Draft draft{root, false, ShapeOf(root), {root}, {}, {}, {}, {}};
    TakeReductionsOf({root, 0}, draft);
    Extend(draft);
    TakeReductions(draft);
    if (draft.members.size() > 1 || !draft.reductions.empty() || ReadsThrough(draft)) Keep(std::move(draft));
  }

  // Reductions of the tensor that may run where the group does, as far as they go over the same dimensions.
  void TakeReductionsOf(OutputRef ref, Draft& draft) const {
    for (const Fanout::Use& use : fanout_.of(ref.node)) {
      if (use.input != 0 || use.output != ref.index || Reduces(draft, use.consumer)) continue;
      const size_t members = draft.members.size(), reductions = draft.reductions.size();
      if (TakeReduction(use.consumer, draft) && Fits(draft)) continue;
      draft.members.resize(members);
      draft.reductions.resize(reductions);
    }
  }

  bool TakeReduction(NodeId id, Draft& draft) const {
    if (Reduces(draft, id)) return true;
    const std::optional<ReducedAxes> axes = ReductionOf(graph_, id);
    const Node& node = graph_.node(id);
    const bool alike = axes && graph_.type(node.inputs[0]).shape == draft.shape && (draft.reductions.empty() || draft.reduced == axes->reduced);
    if (!alike || groups_.of[id.value] >= 0 || draft.concat || draft.reductions.size() >= kMaxGroupReductions || !node.control_inputs.empty() ||
        node.requested_device != graph_.node(draft.root).requested_device) {
      return false;
    }
    for (const Fanout::Use& use : fanout_.of(id)) {
      if (runs_at_[use.consumer.value] <= position_[draft.root.value]) return false;
    }
    if (const NodeId of = node.inputs[0].node; repeated_[of.value] && !Has(draft, of)) {
      if (draft.members.size() >= kMaxFusedOps) return false;
      draft.members.push_back(of);
    }
    draft.reductions.push_back(id);
    draft.reduced = axes->reduced;
    return true;
  }

  // Of what is computed, and of whole inputs where that makes no other difference.
  void TakeReductions(Draft& draft) const {
    for (size_t i = 0; i < draft.members.size(); ++i) TakeReductionsOf({draft.members[i], 0}, draft);
    if (draft.reductions.empty()) return;
    for (const FusedInput& input : OutsideOf(draft).inputs) {
      if (!input.spread && graph_.type(input.ref).shape == draft.shape) TakeReductionsOf(input.ref, draft);
    }
  }

  // Whether a tensor need not be there since what it repeats is read.
  bool ReadsThrough(const Draft& draft) const {
    const Outside outside = OutsideOf(draft);
    return outside.fits && IsOneKernel(draft) && ResultsKeepOff(draft, outside.inputs) &&
           std::any_of(outside.inputs.begin(), outside.inputs.end(), [](const FusedInput& input) { return input.spread; });
  }

  // Whether the root's result is there: no reductions in the group are all that takes it.
  bool WritesRoot(const Draft& draft) const { return draft.reductions.empty() || NeededOutside(draft, draft.root); }

  // Results other than the root's.
  std::vector<NodeId> SideResults(const Draft& draft) const {
    std::vector<NodeId> results;
    for (NodeId id : draft.members) {
      if (id != draft.root && NeededOutside(draft, id)) results.push_back(id);
    }
    return results;
  }

  // No result may take the memory of an input that is read for other elements, too: of a row, of one element, and where
  // results are written by rows, of any.
  bool ResultsKeepOff(const Draft& draft, const std::vector<FusedInput>& inputs) const {
    for (const FusedInput& input : inputs) {
      const TensorType& type = graph_.type(input.ref);
      const auto as_large = [&](NodeId id) { return graph_.node(id).outputs[0].size_bytes() == type.size_bytes(); };
      const bool other_elements = type.shape.num_elements() != draft.shape.num_elements();
      if (other_elements && std::any_of(draft.members.begin(), draft.members.end(), as_large)) return false;
      if (draft.concat && as_large(draft.root)) return false;
    }
    return true;
  }

  bool Fits(const Draft& draft) const {
    const Outside outside = OutsideOf(draft);
    if (!outside.fits || !ResultsKeepOff(draft, outside.inputs)) return false;
    const std::vector<NodeId> side = SideResults(draft);
    const bool several = !side.empty() || draft.concat;
    if ((several || outside.spreads || !draft.reductions.empty()) && !IsOneKernel(draft)) return false;
    if (!several) return true;
    // Each is a tensor more that is there at once: worth it where the launch is what takes time.
    const size_t parts = draft.concat ? graph_.node(draft.root).inputs.size() - 1 : 1;
    if (side.size() + parts > kMaxFusedResults) return false;
    const auto is_large = [&](NodeId id) { return graph_.node(id).outputs[0].size_bytes() > kMaxSideResultBytes; };
    const bool instead_of_root = side.size() == 1 && !draft.concat && !WritesRoot(draft);
    return (instead_of_root || std::none_of(draft.members.begin(), draft.members.end(), is_large)) &&
           std::all_of(side.begin(), side.end(),
                       [&](NodeId id) { return position_[draft.root.value] - position_[id.value] <= kMaxFusedDistance; });
  }

  // Whether a device's kernel takes it all; else its ops run one by one, which several results and spread operands cannot.
  bool IsOneKernel(const Draft& draft) const {
    size_t steps = 0;
    for (NodeId id : draft.members) {
      const Node& node = graph_.node(id);
      steps += node.op == "AddN" ? 2 * node.inputs.size() + 1 : 1;
      if (node.attrs.GetOr<bool>("Truncate", false)) return false;
    }
    return steps <= kMaxOneKernelSteps;
  }

  void Extend(Draft& draft) const {
    for (size_t at = 0; at < draft.members.size(); ++at) {
      for (OutputRef input : graph_.node(draft.members[at]).inputs) Add(input.node, draft);
    }
  }

  // A ConcatV2 whose parts are all computed here is written by rows, in place of the parts.
  void GrowInto(NodeId concat) {
    const std::vector<StridedPart> parts = PartsOf(graph_, concat);
    if (parts.empty() || parts[0].length > kMaxFusedRow) return;
    const Node& node = graph_.node(concat);
    Draft draft{concat, true, graph_.type(node.inputs[0]).shape, {}, {}, {}, {}, {}};
    for (size_t i = 0; i + 1 < node.inputs.size(); ++i) {
      if (!Add(node.inputs[i].node, draft)) return;
    }
    Extend(draft);
    Keep(std::move(draft));
  }

  // Adds the node and what it cannot be without, or nothing.
  bool Add(NodeId id, Draft& draft) const {
    const size_t before = draft.members.size(), reductions = draft.reductions.size();
    if (Collect(id, draft) && (draft.members.size() == before || Fits(draft))) return true;
    draft.members.resize(before);
    draft.reductions.resize(reductions);
    return false;
  }

  bool Collect(NodeId id, Draft& draft) const {
    if (Has(draft, id)) return true;
    if (draft.members.size() >= kMaxFusedOps) return false;
    if (repeated_[id.value]) {
      if (ShapeOf(id) != draft.shape) return false;
      draft.members.push_back(id);
      return true;
    }
    if (!MayJoin(id, draft)) return false;
    draft.members.push_back(id);
    return CollectUsers(id, draft);
  }

  // Who needs it before the group runs has to be in the group.
  bool CollectUsers(NodeId id, Draft& draft) const {
    return AllUses(id, true, [&](const Fanout::Use& use) {
      const NodeId user = use.consumer;
      return runs_at_[user.value] > position_[draft.root.value] || (use.input == 0 && TakeReduction(user, draft)) || Collect(user, draft);
    });
  }

  bool MayJoin(NodeId id, const Draft& draft) const {
    const NodeId root = draft.root;
    if (groups_.of[id.value] >= 0 || !MayBeInGroup(graph_, id) || ShapeOf(id) != draft.shape ||
        graph_.node(id).requested_device != graph_.node(root).requested_device) {
      return false;
    }
    // What it was computed from now lives until the root; one tensor instead of its result is no loss.
    int kept = 0;
    for (OutputRef input : graph_.node(id).inputs) {
      const bool full = graph_.type(ReadFor(graph_, input).ref).shape == draft.shape;
      kept += full && last_use_[input.node.value] <= position_[id.value] && graph_.node(input.node).op != "Const";
    }
    return kept <= 1 || position_[root.value] - position_[id.value] <= kMaxFusedDistance;
  }

  void Keep(Draft draft) {
    std::sort(draft.members.begin(), draft.members.end(),
              [&](NodeId a, NodeId b) { return position_[a.value] < position_[b.value]; });
    for (const FusedInput& input : OutsideOf(draft).inputs) TryCut(input.ref.node, draft);
    const auto mark = [&](NodeId id) {
      groups_.of[id.value] = static_cast<int32_t>(groups_.drafts.size());
      runs_at_[id.value] = position_[draft.root.value];
    };
    mark(draft.root);
    for (NodeId id : draft.members) {
      if (!repeated_[id.value]) mark(id);
    }
    for (NodeId id : draft.reductions) mark(id);
    for (const Cut& cut : draft.cuts) {
      mark(cut.copy);
      if (cut.bias.valid()) mark(cut.bias);
    }
    if (WritesRoot(draft)) draft.results.push_back(draft.root);
    for (NodeId id : SideResults(draft)) draft.results.push_back(id);
    groups_.drafts.push_back(std::move(draft));
  }

  // Leaves out a copy that nobody but the group reads.
  void TryCut(NodeId copy, Draft& draft) const {
    if (groups_.of[copy.value] >= 0 || ViewOf(graph_, {copy, 0}) == std::nullopt ||
        position_[draft.root.value] - position_[copy.value] > kMaxFusedDistance ||
        graph_.node(copy).requested_device != graph_.node(draft.root).requested_device ||
        std::any_of(draft.cuts.begin(), draft.cuts.end(), [&](const Cut& cut) { return cut.copy == copy; })) {
      return;
    }
    std::set<int32_t> outputs;
    for (const Fanout::Use& use : fanout_.of(copy)) {
      if (use.input < 0 || !Has(draft, use.consumer)) return;
      outputs.insert(use.output);
    }
    int64_t row = RowOf(draft);
    for (int32_t output : outputs) {
      const std::optional<StridedView> view = ViewOf(graph_, {copy, output});
      if (!view || graph_.type({copy, output}).shape != draft.shape || view->part.length > kMaxFusedRow ||
          (row != 0 && row != view->part.length) || !ReadsByRows(view->whole, outputs.size(), draft)) {
        return;
      }
      row = view->part.length;
    }
    Cut cut{copy, NodeId{}, {outputs.begin(), outputs.end()}};
    if (TakesBias(cut, draft)) cut.bias = ViewOf(graph_, {copy, cut.outputs[0]})->whole.node;
    draft.cuts.push_back(std::move(cut));
  }

  int64_t RowOf(const Draft& draft) const {
    if (!draft.cuts.empty()) return ViewOf(graph_, {draft.cuts[0].copy, draft.cuts[0].outputs[0]})->part.length;
    return OutsideOf(draft).row;
  }

  // No result may take the memory of what is read by rows: it is an input several times, or no result is as large.
  bool ReadsByRows(OutputRef whole, size_t times, const Draft& draft) const {
    const TensorType& type = graph_.type(whole);
    if (graph_.node(whole.node).dynamic_output(whole.index) || !TypeFuses(type.dtype)) return false;
    if (times > 1) return true;
    const auto as_large = [&](NodeId id) { return graph_.node(id).outputs[0].size_bytes() == type.size_bytes(); };
    return !as_large(draft.root) && std::none_of(draft.members.begin(), draft.members.end(), as_large);
  }

  // Whether what is copied from is the sum with a bias that nobody else reads: the parts may be summed instead.
  bool TakesBias(const Cut& cut, const Draft& draft) const {
    const std::optional<StridedView> view = ViewOf(graph_, {cut.copy, cut.outputs[0]});
    const Node& node = graph_.node(view->whole.node);
    if (node.op != "BiasAdd" || !MayBeInGroup(graph_, view->whole.node) || groups_.of[view->whole.node.value] >= 0 || !view->last_axis ||
        node.requested_device != graph_.node(draft.root).requested_device ||
        graph_.type(node.inputs[1]).shape.num_elements() != view->part.pitch || !ReadsByRows(node.inputs[0], cut.outputs.size(), draft) ||
        !ReadsByRows(node.inputs[1], cut.outputs.size(), draft)) {
      return false;
    }
    for (const Fanout::Use& use : fanout_.of(view->whole.node)) {
      const bool waits = use.input < 0 && runs_at_[use.consumer.value] > position_[draft.root.value];
      if (!waits && (use.input < 0 || use.consumer != cut.copy)) return false;
    }
    size_t more = cut.outputs.size();
    for (const Cut& other : draft.cuts) more += other.bias.valid() ? other.outputs.size() : 0;
    return draft.members.size() + more <= kMaxFusedOps && OutsideOf(draft).inputs.size() + more <= kMaxFusedInputs;
  }

  const Graph& graph_;
  const Fanout& fanout_;
  const std::vector<NodeId>& order_;
  const std::vector<bool>& repeated_;
  std::vector<int32_t> position_, last_use_;
  std::vector<int32_t> runs_at_;  // position of the group's root, or the node's own
  Groups groups_;
};

}  // namespace

bool Groups::Has(const Draft& draft, NodeId id) {
  return id == draft.root || std::find(draft.members.begin(), draft.members.end(), id) != draft.members.end();
}

Groups FindGroups(const Graph& graph, const Fanout& fanout, const std::vector<NodeId>& order, const std::vector<bool>& repeated) {
  return GroupFinder(graph, fanout, order, repeated).Find();
}

bool MayBeInGroup(const Graph& graph, NodeId id) {
  const Node& node = graph.node(id);
  if (node.removed || !IsElementwise(node.op) || node.outputs.size() != 1 || node.dynamic_outputs != 0 ||
      node.run_time_values != 0 || node.inputs.size() > kMaxFusedInputs || !TypeFuses(node.outputs[0].dtype)) {
    return false;
  }
  const Shape& shape = node.outputs[0].shape;
  if (node.attrs.GetOr<std::string>("data_format", "NHWC") != "NHWC" || shape.num_elements() == 0) return false;
  int64_t row = 0;
  for (OutputRef input : node.inputs) {
    const TensorType& type = graph.type(input);
    if (graph.node(input.node).dynamic_output(input.index) || !TypeFuses(type.dtype) ||
        !type.shape.fully_known()) {
      return false;
    }
    const Operand operand = OperandOf(type.shape, shape, &row);
    if (operand == Operand::kOther || (operand == Operand::kSpread && node.op == "BiasAdd")) return false;
    // A condition that is a vector chooses rows.
    if (node.op == "Select" && type.shape != shape) return false;
  }
  return true;
}

}  // namespace millrace
