// What the passes decided for one device.
#ifndef MILLRACE_PASSES_DEVICE_PLAN_H_
#define MILLRACE_PASSES_DEVICE_PLAN_H_

#include <cstdint>
#include <vector>

#include "passes/access/schedule.h"
#include "passes/access/storage.h"
#include "passes/access/swap_choice.h"
#include "passes/emit/insert_swaps.h"
#include "passes/emit/remote_waits.h"
#include "passes/memory/assign_memory.h"
#include "passes/planner/gaps.h"

namespace millrace {

struct DevicePlan {
  DeviceGraph device;
  GapGraph gaps;  // of `device`, once a policy has looked for them
  RemoteWaits remote_waits;
  SwapChoice choice;
  bool decided = false;  // the choice is the policy's last word
  Schedule schedule;
  MemoryAssignment memory;
  SwapNodes swaps;
  // Of several devices (device_timeline.h): what its operations take without waiting for others, and the step if memory were no matter.
  std::vector<double> own_seconds;
  double timeline_seconds = 0;
  double lower_bound_seconds = 0;  // no schedule of this order beats it, whatever it swaps
};

}  // namespace millrace

#endif  // MILLRACE_PASSES_DEVICE_PLAN_H_
