#include "cli/graph_facts.h"

#include <algorithm>
#include <set>
#include <variant>
#include <vector>

#include "absl/functional/function_ref.h"
#include "graph/verify.h"
#include "millrace/status.h"

namespace millrace::cli {

absl::StatusOr<int64_t> Levels(const Graph& whole) {
  Graph graph = whole.Clone();
  for (int32_t i = 0; i < graph.num_ids(); ++i) {
    Node& node = graph.mutable_node(NodeId{i});
    const auto is_back_edge = [&](const OutputRef& input) { return IsBackEdge(graph.node(input.node), node); };
    node.inputs.erase(std::remove_if(node.inputs.begin(), node.inputs.end(), is_back_edge), node.inputs.end());
  }
  MR_ASSIGN_OR_RETURN(const std::vector<NodeId> order, CreationOrder(graph));
  std::vector<int64_t> level(graph.num_ids(), 0);
  int64_t most = 0;
  for (const NodeId id : order) {
    int64_t inputs = 0;
    for (const OutputRef input : graph.node(id).inputs) inputs = std::max(inputs, level[input.node.value]);
    for (const NodeId control : graph.node(id).control_inputs) inputs = std::max(inputs, level[control.value]);
    level[id.value] = inputs + 1;
    most = std::max(most, inputs + 1);
  }
  return most;
}

namespace {

// Calls `visit` with the nodes of the graph and of the functions that it reaches, each once, but for arguments and results, and with
// whether the node is in a function.
void VisitReached(const Graph& graph, absl::FunctionRef<void(const Node& node, bool in_function)> visit) {
  std::set<std::string> reached;
  std::vector<const Graph*> graphs = {&graph};
  const auto reach = [&](const std::string& function) {
    if (graph.library() == nullptr || !reached.insert(function).second) return;
    const auto found = graph.library()->find(function);
    if (found != graph.library()->end() && found->second.body != nullptr) graphs.push_back(found->second.body.get());
  };
  while (!graphs.empty()) {
    const Graph& next = *graphs.back();
    graphs.pop_back();
    for (int32_t i = 0; i < next.num_ids(); ++i) {
      const Node& node = next.node(NodeId{i});
      if (node.removed || node.op == "_Arg" || node.op == "_Retval") continue;
      for (const auto& [name, value] : node.attrs) {
        if (const auto* function = std::get_if<FunctionRef>(&value)) reach(function->name);
      }
      reach(node.op);
      visit(node, &next != &graph);
    }
  }
}

}  // namespace

int64_t NodesInFunctions(const Graph& graph) {
  int64_t nodes = 0;
  VisitReached(graph, [&](const Node&, bool in_function) { nodes += in_function ? 1 : 0; });
  return nodes;
}

std::map<std::string, int64_t> OpCounts(const Graph& graph) {
  std::map<std::string, int64_t> counts;
  VisitReached(graph, [&](const Node& node, bool) {
    const bool by_name = graph.library() != nullptr && graph.library()->count(node.op) > 0;
    const bool calls = by_name || node.op == "PartitionedCall" || node.op == "StatefulPartitionedCall" || node.op == "BatchFunction" ||
                       node.op == "RemoteCall";
    if (!calls) ++counts[node.op];
  });
  return counts;
}

std::map<std::string, int64_t> UnsupportedOps(const std::map<std::string, int64_t>& counts, const OpRegistry& ops) {
  std::map<std::string, int64_t> unsupported;
  for (const auto& [op, count] : counts) {
    if (ops.Find(op) == nullptr) unsupported[op] = count;
  }
  return unsupported;
}

}  // namespace millrace::cli
