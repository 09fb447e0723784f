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

// Whether the node takes or gives a tensor without elements.
bool HasNothing(const Graph& graph, const Node& node) {
  const auto nothing = [](const TensorType& type) { return type.shape.fully_known() && type.shape.num_elements() == 0; };
  return std::any_of(node.outputs.begin(), node.outputs.end(), nothing) ||
         std::any_of(node.inputs.begin(), node.inputs.end(), [&](OutputRef input) {
           const auto& outputs = graph.node(input.node).outputs;
           return static_cast<size_t>(input.index) < outputs.size() && nothing(outputs[input.index]);
         });
}

// For values that only a step has. Where there are no rows or classes, none of them can be harmless.
bool MayFail(const Graph& graph, const Node& node) {
  const auto comes_with_step = [&](size_t input) { return graph.node(node.inputs[input].node).op != "Const"; };
  const std::vector<size_t> checked = CheckedInputsOf(node);
  if (std::any_of(checked.begin(), checked.end(), comes_with_step)) return true;
  return !HarmlessInputsOf(node).empty() && HasNothing(graph, node);
}

}  // namespace

bool GuardFailures(Graph& graph, const std::vector<GuardedNode>& guarded) {
  bool changed = false;
  for (const auto& [id, guard] : guarded) {
    if (!graph.alive(id) || !graph.alive(guard.node)) continue;
    Node& node = graph.mutable_node(id);
    if (node.inputs.empty() || node.inputs.size() >= kMostInputs || node.op == "_Fetch") continue;  // what is there can be fetched
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
