// A reduction over some dimensions as kernels walk through it.
#ifndef MILLRACE_RUNTIME_DEVICES_CUDA_KERNELS_REDUCE_SHAPE_H_
#define MILLRACE_RUNTIME_DEVICES_CUDA_KERNELS_REDUCE_SHAPE_H_

#include <vector>

#include "absl/status/statusor.h"
#include "cuda/launch/reduce.h"
#include "millrace/kernel.h"

namespace millrace::cuda {

// Which dimensions of input 0 are named by input 1. Unimplemented where its value is not known.
absl::StatusOr<std::vector<bool>> ReducedBy(const OpInstance& instance);

// Neighbouring dimensions are one where they may be. Unimplemented beyond kMaxDims.
absl::StatusOr<ReduceShape> ReduceShapeOf(const OpInstance& instance, const Shape& shape, const std::vector<bool>& reduced);

}  // namespace millrace::cuda

#endif  // MILLRACE_RUNTIME_DEVICES_CUDA_KERNELS_REDUCE_SHAPE_H_
