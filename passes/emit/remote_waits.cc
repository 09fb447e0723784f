#include "passes/emit/remote_waits.h"

#include <algorithm>

#include "passes/devices/add_send_recv.h"

namespace millrace {
namespace {

constexpr int32_t kNone = -1;

class Finder {
 public:
  Finder(const Graph& graph, const std::vector<NodeId>& order, const std::vector<const DeviceGraph*>& devices)
      : graph_(graph),
        order_(order),
        devices_(devices),
        num_devices_(devices.size()),
        operation_(graph.num_ids(), kNone),
        latest_(graph.num_ids() * devices.size(), kNone) {}

  std::vector<RemoteWaits> Run() {
    for (size_t d = 0; d < num_devices_; ++d) {
      for (size_t i = 0; i < devices_[d]->operations.size(); ++i) {
        for (const OperationNode& node : devices_[d]->operations[i].nodes) {
          operation_[node.node.value] = static_cast<int32_t>(i);
        }
      }
    }
    for (const NodeId id : order_) FollowEdges(id);
    std::vector<RemoteWaits> result;
    for (size_t d = 0; d < num_devices_; ++d) result.push_back(WaitsOf(d));
    return result;
  }

 private:
  int32_t* Latest(NodeId id) { return &latest_[id.value * num_devices_]; }

  // For a node that runs nowhere: the latest operation of each device behind it.
  void FollowEdges(NodeId id) {
    const Node& node = graph_.node(id);
    if (operation_[id.value] != kNone) {
      Latest(id)[node.device] = operation_[id.value];
    } else if (node.op != kRecvOp) {
      for (const OutputRef input : node.inputs) RaiseBy(Latest(id), input.node);
      for (const NodeId control : node.control_inputs) RaiseBy(Latest(id), control);
    }
  }

  void RaiseBy(int32_t* latest, NodeId from) {
    for (size_t d = 0; d < num_devices_; ++d) latest[d] = std::max(latest[d], Latest(from)[d]);
  }

  RemoteWaits WaitsOf(size_t device) {
    RemoteWaits result;
    std::vector<int32_t> latest(num_devices_), waited(num_devices_, kNone);
    for (const DeviceOperation& operation : devices_[device]->operations) {
      result.first.push_back(static_cast<int64_t>(result.waits.size()));
      latest.assign(num_devices_, kNone);
      for (const OperationNode& node : operation.nodes) {
        for (const NodeId control : graph_.node(node.node).control_inputs) RaiseBy(latest.data(), control);
        for (const OutputRef input : graph_.node(node.node).inputs) {
          // Without bytes it comes without a Recv.
          const bool remote = graph_.node(input.node).device != static_cast<int32_t>(device);
          if (remote || operation_[input.node.value] == kNone) RaiseBy(latest.data(), input.node);
        }
      }
      for (size_t d = 0; d < num_devices_; ++d) {
        // The compute lane is in order: what an earlier operation waited for is done.
        if (d == device || latest[d] <= waited[d]) continue;
        if (!operation.is_fetch) waited[d] = latest[d];
        result.waits.push_back({static_cast<int32_t>(d), latest[d]});
      }
    }
    result.first.push_back(static_cast<int64_t>(result.waits.size()));
    return result;
  }

  const Graph& graph_;
  const std::vector<NodeId>& order_;
  const std::vector<const DeviceGraph*>& devices_;
  const size_t num_devices_;
  std::vector<int32_t> operation_;  // per node: index in its device's graph
  std::vector<int32_t> latest_;     // per node and device
};

}  // namespace

std::vector<RemoteWaits> FindRemoteWaits(const Graph& graph, const std::vector<NodeId>& order,
                                         const std::vector<const DeviceGraph*>& devices) {
  if (devices.size() < 2) return std::vector<RemoteWaits>(devices.size());
  return Finder(graph, order, devices).Run();
}

}  // namespace millrace
