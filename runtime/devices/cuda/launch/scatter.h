// Rows that indices name: read, replaced, or joined with others, in the order of the indices.
#ifndef MILLRACE_RUNTIME_DEVICES_CUDA_LAUNCH_SCATTER_H_
#define MILLRACE_RUNTIME_DEVICES_CUDA_LAUNCH_SCATTER_H_

#include "cuda/launch/elementwise.h"

namespace millrace::cuda {

// Index row i is `depth` numbers that name row sum(number[d] * strides[d]) of a tensor; number d is in [0, dims[d]).
struct RowIndex {
  bool wide = false;
  bool tuples = false;          // index rows are the last dimension of the indices; else a row is one number
  int input = 0;                // of the node, for faults
  bool skips_negative = false;  // else a negative index is a fault
  int64_t count = 0, depth = 1;
  int64_t dims[kMaxDims] = {}, strides[kMaxDims] = {};
};

// out[i][:] = in[row i][:], rows of `inner` elements of `bytes` bytes.
void LaunchGatherRows(const Queue& queue, int bytes, const RowIndex& index, int64_t inner, const void* in,
                      const void* indices, void* out);

enum class CombineOp { kAssign, kAdd, kSub, kMul, kDiv, kMax, kMin, kMaxOrNan, kMinOrNan };

// out[row i][:] = combine(out[row i][:], updates[i][:]) for i = 0, 1, ... in that order for each row. `rows` rows, fewer
// than 2^31. `one_update`: a single element for all.
int64_t ScatterScratchBytes(int64_t count, int64_t rows);
void LaunchScatterRows(const Queue& queue, CombineOp op, Type type, const RowIndex& index, int64_t rows, int64_t inner,
                       bool one_update, const void* indices, const void* updates, void* out, void* scratch);

}  // namespace millrace::cuda

#endif  // MILLRACE_RUNTIME_DEVICES_CUDA_LAUNCH_SCATTER_H_
