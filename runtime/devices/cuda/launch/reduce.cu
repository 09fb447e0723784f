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

MR_DEVICE inline int64_t OffsetIn(int rank, const int64_t* dims, const int64_t* strides, int64_t i) {
  int64_t offset = 0;
  for (int d = rank - 1; d >= 0; --d) {
    offset += i % dims[d] * strides[d];
    i /= dims[d];
  }
  return offset;
}

template <typename T>
struct ReduceBody {
  using Acc = typename AccumulatorOf<T>::type;
  ReduceOp op;
  ReduceShape shape;
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
    const int64_t offset = OffsetIn(shape.row_rank, shape.row_dims, shape.row_strides, row) +
                           OffsetIn(shape.term_rank, shape.term_dims, shape.term_strides, k);
    const Acc value = static_cast<Acc>(Widen(x[offset]));
    return op == ReduceOp::kL2Loss || op == ReduceOp::kEuclideanNorm ? value * value : value;
  }
  MR_DEVICE void Store(int64_t row, Acc acc) const {
    using W = typename Wide<T>::type;
    if (op == ReduceOp::kMean) acc = acc / static_cast<Acc>(shape.terms);
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
  int64_t columns;
  const T* x;
  const double* max;
  const double* sum;
  T* y;
  MR_DEVICE void operator()(int64_t i) const {
    using W = typename Wide<T>::type;
    const int64_t row = i / columns;
    const W shifted = static_cast<W>(Widen(x[i]) - static_cast<W>(max[row]));
    y[i] = Wide<T>::Narrow(log_result ? static_cast<W>(shifted - static_cast<W>(log(sum[row])))
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
  int64_t columns;
  const T* x;
  const void* labels;
  const double* max;
  const double* sum;
  T* gradient;
  MR_DEVICE void operator()(int64_t i) const {
    using W = typename Wide<T>::type;
    const int64_t row = i / columns;
    const int64_t label = wide ? static_cast<const int64_t*>(labels)[row] : static_cast<const int32_t*>(labels)[row];
    const W p = static_cast<W>(exp(static_cast<W>(Widen(x[i]) - static_cast<W>(max[row]))) / static_cast<W>(sum[row]));
    gradient[i] = Wide<T>::Narrow(i % columns == label ? static_cast<W>(p - W(1)) : p);
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
  int64_t columns;
  const T* x;
  const T* labels;
  const double* max;
  const double* sum;
  T* gradient;
  MR_DEVICE void operator()(int64_t i) const {
    using W = typename Wide<T>::type;
    const int64_t row = i / columns;
    const W p = static_cast<W>(exp(static_cast<W>(Widen(x[i]) - static_cast<W>(max[row]))) / static_cast<W>(sum[row]));
    gradient[i] = Wide<T>::Narrow(static_cast<W>(p - Widen(labels[i])));
  }
};

template <typename T>
void MaxAndSum(const Queue& queue, int64_t rows, int64_t columns, const T* x, double* max, double* sum, void* partial) {
  SumRows<double>(queue, rows, columns, false, partial, RowMaxBody<T>{columns, x, max});
  SumRows<double>(queue, rows, columns, false, partial, RowExpSumBody<T>{columns, x, max, sum});
}

}  // namespace

int64_t ReduceScratchBytes(int64_t rows, int64_t terms) {
  const int64_t chunks = SumChunks(rows, terms);
  return chunks > 1 ? rows * chunks * 8 : 0;
}

void LaunchReduce(const Queue& queue, ReduceOp op, Type type, const ReduceShape& shape, const void* x, void* y,
                  void* partial) {
  if (type == Type::kBool || type == Type::kUint8) {
    const ReduceBody<uint8_t> body = {op, shape, static_cast<const uint8_t*>(x), static_cast<uint8_t*>(y), 0, 255};
    return SumRows<int64_t>(queue, shape.rows, shape.terms, shape.columns, partial, body);
  }
  const auto launch = [&](auto tag, auto lowest, auto highest) {
    using T = typename decltype(tag)::type;
    using Acc = typename ReduceBody<T>::Acc;
    const ReduceBody<T> body = {op, shape, static_cast<const T*>(x), static_cast<T*>(y), static_cast<Acc>(lowest),
                                static_cast<Acc>(highest)};
    SumRows<Acc>(queue, shape.rows, shape.terms, shape.columns, partial, body);
  };
  if (type == Type::kInt32) return launch(Tag<int32_t>(), int64_t{INT32_MIN}, int64_t{INT32_MAX});
  if (type == Type::kInt64) return launch(Tag<int64_t>(), INT64_MIN, INT64_MAX);
  ForFloating(type, [&](auto tag) { launch(tag, -INFINITY, INFINITY); });
}

int64_t SoftmaxScratchBytes(int64_t rows, int64_t columns) { return rows * 16 + ReduceScratchBytes(rows, columns); }

void LaunchSoftmax(const Queue& queue, Type type, bool log, int64_t rows, int64_t columns, const void* x, void* y,
                   void* scratch) {
  double *max = static_cast<double*>(scratch), *sum = max + rows;
  ForFloating(type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* in = static_cast<const T*>(x);
    MaxAndSum(queue, rows, columns, in, max, sum, sum + rows);
    ForEach(queue, rows * columns, SoftmaxBody<T>{log, columns, in, max, sum, static_cast<T*>(y)});
  });
}

void LaunchCrossEntropy(const Queue& queue, Type type, bool index_labels, bool wide_labels, int64_t rows,
                        int64_t columns, const void* logits, const void* labels, void* loss, void* gradient,
                        void* scratch) {
  double *max = static_cast<double*>(scratch), *sum = max + rows;
  ForFloating(type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* x = static_cast<const T*>(logits);
    MaxAndSum(queue, rows, columns, x, max, sum, sum + rows);
    if (index_labels) {
      ForEach(queue, rows,
              IndexLossBody<T>{queue, wide_labels, columns, x, labels, max, sum, static_cast<T*>(loss)});
      ForEach(queue, rows * columns,
              IndexGradientBody<T>{wide_labels, columns, x, labels, max, sum, static_cast<T*>(gradient)});
      return;
    }
    const T* p = static_cast<const T*>(labels);
    SumRows<double>(queue, rows, columns, false, sum + rows,
                    DenseLossBody<T>{columns, x, p, max, sum, static_cast<T*>(loss)});
    ForEach(queue, rows * columns, DenseGradientBody<T>{columns, x, p, max, sum, static_cast<T*>(gradient)});
  });
}

}  // namespace millrace::cuda
