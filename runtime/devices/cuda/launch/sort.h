// Rows that indices name, brought together: a stable sort of their numbers. Included by launch/*.cu alone.
#ifndef MILLRACE_RUNTIME_DEVICES_CUDA_LAUNCH_SORT_H_
#define MILLRACE_RUNTIME_DEVICES_CUDA_LAUNCH_SORT_H_

#include "cuda/launch/portable.h"
#include "cuda/launch/scatter.h"

namespace millrace::cuda {

// The row that index row i names, or -1.
MR_DEVICE inline int64_t RowOf(const Queue& queue, const RowIndex& index, const void* indices, int64_t i) {
  int64_t row = 0;
  for (int64_t d = 0; d < index.depth; ++d) {
    const int64_t at = i * index.depth + d;
    const int64_t number = index.wide ? static_cast<const int64_t*>(indices)[at] : static_cast<const int32_t*>(indices)[at];
    if (number < 0 && index.skips_negative) return -1;
    if (number < 0 || number >= index.dims[d]) {
      Report(queue, FaultCode::kIndexOutOfRange, index.input, number, index.dims[d]);
      return -1;
    }
    row += number * index.strides[d];
  }
  return row;
}

// Index rows items[0], items[1], ... name rows[0] <= rows[1] <= ...; equal ones in the order of the indices. Those that
// name none come last, as `skipped`.
struct SortedRows {
  const int32_t* rows = nullptr;
  const int32_t* items = nullptr;
  int32_t skipped = 0;
};
// `scratch`: ScatterScratchBytes. At least one index; fewer than 2^31 rows.
SortedRows SortRows(const Queue& queue, const RowIndex& index, int64_t rows, const void* indices, void* scratch);

}  // namespace millrace::cuda

#endif  // MILLRACE_RUNTIME_DEVICES_CUDA_LAUNCH_SORT_H_
