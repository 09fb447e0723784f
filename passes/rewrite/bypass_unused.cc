#include "passes/rewrite/bypass_unused.h"

#include <set>

#include "millrace/status.h"
#include "passes/rewrite/bypass.h"

namespace millrace {
namespace {

// Ops without effects that cannot fail when they run: errors of those that can (an index out of range) are not lost.
const std::set<std::string>& Harmless() {
  static const auto* ops = new std::set<std::string>{
      "Abs", "Add", "AddN", "AddV2", "AvgPool", "AvgPoolGrad", "BatchMatMul", "BatchMatMulV2", "BatchMatMulV3", "BiasAdd",
      "BiasAddGrad", "BroadcastGradientArgs", "BroadcastTo", "Cast", "ConcatV2", "Const", "Conv2D", "Conv2DBackpropFilter",
      "Conv2DBackpropInput", "Conv3D", "Conv3DBackpropFilterV2", "Conv3DBackpropInputV2", "DepthwiseConv2dNative",
      "DepthwiseConv2dNativeBackpropFilter", "DepthwiseConv2dNativeBackpropInput", "Einsum", "EluGrad", "Exp", "ExpandDims",
      "Fill", "Identity", "LRN", "LRNGrad", "Log", "MatMul", "MaxPool", "MaxPoolGrad", "Maximum", "Mean", "Minimum", "Mul",
      "Neg", "OnesLike", "Pack", "Pad", "RealDiv", "Relu", "Relu6Grad", "ReluGrad", "Reshape", "Rsqrt", "RsqrtGrad",
      "Select", "SelectV2", "Shape", "Sigmoid", "SigmoidGrad", "Slice", "Softmax", "Sqrt", "SqrtGrad", "Square", "Squeeze",
      "StridedSlice", "StridedSliceGrad", "Sub", "Sum", "Tanh", "TanhGrad", "Tile", "Transpose", "ZerosLike"};
  return *ops;
}

// Runs for its values alone.
bool IsPure(const Node& node, const OpRegistry& ops) {
  const OpDef* def = ops.Find(node.op);
  return Harmless().count(node.op) > 0 && def != nullptr && !def->stateful && def->variables.empty();
}

}  // namespace

absl::StatusOr<int64_t> BypassUnused(Graph& graph, const OpRegistry& ops, const std::vector<std::string>& targets) {
  MR_ASSIGN_OR_RETURN(const std::vector<NodeId> order, CreationOrder(graph));
  std::vector<int32_t> takers(graph.num_ids(), 0), waiters(graph.num_ids(), 0);
  for (NodeId id : order) {
    for (OutputRef input : graph.node(id).inputs) ++takers[input.node.value];
    for (NodeId control : graph.node(id).control_inputs) ++waiters[control.value];
  }
  const std::set<std::string> kept(targets.begin(), targets.end());
  std::vector<NodeId> unused;
  for (auto id = order.rbegin(); id != order.rend(); ++id) {
    const Node& node = graph.node(*id);
    if (takers[id->value] > 0 || waiters[id->value] == 0 || !IsPure(node, ops) || kept.count(node.name) > 0) continue;
    for (OutputRef input : node.inputs) {
      --takers[input.node.value];
      ++waiters[input.node.value];
    }
    unused.push_back(*id);
  }
  Bypass bypass;
  for (auto id = unused.rbegin(); id != unused.rend(); ++id) bypass.Remove(graph, *id);
  bypass.Redirect(graph);
  return static_cast<int64_t>(unused.size());
}

}  // namespace millrace
