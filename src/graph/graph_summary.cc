#include "graph/graph_summary.h"

#include "graph/parameters.h"

namespace millrace {

GraphSummary SummaryOf(const Graph& graph) {
  GraphSummary summary;
  summary.parameter_bytes = ParametersOf(graph).bytes;
  for (int32_t i = 0; i < graph.num_ids(); ++i) {
    const Node& node = graph.node(NodeId{i});
    if (node.removed || node.op == "_Fetch") continue;
    ++summary.nodes;
    summary.edges += static_cast<int64_t>(node.inputs.size() + node.control_inputs.size());
  }
  return summary;
}

}  // namespace millrace
