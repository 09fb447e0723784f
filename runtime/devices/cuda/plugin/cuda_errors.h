// CUDA's error codes as statuses.
#ifndef MILLRACE_RUNTIME_DEVICES_CUDA_PLUGIN_CUDA_ERRORS_H_
#define MILLRACE_RUNTIME_DEVICES_CUDA_PLUGIN_CUDA_ERRORS_H_

#include <cuda_runtime_api.h>

#include <string>

#include "absl/status/status.h"

namespace millrace::cuda {

// OK; ResourceExhausted when memory is short; FailedPrecondition when the device cannot be had yet; Unavailable when the
// device cannot be used again in this process (an uncorrectable memory error, an illegal access, a failed launch); else
// Internal. `call` says what was attempted.
absl::Status CudaStatus(cudaError_t error, const std::string& device, const char* call);

}  // namespace millrace::cuda

#endif  // MILLRACE_RUNTIME_DEVICES_CUDA_PLUGIN_CUDA_ERRORS_H_
