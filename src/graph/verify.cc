#include "graph/verify.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "millrace/status.h"

namespace millrace {

absl::Status CheckNodeIds(const Graph& graph) {
  const auto is_node = [&](NodeId id) { return id.value >= 0 && id.value < graph.num_ids() && graph.alive(id); };
  for (int32_t i = 0; i < graph.num_ids(); ++i) {
    const Node& node = graph.node(NodeId{i});
    if (node.removed) continue;
    for (const OutputRef input : node.inputs) {
      if (is_node(input.node) && input.index >= 0) continue;
      return absl::InvalidArgumentError(absl::StrCat("node '", node.name, "' has output ", input.index, " of node number ", input.node.value,
                                                     " for an input, which is not in the graph"));
    }
    for (const NodeId control : node.control_inputs) {
      if (is_node(control)) continue;
      return absl::InvalidArgumentError(absl::StrCat("node '", node.name, "' has node number ", control.value,
                                                     " for a control input, which is not in the graph"));
    }
  }
  return absl::OkStatus();
}

bool IsBackEdge(const Node& producer, const Node& consumer) {
  return (producer.op == "NextIteration" || producer.op == "RefNextIteration") &&
         (consumer.op == "Merge" || consumer.op == "RefMerge");
}

namespace {

absl::Status VerifyReference(const Graph& graph, const Node& consumer, NodeId producer, const char* what) {
  if (producer.value < 0 || producer.value >= graph.num_ids() || !graph.alive(producer)) {
    return absl::InvalidArgumentError(absl::StrCat("node '", consumer.name, "' (", consumer.op, ") has ", what,
                                                   " that is not in the graph (id ", producer.value, ")"));
  }
  return absl::OkStatus();
}

absl::Status VerifyName(const Graph& graph, NodeId id) {
  const Node& node = graph.node(id);
  if (node.name.empty() || node.op.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("node ", id.value, " '", node.name, "' has no ",
                                                   node.name.empty() ? "name" : "op"));
  }
  if (graph.Find(node.name) != id) {
    return absl::InvalidArgumentError(absl::StrCat("two nodes are named '", node.name, "'"));
  }
  return absl::OkStatus();
}

absl::Status VerifyNode(const Graph& graph, NodeId id) {
  const Node& node = graph.node(id);
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    const OutputRef input = node.inputs[i];
    MR_RETURN_IF_ERROR(VerifyReference(graph, node, input.node, "an input"));
    const Node& producer = graph.node(input.node);
    const size_t outputs = producer.outputs.size();
    if (input.index < 0 || (outputs > 0 && static_cast<size_t>(input.index) >= outputs)) {
      return absl::InvalidArgumentError(absl::StrCat("node '", node.name, "' (", node.op, ") takes input '",
                                                     producer.name, ":", input.index, "', but '", producer.name,
                                                     "' (", producer.op, ") has ", outputs, outputs == 1 ? " output" : " outputs"));
    }
  }
  for (NodeId control : node.control_inputs) {
    MR_RETURN_IF_ERROR(VerifyReference(graph, node, control, "a control input"));
  }
  for (const InPlace& pair : node.in_place) {
    const bool in_range = pair.input >= 0 && static_cast<size_t>(pair.input) < node.inputs.size() &&
                          pair.output >= 0 && static_cast<size_t>(pair.output) < node.outputs.size();
    if (in_range) continue;
    return absl::InvalidArgumentError(absl::StrCat("node '", node.name, "' (", node.op, ") has output ", pair.output,
                                                   " in place of input ", pair.input, ", which it does not have"));
  }
  return absl::OkStatus();
}

// Names of the nodes of one cycle among those with pending inputs, "a -> b -> a".
std::string DescribeCycle(const Graph& graph, const std::vector<int32_t>& pending) {
  constexpr size_t kMaxNames = 6;
  // Walking back along pending producers from any pending node must come to a node twice.
  int32_t start = 0;
  while (pending[start] == 0) ++start;
  std::vector<int32_t> path;
  std::vector<bool> seen(pending.size(), false);
  int32_t at = start;
  while (!seen[at]) {
    seen[at] = true;
    path.push_back(at);
    const Node& node = graph.node(NodeId{at});
    auto follow = [&](NodeId producer) {
      if (pending[producer.value] == 0 || IsBackEdge(graph.node(producer), node)) return false;
      at = producer.value;
      return true;
    };
    const bool by_data = std::any_of(node.inputs.begin(), node.inputs.end(),
                                     [&](const OutputRef& input) { return follow(input.node); });
    if (!by_data) std::any_of(node.control_inputs.begin(), node.control_inputs.end(), follow);
  }
  path.erase(path.begin(), std::find(path.begin(), path.end(), at));
  std::reverse(path.begin(), path.end());
  std::string text;
  for (size_t i = 0; i < std::min(path.size(), kMaxNames); ++i) {
    absl::StrAppend(&text, "'", graph.node(NodeId{path[i]}).name, "' -> ");
  }
  if (path.size() > kMaxNames) absl::StrAppend(&text, "… (", path.size(), " nodes) -> ");
  return absl::StrCat(text, "'", graph.node(NodeId{path[0]}).name, "'");
}

absl::Status VerifyAcyclic(const Graph& graph) {
  const Fanout fanout = ComputeFanout(graph);
  std::vector<int32_t> pending(graph.num_ids(), 0);
  std::vector<int32_t> ready;
  for (int32_t i = 0; i < graph.num_ids(); ++i) {
    for (const Fanout::Use& use : fanout.of(NodeId{i})) {
      if (!IsBackEdge(graph.node(NodeId{i}), graph.node(use.consumer))) ++pending[use.consumer.value];
    }
  }
  for (int32_t i = 0; i < graph.num_ids(); ++i) {
    if (graph.alive(NodeId{i}) && pending[i] == 0) ready.push_back(i);
  }
  int32_t done = 0;
  while (!ready.empty()) {
    const NodeId id{ready.back()};
    ready.pop_back();
    ++done;
    for (const Fanout::Use& use : fanout.of(id)) {
      if (IsBackEdge(graph.node(id), graph.node(use.consumer))) continue;
      if (--pending[use.consumer.value] == 0) ready.push_back(use.consumer.value);
    }
  }
  if (done == graph.num_nodes()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("the graph has a cycle: ", DescribeCycle(graph, pending),
                                                 "; expected cycles only through NextIteration of a loop"));
}

}  // namespace

absl::Status VerifyEdges(const Graph& graph) {
  for (int32_t i = 0; i < graph.num_ids(); ++i) {
    if (graph.alive(NodeId{i})) MR_RETURN_IF_ERROR(VerifyNode(graph, NodeId{i}));
  }
  return VerifyAcyclic(graph);
}

absl::Status VerifyGraph(const Graph& graph) {
  for (int32_t i = 0; i < graph.num_ids(); ++i) {
    if (graph.alive(NodeId{i})) MR_RETURN_IF_ERROR(VerifyName(graph, NodeId{i}));
  }
  return VerifyEdges(graph);
}

}  // namespace millrace
