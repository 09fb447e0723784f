// Running totals and choices along one dimension of [outer, length, inner].
#ifndef MILLRACE_RUNTIME_DEVICES_CUDA_LAUNCH_SCAN_H_
#define MILLRACE_RUNTIME_DEVICES_CUDA_LAUNCH_SCAN_H_

#include "cuda/launch/queue.h"

namespace millrace::cuda {

struct AxisShape {
  int64_t outer = 1, length = 1, inner = 1;
};

// kLogSumExp, of floating numbers: the logarithm of the sum of their exponentials.
enum class ScanOp { kSum, kProduct, kLogSumExp };
struct ScanRule {
  ScanOp op = ScanOp::kSum;
  bool exclusive = false, reverse = false;
};
int64_t ScanScratchBytes(const AxisShape& shape);
void LaunchScan(const Queue& queue, const ScanRule& rule, Type type, const AxisShape& shape, const void* x, void* y,
                void* scratch);
// kSum and kProduct of complex numbers; `type`: of the parts, kFloat or kDouble.
int64_t ComplexScanScratchBytes(const AxisShape& shape);
void LaunchComplexScan(const Queue& queue, const ScanRule& rule, Type type, const AxisShape& shape, const void* x, void* y,
                       void* scratch);

// Index of the greatest (or smallest) element, the first of equal ones; a NaN comes after every number.
int64_t ArgScratchBytes(const AxisShape& shape);
void LaunchArgMax(const Queue& queue, bool smallest, Type type, bool wide_index, const AxisShape& shape, const void* x,
                  void* index, void* scratch);

// out[r][i]: where values[r][i] goes in row r of `sorted`, which rises: before equal numbers, or behind them where `upper`.
struct SortedShape {
  bool upper = false, wide_places = false;
  int64_t rows = 1, sorted = 0, values = 0;  // numbers of a row
};
void LaunchSortedBound(const Queue& queue, Type type, const SortedShape& shape, const void* sorted, const void* values, void* out);

// The same of one row of at most kMostBuckets numbers in host memory, behind equal ones.
inline constexpr int64_t kMostBuckets = 512;
void LaunchBucketize(const Queue& queue, Type type, const float* sorted, int64_t count, const void* values, int64_t n, int32_t* out);

}  // namespace millrace::cuda

#endif  // MILLRACE_RUNTIME_DEVICES_CUDA_LAUNCH_SCAN_H_
