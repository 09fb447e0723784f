#include "passes/rewrite/fuse_elementwise.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "millrace/status.h"
#include "millrace/tensor.h"
#include "passes/rewrite/fused_writer.h"
#include "passes/rewrite/positions.h"
#include "passes/rewrite/strided_views.h"

namespace millrace {
namespace {

// Ops whose every element follows from the operands' elements at the same place, and whose kernels need no scratch.
const std::set<std::string>& Elementwise() {
  static const auto* ops = new std::set<std::string>{
      "Abs",        "Neg",        "Sign",      "Square",     "Sqrt",         "Rsqrt",     "Reciprocal",
      "Inv",        "Floor",      "Ceil",      "Round",      "Rint",         "LogicalNot", "Relu",
      "Relu6",      "LeakyRelu",  "Softsign",  "Exp",        "Expm1",        "Log",       "Log1p",
      "Sigmoid",    "Softplus",   "Sin",       "Cos",        "Tanh",         "Elu",       "Selu",
      "Erf",        "Erfc",       "Add",       "AddV2",      "Sub",          "Mul",       "RealDiv",
      "Div",        "Maximum",    "Minimum",   "Pow",        "SquaredDifference", "DivNoNan", "MulNoNan",
      "LogicalAnd", "LogicalOr",  "Less",      "LessEqual",  "Greater",      "GreaterEqual", "Equal",
      "NotEqual",   "ReluGrad",   "Relu6Grad", "LeakyReluGrad", "SoftsignGrad", "SoftplusGrad", "EluGrad",
      "SeluGrad",   "TanhGrad",   "SigmoidGrad", "ReciprocalGrad", "InvGrad", "SqrtGrad", "RsqrtGrad",
      "Cast",       "AddN",       "BiasAdd",   "SelectV2",   "Select",       "ZerosLike", "OnesLike"};
  return *ops;
}

bool TypeFuses(DataType dtype) { return IsFloating(dtype) || dtype == DataType::kBool; }

// What a group takes from outside, and the one length of its repeated rows.
struct Outside {
  std::vector<FusedInput> inputs;
  int64_t row = 0;
  bool spreads = false;  // some of it repeats in other ways
  bool fits = true;
};

class Fuser {
 public:
  Fuser(Graph& graph, std::vector<uint64_t>& by_value)
      : graph_(graph), by_value_(by_value), fanout_(ComputeFanout(graph)), group_of_(graph.num_ids(), -1) {}

  absl::StatusOr<int64_t> Run() {
    MR_ASSIGN_OR_RETURN(const std::vector<NodeId> order, CreationOrder(graph_));
    FindLastUses(order);
    // Users first: a root takes what it can of what comes before it.
    for (auto id = order.rbegin(); id != order.rend(); ++id) {
      if (group_of_[id->value] >= 0) continue;
      if (graph_.node(*id).op == "ConcatV2") {
        GrowInto(*id);
      } else if (Fuses(*id)) {
        Draft draft{*id, false, ShapeOf(*id), {*id}, {}};
        Extend(draft);
        if (draft.members.size() > 1 || ReadsThrough(draft)) Keep(std::move(draft));
      }
    }
    const int32_t before = graph_.num_nodes();
    for (const Draft& group : groups_) Replace(group);
    if (!moved_.empty()) FollowMoved();
    return before - graph_.num_nodes();
  }

 private:
  const Shape& ShapeOf(NodeId id) const { return graph_.node(id).outputs[0].shape; }

  void FindLastUses(const std::vector<NodeId>& order) {
    position_ = PositionsIn(order, graph_.num_ids());
    last_use_.assign(graph_.num_ids(), -1);
    runs_at_ = position_;
    for (NodeId id : order) {
      for (OutputRef input : graph_.node(id).inputs) {
        last_use_[input.node.value] = std::max(last_use_[input.node.value], position_[id.value]);
      }
    }
  }

  bool Fuses(NodeId id) const {
    const Node& node = graph_.node(id);
    if (node.removed || Elementwise().count(node.op) == 0 || node.outputs.size() != 1 || node.dynamic_outputs != 0 ||
        node.run_time_values != 0 || node.inputs.size() > kMaxFusedInputs || !TypeFuses(node.outputs[0].dtype)) {
      return false;
    }
    if (node.attrs.GetOr<std::string>("data_format", "NHWC") != "NHWC" || ShapeOf(id).num_elements() == 0) return false;
    int64_t row = 0;
    for (OutputRef input : node.inputs) {
      const TensorType& type = graph_.type(input);
      if (graph_.node(input.node).dynamic_output(input.index) || !TypeFuses(type.dtype) ||
          !type.shape.fully_known()) {
        return false;
      }
      const Operand operand = OperandOf(type.shape, ShapeOf(id), &row);
      if (operand == Operand::kOther || (operand == Operand::kSpread && node.op == "BiasAdd")) return false;
      // A condition that is a vector chooses rows.
      if (node.op == "Select" && type.shape != ShapeOf(id)) return false;
    }
    return true;
  }

  static bool Has(const Draft& draft, NodeId id) {
    return id == draft.root || std::find(draft.members.begin(), draft.members.end(), id) != draft.members.end();
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

  // Whether someone else takes the member's result.
  bool NeededOutside(const Draft& draft, NodeId id) const {
    const auto uses = fanout_.of(id);
    return std::any_of(uses.begin(), uses.end(),
                       [&](const Fanout::Use& use) { return use.input >= 0 && !Has(draft, use.consumer); });
  }

  // Whether a tensor need not be there since what it repeats is read.
  bool ReadsThrough(const Draft& draft) const {
    const Outside outside = OutsideOf(draft);
    return outside.fits && IsOneKernel(draft) && ResultsKeepOff(draft, outside.inputs) &&
           std::any_of(outside.inputs.begin(), outside.inputs.end(), [](const FusedInput& input) { return input.spread; });
  }

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
    if ((several || outside.spreads) && !IsOneKernel(draft)) return false;
    if (!several) return true;
    // Each is a tensor more that is there at once: worth it where the launch is what takes time.
    const size_t parts = draft.concat ? graph_.node(draft.root).inputs.size() - 1 : 1;
    if (side.size() + parts > kMaxFusedResults) return false;
    const auto is_large = [&](NodeId id) { return graph_.node(id).outputs[0].size_bytes() > kMaxSideResultBytes; };
    return std::none_of(draft.members.begin(), draft.members.end(), is_large) &&
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
    Draft draft{concat, true, graph_.type(node.inputs[0]).shape, {}, {}};
    for (size_t i = 0; i + 1 < node.inputs.size(); ++i) {
      if (!Add(node.inputs[i].node, draft)) return;
    }
    Extend(draft);
    Keep(std::move(draft));
  }

  // Adds the node and what it cannot be without, or nothing.
  bool Add(NodeId id, Draft& draft) const {
    const size_t before = draft.members.size();
    if (Collect(id, draft) && (draft.members.size() == before || Fits(draft))) return true;
    draft.members.resize(before);
    return false;
  }

  bool Collect(NodeId id, Draft& draft) const {
    if (Has(draft, id)) return true;
    if (draft.members.size() >= kMaxFusedOps || !MayJoin(id, draft)) return false;
    draft.members.push_back(id);
    // Who needs it before the group runs has to be in the group.
    for (const Fanout::Use& use : fanout_.of(id)) {
      if (runs_at_[use.consumer.value] <= position_[draft.root.value] && !Collect(use.consumer, draft)) return false;
    }
    return true;
  }

  bool MayJoin(NodeId id, const Draft& draft) const {
    const NodeId root = draft.root;
    if (group_of_[id.value] >= 0 || !Fuses(id) || ShapeOf(id) != draft.shape ||
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
      group_of_[id.value] = static_cast<int32_t>(groups_.size());
      runs_at_[id.value] = position_[draft.root.value];
    };
    mark(draft.root);
    for (NodeId id : draft.members) mark(id);
    for (const Cut& cut : draft.cuts) {
      mark(cut.copy);
      if (cut.bias.valid()) mark(cut.bias);
    }
    groups_.push_back(std::move(draft));
  }

  // Leaves out a copy that nobody but the group reads.
  void TryCut(NodeId copy, Draft& draft) const {
    if (group_of_[copy.value] >= 0 || ViewOf(graph_, {copy, 0}) == std::nullopt ||
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
    if (node.op != "BiasAdd" || !Fuses(view->whole.node) || group_of_[view->whole.node.value] >= 0 || !view->last_axis ||
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

  // Whether the consumer, or the node that it has become part of, takes the result or waits for it.
  bool Takes(NodeId consumer, NodeId id) const {
    const int32_t group = group_of_[consumer.value];
    const Node& node = graph_.node(group >= 0 && graph_.node(consumer).removed ? groups_[group].root : consumer);
    const auto is = [id](OutputRef input) { return input.node == id; };
    return !node.removed && (std::any_of(node.inputs.begin(), node.inputs.end(), is) ||
                             std::find(node.control_inputs.begin(), node.control_inputs.end(), id) != node.control_inputs.end());
  }

  void Replace(const Draft& group);
  void RemoveUnused(const std::set<NodeId>& nodes);
  void FollowMoved();

  Graph& graph_;
  std::vector<uint64_t>& by_value_;
  const Fanout fanout_;
  std::vector<int32_t> position_, last_use_;
  std::vector<int32_t> runs_at_;   // position of the group's root, or the node's own
  std::vector<int32_t> group_of_;
  std::vector<Draft> groups_;
  std::map<int32_t, OutputRef> moved_;  // node that is gone -> where its result is now
};

void Fuser::Replace(const Draft& group) {
  FusedWriter writer(graph_, group);
  const std::vector<NodeId> side = SideResults(group);
  const Node old = graph_.node(group.root);
  std::vector<Shape> shapes{old.outputs[0].shape};
  if (group.concat) {
    const std::vector<StridedPart> parts = PartsOf(graph_, group.root);
    writer.set_row(parts[0].length);
    for (size_t i = 0; i < parts.size(); ++i) writer.AddResult(old.inputs[i], 0, parts[i].pitch, parts[i].offset);
  } else {
    writer.AddResult({group.root, 0}, 0, -1, 0);
  }
  Node& root = graph_.mutable_node(group.root);
  std::vector<NodeId> gone = group.members;
  for (const Cut& cut : group.cuts) {
    gone.push_back(cut.copy);
    if (cut.bias.valid()) gone.push_back(cut.bias);
  }
  if (group.concat) gone.push_back(group.root);
  for (NodeId id : gone) {
    if (id != group.root) moved_[id.value] = {group.root, 0};  // for those that wait for it
  }
  for (NodeId id : side) {
    moved_[id.value] = {group.root, static_cast<int32_t>(root.outputs.size())};
    writer.AddResult({id, 0}, static_cast<int64_t>(root.outputs.size()), -1, 0);
    root.outputs.push_back(graph_.node(id).outputs[0]);
    shapes.push_back(group.shape);
  }
  std::set<NodeId> constants, repeated;
  absl::InlinedVector<NodeId, 2> controls;
  for (NodeId id : gone) {
    for (NodeId control : graph_.node(id).control_inputs) {
      if (std::find(gone.begin(), gone.end(), control) == gone.end() &&
          std::find(controls.begin(), controls.end(), control) == controls.end()) {
        controls.push_back(control);
      }
    }
    for (OutputRef input : graph_.node(id).inputs) {
      if (graph_.node(input.node).op == "Const") constants.insert(input.node);
      if (ReadFor(graph_, input).spread) repeated.insert(input.node);
    }
  }
  root.op = "_Fused";
  root.reason = absl::StrCat(group.members.size(), " elementwise ops in one");
  root.attrs = writer.Attributes(std::move(shapes));
  root.inputs.clear();
  for (const FusedInput& input : writer.inputs()) root.inputs.push_back(input.ref);
  root.control_inputs = std::move(controls);
  by_value_[group.root.value] = 0;
  for (NodeId id : gone) {
    if (id != group.root) graph_.RemoveNode(id);
  }
  for (NodeId id : repeated) {
    const OutputRef numbers = graph_.node(id).inputs[1];
    if (graph_.node(numbers.node).op == "Const") constants.insert(numbers.node);
  }
  RemoveUnused(repeated);
  RemoveUnused(constants);
}

// Those that nobody takes now: what is repeated by who reads it, axes and begins of copies that are gone.
void Fuser::RemoveUnused(const std::set<NodeId>& nodes) {
  for (NodeId id : nodes) {
    const auto uses = fanout_.of(id);
    if (std::all_of(uses.begin(), uses.end(), [&](const Fanout::Use& use) { return !Takes(use.consumer, id); })) {
      graph_.RemoveNode(id);
    }
  }
}

void Fuser::FollowMoved() {
  for (int32_t i = 0; i < graph_.num_ids(); ++i) {
    if (graph_.node(NodeId{i}).removed) continue;
    Node& node = graph_.mutable_node(NodeId{i});
    for (OutputRef& input : node.inputs) {
      const auto moved = moved_.find(input.node.value);
      if (moved != moved_.end()) input = moved->second;
    }
    if (node.control_inputs.empty()) continue;
    absl::InlinedVector<NodeId, 2> controls;
    for (NodeId control : node.control_inputs) {
      const auto moved = moved_.find(control.value);
      const NodeId now = moved == moved_.end() ? control : moved->second.node;
      if (std::find(controls.begin(), controls.end(), now) == controls.end()) controls.push_back(now);
    }
    node.control_inputs = std::move(controls);
  }
}

}  // namespace

bool IsElementwise(const std::string& op) { return Elementwise().count(op) > 0; }

absl::StatusOr<int64_t> FuseElementwise(Graph& graph, std::vector<uint64_t>& by_value) {
  return Fuser(graph, by_value).Run();
}

}  // namespace millrace
