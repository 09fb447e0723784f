#include "graph/needed_nodes.h"

namespace millrace {

std::vector<NodeId> FetchesAndTargets(const Graph& graph, const std::vector<std::string>& targets) {
  std::vector<NodeId> nodes;
  for (const std::string& target : targets) {
    const NodeId id = graph.Find(target.substr(0, target.rfind(':')));
    if (id.valid()) nodes.push_back(id);
  }
  for (int32_t i = 0; i < graph.num_ids(); ++i) {
    if (graph.alive(NodeId{i}) && graph.node(NodeId{i}).op == "_Fetch") nodes.push_back(NodeId{i});
  }
  return nodes;
}

std::vector<bool> NeededBy(const Graph& graph, const std::vector<NodeId>& nodes) {
  std::vector<bool> needed(graph.num_ids(), false);
  for (const NodeId id : nodes) needed[id.value] = true;
  const auto for_each_need = [&graph](NodeId id, const auto& need) {
    for (OutputRef input : graph.node(id).inputs) need(input.node);
    for (NodeId control : graph.node(id).control_inputs) need(control);
  };
  MarkNeeds(needed, for_each_need);
  return needed;
}

}  // namespace millrace
