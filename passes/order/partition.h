// Order and partition: puts every device graph into a depth-first order and cuts it into partitions of a fixed
// number of nodes, as TensorFlowMem does.
//
// One LIFO stack of ready nodes per device; the devices take turns, one node each; a node that becomes ready goes
// on top of its device's stack. When a device holds `partition_size` nodes of the current partition, the partition
// id goes up and all counts restart, so ids are global over devices. Partitions run one after another
// per device: one may compute p + 1 while another still computes p. Nodes in host memory (Variables, Constants)
// are ready from the start and belong to no partition. A _Fetch or Send follows its producer, a Recv its Send; they do
// not count.
//
// Needs: types, devices, ordered variable accesses. Establishes: a total order of all nodes; Node::partition.
#ifndef MILLRACE_PASSES_ORDER_PARTITION_H_
#define MILLRACE_PASSES_ORDER_PARTITION_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "graph/lazy_fanout.h"
#include "millrace/graph.h"
#include "millrace/op.h"

namespace millrace {

struct Partitioning {
  std::vector<NodeId> order;   // every node, topological
  int32_t num_partitions = 0;
};

// Depth-first order, cut every `partition_size` nodes per device. Requires partition_size >= 1. `fanout`: the graph's.
absl::StatusOr<Partitioning> PartitionDepthFirst(Graph& graph, int32_t num_devices, int64_t partition_size, LazyFanout& fanout);
absl::StatusOr<Partitioning> PartitionDepthFirst(Graph& graph, int32_t num_devices, int64_t partition_size);

// Cuts an order that there is in the same way: whenever a device holds `partition_size` nodes of a partition, the next begins.
void CutEvery(Graph& graph, int32_t num_devices, int64_t partition_size, Partitioning& partitioning);

// Creation order in one partition; copies between devices follow their producer.
absl::StatusOr<Partitioning> KeepCreationOrder(Graph& graph, LazyFanout& fanout);
absl::StatusOr<Partitioning> KeepCreationOrder(Graph& graph);

// Creation order, but nodes that only serve the updates of variables come as soon as their inputs are there: an
// optimizer's update right after its gradient, as far as the edges allow. In one partition.
absl::StatusOr<Partitioning> UpdateEarly(Graph& graph, const OpRegistry& ops, LazyFanout& fanout);

// Checks that the order is topological and that no edge leads to an earlier partition.
absl::Status VerifyPartitioning(const Graph& graph, const Partitioning& partitioning);

}  // namespace millrace

#endif  // MILLRACE_PASSES_ORDER_PARTITION_H_
