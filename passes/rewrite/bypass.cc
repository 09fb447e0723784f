#include "passes/rewrite/bypass.h"

#include <algorithm>
#include <utility>

namespace millrace {
namespace {

// There from the start: nobody needs to wait for it, unless it does something.
bool IsSource(const Node& node) { return node.inputs.empty() && node.control_inputs.empty() && node.op != "_PrintFormatted"; }

}  // namespace

void Bypass::Remove(Graph& graph, NodeId id) {
  std::vector<NodeId>& before = before_[id.value];
  const Node& node = graph.node(id);
  for (OutputRef input : node.inputs) before.push_back(input.node);
  before.insert(before.end(), node.control_inputs.begin(), node.control_inputs.end());
  graph.RemoveNode(id);
}

void Bypass::Redirect(Graph& graph) const {
  if (before_.empty()) return;
  const auto gone = [&](NodeId id) { return before_.count(id.value) > 0; };
  std::vector<int32_t> opened_by(graph.num_ids(), -1);  // per node: who came past it last, so that none is looked for in a list
  for (int32_t i = 0; i < graph.num_ids(); ++i) {
    Node& node = graph.mutable_node(NodeId{i});
    if (node.removed || std::none_of(node.control_inputs.begin(), node.control_inputs.end(), gone)) continue;
    std::vector<NodeId> open;
    const auto add = [&](NodeId id) {
      if (std::exchange(opened_by[id.value], i) != i) open.push_back(id);
    };
    for (NodeId control : node.control_inputs) add(control);
    absl::InlinedVector<NodeId, 2> controls;
    for (size_t at = 0; at < open.size(); ++at) {
      const auto before = before_.find(open[at].value);
      if (before == before_.end()) {
        controls.push_back(open[at]);
        continue;
      }
      for (NodeId earlier : before->second) {
        if (gone(earlier) || !IsSource(graph.node(earlier))) add(earlier);
      }
    }
    node.control_inputs = std::move(controls);
  }
}

}  // namespace millrace
