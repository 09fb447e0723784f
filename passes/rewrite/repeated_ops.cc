#include "passes/rewrite/repeated_ops.h"

#include <set>

#include "passes/rewrite/group_ops.h"

namespace millrace {
namespace {

bool MayRepeat(const Graph& graph, const Fanout& fanout, NodeId id) {
  if (!MayBeInGroup(graph, id) || !IsCheapOfOne(graph, id)) return false;
  const Node& node = graph.node(id);
  std::set<NodeId> consumers;
  for (const Fanout::Use& use : fanout.of(id)) {
    // Who waits for it may write what it reads.
    if (use.input < 0) return false;
    const Node& consumer = graph.node(use.consumer);
    const bool computes = MayBeInGroup(graph, use.consumer) && consumer.outputs[0].shape == node.outputs[0].shape;
    if ((!computes && !ReductionOf(graph, use.consumer)) || consumer.requested_device != node.requested_device) return false;
    consumers.insert(use.consumer);
  }
  return consumers.size() > 1;
}

}  // namespace

std::vector<bool> OpsToRepeat(const Graph& graph, const Fanout& fanout) {
  std::vector<bool> repeated(graph.num_ids(), false);
  for (int32_t i = 0; i < graph.num_ids(); ++i) repeated[i] = MayRepeat(graph, fanout, NodeId{i});
  return repeated;
}

bool KeepRepeatable(const Graph& graph, const std::vector<NodeId>& order, const Groups& groups, std::vector<bool>& repeated) {
  std::vector<NodeId> others;
  const auto read_by = [&](NodeId id, int32_t group) {
    for (OutputRef input : graph.node(id).inputs) {
      if (repeated[input.node.value] && !groups.Computes(group, input.node)) others.push_back(input.node);
    }
  };
  for (NodeId id : order) {
    if (!repeated[id.value]) read_by(id, groups.of[id.value]);
  }
  for (size_t g = 0; g < groups.drafts.size(); ++g) {
    for (NodeId id : groups.drafts[g].members) read_by(id, static_cast<int32_t>(g));
  }
  for (NodeId id : others) repeated[id.value] = false;
  return !others.empty();
}

}  // namespace millrace
