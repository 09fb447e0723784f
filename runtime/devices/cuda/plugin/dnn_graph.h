// A convolution as a graph of cuDNN's: one operation, or with what its epilogue adds behind it.
#ifndef MILLRACE_RUNTIME_DEVICES_CUDA_PLUGIN_DNN_GRAPH_H_
#define MILLRACE_RUNTIME_DEVICES_CUDA_PLUGIN_DNN_GRAPH_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "cuda/kernels/services.h"
#include "cuda/plugin/dnn_descriptor.h"

namespace millrace::cuda {

// By which the graph's tensors are given their memory.
inline constexpr int64_t kInputId = 1, kFilterId = 2, kOutputId = 3, kBiasId = 4, kSideId = 5;

// For the handle's device; without one the device is described to what is made of the graph. Unimplemented for tensors of 2^31
// elements, which not all engines can count.
absl::StatusOr<DnnDescriptor> DnnGraph(const ConvShape& shape, cudnnHandle_t handle);

}  // namespace millrace::cuda

#endif  // MILLRACE_RUNTIME_DEVICES_CUDA_PLUGIN_DNN_GRAPH_H_
