// Devices by name.
#ifndef MILLRACE_SRC_SESSION_OPEN_DEVICE_H_
#define MILLRACE_SRC_SESSION_OPEN_DEVICE_H_

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "millrace/options.h"
#include "runtime/runtime_device.h"

namespace millrace {

// Devices 0 to `count` - 1 of options.device: "cpu", "cuda", or "cuda_emulated" (the CUDA device's engine and kernels on threads
// of the host, for tests); none for "null", which runs nothing. InvalidArgument for other names; FailedPrecondition
// or NotFound where there is no such device, saying why. `options.kernels` and `options.ops`, if any, outlive the devices.
absl::StatusOr<std::vector<std::unique_ptr<RuntimeDevice>>> OpenDevices(const SessionOptions& options, int count);

// `machine` with what the device says of itself, where nobody has said otherwise.
Machine MachineOf(const RuntimeDevice& device, Machine machine);

}  // namespace millrace

#endif  // MILLRACE_SRC_SESSION_OPEN_DEVICE_H_
