// What cuDNN has to compute a convolution with: plans of its engines, of which only those are taken that give the same bits in
// every run and round no more than they may. All that is asked here can be asked without a device, of one that is described.
#ifndef MILLRACE_RUNTIME_DEVICES_CUDA_PLUGIN_DNN_PLAN_H_
#define MILLRACE_RUNTIME_DEVICES_CUDA_PLUGIN_DNN_PLAN_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "cuda/kernels/services.h"
#include "cuda/plugin/dnn_descriptor.h"

namespace millrace::cuda {

// The graph interface takes devices by description since cuDNN 9.8.
inline constexpr size_t kOldestDnn = 90800;

// A device that is here, or one that cuDNN's own text describes.
absl::StatusOr<DnnDescriptor> DnnDevice(int index);
absl::StatusOr<DnnDescriptor> DnnDeviceDescribed(std::string_view json);
// What describes it to another machine.
absl::StatusOr<std::string> DnnDeviceText(const DnnDescriptor& device);

// What plans are for: the device of a handle, as most programs ask cuDNN, or else the device that is described. cuDNN 9 calls the
// first way deprecated, and knows the second since 9.8.
struct DnnTarget {
  cudnnHandle_t handle = nullptr;
  const DnnDescriptor* device = nullptr;
};

struct DnnLimits {
  bool tf32 = false;  // floats may be rounded to TF32 in products
  // What a plan may take, and beyond it room for copies of its own tensors in another layout: the fast engines for float32
  // want these, and which engine is taken must not depend on the budget, which changes no bits.
  int64_t scratch_bytes = int64_t{512} << 20;
  int plans = 10;
};

int64_t MostScratchBytes(const ConvShape& shape, const DnnLimits& limits);

struct DnnPlan {
  // cuDNN's version, its number of the engine, the settings of its knobs: what makes the same plan again.
  std::string name;
  int64_t scratch_bytes = 0;
  DnnDescriptor config, plan;
};

// The best by cuDNN's ranking first. Unimplemented where there is none.
absl::StatusOr<std::vector<DnnPlan>> RankDnnPlans(const ConvShape& shape, const DnnLimits& limits, const DnnTarget& target);

// FailedPrecondition where this cuDNN or the device has no such plan, or not within the limits.
absl::StatusOr<DnnPlan> NamedDnnPlan(const ConvShape& shape, const DnnLimits& limits, const DnnTarget& target,
                                     const std::string& name);

// On the stream of the handle. The tensor that shape.part names is written. Those that the plan's graph does not have are null.
absl::Status ExecuteDnnPlan(cudnnHandle_t handle, const DnnPlan& plan, const ConvTensors& tensors, void* scratch);

}  // namespace millrace::cuda

#endif  // MILLRACE_RUNTIME_DEVICES_CUDA_PLUGIN_DNN_PLAN_H_
