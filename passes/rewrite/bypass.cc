#include "passes/rewrite/bypass.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace millrace {
namespace {

// There from the start: nobody needs to wait for it, unless it does something.
bool IsSource(const Node& node) { return node.inputs.empty() && node.control_inputs.empty() && node.op != "_PrintFormatted"; }

}  // namespace

void Bypass::Remove(Graph& graph, NodeId id) {
  constexpr size_t kMost = 16;
  std::vector<NodeId> before;
  const auto add = [&](NodeId earlier) {
    if (std::find(before.begin(), before.end(), earlier) == before.end()) before.push_back(earlier);
  };
  const auto look_at = [&](NodeId earlier) {
    const auto gone = before_.find(earlier.value);
    if (gone == before_.end()) {
      if (!IsSource(graph.node(earlier))) add(earlier);
    } else {
      for (NodeId each : gone->second) add(each);
    }
  };
  const Node& node = graph.node(id);
  for (OutputRef input : node.inputs) look_at(input.node);
  for (NodeId control : node.control_inputs) look_at(control);
  if (before.size() <= kMost) {
    before_.emplace(id.value, std::move(before));
    graph.RemoveNode(id);
    return;
  }
  Node& awaited = graph.mutable_node(id);
  awaited.reason = absl::StrCat("waits for what ", node.op, " came behind");
  awaited.op = "NoOp";
  awaited.inputs.clear();
  awaited.outputs.clear();
  awaited.attrs = AttrMap();
  awaited.control_inputs.assign(before.begin(), before.end());
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
