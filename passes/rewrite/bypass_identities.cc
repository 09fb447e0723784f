#include "passes/rewrite/bypass_identities.h"

#include <algorithm>
#include <set>
#include <utility>

#include "millrace/status.h"
#include "passes/control_flow/creation_places.h"
#include "passes/rewrite/bypass.h"
#include "passes/rewrite/order_variable_accesses.h"

namespace millrace {
namespace {

constexpr size_t kMostControls = 8;  // each of its takers would have them

bool MayGo(const Graph& graph, const OpRegistry& ops, const Node& node) {
  if (node.op != "IdentityN" || node.control_inputs.size() > kMostControls) return false;
  // A variable's memory is read when the node runs, not later.
  return std::none_of(node.inputs.begin(), node.inputs.end(),
                      [&](OutputRef input) { return VariableOf(graph, ops, input).valid(); });
}

// By node id, and how many there are.
std::pair<std::vector<bool>, int64_t> FindThoseThatGo(const Graph& graph, const OpRegistry& ops, const std::set<std::string>& kept) {
  std::vector<bool> goes(graph.num_ids(), false);
  for (int32_t i = 0; i < graph.num_ids(); ++i) {
    const Node& node = graph.node(NodeId{i});
    goes[i] = !node.removed && kept.count(node.name) == 0 && MayGo(graph, ops, node);
  }
  return {goes, std::count(goes.begin(), goes.end(), true)};
}

}  // namespace

absl::StatusOr<int64_t> BypassIdentities(Graph& graph, const OpRegistry& ops, const std::vector<std::string>& targets,
                                         std::vector<uint64_t>& by_value) {
  const std::set<std::string> kept(targets.begin(), targets.end());
  if (FindThoseThatGo(graph, ops, kept).second == 0) return 0;
  // Who took one value waited for all: where that alone put an access of a variable behind another, the order of creation does so now.
  MR_ASSIGN_OR_RETURN(const std::vector<NodeId> given, CreationOrder(graph));
  by_value.resize(graph.num_ids(), 0);
  RenumberAs(graph, given, by_value);
  auto [goes, gone] = FindThoseThatGo(graph, ops, kept);
  std::vector<bool> awaited(graph.num_ids(), false);
  std::vector<NodeId> waits_for(graph.num_ids());  // by node id: who came past it last, so that none is looked for in a list
  // One after another, so that of two in a row the second already takes what the first took.
  for (int32_t i = 0; i < graph.num_ids(); ++i) {
    const NodeId id{i};
    Node& node = graph.mutable_node(id);
    for (NodeId control : node.control_inputs) {
      waits_for[control.value] = id;
      awaited[control.value] = true;
    }
    for (OutputRef& input : node.inputs) {
      if (!goes[input.node.value]) continue;
      const Node& identity = graph.node(input.node);
      for (NodeId control : identity.control_inputs) {
        awaited[control.value] = true;
        if (std::exchange(waits_for[control.value], id) != id) node.control_inputs.push_back(control);
      }
      input = identity.inputs[input.index];
    }
    if (goes[i] && node.control_inputs.size() > kMostControls) {  // by those that went before it
      goes[i] = false;
      --gone;
    }
  }
  Bypass bypass;
  for (int32_t i = 0; i < graph.num_ids(); ++i) {
    if (!goes[i]) continue;
    if (awaited[i]) {
      bypass.Remove(graph, NodeId{i});
    } else {
      graph.RemoveNode(NodeId{i});
    }
  }
  bypass.Redirect(graph);
  return gone;
}

}  // namespace millrace
