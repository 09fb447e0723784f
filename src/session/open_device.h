// Devices by name.
#ifndef MILLRACE_SRC_SESSION_OPEN_DEVICE_H_
#define MILLRACE_SRC_SESSION_OPEN_DEVICE_H_

#include <memory>

#include "absl/status/statusor.h"
#include "millrace/options.h"
#include "runtime/runtime_device.h"

namespace millrace {

// Device `index` of options.device: "cpu", "cuda", or "cuda_emulated" (the CUDA device's engine and kernels on threads
// of the host, for tests); nullptr for "null", which runs nothing. InvalidArgument for other names; FailedPrecondition
// or NotFound where there is no such device, saying why. `options.kernels`, if any, outlive the device.
absl::StatusOr<std::unique_ptr<RuntimeDevice>> OpenDevice(const SessionOptions& options, int index);

// `machine` with what the device says of itself, where nobody has said otherwise.
Machine MachineOf(const RuntimeDevice& device, Machine machine);

}  // namespace millrace

#endif  // MILLRACE_SRC_SESSION_OPEN_DEVICE_H_
