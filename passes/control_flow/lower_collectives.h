// Lower collectives: what the replicas of a graph add up, gather or hand out together becomes ordinary nodes.
//
// A graph of tf.distribute.MirroredStrategy, or of several towers with NCCL, holds all its replicas. Where they add up their
// gradients there is a node per replica, and none of them goes on until all have come:
//
//   g0 ──► CollectiveReduceV2 ──► u0     becomes     g0 ──► AddN ─┬─► Identity ──► u0
//   g1 ──► CollectiveReduceV2 ──► u1                 g1 ───┘      └─► Identity ──► u1
//
// Nodes belong together by group and instance key, Nccl's by shared_name. Where instance keys are fed, the n-th collectives of
// all devices in creation order do, which is how TensorFlow hands keys out. Ranks follow the numbers of the devices.
//
// Needs: calls inlined. Establishes: no Collective* or Nccl* that this graph has all members of. Unimplemented names a
// group of which some members are elsewhere.
#ifndef MILLRACE_PASSES_CONTROL_FLOW_LOWER_COLLECTIVES_H_
#define MILLRACE_PASSES_CONTROL_FLOW_LOWER_COLLECTIVES_H_

#include <string>

#include "absl/status/statusor.h"
#include "millrace/graph.h"

namespace millrace {

// Whether the graph was changed.
absl::StatusOr<bool> LowerCollectives(Graph& graph);

// Whether an op is one of those that this pass takes away.
bool IsCollective(const std::string& op);

}  // namespace millrace

#endif  // MILLRACE_PASSES_CONTROL_FLOW_LOWER_COLLECTIVES_H_
