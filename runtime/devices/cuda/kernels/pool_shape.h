// The windows of a pooling as kernels walk through them.
#ifndef MILLRACE_RUNTIME_DEVICES_CUDA_KERNELS_POOL_SHAPE_H_
#define MILLRACE_RUNTIME_DEVICES_CUDA_KERNELS_POOL_SHAPE_H_

#include "absl/status/statusor.h"
#include "cuda/launch/pool.h"
#include "millrace/kernel.h"

namespace millrace::cuda {

// `window_inputs`: the input from which on sizes and strides are given by value; -1: they are attributes.
absl::StatusOr<PoolShape> PoolOf(const OpInstance& instance, const Shape& input, int window_inputs = -1);

}  // namespace millrace::cuda

#endif  // MILLRACE_RUNTIME_DEVICES_CUDA_KERNELS_POOL_SHAPE_H_
