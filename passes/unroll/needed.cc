#include "passes/unroll/needed.h"

#include <algorithm>

#include "passes/control_flow/inline_functions.h"

namespace millrace {
namespace {

// The values that nodes of the run's body use.
std::vector<bool> UsedValues(const Run& run, NodeId loop, size_t values) {
  const Graph& graph = run.body->graph;
  std::vector<bool> used(values, false);
  bool any = false;
  for (int32_t i = 0; i < graph.num_ids(); ++i) {
    const Node& node = graph.node(NodeId{i});
    if (node.removed || !run.needs(NodeId{i})) continue;
    if (std::find(node.control_inputs.begin(), node.control_inputs.end(), loop) != node.control_inputs.end()) return std::vector<bool>(values, true);
    for (const OutputRef& input : node.inputs) {
      if (input.node != loop || static_cast<size_t>(input.index) >= values) continue;
      used[input.index] = any = true;
    }
  }
  return any ? used : std::vector<bool>(values, true);
}

// Marks what `id` follows from.
void Reach(const Graph& graph, NodeId id, std::vector<bool>& reached) {
  std::vector<NodeId> next = {id};
  while (!next.empty()) {
    const NodeId at = next.back();
    next.pop_back();
    if (reached[at.value]) continue;
    reached[at.value] = true;
    const Node& node = graph.node(at);
    for (const OutputRef& input : node.inputs) next.push_back(input.node);
    next.insert(next.end(), node.control_inputs.begin(), node.control_inputs.end());
  }
}

// Values whose arguments are marked; whether there is one more than before.
bool TakeArguments(const Graph& graph, const std::vector<bool>& reached, std::vector<bool>& values) {
  bool more = false;
  for (int32_t i = 0; i < graph.num_ids(); ++i) {
    const Node& node = graph.node(NodeId{i});
    if (node.removed || !reached[i] || node.op != kArgOp) continue;
    const auto index = static_cast<size_t>(node.attrs.GetOr<int64_t>("index", 0));
    if (index >= values.size() || values[index]) continue;
    values[index] = more = true;
  }
  return more;
}

}  // namespace

NeededTurns FindNeeded(const Run& run, NodeId loop, const Body& condition, const Body& body) {
  NeededTurns needed;
  needed.values = UsedValues(run, loop, body.results.size());
  needed.in_condition.assign(condition.graph.num_ids(), false);
  needed.in_body.assign(body.graph.num_ids(), false);
  for (const NodeId result : condition.results) Reach(condition.graph, result, needed.in_condition);
  for (const NodeId control : condition.control_results) Reach(condition.graph, control, needed.in_condition);
  for (const NodeId control : body.control_results) Reach(body.graph, control, needed.in_body);
  TakeArguments(condition.graph, needed.in_condition, needed.values);
  do {
    for (size_t i = 0; i < body.results.size(); ++i) {
      if (needed.values[i]) Reach(body.graph, body.results[i], needed.in_body);
    }
  } while (TakeArguments(body.graph, needed.in_body, needed.values));
  return needed;
}

}  // namespace millrace
