#include "passes/rewrite/negate_last.h"

#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "millrace/guard.h"

namespace millrace {
namespace {

bool IsStatic(const Node& node) {
  return !node.removed && node.dynamic_outputs == 0 && node.run_time_values == 0 && !node.attrs.GetOr(kGuarded, false);
}

// Whether the node sums what a Neg makes for it alone.
bool SumsNegated(const Graph& graph, const Fanout& fanout, NodeId id) {
  const Node& sum = graph.node(id);
  if ((sum.op != "Sum" && sum.op != "Mean") || !IsStatic(sum)) return false;
  const NodeId from = sum.inputs[0].node;
  const Node& negated = graph.node(from);
  if (negated.op != "Neg" || !IsStatic(negated) || fanout.of(from).size() != 1 || negated.requested_device != sum.requested_device) {
    return false;
  }
  const TensorType &whole = negated.outputs[0], &part = sum.outputs[0];
  return IsFloating(whole.dtype) && whole.shape.fully_known() && part.shape.fully_known() &&
         part.shape.num_elements() < whole.shape.num_elements();
}

// The Neg becomes the sum, which becomes the Neg: each has the place and the waits that it had.
void Swap(Graph& graph, NodeId sum_id, std::vector<uint64_t>& by_value) {
  const NodeId from = graph.node(sum_id).inputs[0].node;
  Node& negated = graph.mutable_node(from);
  Node& sum = graph.mutable_node(sum_id);
  std::swap(negated.op, sum.op);
  std::swap(negated.attrs, sum.attrs);
  negated.inputs.push_back(sum.inputs[1]);
  negated.outputs[0] = sum.outputs[0];
  sum.inputs.resize(1);
  sum.reason = negated.reason = "negated after the sum";
  std::swap(by_value[from.value], by_value[sum_id.value]);
  graph.Rename(from, absl::StrCat(sum.name, "/positive"));
}

}  // namespace

int64_t NegateLast(Graph& graph, const std::vector<std::string>& targets, std::vector<uint64_t>& by_value) {
  const std::set<std::string> kept(targets.begin(), targets.end());
  const Fanout fanout = ComputeFanout(graph);
  by_value.resize(graph.num_ids(), 0);
  int64_t swapped = 0;
  for (int32_t i = 0; i < graph.num_ids(); ++i) {
    if (!SumsNegated(graph, fanout, NodeId{i}) || kept.count(graph.node(graph.node(NodeId{i}).inputs[0].node).name) > 0) continue;
    Swap(graph, NodeId{i}, by_value);
    ++swapped;
  }
  return swapped;
}

}  // namespace millrace
