#include "passes/control_flow/text_source.h"

#include <algorithm>

namespace millrace {

NodeId SourceOfText(const Graph& graph, OutputRef text, absl::InlinedVector<NodeId, 2>& waits) {
  for (NodeId from = text.node;; from = graph.node(from).inputs[0].node) {
    const Node& node = graph.node(from);
    for (NodeId control : node.control_inputs) {
      if (std::find(waits.begin(), waits.end(), control) == waits.end()) waits.push_back(control);
    }
    if (node.op != "Identity" || node.inputs.empty()) return from;
  }
}

NodeId HashedNumbers(const Graph& graph, const Node& hash, absl::InlinedVector<NodeId, 2>& waits) {
  if (hash.op == "StringToHashBucket" || hash.inputs.size() != 1) return NodeId();
  const NodeId from = SourceOfText(graph, hash.inputs[0], waits);
  const Node& text = graph.node(from);
  if (text.op != "AsString" || text.inputs.size() != 1) return NodeId();
  const DataType type = text.attrs.GetOr<DataType>("T", DataType::kInvalid);
  return IsInteger(type) || type == DataType::kBool ? from : NodeId();
}

}  // namespace millrace
