// Offsets of broadcast operands. Included by launch/*.cu alone.
#ifndef MILLRACE_RUNTIME_DEVICES_CUDA_LAUNCH_BROADCAST_INDEX_H_
#define MILLRACE_RUNTIME_DEVICES_CUDA_LAUNCH_BROADCAST_INDEX_H_

#include "cuda/launch/elementwise.h"
#include "cuda/launch/portable.h"

namespace millrace::cuda {

inline StridedIndex<3> IndexOf(const Broadcast& shape) {
  StridedIndex<3> index;
  index.rank = shape.rank;
  for (int d = 0; d < shape.rank; ++d) {
    index.SetDim(d, shape.dims[d], shape.elements);
    for (int k = 0; k < 3; ++k) index.strides[k][d] = shape.strides[k][d];
  }
  return index;
}

}  // namespace millrace::cuda

#endif  // MILLRACE_RUNTIME_DEVICES_CUDA_LAUNCH_BROADCAST_INDEX_H_
