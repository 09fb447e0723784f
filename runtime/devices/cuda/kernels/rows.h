// Rows of tensors, as tensors of indices name them.
#ifndef MILLRACE_RUNTIME_DEVICES_CUDA_KERNELS_ROWS_H_
#define MILLRACE_RUNTIME_DEVICES_CUDA_KERNELS_ROWS_H_

#include "cuda/kernels/common.h"
#include "cuda/launch/scatter.h"

namespace millrace::cuda {

// Rows of a tensor as indices name them: by their first dimensions.
struct Rows {
  RowIndex index;
  int64_t rows = 1, inner = 1;
};

// Of `sliced`, by the indices in input `input`. `nd`: the last dimension of the indices holds one number per indexed
// dimension. Refuses indices that are on the host, and 2^31 of rows or indices.
absl::StatusOr<Rows> RowsOf(const OpInstance& instance, const Shape& sliced, int input, bool nd);

}  // namespace millrace::cuda

#endif  // MILLRACE_RUNTIME_DEVICES_CUDA_KERNELS_ROWS_H_
