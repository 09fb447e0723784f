// The greatest elements of rows.
#ifndef MILLRACE_RUNTIME_DEVICES_CUDA_LAUNCH_TOP_K_H_
#define MILLRACE_RUNTIME_DEVICES_CUDA_LAUNCH_TOP_K_H_

#include "cuda/launch/queue.h"

namespace millrace::cuda {

// The k greatest of each row and their indices, greatest first, equal ones by index; NaNs, and unsorted ones, in the order that the CPU's
// heap leaves them in. Where k is 1, the first of the greatest numbers, or element 0 of a row of NaNs.
struct TopShape {
  bool wide = false, sorted = true;  // wide: indices of 64 bits
  int64_t rows = 0, columns = 1, k = 0;
};
// Narrow elements are sorted where there are more than a few ranks, in rows of more than 4,096 at most 2,048; of others, every rank is a
// pass over the row.
bool TopKSorts(Type type, int64_t columns, int64_t k);
// Whether they are not sorted, so that of each row one thread keeps a heap.
bool TopKHeaps(const TopShape& shape);
int64_t TopKScratchBytes(Type type, const TopShape& shape);
void LaunchTopK(const Queue& queue, Type type, const TopShape& shape, const void* x, void* values, void* indices, void* scratch);

}  // namespace millrace::cuda

#endif  // MILLRACE_RUNTIME_DEVICES_CUDA_LAUNCH_TOP_K_H_
