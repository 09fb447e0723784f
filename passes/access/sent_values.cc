#include "passes/access/sent_values.h"

#include <algorithm>

#include "passes/devices/add_send_recv.h"

namespace millrace {

namespace {

// The latest operation from which on the copy is done twice over by the time of operation `before`.
int32_t LatestAnchor(const AccessGraph& graph, const Machine& machine, int64_t bytes, int32_t before) {
  double seconds = 2 * (machine.copy_latency_seconds + static_cast<double>(bytes) / machine.to_device_bytes_per_second);
  int32_t anchor = before;
  while (anchor > 0 && seconds > 0) seconds -= graph.seconds[--anchor];
  return anchor;
}

}  // namespace

bool DelayArrivals(const AccessGraph& graph, const Machine& machine, SwapChoice& choice) {
  bool changed = false;
  for (SwapDecision& d : choice.decisions) {
    const int32_t available = graph.storages[d.storage].available_from;
    if (available == 0 || !d.copy_in || d.before == SwapDecision::kToHost || d.after != SwapDecision::kFromHost) continue;
    d.reason = "another device sends it";
    if (d.anchor >= available) continue;
    d.anchor = std::max(available, LatestAnchor(graph, machine, graph.storages[d.storage].size_bytes, d.before));
    d.order = 0;  // of its former anchor
    changed = true;
  }
  return changed;
}

void ReuseSent(const Graph& graph, const DeviceGraph& device, SwapChoice& choice) {
  // Sends by storage, in order.
  std::vector<std::vector<int32_t>> sends(device.access.storages.size());
  for (int32_t i = 0; i < device.access.num_operations(); ++i) {
    const bool send = device.operations[i].is_fetch && graph.node(device.operations[i].node()).op == kSendOp;
    if (send) sends[device.access.of(i)[0].storage].push_back(i);
  }
  for (SwapDecision& d : choice.decisions) {
    if (!d.copy_out || device.access.storages[d.storage].kind != StorageKind::kActivation) continue;
    const std::vector<int32_t>& all = sends[d.storage];
    const auto send = std::upper_bound(all.begin(), all.end(), d.out_after);
    if (send == all.end() || *send > d.after) continue;
    d.copy_out = false;
    d.wait_out = false;
    d.sent = *send;
  }
}

}  // namespace millrace
