#include "passes/rewrite/fuse_elementwise.h"

#include <algorithm>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "millrace/status.h"
#include "millrace/tensor.h"

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

// How an operand goes with a shape.
enum class Operand { kFull, kOne, kRow, kOther };

Operand OperandOf(const Shape& operand, const Shape& shape, int64_t* row) {
  if (operand == shape) return Operand::kFull;
  if (operand.rank() > shape.rank()) return Operand::kOther;
  if (operand.num_elements() == 1) return Operand::kOne;
  int first = 0;
  while (first < operand.rank() && operand.dim(first) == 1) ++first;
  const int rank = operand.rank() - first;
  for (int d = 0; d < rank; ++d) {
    if (operand.dim(first + d) != shape.dim(shape.rank() - rank + d)) return Operand::kOther;
  }
  *row = operand.num_elements();
  return *row <= kMaxFusedRow ? Operand::kRow : Operand::kOther;
}

class Fuser {
 public:
  Fuser(Graph& graph, std::vector<uint64_t>& by_value)
      : graph_(graph), by_value_(by_value), fanout_(ComputeFanout(graph)), group_of_(graph.num_ids(), -1) {}

  absl::StatusOr<int64_t> Run() {
    MR_ASSIGN_OR_RETURN(const std::vector<NodeId> order, CreationOrder(graph_));
    FindLastUses(order);
    // Users first: a root takes what it can of what comes before it.
    for (auto id = order.rbegin(); id != order.rend(); ++id) {
      if (group_of_[id->value] < 0 && Fuses(*id)) Grow(*id);
    }
    int64_t gone = 0;
    for (std::vector<NodeId>& group : groups_) {
      gone += static_cast<int64_t>(group.size()) - 1;
      Replace(group);
    }
    return gone;
  }

 private:
  const Shape& ShapeOf(NodeId id) const { return graph_.node(id).outputs[0].shape; }

  void FindLastUses(const std::vector<NodeId>& order) {
    position_.assign(graph_.num_ids(), -1);
    last_use_.assign(graph_.num_ids(), -1);
    for (size_t p = 0; p < order.size(); ++p) position_[order[p].value] = static_cast<int32_t>(p);
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
          !type.shape.fully_known() || OperandOf(type.shape, ShapeOf(id), &row) == Operand::kOther) {
        return false;
      }
      // A condition that is a vector chooses rows.
      if (node.op == "Select" && type.shape != ShapeOf(id)) return false;
    }
    return true;
  }

  // What a group takes from outside, and the one length of its repeated rows.
  struct Outside {
    std::vector<OutputRef> inputs;
    int64_t row = 0;
    bool fits = true;
  };
  Outside OutsideOf(const std::vector<NodeId>& group) const {
    Outside outside;
    const Shape& shape = ShapeOf(group[0]);
    for (NodeId id : group) {
      for (OutputRef input : graph_.node(id).inputs) {
        if (std::find(group.begin(), group.end(), input.node) != group.end()) continue;
        int64_t row = 0;
        if (OperandOf(graph_.type(input).shape, shape, &row) == Operand::kRow) {
          outside.fits = outside.fits && (outside.row == 0 || outside.row == row);
          outside.row = row;
        }
        if (std::find(outside.inputs.begin(), outside.inputs.end(), input) == outside.inputs.end()) {
          outside.inputs.push_back(input);
        }
      }
    }
    outside.fits = outside.fits && outside.inputs.size() <= kMaxFusedInputs;
    return outside;
  }

  void Grow(NodeId root) {
    std::vector<NodeId> group{root};
    for (size_t at = 0; at < group.size(); ++at) {
      for (OutputRef input : graph_.node(group[at]).inputs) {
        if (group.size() >= kMaxFusedOps || !Joins(input.node, group)) continue;
        group.push_back(input.node);
        if (!OutsideOf(group).fits) group.pop_back();
      }
    }
    if (group.size() < 2) return;
    std::sort(group.begin(), group.end(), [&](NodeId a, NodeId b) { return position_[a.value] < position_[b.value]; });
    for (NodeId id : group) group_of_[id.value] = static_cast<int32_t>(groups_.size());
    groups_.push_back(std::move(group));
  }

  // Whether the node may be computed where the group's root is: nobody else uses it or waits for it.
  bool Joins(NodeId id, const std::vector<NodeId>& group) const {
    const NodeId root = group[0];
    if (group_of_[id.value] >= 0 || std::find(group.begin(), group.end(), id) != group.end() || !Fuses(id) ||
        ShapeOf(id) != ShapeOf(root) || graph_.node(id).requested_device != graph_.node(root).requested_device) {
      return false;
    }
    for (const Fanout::Use& use : fanout_.of(id)) {
      if (use.input < 0 || std::find(group.begin(), group.end(), use.consumer) == group.end()) return false;
    }
    // What it was computed from now lives until the root; one tensor instead of its result is no loss.
    int kept = 0;
    for (OutputRef input : graph_.node(id).inputs) {
      const bool full = graph_.type(input).shape == ShapeOf(root);
      kept += full && last_use_[input.node.value] <= position_[id.value] && graph_.node(input.node).op != "Const";
    }
    return kept <= 1 || position_[root.value] - position_[id.value] <= kMaxFusedDistance;
  }

  // `group` in creation order; the last is the root, which becomes the fused node.
  void Replace(const std::vector<NodeId>& group) {
    std::vector<NodeId> by_root(group.rbegin(), group.rend());
    const Outside outside = OutsideOf(by_root);
    std::vector<FunctionRef> ops;
    std::vector<int64_t> operands;
    std::vector<DataType> types;
    absl::InlinedVector<NodeId, 2> controls;
    for (NodeId id : group) {
      const Node& node = graph_.node(id);
      ops.push_back({node.op, std::make_shared<AttrMap>(node.attrs)});
      types.push_back(node.outputs[0].dtype);
      operands.push_back(static_cast<int64_t>(node.inputs.size()));
      for (OutputRef input : node.inputs) {
        const auto inner = std::find(group.begin(), group.end(), input.node);
        const auto outer = std::find(outside.inputs.begin(), outside.inputs.end(), input);
        operands.push_back(inner != group.end() ? -1 - (inner - group.begin()) : outer - outside.inputs.begin());
      }
      for (NodeId control : node.control_inputs) {
        if (std::find(controls.begin(), controls.end(), control) == controls.end()) controls.push_back(control);
      }
    }
    Node& root = graph_.mutable_node(group.back());
    root.op = "_Fused";
    root.attrs = AttrMap({{"operands", operands}, {"ops", ops}, {"row", outside.row}, {"types", types}});
    root.attrs.Set("shape", root.outputs[0].shape);
    root.inputs.assign(outside.inputs.begin(), outside.inputs.end());
    root.control_inputs = std::move(controls);
    root.reason = absl::StrCat(group.size(), " elementwise ops in one");
    by_value_[group.back().value] = 0;
    for (size_t i = 0; i + 1 < group.size(); ++i) graph_.RemoveNode(group[i]);
  }

  Graph& graph_;
  std::vector<uint64_t>& by_value_;
  const Fanout fanout_;
  std::vector<int32_t> position_, last_use_;
  std::vector<int32_t> group_of_;
  std::vector<std::vector<NodeId>> groups_;
};

}  // namespace

absl::StatusOr<int64_t> FuseElementwise(Graph& graph, std::vector<uint64_t>& by_value) {
  return Fuser(graph, by_value).Run();
}

}  // namespace millrace
