#include "cuda/launch/reduce.h"

#include "cuda/launch/crew.h"
#include "cuda/launch/portable.h"
#include "cuda/launch/reduce_index.h"

namespace millrace::cuda {
namespace {

// Accumulators are doubles or int64: the result is close to the exact one whatever the tree.
template <typename T>
struct AccumulatorOf {
  using type = double;
};
template <>
struct AccumulatorOf<int32_t> {
  using type = int64_t;
};
template <>
struct AccumulatorOf<int64_t> {
  using type = int64_t;
};
template <>
struct AccumulatorOf<uint8_t> {
  using type = int64_t;
};

// How a row's accumulator is begun, added to and stored. kAdds: by sums, which graphs are full of; else as `op` says.
template <typename T, bool kAdds>
struct ReduceRule {
  using Acc = typename AccumulatorOf<T>::type;
  ReduceOp op;
  int64_t terms;
  T* y;
  // Of the type's own range, so that a row without terms gives what TensorFlow gives.
  Acc lowest, highest;

  MR_DEVICE Acc Identity() const {
    if constexpr (kAdds) return Acc(0);
    switch (op) {
      case ReduceOp::kProd:
      case ReduceOp::kAll: return Acc(1);
      case ReduceOp::kMax: return lowest;
      case ReduceOp::kMin: return highest;
      default: return Acc(0);
    }
  }
  MR_DEVICE Acc Combine(Acc a, Acc b) const {
    if constexpr (kAdds) return a + b;
    switch (op) {
      case ReduceOp::kProd: return a * b;
      case ReduceOp::kMax: return a != a || a > b ? a : b;
      case ReduceOp::kMin: return a != a || a < b ? a : b;
      case ReduceOp::kAll: return a != Acc(0) && b != Acc(0) ? Acc(1) : Acc(0);
      case ReduceOp::kAny: return a != Acc(0) || b != Acc(0) ? Acc(1) : Acc(0);
      default: return a + b;
    }
  }
  MR_DEVICE void Store(int64_t row, Acc acc) const {
    using W = typename Wide<T>::type;
    if (op == ReduceOp::kMean) acc = acc / static_cast<Acc>(terms);
    if (op == ReduceOp::kL2Loss) acc = acc / Acc(2);
    if (op == ReduceOp::kEuclideanNorm) acc = static_cast<Acc>(sqrt(static_cast<double>(acc)));
    y[row] = Wide<T>::Narrow(static_cast<W>(acc));
  }
};

enum class Terms { kPlain, kSquared, kAny };
MR_DEVICE constexpr bool Squares(ReduceOp op) { return op == ReduceOp::kL2Loss || op == ReduceOp::kEuclideanNorm; }

// kRank: of the terms, where it is known: 1 (or 0), 2 of fewer than 2^31 terms; else kAnyRank.
inline constexpr int kAnyRank = kMaxDims;
template <typename T, Terms kTerms, int kRank>
struct ReduceBody {
  using Acc = typename AccumulatorOf<T>::type;
  ReduceRule<T, kTerms != Terms::kAny> rule;
  StridedIndex<1> row_index, term_index;
  const T* x;

  struct RowTerms {
    static constexpr int kAtOnce = kRank == kAnyRank ? 1 : kTerms == Terms::kAny ? 4 : 8;
    const ReduceBody& body;
    const T* x;
    MR_DEVICE T Fetch(int64_t k) const {
      const StridedIndex<1>& index = body.term_index;
      if constexpr (kRank == 1) {
        return x[k * index.strides[0][0]];
      } else if constexpr (kRank == 2) {
        const auto [outer, inner] = index.dims[1].template Split<true>(k);
        return x[outer * index.strides[0][0] + inner * index.strides[0][1]];
      } else {
        return x[index.Offset(k)];
      }
    }
    MR_DEVICE Acc Value(T term) const {
      const Acc value = static_cast<Acc>(Widen(term));
      return kTerms == Terms::kSquared || (kTerms == Terms::kAny && Squares(body.rule.op)) ? value * value : value;
    }
  };
  MR_DEVICE RowTerms Row(int64_t row) const { return {*this, x + row_index.Offset(row)}; }
  MR_DEVICE Acc Identity() const { return rule.Identity(); }
  MR_DEVICE Acc Combine(Acc a, Acc b) const { return rule.Combine(a, b); }
  MR_DEVICE void Store(int64_t row, Acc acc) const { rule.Store(row, acc); }
};

template <typename T>
struct SumColumnsBody {
  int64_t rows, columns, divisor;
  Divider by_rows;
  T* y;
  const T* x[kMostSummed];
  MR_DEVICE double Identity() const { return 0; }
  MR_DEVICE double Combine(double a, double b) const { return a + b; }
  MR_DEVICE double Load(int64_t column, int64_t k) const {
    const int64_t input = by_rows(k);
    return static_cast<double>(Widen(x[input][(k - input * rows) * columns + column]));
  }
  MR_DEVICE void Store(int64_t column, double sum) const {
    using W = typename Wide<T>::type;
    y[column] = Wide<T>::Narrow(static_cast<W>(sum / static_cast<double>(divisor)));
  }
};

struct Larger {
  template <typename V>
  MR_DEVICE V operator()(V a, V b) const {
    return a != a || a > b ? a : b;
  }
};
struct Plus {
  MR_DEVICE double operator()(double a, double b) const { return a + b; }
};

// visit(k, fetch(k)) for the columns k of a row that are this thread's, every size()-th, with several loads on their way at once.
template <typename Crew, typename Fetch, typename Visit>
MR_DEVICE void EachOfMine(const Crew& crew, int64_t columns, const Fetch& fetch, const Visit& visit) {
  using V = decltype(fetch(int64_t{0}));
  constexpr int kAtOnce = sizeof(V) > 4 ? 32 / sizeof(V) : 8;
  const int64_t step = crew.size();
  V loaded[kAtOnce];
  int64_t k = crew.rank();
  MR_NO_UNROLL for (; k + (kAtOnce - 1) * step < columns; k += kAtOnce * step) {
    MR_UNROLL for (int u = 0; u < kAtOnce; ++u) loaded[u] = fetch(k + u * step);
    MR_UNROLL for (int u = 0; u < kAtOnce; ++u) visit(k + u * step, loaded[u]);
  }
  MR_UNROLL for (int u = 0; u < kAtOnce; ++u) {
    if (k + u * step < columns) loaded[u] = fetch(k + u * step);
  }
  MR_UNROLL for (int u = 0; u < kAtOnce; ++u) {
    if (k + u * step < columns) visit(k + u * step, loaded[u]);
  }
}

// *to = value; of what the device's cache holds, this goes first.
template <typename T>
MR_DEVICE void StoreForLater(T* to, T value) {
#ifdef __CUDA_ARCH__
  if constexpr (sizeof(T) == 2) {
    __stcs(reinterpret_cast<unsigned short*>(to), value.bits);
  } else {
    __stcs(to, value);
  }
#else
  *to = value;
#endif
}

// The largest element of a row and the sum of exp(x - largest), all threads of the crew have them.
template <typename W>
struct MaxAndSum {
  W max;
  double sum;
};
template <typename T, typename Crew>
MR_DEVICE MaxAndSum<typename Wide<T>::type> MaxAndSumOf(const Crew& crew, const T* x, int64_t columns) {
  using W = typename Wide<T>::type;
  const auto fetch = [&](int64_t k) { return x[k]; };
  W max = static_cast<W>(-INFINITY);
  EachOfMine(crew, columns, fetch, [&](int64_t, T element) { max = Larger()(max, Widen(element)); });
  max = crew.Reduce(max, Larger());
  double sum = 0;
  EachOfMine(crew, columns, fetch, [&](int64_t, T element) { sum += static_cast<double>(exp(static_cast<W>(Widen(element) - max))); });
  return {max, crew.Reduce(sum, Plus())};
}

// `y` may be `x`: a thread reads an element for the last time before it writes it.
template <typename T>
struct SoftmaxRow {
  bool log_result;
  int64_t columns;
  const T* in;
  T* out;
  template <typename Crew>
  MR_DEVICE void operator()(const Crew& crew, int64_t row) const {
    using W = typename Wide<T>::type;
    const T* const x = in + row * columns;
    T* const y = out + row * columns;
    const auto [row_max, sum] = MaxAndSumOf(crew, x, columns);
    const W max = row_max, divisor = static_cast<W>(sum), log_sum = static_cast<W>(log(sum));
    const auto fetch = [&](int64_t k) { return x[k]; };
    if (log_result) {
      EachOfMine(crew, columns, fetch, [&](int64_t k, T element) {
        const W shifted = static_cast<W>(Widen(element) - max);
        StoreForLater(y + k, Wide<T>::Narrow(static_cast<W>(shifted - log_sum)));
      });
    } else {
      EachOfMine(crew, columns, fetch, [&](int64_t k, T element) {
        const W shifted = static_cast<W>(Widen(element) - max);
        StoreForLater(y + k, Wide<T>::Narrow(static_cast<W>(exp(shifted) / divisor)));
      });
    }
  }
};

// The gradient may be the logits or the labels: the loss has read them before.
template <typename T>
struct IndexLossRow {
  Queue queue;
  bool wide;
  int64_t columns;
  const T* logits;
  const void* labels;
  T* loss;
  T* gradient;
  template <typename Crew>
  MR_DEVICE void operator()(const Crew& crew, int64_t row) const {
    using W = typename Wide<T>::type;
    const int64_t label = IndexAt(labels, wide, row);
    const bool known = label >= 0 && label < columns;
    if (!known && crew.rank() == 0) Report(queue, FaultCode::kBadLabel, 1, label, columns, row);
    const T* const x = logits + row * columns;
    T* const dx = gradient + row * columns;
    const auto [row_max, sum] = MaxAndSumOf(crew, x, columns);
    const W max = row_max, divisor = static_cast<W>(sum);
    if (known && crew.rank() == 0) {
      const double shifted = static_cast<double>(Widen(x[label])) - static_cast<double>(max);
      loss[row] = Wide<T>::Narrow(static_cast<W>(log(sum) - shifted));
    }
    crew.Sync();
    EachOfMine(crew, columns, [&](int64_t k) { return x[k]; }, [&](int64_t k, T element) {
      const W p = static_cast<W>(exp(static_cast<W>(Widen(element) - max)) / divisor);
      StoreForLater(dx + k, Wide<T>::Narrow(k == label ? static_cast<W>(p - W(1)) : p));
    });
  }
};
template <typename T>
struct DenseLossRow {
  struct Both {
    T logit, label;
  };
  int64_t columns;
  const T* logits;
  const T* labels;
  T* loss;
  T* gradient;
  template <typename Crew>
  MR_DEVICE void operator()(const Crew& crew, int64_t row) const {
    using W = typename Wide<T>::type;
    const T *const x = logits + row * columns, *const wanted = labels + row * columns;
    T* const dx = gradient + row * columns;
    const auto [row_max, sum] = MaxAndSumOf(crew, x, columns);
    const W max = row_max, divisor = static_cast<W>(sum);
    const double log_sum = log(sum);
    const auto fetch = [&](int64_t k) { return Both{x[k], wanted[k]}; };
    double total = 0;
    EachOfMine(crew, columns, fetch, [&](int64_t, const Both& both) {
      const double label = static_cast<double>(Widen(both.label));
      if (label != 0) total += label * (log_sum - (static_cast<double>(Widen(both.logit)) - static_cast<double>(max)));
    });
    total = crew.Reduce(total, Plus());
    if (crew.rank() == 0) loss[row] = Wide<T>::Narrow(static_cast<W>(total));
    EachOfMine(crew, columns, fetch, [&](int64_t k, const Both& both) {
      const W p = static_cast<W>(exp(static_cast<W>(Widen(both.logit) - max)) / divisor);
      StoreForLater(dx + k, Wide<T>::Narrow(static_cast<W>(p - Widen(both.label))));
    });
  }
};

}  // namespace

int64_t ReduceScratchBytes(int64_t rows, int64_t terms, bool columns) {
  const int64_t chunks = SumChunks(rows, terms, columns);
  return chunks > 1 ? rows * chunks * 8 : 0;
}

void LaunchReduce(const Queue& queue, ReduceOp op, Type type, const ReduceShape& shape, const void* x, void* y,
                  void* partial) {
  const StridedIndex<1> row_index = RowIndexOf(shape), term_index = TermIndexOf(shape);
  const bool line = shape.term_rank <= 1;
  const bool plane = shape.term_rank == 2 && term_index.dims[1].small_magic != 0 && !shape.columns;
  const auto launch = [&]<typename T, Terms kTerms, int kRank>(Tag<ReduceBody<T, kTerms, kRank>>, auto lowest, auto highest) {
    using Acc = typename AccumulatorOf<T>::type;
    const ReduceBody<T, kTerms, kRank> body = {
        {op, shape.terms, static_cast<T*>(y), static_cast<Acc>(lowest), static_cast<Acc>(highest)},
        row_index, term_index, static_cast<const T*>(x)};
    constexpr bool kRowsAlone = kRank == 2 || kTerms == Terms::kSquared;
    SumRows<Acc, kRowsAlone>(queue, shape.rows, shape.terms, shape.columns, partial, body);
  };
  const auto launch_any = [&]<typename T>(Tag<T>, auto lowest, auto highest) {
    line ? launch(Tag<ReduceBody<T, Terms::kAny, 1>>(), lowest, highest)
         : launch(Tag<ReduceBody<T, Terms::kAny, kAnyRank>>(), lowest, highest);
  };
  if (type == Type::kBool || type == Type::kUint8) return launch_any(Tag<uint8_t>(), 0, 255);
  if (type == Type::kInt32) return launch_any(Tag<int32_t>(), int64_t{INT32_MIN}, int64_t{INT32_MAX});
  if (type == Type::kInt64) return launch_any(Tag<int64_t>(), INT64_MIN, INT64_MAX);
  ForFloating(type, [&]<typename T>(Tag<T> tag) {
    const bool sum = op == ReduceOp::kSum || op == ReduceOp::kMean;
    if (sum && line) return launch(Tag<ReduceBody<T, Terms::kPlain, 1>>(), -INFINITY, INFINITY);
    if (sum && plane) return launch(Tag<ReduceBody<T, Terms::kPlain, 2>>(), -INFINITY, INFINITY);
    if (Squares(op) && line && !shape.columns) return launch(Tag<ReduceBody<T, Terms::kSquared, 1>>(), -INFINITY, INFINITY);
    launch_any(tag, -INFINITY, INFINITY);
  });
}

void LaunchSumColumns(const Queue& queue, Type type, const void* const* x, int count, int64_t rows, int64_t columns,
                      int64_t divisor, void* y, void* partial) {
  ForFloating(type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    SumColumnsBody<T> body = {rows, columns, divisor, DivideBy(rows, count * rows), static_cast<T*>(y), {}};
    for (int i = 0; i < count; ++i) body.x[i] = static_cast<const T*>(x[i]);
    SumRows<double>(queue, columns, count * rows, /*columns=*/columns > 1, partial, body);
  });
}

void LaunchSoftmax(const Queue& queue, Type type, bool log, int64_t rows, int64_t columns, const void* x, void* y) {
  ForFloating(type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    ForEachRow(queue, rows, columns, SoftmaxRow<T>{log, columns, static_cast<const T*>(x), static_cast<T*>(y)});
  });
}

void LaunchCrossEntropy(const Queue& queue, Type type, bool index_labels, bool wide_labels, int64_t rows,
                        int64_t columns, const void* logits, const void* labels, void* loss, void* gradient) {
  ForFloating(type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* const x = static_cast<const T*>(logits);
    T *const l = static_cast<T*>(loss), *const dx = static_cast<T*>(gradient);
    if (index_labels) {
      ForEachRow(queue, rows, columns, IndexLossRow<T>{queue, wide_labels, columns, x, labels, l, dx});
    } else {
      ForEachRow(queue, rows, columns, DenseLossRow<T>{columns, x, static_cast<const T*>(labels), l, dx});
    }
  });
}

}  // namespace millrace::cuda
