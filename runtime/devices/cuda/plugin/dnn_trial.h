// Runs plans of a convolution on the device, when it is planned.
#ifndef MILLRACE_RUNTIME_DEVICES_CUDA_PLUGIN_DNN_TRIAL_H_
#define MILLRACE_RUNTIME_DEVICES_CUDA_PLUGIN_DNN_TRIAL_H_

#include <cuda_runtime_api.h>

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cuda/plugin/dnn_plan.h"

namespace millrace::cuda {

struct DnnTrial {
  size_t best = 0;
  double seconds = 0;  // of the best; 0 where it was not measured
  // Where none was run: what that takes, and what was free.
  bool tried = true;
  int64_t needed_bytes = 0, free_bytes = 0;
};

// The first of `plans` that runs, or the fastest of them: what cuDNN ranks it may still refuse when it runs. Where the device
// has no memory left to try in, the first. Unimplemented where none runs, Unavailable where the device is lost.
// `stream` is the handle's.
absl::StatusOr<DnnTrial> TryDnnPlans(const std::vector<DnnPlan>& plans, const ConvShape& shape, bool measure, cudnnHandle_t handle,
                                     cudaStream_t stream, const std::string& device);

}  // namespace millrace::cuda

#endif  // MILLRACE_RUNTIME_DEVICES_CUDA_PLUGIN_DNN_TRIAL_H_
