#include "cuda/launch/scan.h"

#include "cuda/launch/choice.h"
#include "cuda/launch/complex.h"
#include "cuda/launch/portable.h"

namespace millrace::cuda {
namespace {

inline constexpr int64_t kScanChunk = 64;

template <typename T>
struct TotalOf {
  using type = double;
};
template <>
struct TotalOf<int32_t> {
  using type = uint64_t;
};
template <>
struct TotalOf<int64_t> {
  using type = uint64_t;
};
template <>
struct TotalOf<uint8_t> {
  using type = uint64_t;
};

// What totals begin with, how an element joins one, and what is left of one in the result.
template <typename T>
struct Arithmetic {
  using Element = T;
  using Total = typename TotalOf<T>::type;
  bool product;
  MR_DEVICE Total Identity() const { return product ? Total(1) : Total(0); }
  MR_DEVICE Total Join(Total a, Total b) const { return product ? a * b : a + b; }
  MR_DEVICE static Total From(T x) { return static_cast<Total>(Widen(x)); }
  MR_DEVICE static T To(Total total) { return Wide<T>::Narrow(static_cast<typename Wide<T>::type>(total)); }
};

template <typename T>
struct ComplexArithmetic {
  using Element = Complex<T>;
  using Total = Complex<double>;
  bool product;
  MR_DEVICE Total Identity() const { return {product ? 1.0 : 0.0, 0.0}; }
  MR_DEVICE Total Join(Total a, Total b) const { return product ? a * b : a + b; }
  MR_DEVICE static Total From(Complex<T> x) { return {x.re, x.im}; }
  MR_DEVICE static Complex<T> To(Total total) { return {static_cast<T>(total.re), static_cast<T>(total.im)}; }
};

// log(exp(a) + exp(b)), with nothing lost where one is much larger.
template <typename T>
struct LogSumExp {
  using Element = T;
  using Total = typename Wide<T>::type;
  MR_DEVICE Total Identity() const { return static_cast<Total>(-INFINITY); }
  MR_DEVICE Total Join(Total a, Total b) const {
    const Total high = a < b ? b : a, low = b < a ? b : a;
    if (low != low) return low;
    if (high - high != Total(0)) return high;
    return high + log1p(exp(low - high));
  }
  MR_DEVICE static Total From(T x) { return Widen(x); }
  MR_DEVICE static T To(Total total) { return Wide<T>::Narrow(total); }
};

// Element `step` of the walk along the dimension.
struct Walk {
  AxisShape shape;
  bool reverse;
  Divider inner, chunks;
  MR_DEVICE int64_t At(int64_t outer, int64_t step, int64_t column) const {
    return (outer * shape.length + (reverse ? shape.length - 1 - step : step)) * shape.inner + column;
  }
};

// The steps of a chunk of a line.
struct Chunk {
  int64_t outer, column, begin, end;
};
MR_DEVICE inline Chunk ChunkOf(const Walk& walk, int64_t i) {
  const int64_t line = walk.inner(i), outer = walk.chunks(line), begin = (line - outer * walk.chunks.by) * kScanChunk;
  const int64_t end = begin + kScanChunk < walk.shape.length ? begin + kScanChunk : walk.shape.length;
  return {outer, i - line * walk.inner.by, begin, end};
}

// Totals of the chunks of every line.
template <typename Rule>
struct ChunkTotalBody {
  using Total = typename Rule::Total;
  Walk walk;
  Rule rule;
  const typename Rule::Element* x;
  MR_DEVICE Total operator()(int64_t i) const {
    const Chunk chunk = ChunkOf(walk, i);
    Total total = rule.Identity();
    for (int64_t step = chunk.begin; step < chunk.end; ++step) {
      total = rule.Join(total, Rule::From(x[walk.At(chunk.outer, step, chunk.column)]));
    }
    return total;
  }
};

// What comes before each chunk.
template <typename Rule>
struct ChunkScanBody {
  using Total = typename Rule::Total;
  Walk walk;
  Rule rule;
  Total* totals;
  MR_DEVICE void operator()(int64_t i) const {
    const int64_t outer = walk.inner(i), column = i - outer * walk.inner.by;
    Total before = rule.Identity();
    for (int64_t c = 0; c < walk.chunks.by; ++c) {
      Total& place = totals[(outer * walk.chunks.by + c) * walk.inner.by + column];
      const Total value = place;
      place = before;
      before = rule.Join(before, value);
    }
  }
};

template <typename Rule>
struct ScanBody {
  using Total = typename Rule::Total;
  Walk walk;
  Rule rule;
  bool exclusive;
  const typename Rule::Element* x;
  const Total* before;
  typename Rule::Element* y;
  MR_DEVICE void operator()(int64_t i) const {
    const Chunk chunk = ChunkOf(walk, i);
    Total total = before[i];
    for (int64_t step = chunk.begin; step < chunk.end; ++step) {
      const int64_t at = walk.At(chunk.outer, step, chunk.column);
      const Total past = total;
      total = rule.Join(total, Rule::From(x[at]));
      y[at] = Rule::To(exclusive ? past : total);
    }
  }
};

// Of what are totals already.
template <typename Rule>
struct OfTotals : Rule {
  using Total = typename Rule::Total;
  using Element = Total;
  MR_DEVICE static Total From(Total total) { return total; }
  MR_DEVICE static Total To(Total total) { return total; }
};
template <typename Rule>
struct TotalsOf {
  using type = OfTotals<Rule>;
};
template <typename Rule>
struct TotalsOf<OfTotals<Rule>> {
  using type = OfTotals<Rule>;
};

// The totals of chunks are scanned as elements are, until a line has no more of them than a chunk.
template <typename Rule>
void Scan(const Queue& queue, const ScanRule& scan, const Rule& rule, const AxisShape& shape, const void* x, void* y, void* scratch) {
  using Element = typename Rule::Element;
  using Total = typename Rule::Total;
  const int64_t chunks = CeilDiv(shape.length, kScanChunk), parts = shape.outer * chunks * shape.inner;
  const Walk walk = {shape, scan.reverse, DivideBy(shape.inner, parts), DivideBy(chunks, parts)};
  Total* const totals = static_cast<Total*>(scratch);
  MapEach(queue, parts, totals, ChunkTotalBody<Rule>{walk, rule, static_cast<const Element*>(x)});
  if (chunks <= kScanChunk) {
    ForEach(queue, parts == 0 ? 0 : shape.outer * shape.inner, ChunkScanBody<Rule>{walk, rule, totals});
  } else {
    using Totals = typename TotalsOf<Rule>::type;
    Scan(queue, {.exclusive = true}, Totals{rule}, {shape.outer, chunks, shape.inner}, totals, totals, totals + parts);
  }
  ForEach(queue, parts, ScanBody<Rule>{walk, rule, scan.exclusive, static_cast<const Element*>(x), totals, static_cast<Element*>(y)});
}

template <typename T>
struct ArgBody {
  using W = typename Wide<T>::type;
  bool smallest, wide;
  AxisShape shape;
  const T* x;
  void* index;
  MR_DEVICE Choice<W> Identity() const { return {W(0), -1}; }
  MR_DEVICE Choice<W> Combine(const Choice<W>& a, const Choice<W>& b) const { return Before(b, a, smallest) ? b : a; }
  MR_DEVICE Choice<W> Load(int64_t row, int64_t k) const {
    const int64_t outer = row / shape.inner, column = row - outer * shape.inner;
    return {Widen(x[(outer * shape.length + k) * shape.inner + column]), k};
  }
  MR_DEVICE void Store(int64_t row, const Choice<W>& best) const { PutIndex(index, wide, row, best.index); }
};

// How many of `count` rising numbers are below `value`, or not above it where `upper`.
template <typename T, typename S>
MR_DEVICE int64_t PlaceOf(T value, const S* sorted, int64_t count, bool upper) {
  int64_t low = 0, high = count;
  while (low < high) {
    const int64_t middle = (low + high) / 2;
    (upper ? !(Widen(value) < Widen(sorted[middle])) : Widen(sorted[middle]) < Widen(value)) ? low = middle + 1 : high = middle;
  }
  return low;
}

template <typename T>
struct SortedBoundBody {
  SortedShape shape;
  Divider values;
  const T* sorted;
  const T* of;
  void* out;
  MR_DEVICE void operator()(int64_t i) const {
    const int64_t place = PlaceOf(of[i], sorted + values(i) * shape.sorted, shape.sorted, shape.upper);
    shape.wide_places ? static_cast<int64_t*>(out)[i] = place : static_cast<int32_t*>(out)[i] = static_cast<int32_t>(place);
  }
};

template <typename T>
struct BucketizeBody {
  float sorted[kMostBuckets];
  int64_t count;
  const T* values;
  MR_DEVICE int32_t operator()(int64_t i) const { return static_cast<int32_t>(PlaceOf(values[i], sorted, count, true)); }
};

}  // namespace

int64_t ScanScratchBytes(const AxisShape& shape) {
  int64_t length = CeilDiv(shape.length, kScanChunk), totals = length;
  for (; length > kScanChunk; totals += length) length = CeilDiv(length, kScanChunk);
  return shape.outer * totals * shape.inner * 8;
}

void LaunchScan(const Queue& queue, const ScanRule& rule, Type type, const AxisShape& shape, const void* x, void* y,
                void* scratch) {
  if (rule.op == ScanOp::kLogSumExp) {
    return ForFloating(type, [&]<typename T>(Tag<T>) { Scan(queue, rule, LogSumExp<T>(), shape, x, y, scratch); });
  }
  ForNumber(type, [&]<typename T>(Tag<T>) {
    Scan(queue, rule, Arithmetic<T>{rule.op == ScanOp::kProduct}, shape, x, y, scratch);
  });
}

int64_t ComplexScanScratchBytes(const AxisShape& shape) { return 2 * ScanScratchBytes(shape); }

void LaunchComplexScan(const Queue& queue, const ScanRule& rule, Type type, const AxisShape& shape, const void* x, void* y,
                       void* scratch) {
  const bool product = rule.op == ScanOp::kProduct;
  if (type == Type::kDouble) return Scan(queue, rule, ComplexArithmetic<double>{product}, shape, x, y, scratch);
  Scan(queue, rule, ComplexArithmetic<float>{product}, shape, x, y, scratch);
}

int64_t ArgScratchBytes(const AxisShape& shape) {
  const int64_t rows = shape.outer * shape.inner, chunks = SumChunks(rows, shape.length, shape.inner > 1);
  return chunks > 1 ? rows * chunks * static_cast<int64_t>(sizeof(Choice<double>)) : 0;
}

void LaunchArgMax(const Queue& queue, bool smallest, Type type, bool wide_index, const AxisShape& shape, const void* x,
                  void* index, void* scratch) {
  ForNumber(type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    SumRows<Choice<typename Wide<T>::type>>(queue, shape.outer * shape.inner, shape.length, shape.inner > 1, scratch,
                                            ArgBody<T>{smallest, wide_index, shape, static_cast<const T*>(x), index});
  });
}

void LaunchSortedBound(const Queue& queue, Type type, const SortedShape& shape, const void* sorted, const void* values, void* out) {
  const int64_t n = shape.rows * shape.values;
  ForNumber(type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    ForEach(queue, n, SortedBoundBody<T>{shape, DivideBy(shape.values, n), static_cast<const T*>(sorted), static_cast<const T*>(values), out});
  });
}

void LaunchBucketize(const Queue& queue, Type type, const float* sorted, int64_t count, const void* values, int64_t n, int32_t* out) {
  ForNumber(type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    BucketizeBody<T> body = {};
    memcpy(body.sorted, sorted, static_cast<size_t>(count) * sizeof(float));
    body.count = count;
    body.values = static_cast<const T*>(values);
    MapEach(queue, n, out, body);
  });
}

}  // namespace millrace::cuda
