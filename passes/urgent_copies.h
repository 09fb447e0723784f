// Urgent copies: what other devices wait for goes ahead of copies that can wait.
//
// A lane takes its copies in order. A Send behind copies that leave, a Recv behind copies that come back early, and copies behind a Recv
// that has not been sent are waits that a policy, which plans one device alone, does not see. All devices are replayed together; where
// that shows such waits, copies change places as far as addresses allow, and stay so if the step of all gets shorter.
#ifndef MILLRACE_PASSES_URGENT_COPIES_H_
#define MILLRACE_PASSES_URGENT_COPIES_H_

#include <vector>

#include "millrace/graph.h"
#include "millrace/options.h"
#include "passes/device_plan.h"
#include "passes/emit/host_pool.h"

namespace millrace {

// A step of all devices.
struct DevicesTimes {
  double step_seconds = 0;
  std::vector<std::vector<CopyTimes>> items;  // of each device's schedule
};

// Of devices that have schedules and addresses, as the finished plan runs. `order`: of all nodes but the copies.
DevicesTimes ReplayDevices(const Graph& graph, const std::vector<NodeId>& order, const Machine& machine, const std::vector<DevicePlan>& plans);

// Whether the step is shorter. Changes decisions, schedules and what memory is live; addresses stay.
bool LetUrgentCopiesPass(const Graph& graph, const std::vector<NodeId>& order, const Machine& machine, std::vector<DevicePlan>& plans);

}  // namespace millrace

#endif  // MILLRACE_PASSES_URGENT_COPIES_H_
