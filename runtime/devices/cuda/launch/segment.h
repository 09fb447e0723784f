// Rows of a tensor in segments, each of which becomes one row: of ids that rise, and of any ids.
#ifndef MILLRACE_RUNTIME_DEVICES_CUDA_LAUNCH_SEGMENT_H_
#define MILLRACE_RUNTIME_DEVICES_CUDA_LAUNCH_SEGMENT_H_

#include "cuda/launch/scatter.h"

namespace millrace::cuda {

// kMaxOrLater and kMinOrLater are of any ids: a segment without rows has the least or largest number, and of two that do not
// compare the later one is taken, so that a NaN alone stays. kTotal begins with 0, kSum with the first row.
enum class SegmentOp { kSum, kProd, kMax, kMin, kMean, kSqrtN, kMaxOrLater, kMinOrLater, kTotal };

// Segment s is of items order[k], or k where there is none, for k in [begins[s], begins[s + 1]).
struct SegmentItems {
  int64_t count = 0, segments = 0;  // count: of the order
  const int32_t* begins = nullptr;
  const int32_t* order = nullptr;
  // Item i is row numbers[i * step + offset] of the data, or row i; times values[i], of the data's type, or times scales[row], of the
  // type that it is summed in.
  const void* numbers = nullptr;
  bool wide = false;
  int step = 1, offset = 0;
  const void* values = nullptr;
  const void* scales = nullptr;
};

// begins[i] = values[i], which are in host memory and are read before this returns.
void LaunchPutBegins(const Queue& queue, const int32_t* values, int64_t n, int32_t* begins);
// begins[s], s in [0, index.dims[0]], is how many of the ids, which rise, are below s. `checks`: ids that do not, and ids out of range,
// are faults.
void LaunchBegins(const Queue& queue, const RowIndex& index, bool checks, const void* ids, int32_t* begins);
// Numbers out of range are faults; of tuples, too, each number by itself.
void LaunchCheckIndices(const Queue& queue, const RowIndex& index, const void* indices);
// out[s][:] = op of the rows of segment s, in their order. Rows of `inner` elements.
void LaunchSegments(const Queue& queue, SegmentOp op, Type type, const SegmentItems& items, int64_t inner, const void* data, void* out);

// Items in the order of the segments that ids in any order name, equal ones as they were; the fewer than 2^31 segments are what RowIndex
// calls rows. Scratch memory holds the order while it is used.
int64_t SortedItemsScratchBytes(int64_t count, int64_t segments);
SegmentItems SortItems(const Queue& queue, const RowIndex& index, int64_t segments, const void* ids, void* scratch);

}  // namespace millrace::cuda

#endif  // MILLRACE_RUNTIME_DEVICES_CUDA_LAUNCH_SEGMENT_H_
