#include "passes/unroll/effects_before.h"

#include "passes/shapes/effects.h"

namespace millrace {

std::vector<std::string> EffectsBefore(const Graph& graph, const OpRegistry& ops, absl::Span<const OutputRef> values,
                                       absl::FunctionRef<bool(NodeId)> is_guarded) {
  std::vector<std::string> effects;
  std::vector<bool> seen(graph.num_ids(), false);
  std::vector<NodeId> next;
  const auto reach = [&](NodeId id) {
    if (!graph.alive(id) || seen[id.value]) return;
    seen[id.value] = true;
    next.push_back(id);
  };
  for (const OutputRef& value : values) reach(value.node);
  while (!next.empty()) {
    const NodeId id = next.back();
    next.pop_back();
    const Node& node = graph.node(id);
    const OpDef* const def = ops.Find(node.op);
    const bool acts = def != nullptr && (def->state_bytes > 0 || WritesVariables(*def));
    if (acts && !is_guarded(id)) effects.push_back(node.name);
    for (const OutputRef& input : node.inputs) reach(input.node);
    for (const NodeId control : node.control_inputs) reach(control);
  }
  return effects;
}

}  // namespace millrace
