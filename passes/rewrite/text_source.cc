#include "passes/rewrite/text_source.h"

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

}  // namespace millrace
