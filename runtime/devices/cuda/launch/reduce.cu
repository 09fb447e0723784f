#include "cuda/launch/reduce.h"

#include "cuda/launch/portable.h"

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

template <typename T>
struct ReduceBody {
  using Acc = typename AccumulatorOf<T>::type;
  ReduceOp op;
  int64_t terms;
  StridedIndex<1> row_index, term_index;
  const T* x;
  T* y;
  // Of the type's own range, so that a row without terms gives what TensorFlow gives.
  Acc lowest, highest;

  MR_DEVICE Acc Identity() const {
    switch (op) {
      case ReduceOp::kProd:
      case ReduceOp::kAll: return Acc(1);
      case ReduceOp::kMax: return lowest;
      case ReduceOp::kMin: return highest;
      default: return Acc(0);
    }
  }
  MR_DEVICE Acc Combine(Acc a, Acc b) const {
    switch (op) {
      case ReduceOp::kProd: return a * b;
      case ReduceOp::kMax: return a != a || a > b ? a : b;
      case ReduceOp::kMin: return a != a || a < b ? a : b;
      case ReduceOp::kAll: return a != Acc(0) && b != Acc(0) ? Acc(1) : Acc(0);
      case ReduceOp::kAny: return a != Acc(0) || b != Acc(0) ? Acc(1) : Acc(0);
      default: return a + b;
    }
  }
  MR_DEVICE Acc Load(int64_t row, int64_t k) const {
    const Acc value = static_cast<Acc>(Widen(x[row_index.Offset(row) + term_index.Offset(k)]));
    return op == ReduceOp::kL2Loss || op == ReduceOp::kEuclideanNorm ? value * value : value;
  }
  MR_DEVICE void Store(int64_t row, Acc acc) const {
    using W = typename Wide<T>::type;
    if (op == ReduceOp::kMean) acc = acc / static_cast<Acc>(terms);
    if (op == ReduceOp::kL2Loss) acc = acc / Acc(2);
    if (op == ReduceOp::kEuclideanNorm) acc = static_cast<Acc>(sqrt(static_cast<double>(acc)));
    y[row] = Wide<T>::Narrow(static_cast<W>(acc));
  }
};

// max over the row, then sum of exp(x - max), into scratch.
template <typename T>
struct RowMaxBody {
  int64_t columns;
  const T* x;
  double* out;
  MR_DEVICE double Identity() const { return -INFINITY; }
  MR_DEVICE double Combine(double a, double b) const { return a != a || a > b ? a : b; }
  MR_DEVICE double Load(int64_t row, int64_t k) const { return static_cast<double>(Widen(x[row * columns + k])); }
  MR_DEVICE void Store(int64_t row, double acc) const { out[row] = acc; }
};
template <typename T>
struct RowExpSumBody {
  int64_t columns;
  const T* x;
  const double* max;
  double* out;
  MR_DEVICE double Identity() const { return 0; }
  MR_DEVICE double Combine(double a, double b) const { return a + b; }
  MR_DEVICE double Load(int64_t row, int64_t k) const {
    using W = typename Wide<T>::type;
    return static_cast<double>(exp(static_cast<W>(Widen(x[row * columns + k]) - static_cast<W>(max[row]))));
  }
  MR_DEVICE void Store(int64_t row, double acc) const { out[row] = acc; }
};
template <typename T>
struct SoftmaxBody {
  bool log_result;
  Divider columns;
  const T* x;
  const double* max;
  const double* sum;
  MR_DEVICE T operator()(int64_t i) const {
    using W = typename Wide<T>::type;
    const int64_t row = columns(i);
    const W shifted = static_cast<W>(Widen(x[i]) - static_cast<W>(max[row]));
    return Wide<T>::Narrow(log_result ? static_cast<W>(shifted - static_cast<W>(log(sum[row])))
                                      : static_cast<W>(exp(shifted) / static_cast<W>(sum[row])));
  }
};

template <typename T>
struct IndexLossBody {
  Queue queue;
  bool wide;
  int64_t columns;
  const T* x;
  const void* labels;
  const double* max;
  const double* sum;
  T* loss;
  MR_DEVICE void operator()(int64_t row) const {
    using W = typename Wide<T>::type;
    const int64_t label = wide ? static_cast<const int64_t*>(labels)[row] : static_cast<const int32_t*>(labels)[row];
    if (label < 0 || label >= columns) {
      Report(queue, FaultCode::kBadLabel, 1, label, columns);
      return;
    }
    const double shifted = static_cast<double>(Widen(x[row * columns + label])) - max[row];
    loss[row] = Wide<T>::Narrow(static_cast<W>(log(sum[row]) - shifted));
  }
};
template <typename T>
struct IndexGradientBody {
  bool wide;
  Divider columns;
  const T* x;
  const void* labels;
  const double* max;
  const double* sum;
  MR_DEVICE T operator()(int64_t i) const {
    using W = typename Wide<T>::type;
    const int64_t row = columns(i);
    const int64_t label = wide ? static_cast<const int64_t*>(labels)[row] : static_cast<const int32_t*>(labels)[row];
    const W p = static_cast<W>(exp(static_cast<W>(Widen(x[i]) - static_cast<W>(max[row]))) / static_cast<W>(sum[row]));
    return Wide<T>::Narrow(i - row * columns.by == label ? static_cast<W>(p - W(1)) : p);
  }
};
template <typename T>
struct DenseLossBody {
  int64_t columns;
  const T* x;
  const T* labels;
  const double* max;
  const double* sum;
  T* loss;
  MR_DEVICE double Identity() const { return 0; }
  MR_DEVICE double Combine(double a, double b) const { return a + b; }
  MR_DEVICE double Load(int64_t row, int64_t k) const {
    const double label = static_cast<double>(Widen(labels[row * columns + k]));
    if (label == 0) return 0;
    return label * (log(sum[row]) - (static_cast<double>(Widen(x[row * columns + k])) - max[row]));
  }
  MR_DEVICE void Store(int64_t row, double acc) const {
    loss[row] = Wide<T>::Narrow(static_cast<typename Wide<T>::type>(acc));
  }
};
template <typename T>
struct DenseGradientBody {
  Divider columns;
  const T* x;
  const T* labels;
  const double* max;
  const double* sum;
  MR_DEVICE T operator()(int64_t i) const {
    using W = typename Wide<T>::type;
    const int64_t row = columns(i);
    const W p = static_cast<W>(exp(static_cast<W>(Widen(x[i]) - static_cast<W>(max[row]))) / static_cast<W>(sum[row]));
    return Wide<T>::Narrow(static_cast<W>(p - Widen(labels[i])));
  }
};

template <typename T>
void MaxAndSum(const Queue& queue, int64_t rows, int64_t columns, const T* x, double* max, double* sum, void* partial) {
  SumRows<double>(queue, rows, columns, false, partial, RowMaxBody<T>{columns, x, max});
  SumRows<double>(queue, rows, columns, false, partial, RowExpSumBody<T>{columns, x, max, sum});
}

}  // namespace

int64_t ReduceScratchBytes(int64_t rows, int64_t terms, bool columns) {
  const int64_t chunks = SumChunks(rows, terms, columns);
  return chunks > 1 ? rows * chunks * 8 : 0;
}

void LaunchReduce(const Queue& queue, ReduceOp op, Type type, const ReduceShape& shape, const void* x, void* y,
                  void* partial) {
  StridedIndex<1> row_index, term_index;
  row_index.rank = shape.row_rank;
  term_index.rank = shape.term_rank;
  for (int d = 0; d < kMaxDims; ++d) {
    row_index.SetDim(d, shape.row_dims[d], shape.rows);
    row_index.strides[0][d] = shape.row_strides[d];
    term_index.SetDim(d, shape.term_dims[d], shape.terms);
    term_index.strides[0][d] = shape.term_strides[d];
  }
  if (type == Type::kBool || type == Type::kUint8) {
    const ReduceBody<uint8_t> body = {op, shape.terms, row_index, term_index, static_cast<const uint8_t*>(x),
                                      static_cast<uint8_t*>(y), 0, 255};
    return SumRows<int64_t>(queue, shape.rows, shape.terms, shape.columns, partial, body);
  }
  const auto launch = [&](auto tag, auto lowest, auto highest) {
    using T = typename decltype(tag)::type;
    using Acc = typename ReduceBody<T>::Acc;
    const ReduceBody<T> body = {op, shape.terms, row_index, term_index, static_cast<const T*>(x), static_cast<T*>(y),
                                static_cast<Acc>(lowest), static_cast<Acc>(highest)};
    SumRows<Acc>(queue, shape.rows, shape.terms, shape.columns, partial, body);
  };
  if (type == Type::kInt32) return launch(Tag<int32_t>(), int64_t{INT32_MIN}, int64_t{INT32_MAX});
  if (type == Type::kInt64) return launch(Tag<int64_t>(), INT64_MIN, INT64_MAX);
  ForFloating(type, [&](auto tag) { launch(tag, -INFINITY, INFINITY); });
}

int64_t SoftmaxScratchBytes(int64_t rows, int64_t columns) { return rows * 16 + ReduceScratchBytes(rows, columns, false); }

void LaunchSoftmax(const Queue& queue, Type type, bool log, int64_t rows, int64_t columns, const void* x, void* y,
                   void* scratch) {
  double *max = static_cast<double*>(scratch), *sum = max + rows;
  ForFloating(type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* in = static_cast<const T*>(x);
    MaxAndSum(queue, rows, columns, in, max, sum, sum + rows);
    Map(queue, rows * columns, static_cast<T*>(y), SoftmaxBody<T>{log, DivideBy(columns, rows * columns), in, max, sum});
  });
}

void LaunchCrossEntropy(const Queue& queue, Type type, bool index_labels, bool wide_labels, int64_t rows,
                        int64_t columns, const void* logits, const void* labels, void* loss, void* gradient,
                        void* scratch) {
  double *max = static_cast<double*>(scratch), *sum = max + rows;
  const Divider divider = DivideBy(columns, rows * columns);
  ForFloating(type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* x = static_cast<const T*>(logits);
    MaxAndSum(queue, rows, columns, x, max, sum, sum + rows);
    if (index_labels) {
      ForEach(queue, rows,
              IndexLossBody<T>{queue, wide_labels, columns, x, labels, max, sum, static_cast<T*>(loss)});
      Map(queue, rows * columns, static_cast<T*>(gradient), IndexGradientBody<T>{wide_labels, divider, x, labels, max, sum});
      return;
    }
    const T* p = static_cast<const T*>(labels);
    SumRows<double>(queue, rows, columns, false, sum + rows,
                    DenseLossBody<T>{columns, x, p, max, sum, static_cast<T*>(loss)});
    Map(queue, rows * columns, static_cast<T*>(gradient), DenseGradientBody<T>{divider, x, p, max, sum});
  });
}

}  // namespace millrace::cuda
