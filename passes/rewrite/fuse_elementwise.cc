#include "passes/rewrite/fuse_elementwise.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "millrace/status.h"
#include "millrace/tensor.h"
#include "passes/rewrite/find_groups.h"
#include "passes/rewrite/fused_writer.h"
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

class Fuser {
 public:
  Fuser(Graph& graph, std::vector<uint64_t>& by_value) : graph_(graph), by_value_(by_value), fanout_(ComputeFanout(graph)) {}

  absl::StatusOr<int64_t> Run() {
    MR_ASSIGN_OR_RETURN(const std::vector<NodeId> order, CreationOrder(graph_));
    groups_ = FindGroups(graph_, fanout_, order);
    const int32_t before = graph_.num_nodes();
    for (const Draft& group : groups_.drafts) Replace(group);
    if (!moved_.empty()) FollowMoved();
    return before - graph_.num_nodes();
  }

 private:
  // Whether the consumer, or the node that it has become part of, takes the result or waits for it.
  bool Takes(NodeId consumer, NodeId id) const {
    const int32_t group = groups_.of[consumer.value];
    const Node& node = graph_.node(group >= 0 && graph_.node(consumer).removed ? groups_.drafts[group].root : consumer);
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
  Groups groups_;
  std::map<int32_t, OutputRef> moved_;  // node that is gone -> where its result is now
};

void Fuser::Replace(const Draft& group) {
  FusedWriter writer(graph_, group);
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
  for (NodeId id : group.side_results) {
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
