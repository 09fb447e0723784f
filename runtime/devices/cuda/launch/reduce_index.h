// Where the terms of a reduction lie.
#ifndef MILLRACE_RUNTIME_DEVICES_CUDA_LAUNCH_REDUCE_INDEX_H_
#define MILLRACE_RUNTIME_DEVICES_CUDA_LAUNCH_REDUCE_INDEX_H_

#include "cuda/launch/reduce.h"
#include "cuda/launch/sum_kernels.h"

namespace millrace::cuda {

// Of a row's first term, by the row.
inline StridedIndex<1> RowIndexOf(const ReduceShape& shape) {
  StridedIndex<1> index;
  index.rank = shape.row_rank;
  for (int d = 0; d < kMaxDims; ++d) {
    index.SetDim(d, shape.row_dims[d], shape.rows);
    index.strides[0][d] = shape.row_strides[d];
  }
  return index;
}

// Of term k, from the row's first.
inline StridedIndex<1> TermIndexOf(const ReduceShape& shape) {
  StridedIndex<1> index;
  index.rank = shape.term_rank;
  for (int d = 0; d < kMaxDims; ++d) {
    index.SetDim(d, shape.term_dims[d], shape.terms);
    index.strides[0][d] = shape.term_strides[d];
  }
  return index;
}

}  // namespace millrace::cuda

#endif  // MILLRACE_RUNTIME_DEVICES_CUDA_LAUNCH_REDUCE_INDEX_H_
