// A device with a clock and a capacity but no data: plans run on it in virtual time, through the same lanes and
// counters as on a real one. Its events equal the simulator's.
#ifndef MILLRACE_RUNTIME_DEVICES_NULL_NULL_DEVICE_H_
#define MILLRACE_RUNTIME_DEVICES_NULL_NULL_DEVICE_H_

#include <memory>

#include "runtime/runtime_device.h"

namespace millrace {

// Device "null:<index>" that takes every op of `kernels` to be runnable. memory_bytes 0: unlimited.
std::unique_ptr<RuntimeDevice> MakeNullDevice(int index, int64_t memory_bytes,
                                              std::shared_ptr<const KernelRegistry> kernels);

}  // namespace millrace

#endif  // MILLRACE_RUNTIME_DEVICES_NULL_NULL_DEVICE_H_
