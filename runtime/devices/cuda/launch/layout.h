// Moving elements: slices, transposes, concatenation, padding, tiling are all copies with strides.
#ifndef MILLRACE_RUNTIME_DEVICES_CUDA_LAUNCH_LAYOUT_H_
#define MILLRACE_RUNTIME_DEVICES_CUDA_LAUNCH_LAYOUT_H_

#include "cuda/launch/elementwise.h"

namespace millrace::cuda {

// to[to_offset + sum(index * to_strides)] = from[from_offset + sum(index * from_strides)] over all indices below dims.
// In elements; strides may be 0 (from) or negative.
struct StridedCopy {
  int rank = 0;
  int64_t elements = 0;
  int64_t dims[kMaxDims] = {};
  int64_t from_strides[kMaxDims] = {};
  int64_t to_strides[kMaxDims] = {};
  int64_t from_offset = 0;
  int64_t to_offset = 0;
};
// Of so many elements that follow one another on both sides.
inline StridedCopy WholeCopy(int64_t elements) {
  StridedCopy copy;
  copy.elements = copy.dims[0] = elements;
  copy.rank = 1;
  copy.from_strides[0] = copy.to_strides[0] = 1;
  return copy;
}
void LaunchStridedCopy(const Queue& queue, int bytes, const StridedCopy& copy, const void* from, void* to);
// Several, none of which writes what another one reads or writes.
struct CopyTask {
  StridedCopy copy;
  const void* from = nullptr;
  void* to = nullptr;
};
void LaunchStridedCopies(const Queue& queue, int bytes, const CopyTask* tasks, int count);
// n elements, each equal to the one at `value`, in memory that the kernels reach.
void LaunchFill(const Queue& queue, int bytes, const void* value, void* to, int64_t n);
// The same, of a value in host memory.
void LaunchFillConstant(const Queue& queue, int bytes, const void* value, void* to, int64_t n);
void LaunchZero(const Queue& queue, void* to, int64_t bytes);

// A tensor of `inner` dimensions with mirrored borders around it. `offset` 0: the border element is repeated; 1: it is not.
struct MirrorShape {
  int rank = 0, offset = 0;
  int64_t inner[kMaxDims] = {}, padded[kMaxDims] = {}, before[kMaxDims] = {};
};
void LaunchMirrorPad(const Queue& queue, int bytes, const MirrorShape& shape, const void* in, void* out);
// The sum of the elements of `in`, which has borders, that show each inner element, in row-major order.
void LaunchMirrorPadGrad(const Queue& queue, Type type, const MirrorShape& shape, const void* in, void* out);

// out[o][i][:] = in[o][index[i]][:], `inner` elements in a row. An index out of range is a fault of input `input`.
void LaunchGather(const Queue& queue, int bytes, bool wide_indices, int input, int64_t outer, int64_t rows,
                  int64_t indices, int64_t inner, const void* in, const void* index, void* out);
// out[o][d][i] = index[o][i] == d ? on : off.
void LaunchOneHot(const Queue& queue, int bytes, bool wide_indices, int64_t outer, int64_t depth, int64_t inner,
                  const void* index, const void* on, const void* off, void* out);

}  // namespace millrace::cuda

#endif  // MILLRACE_RUNTIME_DEVICES_CUDA_LAUNCH_LAYOUT_H_
