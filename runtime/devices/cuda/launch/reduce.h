// Sums and the like over some dimensions, and over rows as softmax and the losses need them.
#ifndef MILLRACE_RUNTIME_DEVICES_CUDA_LAUNCH_REDUCE_H_
#define MILLRACE_RUNTIME_DEVICES_CUDA_LAUNCH_REDUCE_H_

#include "cuda/launch/elementwise.h"

namespace millrace::cuda {

enum class ReduceOp { kSum, kMean, kProd, kMax, kMin, kAll, kAny, kL2Loss, kEuclideanNorm };

// The input of row r's term k is at offset(r over row dims) + offset(k over term dims).
struct ReduceShape {
  int row_rank = 0, term_rank = 0;
  int64_t rows = 1, terms = 1;
  int64_t row_dims[kMaxDims] = {}, row_strides[kMaxDims] = {};
  int64_t term_dims[kMaxDims] = {}, term_strides[kMaxDims] = {};
  bool columns = false;  // the last row dimension is contiguous, the last term dimension is not
};

// Bytes of `partial` that LaunchReduce needs.
int64_t ReduceScratchBytes(int64_t rows, int64_t terms, bool columns);
void LaunchReduce(const Queue& queue, ReduceOp op, Type type, const ReduceShape& shape, const void* x, void* y,
                  void* partial);

// Inputs that LaunchSumColumns takes at most.
inline constexpr int kMostSummed = 32;

// y[c]: the sum over all rows of all `count` inputs, divided by `divisor`. Partial sums as of a reduction to `columns` rows of
// count * rows terms.
void LaunchSumColumns(const Queue& queue, Type type, const void* const* x, int count, int64_t rows, int64_t columns,
                      int64_t divisor, void* y, void* partial);

// Over rows of `columns` elements, row after row; `y` may be `x`.
void LaunchSoftmax(const Queue& queue, Type type, bool log, int64_t rows, int64_t columns, const void* x, void* y);
// loss[row] and the gradient of the logits, which may take their place; labels are indices, or a distribution where
// `index_labels` is false.
void LaunchCrossEntropy(const Queue& queue, Type type, bool index_labels, bool wide_labels, int64_t rows,
                        int64_t columns, const void* logits, const void* labels, void* loss, void* gradient);

}  // namespace millrace::cuda

#endif  // MILLRACE_RUNTIME_DEVICES_CUDA_LAUNCH_REDUCE_H_
