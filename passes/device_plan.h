// What the passes decided for one device.
#ifndef MILLRACE_PASSES_DEVICE_PLAN_H_
#define MILLRACE_PASSES_DEVICE_PLAN_H_

#include <cstdint>
#include <vector>

#include "passes/assign_memory.h"
#include "passes/choose_swaps.h"
#include "passes/insert_swaps.h"
#include "passes/remote_waits.h"
#include "passes/schedule.h"
#include "passes/storage.h"

namespace millrace {

struct DevicePlan {
  DeviceGraph device;
  RemoteWaits remote_waits;
  SwapChoice choice;
  Schedule schedule;
  MemoryAssignment memory;
  SwapNodes swaps;
  double lower_bound_seconds = 0;  // no schedule of this order beats it, whatever it swaps
};

}  // namespace millrace

#endif  // MILLRACE_PASSES_DEVICE_PLAN_H_
