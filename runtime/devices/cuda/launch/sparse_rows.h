// Sums of rows that a sorted list of indices brings together: gradients of sparse segments, sparse matrices times dense ones, and
// counts of numbers.
#ifndef MILLRACE_RUNTIME_DEVICES_CUDA_LAUNCH_SPARSE_ROWS_H_
#define MILLRACE_RUNTIME_DEVICES_CUDA_LAUNCH_SPARSE_ROWS_H_

#include "cuda/launch/segment.h"

namespace millrace::cuda {

// out[row i][:] += grad[segment i][:] * scale, for i = 0, 1, ...; scale is 1 (kSum), or 1 over how often the segment is named (kMean)
// or over its root (kSqrtN).
struct SparseGrad {
  SegmentOp op = SegmentOp::kSum;
  RowIndex indices, ids;  // of rows of the result, of segments
  int64_t inner = 0;
};
int64_t SparseGradScratchBytes(const SparseGrad& shape);
void LaunchSparseGrad(const Queue& queue, Type type, const SparseGrad& shape, const void* indices, const void* ids, const void* grad,
                      void* out, void* scratch);

// out = a * b, a of `places.count` values at index rows (row, column), b dense; `rows` x `columns`, a sum of `terms` for each.
struct SparseProduct {
  RowIndex places;  // names rows of the result
  int64_t rows = 0, columns = 0, terms = 0;
  bool adjoint_a = false, adjoint_b = false;
};
int64_t SparseProductScratchBytes(int bytes, const SparseProduct& shape);
void LaunchSparseProduct(const Queue& queue, Type type, int bytes, const SparseProduct& shape, const void* places, const void* values,
                         const void* b, void* out, void* scratch);

// out[r][v] = how often v is in row r of the numbers, or the sum of the weights there; numbers that are not below `size` are skipped.
struct CountShape {
  bool wide = false;
  int64_t rows = 1, count = 0, size = 0;  // count: numbers of a row
  bool binary = false;                    // 1 for what is there
};
int64_t CountScratchBytes(const CountShape& shape);
void LaunchCount(const Queue& queue, Type type, const CountShape& shape, const void* numbers, const void* weights, void* out, void* scratch);

}  // namespace millrace::cuda

#endif  // MILLRACE_RUNTIME_DEVICES_CUDA_LAUNCH_SPARSE_ROWS_H_
