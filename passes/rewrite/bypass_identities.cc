#include "passes/rewrite/bypass_identities.h"

#include <algorithm>
#include <set>

#include "millrace/status.h"
#include "passes/rewrite/bypass.h"
#include "passes/rewrite/order_variable_accesses.h"

namespace millrace {
namespace {

bool MayGo(const Graph& graph, const OpRegistry& ops, const Node& node) {
  if (node.op != "IdentityN") return false;
  // A variable's memory is read when the node runs, not later.
  return std::none_of(node.inputs.begin(), node.inputs.end(),
                      [&](OutputRef input) { return VariableOf(graph, ops, input).valid(); });
}

}  // namespace

absl::StatusOr<int64_t> BypassIdentities(Graph& graph, const OpRegistry& ops, const std::vector<std::string>& targets) {
  const std::set<std::string> kept(targets.begin(), targets.end());
  std::vector<bool> goes(graph.num_ids(), false);
  int64_t gone = 0;
  for (int32_t i = 0; i < graph.num_ids(); ++i) {
    const Node& node = graph.node(NodeId{i});
    goes[i] = !node.removed && kept.count(node.name) == 0 && MayGo(graph, ops, node);
    gone += goes[i] ? 1 : 0;
  }
  if (gone == 0) return gone;
  MR_ASSIGN_OR_RETURN(const std::vector<NodeId> order, CreationOrder(graph));
  // One after another, so that of two in a row the second already takes what the first took.
  for (NodeId id : order) {
    Node& node = graph.mutable_node(id);
    for (OutputRef& input : node.inputs) {
      if (!goes[input.node.value]) continue;
      const Node& identity = graph.node(input.node);
      for (NodeId control : identity.control_inputs) {
        if (std::find(node.control_inputs.begin(), node.control_inputs.end(), control) == node.control_inputs.end()) {
          node.control_inputs.push_back(control);
        }
      }
      input = identity.inputs[input.index];
    }
  }
  Bypass bypass;
  for (NodeId id : order) {
    if (goes[id.value]) bypass.Remove(graph, id);
  }
  bypass.Redirect(graph);
  return gone;
}

}  // namespace millrace
