// The code that this build has for devices: for which, and one kernel of it, to ask a device about.
#ifndef MILLRACE_RUNTIME_DEVICES_CUDA_LAUNCH_DEVICE_CODE_H_
#define MILLRACE_RUNTIME_DEVICES_CUDA_LAUNCH_DEVICE_CODE_H_

#include <vector>

namespace millrace::cuda {

struct DeviceCode {
  const void* kernel = nullptr;    // nullptr: kernels are loops of the host
  std::vector<int> architectures;  // 900: of compute capability 9.0
};
DeviceCode CompiledDeviceCode();

}  // namespace millrace::cuda

#endif  // MILLRACE_RUNTIME_DEVICES_CUDA_LAUNCH_DEVICE_CODE_H_
