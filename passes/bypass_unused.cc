#include "passes/bypass_unused.h"

#include <set>

#include "millrace/status.h"
#include "passes/bypass.h"

namespace millrace {
namespace {

// Runs for its values alone.
bool IsPure(const Node& node, const OpRegistry& ops) {
  const OpDef* def = ops.Find(node.op);
  return def != nullptr && !def->stateful && !def->is_no_op && !def->is_variable && !def->returns_variable &&
         def->variables.empty() && !node.outputs.empty() && node.op[0] != '_' && node.op != "Placeholder" &&
         node.op != "CheckNumerics" && node.op != "CheckNumericsV2";
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
  Bypass bypass;
  int64_t gone = 0;
  for (auto id = order.rbegin(); id != order.rend(); ++id) {
    const Node& node = graph.node(*id);
    if (takers[id->value] > 0 || waiters[id->value] == 0 || !IsPure(node, ops) || kept.count(node.name) > 0) continue;
    for (OutputRef input : node.inputs) {
      --takers[input.node.value];
      ++waiters[input.node.value];
    }
    bypass.Remove(graph, *id);
    ++gone;
  }
  bypass.Redirect(graph);
  return gone;
}

}  // namespace millrace
