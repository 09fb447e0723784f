// The driver interface on CUDA's runtime.
#ifndef MILLRACE_RUNTIME_DEVICES_CUDA_PLUGIN_CUDA_DRIVER_H_
#define MILLRACE_RUNTIME_DEVICES_CUDA_PLUGIN_CUDA_DRIVER_H_

#include <memory>

#include "absl/status/statusor.h"
#include "cuda/plugin_api.h"

namespace millrace::cuda {

// FailedPrecondition where there is no driver, too old a one, or no such device.
absl::StatusOr<std::unique_ptr<DeviceDriver>> OpenCudaDriver(const DriverOptions& options);

}  // namespace millrace::cuda

#endif  // MILLRACE_RUNTIME_DEVICES_CUDA_PLUGIN_CUDA_DRIVER_H_
