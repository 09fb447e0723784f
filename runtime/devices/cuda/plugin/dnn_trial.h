// Runs plans of a convolution on the device, when it is planned.
#ifndef MILLRACE_RUNTIME_DEVICES_CUDA_PLUGIN_DNN_TRIAL_H_
#define MILLRACE_RUNTIME_DEVICES_CUDA_PLUGIN_DNN_TRIAL_H_

#include <cuda_runtime_api.h>

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cuda/plugin/device_watch.h"
#include "cuda/plugin/dnn_plan.h"

namespace millrace::cuda {

// Device memory to try plans in.
struct TrialMemory {
  bool limited = false;  // to what follows; else each trial allocates what it needs and gives it back
  char* begin = nullptr;
  int64_t bytes = 0;
};

struct DnnTrial {
  size_t best = 0;
  double seconds = 0;  // of the best; 0 where it was not measured
  // Where the best was not run: what that takes, and what was free.
  bool tried = true;
  int64_t needed_bytes = 0, free_bytes = 0;
};

// Where and how they run: `stream` is the handle's.
struct DnnTrialPlace {
  cudnnHandle_t handle = nullptr;
  cudaStream_t stream = nullptr;
  DeviceWatch& watch;
  TrialMemory memory;
};

// What cuDNN ranks it may still refuse when it runs. The first of `plans` that runs, or that there is no memory to try in: a node
// whose operands and scratch fit in a budget can be tried within it, so that the choice does not depend on the budget. With `measure`
// the fastest of those that there is memory for, or else the first that there is none for. Unimplemented where none runs,
// Unavailable where the device is lost. Nothing is left on the stream.
absl::StatusOr<DnnTrial> TryDnnPlans(const std::vector<DnnPlan>& plans, const ConvShape& shape, bool measure,
                                     const DnnTrialPlace& place, const std::string& device);

}  // namespace millrace::cuda

#endif  // MILLRACE_RUNTIME_DEVICES_CUDA_PLUGIN_DNN_TRIAL_H_
