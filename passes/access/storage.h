// Storages: which tensors share memory, and the device graph as the swap policies see it (access_graph.h).
//
// Needs: types, an order, partitions. Establishes: a storage per memory, Node::in_place, an AccessGraph whose
// operation k is a compute or _Fetch node (or a few independent ones).
#ifndef MILLRACE_PASSES_ACCESS_STORAGE_H_
#define MILLRACE_PASSES_ACCESS_STORAGE_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/status/statusor.h"
#include "millrace/graph.h"
#include "millrace/op.h"
#include "millrace/options.h"
#include "millrace/types.h"
#include "passes/access/access_graph.h"
#include "passes/kernel_oracle.h"
#include "passes/shapes/infer_shapes.h"

namespace millrace {

inline constexpr int32_t kNoStorage = -1;

// A node that runs, with what cost rules and the device say of it.
struct OperationNode {
  NodeId node;
  const OpDef* def = nullptr;
  absl::InlinedVector<int32_t, 4> input_storages;  // kNoStorage for inputs by value and for empty tensors
  int32_t dynamic = -1;  // into DeviceGraph::dynamic_nodes
  bool is_view = false;  // runs for the shape of its output alone
  bool is_dynamic() const { return dynamic >= 0; }
  double seconds = 0;
  int64_t scratch_bytes = 0;
};

// Of a node that has inputs or outputs whose shape, or values, are known only when running.
struct DynamicNode {
  std::vector<int32_t> input_shapes, output_shapes;  // into DeviceGraph::dynamic_tensors, -1 for known shapes
};

// What happens at one time of the device graph: one node, or a few small ones that are independent and may run at
// once; or a fetch or Send, which copies to the host.
struct DeviceOperation {
  bool is_fetch = false;
  absl::InlinedVector<OperationNode, 1> nodes;
  NodeId node() const { return nodes.front().node; }
};

// Independent neighbours join while their predicted times lie in this range: shorter ones are not worth a thread,
// longer ones have parallelism of their own.
inline constexpr double kMinJoinedSeconds = 5e-6;
inline constexpr double kMaxJoinedSeconds = 1e-3;
inline constexpr size_t kMaxJoinedNodes = 8;

struct DeviceGraph {
  std::vector<DeviceOperation> operations;  // in order
  AccessGraph access;                       // operation k of both is the same
  // Storage of output o of node n: storage_of[first_output[n] + o]; kNoStorage for what has no memory.
  std::vector<int32_t> first_output;
  std::vector<int32_t> storage_of;
  // Per storage: the tensor that made it (a variable's, constant's or feed's node for those).
  std::vector<OutputRef> root;

  std::vector<std::pair<NodeId, InPlace>> in_place;  // what Node::in_place holds, by node

  std::vector<std::string> dynamic_tensors;  // names of tensors whose shape is known only when running
  std::vector<DynamicNode> dynamic_nodes;
  std::vector<OpInstance> instances;         // by MakeInstances: of the operations' nodes, in order, but for fetches

  int32_t storage(OutputRef ref) const { return storage_of[first_output[ref.node.value] + ref.index]; }
};

// The nodes of one device, and what it has in host memory, in order.
struct DeviceOrder {
  std::vector<NodeId> nodes;
  // Per node: how many nodes of other devices come before it in the order of all. Nodes between which another device
  // works do not join. Empty when there is one device.
  std::vector<int32_t> others_before;
};

// The part of a total order that each device sees.
std::vector<DeviceOrder> SplitByDevice(const Graph& graph, const std::vector<NodeId>& order, int32_t num_devices);

// Op definitions and variables of all nodes, times and scratch of those that run: they are the same in every order. Of a node with dynamic shapes, what the
// largest of the possible ones take. A node whose output is larger than its device's budget has none: it is refused later.
absl::Status EstimateRuns(const Graph& graph, const OpRegistry& ops, KernelOracle& oracle, const Machine& machine,
                          const PlanningOptions& options, InferenceResult& inferred);

struct DeviceGraphOptions {
  int64_t max_joined_bytes = 0;  // nodes that join touch at most so many together
  bool names = true;             // of storages, as messages and BuildPlan need them
  int64_t alignment = kTensorAlignment;  // of addresses
  // A result does not take the place of what is on its way to the host, for whose copy it would wait, where that is no larger.
  int64_t max_kept_bytes = 0;
  double copy_latency_seconds = 0, to_host_bytes_per_second = 1;
};
// Chooses in-place outputs, then lists storages and accesses. What a Recv brings is a storage of its own, in host memory
// from the first operation after its Send on; it is named as that Recv until NameReceived. Needs what EstimateRuns finds.
DeviceGraph BuildDeviceGraph(Graph& graph, const DeviceOrder& order, const InferenceResult& inferred,
                             const DeviceGraphOptions& options);

// Of a device graph of one partition, without names, that has been cut into partitions since, each of which begins with an
// operation: what BuildDeviceGraph would make of it now. Other orders of the same graph may have been looked at in between.
void NameAndCut(Graph& graph, DeviceGraph& device);

// What DeviceGraphOptions::names leaves out when off.
void NameStorages(const Graph& graph, DeviceGraph& device);

// OperationNode::instance of every node, as BuildPlan needs them.
void MakeInstances(const Graph& graph, const InferenceResult& inferred, DeviceGraph& device);

// Received storages go by the name of the storage that was sent.
void NameReceived(const Graph& graph, std::vector<DeviceGraph*> devices);

}  // namespace millrace

#endif  // MILLRACE_PASSES_ACCESS_STORAGE_H_
