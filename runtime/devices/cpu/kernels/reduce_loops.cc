// The loops of reductions.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "cpu/kernels/convert.h"
#include "cpu/kernels/reduce.h"
#include "cpu/kernels/transpose_tile.h"

namespace millrace::cpu {
namespace {

// A SIMD register's worth of T; the compiler splits it where registers are narrower.
template <typename T>
using Vector [[gnu::vector_size(64)]] = T;
template <typename T>
constexpr int64_t kLanes = 64 / sizeof(T);

template <typename T>
Vector<T> Load(const T* x) {
  Vector<T> v;
  std::memcpy(&v, x, sizeof(v));
  return v;
}

template <typename T>
void Store(Vector<T> v, T* x) {
  std::memcpy(x, &v, sizeof(v));
}

template <typename T>
using AccumulatorOf = std::conditional_t<std::is_floating_point_v<T>, double, std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>>;

// Operations: Start() is neutral, Take(acc, x) takes a value in, Merge(a, b) joins two results. They are for scalars
// and vectors of T, and for scalars of the accumulator's type.
struct SumOp {
  static constexpr int64_t kMostAtOnce = 63;  // elements of rows that are taken several at a time
  static constexpr bool kIdempotent = false;
  template <typename T>
  static constexpr T Start() {
    return T{0};
  }
  template <typename V>
  static V Take(V acc, V x) {
    return acc + x;
  }
  template <typename V>
  static V Merge(V a, V b) {
    return a + b;
  }
};
struct SquareOp : SumOp {
  template <typename V>
  static V Take(V acc, V x) {
    return acc + x * x;
  }
};
struct ProdOp {
  static constexpr int64_t kMostAtOnce = 63;
  static constexpr bool kIdempotent = false;
  template <typename T>
  static constexpr T Start() {
    return T{1};
  }
  template <typename V>
  static V Take(V acc, V x) {
    return acc * x;
  }
  template <typename V>
  static V Merge(V a, V b) {
    return a * b;
  }
};
// A NaN stays.
struct MaxOp {
  static constexpr int64_t kMostAtOnce = 255;  // what a row's lanes come to takes longer than sums do
  static constexpr bool kIdempotent = true;
  template <typename T>
  static constexpr T Start() {
    return std::is_floating_point_v<T> ? -std::numeric_limits<T>::infinity() : std::numeric_limits<T>::lowest();
  }
  template <typename V>
  static V Take(V acc, V x) {
    return (x > acc) | (x != x) ? x : acc;
  }
  template <typename V>
  static V Merge(V a, V b) {
    return Take(a, b);
  }
};
struct MinOp {
  static constexpr int64_t kMostAtOnce = 255;  // what a row's lanes come to takes longer than sums do
  static constexpr bool kIdempotent = true;
  template <typename T>
  static constexpr T Start() {
    return std::is_floating_point_v<T> ? std::numeric_limits<T>::infinity() : std::numeric_limits<T>::max();
  }
  template <typename V>
  static V Take(V acc, V x) {
    return (x < acc) | (x != x) ? x : acc;
  }
  template <typename V>
  static V Merge(V a, V b) {
    return Take(a, b);
  }
};

// Values that lanes of T take before they are merged into accumulators.
constexpr int64_t kRowRun = 4096;
constexpr int64_t kColumnRun = 32;

// A vector's lanes as accumulators.
template <typename T>
struct Totals {
  using A = AccumulatorOf<T>;
  static constexpr int64_t kParts = kLanes<T> / kLanes<A>;
  Vector<A> parts[kParts];

  static Totals Of(const T* values) {
    using Part [[gnu::vector_size(64 / kParts)]] = T;
    Totals wide;
    for (int64_t p = 0; p < kParts; ++p) {
      Part part;
      std::memcpy(&part, values + p * kLanes<A>, sizeof(part));
      wide.parts[p] = __builtin_convertvector(part, Vector<A>);
    }
    return wide;
  }
};

// By halves, each with the one behind it.
template <typename Op, typename T>
AccumulatorOf<T> MergeLanes(Vector<T> lanes) {
  using A = AccumulatorOf<T>;
  using Mask [[gnu::vector_size(64)]] = int64_t;
  T values[kLanes<T>];
  Store<T>(lanes, values);
  Totals<T> totals = Totals<T>::Of(values);
  static_assert(Totals<T>::kParts <= 2 && kLanes<A> == 8);
  Vector<A> merged = totals.parts[0];
  if constexpr (Totals<T>::kParts == 2) merged = Op::Merge(merged, totals.parts[1]);
  merged = Op::Merge(merged, __builtin_shuffle(merged, Mask{4, 5, 6, 7}));
  merged = Op::Merge(merged, __builtin_shuffle(merged, Mask{2, 3}));
  return Op::Merge(merged, __builtin_shuffle(merged, Mask{1}))[0];
}

// The lanes over x[0 .. n), n a multiple of kLanes and at most kRowRun.
template <typename Op, typename T>
Vector<T> TakeLanes(const T* x, int64_t n) {
  constexpr int64_t kStep = 4 * kLanes<T>;
  const Vector<T> start = Vector<T>{} + Op::template Start<T>();
  Vector<T> a = start, b = start, c = start, d = start;
  int64_t i = 0;
  for (; i + kStep <= n; i += kStep) {
    a = Op::Take(a, Load(x + i));
    b = Op::Take(b, Load(x + i + kLanes<T>));
    c = Op::Take(c, Load(x + i + 2 * kLanes<T>));
    d = Op::Take(d, Load(x + i + 3 * kLanes<T>));
  }
  for (; i < n; i += kLanes<T>) a = Op::Take(a, Load(x + i));
  return Op::Merge(Op::Merge(a, b), Op::Merge(c, d));
}

template <typename Op, typename T>
void Row(const void* data, int64_t n, Accumulator* acc) {
  using A = AccumulatorOf<T>;
  const T* x = static_cast<const T*>(data);
  A total = std::bit_cast<A>(*acc);
  while (n >= kLanes<T>) {
    const int64_t run = std::min(n, kRowRun) / kLanes<T> * kLanes<T>;
    total = Op::Merge(total, MergeLanes<Op, T>(TakeLanes<Op>(x, run)));
    x += run;
    n -= run;
  }
  for (int64_t i = 0; i < n; ++i) total = Op::Take(total, static_cast<A>(x[i]));
  *acc = std::bit_cast<Accumulator>(total);
}

template <typename T, int64_t kCount>
struct BytesVector {
  using Type [[gnu::vector_size(kCount)]] = T;
};

// By halves.
template <typename Op, typename T, int64_t kCount>
T TotalOfLanes(const typename BytesVector<T, kCount>::Type& lanes) {
  if constexpr (kCount == 8) {
    T total = lanes[0];
    for (int64_t k = 1; k < kCount; ++k) total = Op::Take(total, lanes[k]);
    return total;
  } else {
    typename BytesVector<T, kCount / 2>::Type halves[2];
    std::memcpy(halves, &lanes, kCount);
    return TotalOfLanes<Op, T, kCount / 2>(Op::Take(halves[0], halves[1]));
  }
}

// x[0 .. n), n at least kCount, in kCount bytes side by side. Bytes hold all that a total needs: sums wrap around.
template <typename Op, typename T, int64_t kCount>
T TotalOfBytes(const T* x, int64_t n) {
  using Lanes = typename BytesVector<T, kCount>::Type;
  Lanes total, value;
  std::memcpy(&total, x, kCount);
  int64_t i = kCount;
  for (; i + kCount <= n; i += kCount) {
    std::memcpy(&value, x + i, kCount);
    total = Op::Take(total, value);
  }
  if constexpr (Op::kIdempotent) {
    std::memcpy(&value, x + n - kCount, kCount);
    total = Op::Take(total, value);
    i = n;
  }
  T result = TotalOfLanes<Op, T, kCount>(total);
  for (; i < n; ++i) result = Op::Take(result, x[i]);
  return result;
}

template <typename Op, typename T>
void RowOfBytes(const void* data, int64_t n, Accumulator* acc) {
  constexpr int64_t kLong = 64, kShort = 16;
  using A = AccumulatorOf<T>;
  const T* x = static_cast<const T*>(data);
  A total = std::bit_cast<A>(*acc);
  if (n >= kShort) {
    total = Op::Merge(total, static_cast<A>(n >= kLong ? TotalOfBytes<Op, T, kLong>(x, n) : TotalOfBytes<Op, T, kShort>(x, n)));
  } else {
    for (int64_t i = 0; i < n; ++i) total = Op::Take(total, static_cast<A>(x[i]));
  }
  *acc = std::bit_cast<Accumulator>(total);
}

template <typename Op, typename T>
void RowsOfBytes(const void* data, int64_t rows, int64_t count, Accumulator* acc) {
  for (int64_t r = 0; r < rows; ++r) RowOfBytes<Op, T>(static_cast<const T*>(data) + r * count, count, acc + r);
}

// to[j][i] = from[i * step + j] for i below kLanes and j below `columns`, at most kLanes; kLanes elements of each row are read.
template <typename T>
void TransposeLanes(const T* from, int64_t step, int64_t columns, T (*to)[kLanes<T>]) {
  constexpr int64_t kTile = TransposeTile<T>::kLanes;
  for (int64_t j = 0; j < columns; j += kTile) {
    for (int64_t i = 0; i < kLanes<T>; i += kTile) TransposeTile<T>::Run(from + i * step + j, step, kTile, &to[j][i], kLanes<T>);
  }
}

// Row of kLanes short rows at once, each in a lane of its own, with Row's steps in their order.
template <typename Op, typename T>
void RowsOfLanes(const T* x, int64_t count, Accumulator* acc) {
  using Wide = Totals<T>;
  const auto merge = [](Wide& a, const Wide& b) {
    for (int64_t p = 0; p < Wide::kParts; ++p) a.parts[p] = Op::Merge(a.parts[p], b.parts[p]);
  };
  alignas(64) T columns[kLanes<T>][kLanes<T>];
  Wide total;
  std::memcpy(&total, acc, sizeof(total));
  const int64_t whole = count / kLanes<T> * kLanes<T>;
  if (whole > 0) {
    alignas(64) T lanes[kLanes<T>][kLanes<T>];
    for (int64_t r = 0; r < kLanes<T>; ++r) Store<T>(TakeLanes<Op>(x + r * count, whole), lanes[r]);
    TransposeLanes<T>(lanes[0], kLanes<T>, kLanes<T>, columns);
    Wide values[kLanes<T>];
    for (int64_t k = 0; k < kLanes<T>; ++k) values[k] = Wide::Of(columns[k]);
    for (int64_t half = kLanes<T> / 2; half > 0; half /= 2) {
      for (int64_t k = 0; k < half; ++k) merge(values[k], values[k + half]);
    }
    merge(total, values[0]);
  }
  TransposeLanes<T>(x + whole, count, count - whole, columns);
  for (int64_t i = 0; i < count - whole; ++i) {
    const Wide taken = Wide::Of(columns[i]);
    for (int64_t p = 0; p < Wide::kParts; ++p) total.parts[p] = Op::Take(total.parts[p], taken.parts[p]);
  }
  std::memcpy(acc, &total, sizeof(total));
}

template <typename Op, typename T>
void Rows(const void* data, int64_t rows, int64_t count, Accumulator* acc) {
  static_assert(Op::kMostAtOnce < kRowRun);
  const T* x = static_cast<const T*>(data);
  int64_t r = 0;
  for (; count > Op::kMostAtOnce && r < rows; ++r) Row<Op, T>(x + r * count, count, acc + r);
  // Their last row is read past its end, which has to be inside the data still.
  for (; (r + kLanes<T>)*count + kLanes<T> <= rows * count; r += kLanes<T>) RowsOfLanes<Op, T>(x + r * count, count, acc + r);
  for (; r < rows; r += kLanes<T>) {
    T padded[kLanes<T> * (Op::kMostAtOnce + 1)];
    Accumulator last[kLanes<T>] = {};
    const int64_t n = std::min(kLanes<T>, rows - r);
    std::fill(std::copy_n(x + r * count, n * count, padded), padded + kLanes<T> * (count + 1), T{0});
    std::copy_n(acc + r, n, last);
    RowsOfLanes<Op, T>(padded, count, last);
    std::copy_n(last, n, acc + r);
  }
}

// partial[c] by rows x, x + stride, ... for c in [0, columns), columns in whole vectors.
template <typename Op, typename T>
void TakeRows(const T* x, int64_t rows, int64_t stride, int64_t columns, T* partial) {
  int64_t r = 0;
  for (; r + 4 <= rows; r += 4, x += 4 * stride) {
    for (int64_t c = 0; c < columns; c += kLanes<T>) {
      Vector<T> lane = Load(partial + c);
      lane = Op::Take(lane, Load(x + c));
      lane = Op::Take(lane, Load(x + stride + c));
      lane = Op::Take(lane, Load(x + 2 * stride + c));
      Store<T>(Op::Take(lane, Load(x + 3 * stride + c)), partial + c);
    }
  }
  for (; r < rows; ++r, x += stride) {
    for (int64_t c = 0; c < columns; c += kLanes<T>) {
      Store<T>(Op::Take(Load(partial + c), Load(x + c)), partial + c);
    }
  }
}

// acc[c] by x[r * stride + c], of fewer columns than a vector has.
template <typename Op, typename T>
void TakeRest(const T* x, int64_t rows, int64_t stride, int64_t columns, Accumulator* acc) {
  constexpr int64_t kFewRows = 8;
  using A = AccumulatorOf<T>;
  A totals[kLanes<T>];
  for (int64_t c = 0; c < columns; ++c) totals[c] = std::bit_cast<A>(acc[c]);
  if (rows < kFewRows) {
    for (int64_t c = 0; c < columns; ++c) {
      for (int64_t r = 0; r < rows; ++r) totals[c] = Op::Take(totals[c], static_cast<A>(x[r * stride + c]));
    }
  } else {
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t c = 0; c < columns; ++c) totals[c] = Op::Take(totals[c], static_cast<A>(x[r * stride + c]));
    }
  }
  for (int64_t c = 0; c < columns; ++c) acc[c] = std::bit_cast<Accumulator>(totals[c]);
}

template <typename Op, typename T>
void Columns(const void* data, int64_t rows, int64_t stride, int64_t columns, Accumulator* acc) {
  using A = AccumulatorOf<T>;
  const int64_t whole = columns / kLanes<T> * kLanes<T>;
  alignas(64) T partial[kMaxColumns];
  for (int64_t first = 0; first < rows; first += kColumnRun) {
    const int64_t run = std::min(kColumnRun, rows - first);
    const T* x = static_cast<const T*>(data) + first * stride;
    std::fill_n(partial, whole, Op::template Start<T>());
    TakeRows<Op, T>(x, run, stride, whole, partial);
    for (int64_t c = 0; c < whole; ++c) {
      acc[c] = std::bit_cast<Accumulator>(Op::Merge(std::bit_cast<A>(acc[c]), static_cast<A>(partial[c])));
    }
    TakeRest<Op>(x + whole, run, stride, columns - whole, acc + whole);
  }
}

template <typename Op, typename A>
void MergeAll(const Accumulator* from, int64_t n, Accumulator* acc) {
  for (int64_t i = 0; i < n; ++i) {
    acc[i] = std::bit_cast<Accumulator>(Op::Merge(std::bit_cast<A>(acc[i]), std::bit_cast<A>(from[i])));
  }
}

// Finish::Apply(accumulated value, count) before the conversion to T.
struct AsItIs {
  template <typename A>
  static A Apply(A value, int64_t) {
    return value;
  }
};
struct DividedByCount {
  template <typename A>
  static A Apply(A value, int64_t count) {
    if constexpr (std::is_integral_v<A>)
      return count == 0 ? A{0} : value / static_cast<A>(count);
    else
      return value / static_cast<A>(count);
  }
};
struct SquareRoot {
  template <typename A>
  static A Apply(A value, int64_t) {
    return static_cast<A>(std::sqrt(value));
  }
};
struct Halved {
  template <typename A>
  static A Apply(A value, int64_t) {
    return value / 2;
  }
};

template <typename Finish, typename T>
void FinishAll(const Accumulator* acc, int64_t n, int64_t count, void* out) {
  using A = AccumulatorOf<T>;
  T* y = static_cast<T*>(out);
  for (int64_t i = 0; i < n; ++i) y[i] = static_cast<T>(Finish::Apply(std::bit_cast<A>(acc[i]), count));
}

// Values of type T, taken as Result where the two have the same bits.
template <typename Op, typename Finish, typename T, typename Result = T>
Reducer Make() {
  using A = AccumulatorOf<T>;
  return {&Row<Op, T>, &Rows<Op, T>, &Columns<Op, T>, &MergeAll<Op, A>, &FinishAll<Finish, Result>,
          std::bit_cast<Accumulator>(Op::template Start<A>())};
}

template <typename Op, typename T, typename Result = T>
Reducer ForBytes() {
  using A = AccumulatorOf<T>;
  return {&RowOfBytes<Op, T>,      &RowsOfBytes<Op, T>, &Columns<Op, T>, &MergeAll<Op, A>, &FinishAll<AsItIs, Result>,
          std::bit_cast<Accumulator>(Op::template Start<A>())};
}

template <typename Op, typename Finish = AsItIs>
Reducer ForFloating(DataType compute) {
  if (compute == DataType::kFloat) return Make<Op, Finish, float>();
  if (compute == DataType::kDouble) return Make<Op, Finish, double>();
  return {};
}
// Integers are added and multiplied without a sign: they wrap around, as TensorFlow's do.
template <typename Op, typename Finish = AsItIs>
Reducer ForWrapping(DataType compute) {
  if (compute == DataType::kInt64) return Make<Op, Finish, uint64_t, int64_t>();
  if (compute == DataType::kUint64) return Make<Op, Finish, uint64_t>();
  if constexpr (std::is_same_v<Finish, AsItIs>) {
    if (compute == DataType::kInt32) return Make<Op, Finish, uint32_t, int32_t>();  // its last 32 bits are right
  }
  return ForFloating<Op, Finish>(compute);
}
template <typename Op>
Reducer ForOrdered(DataType compute) {
  if (compute == DataType::kInt8) return ForBytes<Op, int8_t>();
  if (compute == DataType::kUint8) return ForBytes<Op, uint8_t>();
  if (compute == DataType::kInt32) return Make<Op, AsItIs, int32_t>();
  if (compute == DataType::kInt64) return Make<Op, AsItIs, int64_t>();
  if (compute == DataType::kUint64) return Make<Op, AsItIs, uint64_t>();
  return ForFloating<Op>(compute);
}

// The least (or greatest) value of an integer type that is computed as int64, and of int64 itself.
int64_t IntegerLimit(DataType dtype, bool least) {
  const int64_t bits = 8 * DataTypeSize(dtype);
  switch (dtype) {
    case DataType::kUint8:
    case DataType::kUint16:
    case DataType::kUint32:
      return least ? 0 : (int64_t{1} << bits) - 1;
    default:
      break;
  }
  const int64_t lowest = std::numeric_limits<int64_t>::min() >> (64 - bits);
  return least ? lowest : -(lowest + 1);
}

}  // namespace

DataType ComputedTypeOf(Reduction reduction, DataType dtype) {
  const bool whole_sums = reduction == Reduction::kMean || reduction == Reduction::kEuclideanNorm;
  if (DataTypeSize(dtype) == 1 && WideningOf(dtype).compute == DataType::kInt64 && !whole_sums && reduction != Reduction::kProd) return dtype;
  return dtype == DataType::kInt32 && whole_sums ? DataType::kInt64 : WideningOf(dtype).compute;
}

Reducer ReducerOf(Reduction reduction, DataType dtype) {
  const DataType compute = ComputedTypeOf(reduction, dtype);
  const bool is_bool = dtype == DataType::kBool;
  const bool wants_bool = reduction == Reduction::kAll || reduction == Reduction::kAny;
  if (is_bool != wants_bool) return {};
  const bool limited = compute == DataType::kInt64 || compute == DataType::kInt32 || compute == DataType::kInt8;
  Reducer reducer;
  switch (reduction) {
    case Reduction::kSum:
      if (compute == DataType::kInt8 || compute == DataType::kUint8) return ForBytes<SumOp, uint8_t>();
      return ForWrapping<SumOp>(compute);
    case Reduction::kMean:
      return ForWrapping<SumOp, DividedByCount>(compute);
    case Reduction::kProd:
      return ForWrapping<ProdOp>(compute);
    case Reduction::kL2Loss:
      return ForFloating<SquareOp, Halved>(compute);
    case Reduction::kEuclideanNorm:
      return ForWrapping<SquareOp, SquareRoot>(compute);
    case Reduction::kMax:
      reducer = ForOrdered<MaxOp>(compute);
      if (limited) reducer.identity = std::bit_cast<Accumulator>(IntegerLimit(dtype, true));
      return reducer;
    case Reduction::kMin:
      reducer = ForOrdered<MinOp>(compute);
      if (limited) reducer.identity = std::bit_cast<Accumulator>(IntegerLimit(dtype, false));
      return reducer;
    // As numbers 0 and 1 without a sign, so that the result over nothing is true for All and false for Any.
    case Reduction::kAll:
      return ForBytes<MinOp, uint8_t, bool>();
    case Reduction::kAny:
      return ForBytes<MaxOp, uint8_t, bool>();
  }
  return {};
}

}  // namespace millrace::cpu
