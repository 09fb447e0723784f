// Running totals and choices along one dimension of [outer, length, inner].
#ifndef MILLRACE_RUNTIME_DEVICES_CUDA_LAUNCH_SCAN_H_
#define MILLRACE_RUNTIME_DEVICES_CUDA_LAUNCH_SCAN_H_

#include "cuda/launch/queue.h"

namespace millrace::cuda {

struct AxisShape {
  int64_t outer = 1, length = 1, inner = 1;
};

struct ScanRule {
  bool product = false, exclusive = false, reverse = false;
};
int64_t ScanScratchBytes(const AxisShape& shape);
void LaunchScan(const Queue& queue, const ScanRule& rule, Type type, const AxisShape& shape, const void* x, void* y,
                void* scratch);

// Index of the greatest (or smallest) element, the first of equal ones; a NaN comes after every number.
int64_t ArgScratchBytes(const AxisShape& shape);
void LaunchArgMax(const Queue& queue, bool smallest, Type type, bool wide_index, const AxisShape& shape, const void* x,
                  void* index, void* scratch);

// The k greatest of each row and their indices, greatest first, equal ones by index.
// Short rows of narrow elements are sorted; of others, every rank is a pass over the row.
bool TopKSorts(Type type, int64_t columns);
int64_t TopKScratchBytes(int64_t rows, int64_t columns);
void LaunchTopK(const Queue& queue, Type type, bool wide_index, int64_t rows, int64_t columns, int64_t k, const void* x,
                void* values, void* indices, void* scratch);

}  // namespace millrace::cuda

#endif  // MILLRACE_RUNTIME_DEVICES_CUDA_LAUNCH_SCAN_H_
