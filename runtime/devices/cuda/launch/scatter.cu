// Updates of one row are brought together by a stable sort of the row numbers (sort.h); one thread per element then takes
// them in order, so that sums have one order whatever runs first.
#include "cuda/launch/scatter.h"

#include "cuda/launch/portable.h"
#include "cuda/launch/sort.h"

namespace millrace::cuda {
namespace {

template <typename T>
struct GatherRowsBody {
  Queue queue;
  RowIndex index;
  Divider inner;
  const T* in;
  const void* indices;
  T* out;
  MR_DEVICE void operator()(int64_t i) const {
    const int64_t which = inner(i), row = RowOf(queue, index, indices, which);
    if (row >= 0) out[i] = in[row * inner.by + i - which * inner.by];
  }
};

template <typename T>
MR_DEVICE T CombineOne(CombineOp op, T a, T b) {
  switch (op) {
    case CombineOp::kAdd: return static_cast<T>(a + b);
    case CombineOp::kSub: return static_cast<T>(a - b);
    case CombineOp::kMul: return static_cast<T>(a * b);
    case CombineOp::kDiv: return static_cast<T>(a / b);
    case CombineOp::kMax: return a < b ? b : a;
    case CombineOp::kMin: return b < a ? b : a;
    case CombineOp::kAssign: break;
  }
  return b;
}

// The first item of a row in the sorted order takes them all.
template <typename T>
struct CombineBody {
  CombineOp op;
  bool one_update;
  int64_t n;
  Divider inner;
  SortedRows sorted;
  const T* updates;
  T* out;
  MR_DEVICE void operator()(int64_t i) const {
    const int64_t first = inner(i), column = i - first * inner.by;
    const int32_t row = sorted.rows[first];
    if (row == sorted.skipped || (first > 0 && sorted.rows[first - 1] == row)) return;
    T* const at = out + row * inner.by + column;
    T value = *at;
    for (int64_t k = first; k < n && sorted.rows[k] == row; ++k) {
      const T update = updates[one_update ? 0 : sorted.items[k] * inner.by + column];
      value = Wide<T>::Narrow(CombineOne(op, Widen(value), Widen(update)));
    }
    *at = value;
  }
};

}  // namespace

void LaunchGatherRows(const Queue& queue, int bytes, const RowIndex& index, int64_t inner, const void* in,
                      const void* indices, void* out) {
  const int wide = WidestRows(bytes, inner, in, out);
  inner /= wide / bytes;
  ForWideSize(wide, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const int64_t n = index.count * inner;
    ForEach(queue, n, GatherRowsBody<T>{queue, index, DivideBy(inner, n), static_cast<const T*>(in), indices,
                                        static_cast<T*>(out)});
  });
}

void LaunchScatterRows(const Queue& queue, CombineOp op, Type type, const RowIndex& index, int64_t rows, int64_t inner,
                       bool one_update, const void* indices, const void* updates, void* out, void* scratch) {
  const int64_t n = index.count;
  if (n == 0 || inner == 0 || rows == 0) return;
  const SortedRows sorted = SortRows(queue, index, rows, indices, scratch);
  const auto launch = [&](auto tag) {
    using T = typename decltype(tag)::type;
    ForEach(queue, n * inner, CombineBody<T>{op, one_update, n, DivideBy(inner, n * inner), sorted,
                                             static_cast<const T*>(updates), static_cast<T*>(out)});
  };
  if (type <= Type::kBfloat16) return ForFloating(type, launch);
  if (type == Type::kBool) return launch(Tag<uint8_t>());
  ForInteger(type, launch);
}

}  // namespace millrace::cuda
