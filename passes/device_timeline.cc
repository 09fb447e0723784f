#include "passes/device_timeline.h"

#include <algorithm>

#include "passes/devices/add_send_recv.h"

namespace millrace {
namespace {

class Timer {
 public:
  Timer(const Graph& graph, const std::vector<const DeviceGraph*>& devices, const std::vector<RemoteWaits>& waits, const Machine& machine)
      : graph_(graph), devices_(devices), waits_(waits), machine_(machine), arrives_(graph.num_ids(), 0), lanes_(devices.size()) {
    for (size_t d = 0; d < devices.size(); ++d) lanes_[d].written.assign(devices[d]->access.storages.size(), 0);
  }

  DeviceTimeline Run(const std::vector<NodeId>& order) {
    for (const NodeId id : order) {
      const int32_t d = graph_.node(id).device;
      if (d == kHostDevice) continue;
      const std::vector<DeviceOperation>& operations = devices_[d]->operations;
      const size_t next = lanes_[d].ends.size();
      if (next < operations.size() && operations[next].node() == id) Take(d, static_cast<int32_t>(next));
    }
    return Result();
  }

 private:
  struct Lane {
    std::vector<double> begins, ends;  // of the operations so far
    std::vector<double> written;       // storages' last writes
    double end = 0;                    // of the last operation that computed
  };

  void Take(int32_t d, int32_t i) {
    const DeviceGraph& device = *devices_[d];
    const DeviceOperation& operation = device.operations[i];
    Lane& lane = lanes_[d];
    double ready = 0;  // what it waits for on other devices
    for (const Access& access : device.access.of(i)) {
      const Node& root = graph_.node(device.root[access.storage].node);
      if (root.op == kRecvOp) ready = std::max(ready, arrives_[root.inputs[0].node.value]);
    }
    for (const RemoteWait& wait : waits_[d].of(i)) ready = std::max(ready, lanes_[wait.device].ends[wait.operation]);
    if (operation.is_fetch) {
      const absl::Span<const Access> sent = device.access.of(i);  // none where the tensor is empty
      const double written = sent.empty() ? 0 : lane.written[sent[0].storage];
      const Node& copy = graph_.node(operation.node());
      if (copy.op == kSendOp) arrives_[operation.node().value] = std::max(written, ready) + CopySeconds(copy.outputs[0].size_bytes());
      lane.begins.push_back(lane.end);
      lane.ends.push_back(lane.end);
      return;
    }
    lane.begins.push_back(std::max(lane.end, ready));
    lane.end = lane.begins.back() + device.access.seconds[i];
    lane.ends.push_back(lane.end);
    for (const Access& access : device.access.of(i)) {
      if (access.writes) lane.written[access.storage] = lane.end;
    }
  }

  // To the host and on to the other device.
  double CopySeconds(int64_t bytes) const {
    const auto size = static_cast<double>(bytes);
    return 2 * machine_.copy_latency_seconds + size / machine_.to_host_bytes_per_second + size / machine_.to_device_bytes_per_second;
  }

  DeviceTimeline Result() const {
    DeviceTimeline timeline;
    for (const Lane& lane : lanes_) timeline.step_seconds = std::max(timeline.step_seconds, lane.end);
    for (size_t d = 0; d < lanes_.size(); ++d) {
      const std::vector<DeviceOperation>& operations = devices_[d]->operations;
      std::vector<double> seconds(operations.size(), 0);
      double next = timeline.step_seconds;
      size_t first = operations.size();
      for (size_t i = operations.size(); i-- > 0;) {
        if (operations[i].is_fetch) continue;
        seconds[i] = next - lanes_[d].begins[i];
        next = lanes_[d].begins[i];
        first = i;
      }
      if (first < operations.size()) seconds[first] += next;
      timeline.seconds.push_back(std::move(seconds));
    }
    return timeline;
  }

  const Graph& graph_;
  const std::vector<const DeviceGraph*>& devices_;
  const std::vector<RemoteWaits>& waits_;
  const Machine& machine_;
  std::vector<double> arrives_;  // per Send
  std::vector<Lane> lanes_;
};

}  // namespace

DeviceTimeline TimeDevices(const Graph& graph, const std::vector<NodeId>& order, const std::vector<const DeviceGraph*>& devices,
                           const std::vector<RemoteWaits>& waits, const Machine& machine) {
  return Timer(graph, devices, waits, machine).Run(order);
}

}  // namespace millrace
