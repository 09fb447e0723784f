#include "passes/rewrite/repeated_ops.h"

#include <algorithm>
#include <set>

#include "passes/rewrite/fuse_elementwise.h"
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

std::vector<bool> OpsToRepeat(const Graph& graph, const Fanout& fanout, const std::vector<NodeId>& order) {
  std::vector<bool> repeated(graph.num_ids(), false);
  std::vector<size_t> row(graph.num_ids(), 0);  // how many that are repeated stand one behind another up to this one
  for (NodeId id : order) {
    size_t before = 0;
    for (OutputRef input : graph.node(id).inputs) before = std::max(before, row[input.node.value]);
    // No group computes a longer row, and who looks for its readers would go all along it.
    repeated[id.value] = before < kMaxFusedOps && MayRepeat(graph, fanout, id);
    row[id.value] = repeated[id.value] ? before + 1 : 0;
  }
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
