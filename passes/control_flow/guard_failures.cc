#include "passes/control_flow/guard_failures.h"

#include <algorithm>

#include "millrace/guard.h"
#include "passes/control_flow/harmless_inputs.h"

namespace millrace {
namespace {

// Bits that tell of inputs and outputs (Graph, op.h) end here.
constexpr size_t kMostInputs = 63;

bool IsDynamic(const Graph& graph, const Node& node) {
  if (node.dynamic_outputs != 0 || node.run_time_values != 0) return true;
  return std::any_of(node.inputs.begin(), node.inputs.end(),
                     [&](OutputRef input) { return graph.node(input.node).dynamic_output(input.index); });
}

// For values that only a step has.
bool MayFail(const Graph& graph, const Node& node) {
  if (!ChecksValues(node)) return false;
  return std::any_of(node.inputs.begin(), node.inputs.end(), [&](OutputRef input) { return graph.node(input.node).op != "Const"; });
}

}  // namespace

bool GuardFailures(Graph& graph, const std::vector<GuardedNode>& guarded) {
  bool changed = false;
  for (const auto& [id, guard] : guarded) {
    if (!graph.alive(id) || !graph.alive(guard.node)) continue;
    Node& node = graph.mutable_node(id);
    if (node.inputs.empty() || node.inputs.size() >= kMostInputs) continue;
    if (!IsDynamic(graph, node) && !MayFail(graph, node)) continue;
    if (node.attrs.GetOr(kGuarded, false) || node.attrs.GetOr(kEitherShape, false)) continue;
    // A guard of several outputs that folded is known: the branch is taken, or nobody asks for it.
    if (static_cast<size_t>(guard.index) >= graph.node(guard.node).outputs.size()) continue;
    node.inputs.push_back(guard);
    node.attrs.Set(kGuarded, true);
    changed = true;
  }
  return changed;
}

}  // namespace millrace
