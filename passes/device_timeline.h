// Device timeline: when operations of several devices run that wait for each other, if memory were no matter.
//
// A device's operations run one after another; one that reads what another device sends waits for its last write and both copies,
// one with a remote wait for the end of that operation. Copies do not wait for each other. So no step of this order is shorter, and the
// time between a device's operations, in which it waits, is time in which its own copies are hidden.
//
// Needs: device graphs and remote waits of one total order.
#ifndef MILLRACE_PASSES_DEVICE_TIMELINE_H_
#define MILLRACE_PASSES_DEVICE_TIMELINE_H_

#include <vector>

#include "millrace/graph.h"
#include "millrace/options.h"
#include "passes/access/storage.h"
#include "passes/emit/remote_waits.h"

namespace millrace {

struct DeviceTimeline {
  // Per device and operation: from its begin to that of the next one that computes, the first one's from the step's begin, the last one's to the
  // step's end; 0 for copies to the host. A device that computes nothing has no time.
  std::vector<std::vector<double>> seconds;
  double step_seconds = 0;
};

DeviceTimeline TimeDevices(const Graph& graph, const std::vector<NodeId>& order, const std::vector<const DeviceGraph*>& devices,
                           const std::vector<RemoteWaits>& waits, const Machine& machine);

}  // namespace millrace

#endif  // MILLRACE_PASSES_DEVICE_TIMELINE_H_
