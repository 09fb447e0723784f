// The default device: real kernels on the host's cores, a bounded arena that stands for device memory, and real
// copies between it and the rest of host memory.
#ifndef MILLRACE_RUNTIME_DEVICES_CPU_CPU_DEVICE_H_
#define MILLRACE_RUNTIME_DEVICES_CPU_CPU_DEVICE_H_

#include <memory>

#include "runtime/runtime_device.h"

namespace millrace::cpu {

// Device "cpu:<index>" with these kernels.
std::unique_ptr<RuntimeDevice> MakeCpuDevice(int index, std::shared_ptr<const KernelRegistry> kernels);
std::unique_ptr<RuntimeDevice> MakeCpuDevice(int index);  // with the built-in ones

}  // namespace millrace::cpu

#endif  // MILLRACE_RUNTIME_DEVICES_CPU_CPU_DEVICE_H_
