// Rows that indices name, brought together: a stable sort of their numbers; and what sorts a short list. Included by launch/*.cu
// alone.
#ifndef MILLRACE_RUNTIME_DEVICES_CUDA_LAUNCH_SORT_H_
#define MILLRACE_RUNTIME_DEVICES_CUDA_LAUNCH_SORT_H_

#include "cuda/launch/portable.h"
#include "cuda/launch/scatter.h"

namespace millrace::cuda {

// Numbers that a crew sorts in the memory that it shares, at most.
inline constexpr int64_t kMostSortedAtOnce = 4096;

// list[0, size) ascending, by Batcher's bitonic sort (AFIPS 1968); `size` is a power of two. The crew has written the list before
// its last Sync, and may read it afterwards.
template <typename Crew>
MR_DEVICE void SortAtOnce(const Crew& crew, uint64_t* list, int64_t size) {
  for (int64_t run = 2; run <= size; run *= 2) {
    for (int64_t gap = run / 2; gap > 0; gap /= 2) {
      for (int64_t i = crew.rank(); i < size / 2; i += crew.size()) {
        const int64_t low = 2 * i - (i & (gap - 1)), high = low + gap;
        const uint64_t a = list[low], b = list[high];
        if ((a > b) != ((low & run) == 0)) continue;
        list[low] = b;
        list[high] = a;
      }
      crew.Sync();
    }
  }
}

MR_DEVICE inline int64_t NumberAt(const RowIndex& index, const void* indices, int64_t at) {
  return IndexAt(indices, index.wide, at);
}

// Index row i, of which `number` is out of range, names no row.
MR_DEVICE inline void ReportRow(const Queue& queue, const RowIndex& index, const void* indices, int64_t i, int64_t number) {
  static_assert(kMaxDims <= kMostInTuple);
  if (!index.tuples) return ReportIndex(queue, index.input, i, number, index.dims[0]);
  if (!Report(queue, FaultCode::kTupleOutOfRange, index.input, index.depth, 0, i)) return;
  for (int64_t d = 0; d < index.depth; ++d) queue.fault->tuple[d] = NumberAt(index, indices, i * index.depth + d);
}

// The row that index row i names, or -1.
MR_DEVICE inline int64_t RowOf(const Queue& queue, const RowIndex& index, const void* indices, int64_t i) {
  int64_t row = 0;
  for (int64_t d = 0; d < index.depth; ++d) {
    const int64_t number = NumberAt(index, indices, i * index.depth + d);
    if (number < 0 && index.skips_negative) return -1;
    if (number < 0 || number >= index.dims[d]) {
      ReportRow(queue, index, indices, i, number);
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
