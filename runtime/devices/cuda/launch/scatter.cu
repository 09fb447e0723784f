// Updates of one row are brought together by a stable sort of the row numbers; one thread per element then takes them in
// order, so that sums have one order whatever runs first.
#include "cuda/launch/scatter.h"

#include "cuda/launch/portable.h"

namespace millrace::cuda {
namespace {

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

// Sorting: digits of four bits, least significant first. A thread takes a chunk of the items in order, so that each
// pass keeps the order of equal digits.
inline constexpr int64_t kSortChunk = 32;
inline constexpr int kDigitBits = 4, kDigits = 1 << kDigitBits;

struct KeyBody {
  Queue queue;
  RowIndex index;
  const void* indices;
  int32_t* keys;
  int32_t* items;
  int32_t skipped;  // comes after all rows
  MR_DEVICE void operator()(int64_t i) const {
    const int64_t row = RowOf(queue, index, indices, i);
    keys[i] = row < 0 ? skipped : static_cast<int32_t>(row);
    items[i] = static_cast<int32_t>(i);
  }
};

// counts[digit][chunk]
struct CountBody {
  const int32_t* keys;
  int64_t n, chunks;
  int shift;
  int32_t* counts;
  MR_DEVICE void operator()(int64_t chunk) const {
    int32_t mine[kDigits] = {};
    const int64_t end = (chunk + 1) * kSortChunk < n ? (chunk + 1) * kSortChunk : n;
    for (int64_t i = chunk * kSortChunk; i < end; ++i) ++mine[keys[i] >> shift & (kDigits - 1)];
    for (int d = 0; d < kDigits; ++d) counts[d * chunks + chunk] = mine[d];
  }
};

struct PlaceBody {
  const int32_t* keys;
  const int32_t* items;
  int64_t n, chunks;
  int shift;
  const int32_t* places;
  int32_t* sorted_keys;
  int32_t* sorted_items;
  MR_DEVICE void operator()(int64_t chunk) const {
    int32_t next[kDigits];
    for (int d = 0; d < kDigits; ++d) next[d] = places[d * chunks + chunk];
    const int64_t end = (chunk + 1) * kSortChunk < n ? (chunk + 1) * kSortChunk : n;
    for (int64_t i = chunk * kSortChunk; i < end; ++i) {
      const int32_t at = next[keys[i] >> shift & (kDigits - 1)]++;
      sorted_keys[at] = keys[i];
      sorted_items[at] = items[i];
    }
  }
};

// Exclusive prefix sums, in chunks whose totals are summed the same way.
inline constexpr int64_t kPrefixChunk = 64;
struct PrefixTotalBody {
  const int32_t* values;
  int64_t n;
  MR_DEVICE int32_t operator()(int64_t chunk) const {
    const int64_t end = (chunk + 1) * kPrefixChunk < n ? (chunk + 1) * kPrefixChunk : n;
    int32_t total = 0;
    for (int64_t i = chunk * kPrefixChunk; i < end; ++i) total += values[i];
    return total;
  }
};
struct PrefixBody {
  int32_t* values;
  int64_t n;
  const int32_t* before;  // of chunks; nullptr: one chunk
  MR_DEVICE void operator()(int64_t chunk) const {
    const int64_t end = (chunk + 1) * kPrefixChunk < n ? (chunk + 1) * kPrefixChunk : n;
    int32_t total = before == nullptr ? 0 : before[chunk];
    for (int64_t i = chunk * kPrefixChunk; i < end; ++i) {
      const int32_t value = values[i];
      values[i] = total;
      total += value;
    }
  }
};

int64_t PrefixScratch(int64_t n) {
  int64_t elements = 0;
  while (n > kPrefixChunk) elements += n = CeilDiv(n, kPrefixChunk);
  return elements;
}

void Prefix(const Queue& queue, int32_t* values, int64_t n, int32_t* scratch) {
  const int64_t chunks = CeilDiv(n, kPrefixChunk);
  if (chunks <= 1) return ForEach(queue, 1, PrefixBody{values, n, nullptr});
  MapEach(queue, chunks, scratch, PrefixTotalBody{values, n});
  Prefix(queue, scratch, chunks, scratch + chunks);
  ForEach(queue, chunks, PrefixBody{values, n, scratch});
}

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
  int32_t skipped;
  Divider inner;
  const int32_t* keys;
  const int32_t* items;
  const T* updates;
  T* out;
  MR_DEVICE void operator()(int64_t i) const {
    const int64_t first = inner(i), column = i - first * inner.by;
    const int32_t row = keys[first];
    if (row == skipped || (first > 0 && keys[first - 1] == row)) return;
    T* const at = out + row * inner.by + column;
    T value = *at;
    for (int64_t k = first; k < n && keys[k] == row; ++k) {
      const T update = updates[one_update ? 0 : items[k] * inner.by + column];
      value = Wide<T>::Narrow(CombineOne(op, Widen(value), Widen(update)));
    }
    *at = value;
  }
};

struct SortScratch {
  int32_t *keys[2], *items[2], *counts, *prefix;
};
SortScratch Place(void* scratch, int64_t n) {
  int32_t* at = static_cast<int32_t*>(scratch);
  SortScratch s;
  for (int i = 0; i < 2; ++i) {
    s.keys[i] = at;
    s.items[i] = at + n;
    at += 2 * n;
  }
  s.counts = at;
  s.prefix = at + kDigits * CeilDiv(n, kSortChunk);
  return s;
}

}  // namespace

void LaunchGatherRows(const Queue& queue, int bytes, const RowIndex& index, int64_t inner, const void* in,
                      const void* indices, void* out) {
  ForSize(bytes, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const int64_t n = index.count * inner;
    ForEach(queue, n, GatherRowsBody<T>{queue, index, DivideBy(inner, n), static_cast<const T*>(in), indices,
                                        static_cast<T*>(out)});
  });
}

int64_t ScatterScratchBytes(int64_t count, int64_t rows) {
  static_cast<void>(rows);
  const int64_t counts = kDigits * CeilDiv(count, kSortChunk);
  return (4 * count + counts + PrefixScratch(counts)) * static_cast<int64_t>(sizeof(int32_t));
}

void LaunchScatterRows(const Queue& queue, CombineOp op, Type type, const RowIndex& index, int64_t rows, int64_t inner,
                       bool one_update, const void* indices, const void* updates, void* out, void* scratch) {
  const int64_t n = index.count, chunks = CeilDiv(n, kSortChunk);
  if (n == 0 || inner == 0 || rows == 0) return;
  SortScratch s = Place(scratch, n);
  const int32_t skipped = static_cast<int32_t>(rows);
  ForEach(queue, n, KeyBody{queue, index, indices, s.keys[0], s.items[0], skipped});
  int from = 0;
  for (int shift = 0; shift < 31 && rows >> shift > 0; shift += kDigitBits) {
    ForEach(queue, chunks, CountBody{s.keys[from], n, chunks, shift, s.counts});
    Prefix(queue, s.counts, kDigits * chunks, s.prefix);
    ForEach(queue, chunks, PlaceBody{s.keys[from], s.items[from], n, chunks, shift, s.counts, s.keys[1 - from], s.items[1 - from]});
    from = 1 - from;
  }
  const auto launch = [&](auto tag) {
    using T = typename decltype(tag)::type;
    ForEach(queue, n * inner, CombineBody<T>{op, one_update, n, skipped, DivideBy(inner, n * inner), s.keys[from],
                                             s.items[from], static_cast<const T*>(updates), static_cast<T*>(out)});
  };
  if (type <= Type::kBfloat16) return ForFloating(type, launch);
  if (type == Type::kBool) return launch(Tag<uint8_t>());
  ForInteger(type, launch);
}

}  // namespace millrace::cuda
