// Items are sorted by the row that they go to, equal ones as they were, and are segments then.
#include "cuda/launch/sparse_rows.h"

#include "cuda/launch/layout.h"
#include "cuda/launch/portable.h"

namespace millrace::cuda {
namespace {

// What each segment of the gradient is multiplied by: one over how many items there are, or over the root.
template <typename W>
struct ScaleBody {
  bool root;
  const int32_t* begins;
  MR_DEVICE W operator()(int64_t segment) const {
    const auto count = static_cast<double>(begins[segment + 1] - begins[segment]);
    return count == 0 ? W(0) : static_cast<W>(1 / (root ? sqrt(count) : count));
  }
};

// The bin that a number counts in, or -1.
struct BinBody {
  Queue queue;
  bool wide;
  Divider count;
  int64_t size;
  const void* numbers;
  MR_DEVICE int32_t operator()(int64_t i) const {
    const int64_t number = IndexAt(numbers, wide, i);
    if (number < 0) ReportIndex(queue, 0, i, number, INT64_MAX);
    return number < 0 || number >= size ? -1 : static_cast<int32_t>(count(i) * size + number);
  }
};

// How many items a bin has.
template <typename T>
struct CountBody {
  bool binary;
  const int32_t* begins;
  MR_DEVICE T operator()(int64_t bin) const {
    using W = typename Wide<T>::type;
    const int32_t there = begins[bin + 1] - begins[bin];
    return Wide<T>::Narrow(static_cast<W>(binary && there > 0 ? 1 : there));
  }
};

// Parts of the scratch memory begin at multiples of 16.
constexpr int64_t Whole(int64_t bytes) { return (bytes + 15) / 16 * 16; }
int64_t OrderBytes(const RowIndex& index) { return SortedItemsScratchBytes(index.count, index.dims[0]); }
int64_t ScaleBytes(const SparseGrad& shape) { return Whole(shape.ids.dims[0] * static_cast<int64_t>(sizeof(double))); }

RowIndex IndexOfBins(const CountShape& shape) {
  RowIndex index;
  index.skips_negative = true;
  index.count = shape.rows * shape.count;
  index.dims[0] = shape.rows * shape.size;
  index.strides[0] = 1;
  return index;
}

}  // namespace

int64_t SparseGradScratchBytes(const SparseGrad& shape) {
  const int64_t by_segment = OrderBytes(shape.ids), by_row = OrderBytes(shape.indices);
  return ScaleBytes(shape) + (by_segment > by_row ? by_segment : by_row);
}

void LaunchSparseGrad(const Queue& queue, Type type, const SparseGrad& shape, const void* indices, const void* ids, const void* grad,
                      void* out, void* scratch) {
  void* const order = static_cast<char*>(scratch) + ScaleBytes(shape);
  LaunchCheckIndices(queue, shape.indices, indices);
  LaunchCheckIndices(queue, shape.ids, ids);
  const bool scaled = shape.op != SegmentOp::kSum;
  if (scaled) {
    const int64_t segments = shape.ids.dims[0];
    const SegmentItems of_segments = SortItems(queue, shape.ids, segments, ids, order);
    ForFloating(type, [&](auto tag) {
      using W = typename Wide<typename decltype(tag)::type>::type;
      MapEach(queue, segments, static_cast<W*>(scratch), ScaleBody<W>{shape.op == SegmentOp::kSqrtN, of_segments.begins});
    });
  }
  SegmentItems items = SortItems(queue, shape.indices, shape.indices.dims[0], indices, order);
  items.numbers = ids;
  items.wide = shape.ids.wide;
  items.scales = scaled ? scratch : nullptr;
  LaunchSegments(queue, SegmentOp::kTotal, type, items, shape.inner, grad, out);
}

int64_t SparseProductScratchBytes(int bytes, const SparseProduct& shape) {
  const int64_t turned = shape.adjoint_b ? Whole(shape.terms * shape.columns * bytes) : 0;
  return turned + SortedItemsScratchBytes(shape.places.count, shape.rows);
}

void LaunchSparseProduct(const Queue& queue, Type type, int bytes, const SparseProduct& shape, const void* places, const void* values,
                         const void* b, void* out, void* scratch) {
  const int64_t elements = shape.terms * shape.columns;
  LaunchCheckIndices(queue, shape.places, places);
  void* const order = static_cast<char*>(scratch) + (shape.adjoint_b ? Whole(elements * bytes) : 0);
  SegmentItems items = SortItems(queue, shape.places, shape.rows, places, order);
  items.numbers = places;
  items.wide = shape.places.wide;
  items.step = 2;
  items.offset = shape.adjoint_a ? 0 : 1;
  items.values = values;
  if (shape.adjoint_b && elements > 0) {
    // Transposed, so that threads beside each other read what lies beside each other.
    StridedCopy copy;
    copy.rank = 2;
    copy.elements = elements;
    copy.dims[0] = copy.from_strides[1] = shape.terms;
    copy.dims[1] = copy.to_strides[0] = shape.columns;
    copy.from_strides[0] = copy.to_strides[1] = 1;
    LaunchStridedCopy(queue, bytes, copy, b, scratch);
  }
  LaunchSegments(queue, SegmentOp::kTotal, type, items, shape.columns, shape.adjoint_b ? scratch : b, out);
}

int64_t CountScratchBytes(const CountShape& shape) {
  const RowIndex index = IndexOfBins(shape);
  return Whole(index.count * static_cast<int64_t>(sizeof(int32_t))) + OrderBytes(index);
}

void LaunchCount(const Queue& queue, Type type, const CountShape& shape, const void* numbers, const void* weights, void* out, void* scratch) {
  const RowIndex index = IndexOfBins(shape);
  const int64_t bins = index.dims[0];
  auto* const bin_of = static_cast<int32_t*>(scratch);
  Map(queue, index.count, bin_of, BinBody{queue, shape.wide, DivideBy(shape.count, index.count), shape.size, numbers});
  void* const order = static_cast<char*>(scratch) + Whole(index.count * static_cast<int64_t>(sizeof(int32_t)));
  const SegmentItems items = SortItems(queue, index, bins, bin_of, order);
  if (weights != nullptr && !shape.binary) return LaunchSegments(queue, SegmentOp::kTotal, type, items, 1, weights, out);
  ForNumeric(type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    MapEach(queue, bins, static_cast<T*>(out), CountBody<T>{shape.binary, items.begins});
  });
}

}  // namespace millrace::cuda
