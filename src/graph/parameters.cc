#include "graph/parameters.h"

#include <vector>

#include "absl/strings/match.h"

namespace millrace {
namespace {

bool IsOptimizerUpdate(const Node& node) {
  for (const char* prefix : {"Apply", "SparseApply", "ResourceApply", "ResourceSparseApply"}) {
    if (absl::StartsWith(node.op, prefix)) return !node.inputs.empty();
  }
  return false;
}

}  // namespace

bool IsVariable(const Node& node) {
  return node.op == "VarHandleOp" || node.op == "VariableV2" || node.op == "Variable";
}

Parameters ParametersOf(const Graph& graph) {
  std::vector<bool> updated(graph.num_ids(), false);
  bool any_updated = false;
  for (int32_t i = 0; i < graph.num_ids(); ++i) {
    const Node& node = graph.node(NodeId{i});
    if (node.removed || !IsOptimizerUpdate(node)) continue;
    any_updated = true;
    updated[node.inputs[0].node.value] = true;
  }
  Parameters parameters;
  for (int32_t i = 0; i < graph.num_ids(); ++i) {
    const Node& node = graph.node(NodeId{i});
    if (node.removed || !IsVariable(node) || (any_updated && !updated[i])) continue;
    const TensorType type{node.attrs.GetOr("dtype", DataType::kInvalid), node.attrs.GetOr("shape", Shape::UnknownRank())};
    if (!type.shape.fully_known()) continue;
    parameters.elements += type.shape.num_elements();
    parameters.bytes += type.size_bytes();
  }
  return parameters;
}

}  // namespace millrace
