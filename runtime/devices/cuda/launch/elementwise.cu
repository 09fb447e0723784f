// The op is chosen inside the kernel, the same for all threads: one kernel per element type, and what bounds these
// kernels is memory.
#include "cuda/launch/elementwise.h"

#include "cuda/launch/portable.h"

namespace millrace::cuda {
namespace {

template <typename W>
MR_DEVICE bool IsNegative(W x) {
  if constexpr (static_cast<W>(-1) < W(0)) {
    return x < W(0);
  } else {
    return false;
  }
}

template <typename W>
MR_DEVICE W SimpleUnary(UnaryOp op, W x) {
  switch (op) {
    case UnaryOp::kNeg: return static_cast<W>(-x);
    case UnaryOp::kAbs: return IsNegative(x) ? static_cast<W>(-x) : (x == W(0) ? W(0) : x);
    case UnaryOp::kSign: return x > W(0) ? W(1) : IsNegative(x) ? static_cast<W>(-1) : x;
    case UnaryOp::kSquare: return static_cast<W>(x * x);
    default: return x;
  }
}

template <typename W>
MR_DEVICE W Softplus(W x) {
  // Beyond the threshold one of the two terms is all there is to see.
  const W threshold = log(sizeof(W) == 8 ? W(2.220446049250313e-16) : W(1.1920929e-07f)) + W(2);
  if (x > -threshold) return x;
  if (x < threshold) return exp(x);
  return log1p(exp(x));
}

template <typename W>
MR_DEVICE W FloatUnary(UnaryOp op, W x, W alpha) {
  constexpr double kScale = 1.0507009873554804934193349852946, kScaleAlpha = 1.7580993408473768599402175208123;
  switch (op) {
    case UnaryOp::kReciprocal: return W(1) / x;
    case UnaryOp::kSqrt: return sqrt(x);
    case UnaryOp::kRsqrt: return W(1) / sqrt(x);
    // Denormal results are 0, as TensorFlow has them.
    case UnaryOp::kExp: return sizeof(W) == 4 && x < W(-87.336544f) ? W(0) : exp(x);
    case UnaryOp::kExpm1: return expm1(x);
    case UnaryOp::kLog: return log(x);
    case UnaryOp::kLog1p: return log1p(x);
    case UnaryOp::kSin: return sin(x);
    case UnaryOp::kCos: return cos(x);
    case UnaryOp::kTan: return tan(x);
    case UnaryOp::kTanh: return tanh(x);
    case UnaryOp::kSigmoid: return W(1) / (W(1) + exp(-x));
    case UnaryOp::kErf: return erf(x);
    case UnaryOp::kErfc: return erfc(x);
    case UnaryOp::kFloor: return floor(x);
    case UnaryOp::kCeil: return ceil(x);
    case UnaryOp::kRint: return rint(x);
    case UnaryOp::kRelu: return x < W(0) ? W(0) : x;
    case UnaryOp::kRelu6: return x < W(0) ? W(0) : x > W(6) ? W(6) : x;
    case UnaryOp::kElu: return x < W(0) ? expm1(x) : x;
    case UnaryOp::kSelu: return x < W(0) ? W(kScaleAlpha) * expm1(x) : W(kScale) * x;
    case UnaryOp::kSoftplus: return Softplus(x);
    case UnaryOp::kSoftsign: return x / (W(1) + (x < W(0) ? -x : x));
    case UnaryOp::kLeakyRelu: return x > W(0) ? x : x * alpha;
    case UnaryOp::kAbs: return fabs(x);
    default: return SimpleUnary(op, x);
  }
}

template <typename T, bool kFloating>
struct UnaryBody {
  UnaryOp op;
  const T* x;
  T* y;
  double alpha;
  MR_DEVICE void operator()(int64_t i) const {
    using W = typename Wide<T>::type;
    if constexpr (kFloating) {
      y[i] = Wide<T>::Narrow(FloatUnary<W>(op, Widen(x[i]), static_cast<W>(alpha)));
    } else {
      y[i] = SimpleUnary<T>(op, x[i]);
    }
  }
};

template <typename W>
MR_DEVICE W SimpleBinary(BinaryOp op, W a, W b) {
  switch (op) {
    case BinaryOp::kAdd: return static_cast<W>(a + b);
    case BinaryOp::kSub: return static_cast<W>(a - b);
    case BinaryOp::kMul: return static_cast<W>(a * b);
    // NaN from either side, as TensorFlow has it.
    case BinaryOp::kMaximum: return a != a || a > b ? a : b;
    case BinaryOp::kMinimum: return a != a || a < b ? a : b;
    case BinaryOp::kSquaredDifference: return static_cast<W>((a - b) * (a - b));
    default: return a;
  }
}

template <typename W>
MR_DEVICE W FloatBinary(BinaryOp op, W a, W b, W alpha) {
  constexpr double kScale = 1.0507009873554804934193349852946, kScaleAlpha = 1.7580993408473768599402175208123;
  switch (op) {
    case BinaryOp::kDiv: return a / b;
    case BinaryOp::kDivNoNan: return b == W(0) ? W(0) : a / b;
    case BinaryOp::kMulNoNan: return b == W(0) ? W(0) : a * b;
    case BinaryOp::kPow: return pow(a, b);
    // The gradients: the incoming one, and the input or output of the op.
    case BinaryOp::kReluGrad: return a * (b > W(0) ? W(1) : W(0));
    case BinaryOp::kRelu6Grad: return a * (b > W(0) && b < W(6) ? W(1) : W(0));
    case BinaryOp::kLeakyReluGrad: return b > W(0) ? a : a * alpha;
    case BinaryOp::kTanhGrad: return b * (W(1) - a * a);
    case BinaryOp::kSigmoidGrad: return b * a * (W(1) - a);
    case BinaryOp::kSqrtGrad: return b * W(0.5) / a;
    case BinaryOp::kRsqrtGrad: return W(-0.5) * b * (a * a) * a;
    case BinaryOp::kReciprocalGrad: return -b * a * a;
    case BinaryOp::kSoftplusGrad: return a / (exp(-b) + W(1));
    case BinaryOp::kSoftsignGrad: {
      const W d = W(1) + (b < W(0) ? -b : b);
      return a / (d * d);
    }
    case BinaryOp::kEluGrad: return b < W(0) ? (b + W(1)) * a : a;
    case BinaryOp::kSeluGrad: return b < W(0) ? a * (b + W(kScaleAlpha)) : a * W(kScale);
    default: return SimpleBinary(op, a, b);
  }
}

// Offsets into two or three inputs of output element i.
struct Offsets {
  int64_t at[3];
};
MR_DEVICE inline Offsets OffsetsOf(const Broadcast& shape, int64_t i) {
  Offsets offsets = {{0, 0, 0}};
  for (int d = shape.rank - 1; d >= 0; --d) {
    const int64_t index = i % shape.dims[d];
    i /= shape.dims[d];
    for (int k = 0; k < 3; ++k) offsets.at[k] += index * shape.strides[k][d];
  }
  return offsets;
}

template <typename T, bool kFloating>
struct BinaryBody {
  BinaryOp op;
  Broadcast shape;
  const T* a;
  const T* b;
  T* y;
  double alpha;
  MR_DEVICE void operator()(int64_t i) const {
    using W = typename Wide<T>::type;
    const Offsets o = OffsetsOf(shape, i);
    if constexpr (kFloating) {
      y[i] = Wide<T>::Narrow(FloatBinary<W>(op, Widen(a[o.at[0]]), Widen(b[o.at[1]]), static_cast<W>(alpha)));
    } else {
      y[i] = SimpleBinary<T>(op, a[o.at[0]], b[o.at[1]]);
    }
  }
};

template <typename T>
struct CompareBody {
  CompareOp op;
  Broadcast shape;
  const T* a;
  const T* b;
  bool* y;
  MR_DEVICE void operator()(int64_t i) const {
    const Offsets o = OffsetsOf(shape, i);
    const auto p = Widen(a[o.at[0]]);
    const auto q = Widen(b[o.at[1]]);
    switch (op) {
      case CompareOp::kLess: y[i] = p < q; return;
      case CompareOp::kLessEqual: y[i] = p <= q; return;
      case CompareOp::kGreater: y[i] = p > q; return;
      case CompareOp::kGreaterEqual: y[i] = p >= q; return;
      case CompareOp::kEqual: y[i] = p == q; return;
      case CompareOp::kNotEqual: y[i] = p != q; return;
    }
  }
};

struct LogicalBody {
  LogicalOp op;
  Broadcast shape;
  const bool* a;
  const bool* b;
  bool* y;
  MR_DEVICE void operator()(int64_t i) const {
    const Offsets o = OffsetsOf(shape, i);
    if (op == LogicalOp::kNot) {
      y[i] = !a[o.at[0]];
    } else if (op == LogicalOp::kAnd) {
      y[i] = a[o.at[0]] && b[o.at[1]];
    } else {
      y[i] = a[o.at[0]] || b[o.at[1]];
    }
  }
};

template <typename T>
struct SelectBody {
  Broadcast shape;
  const bool* condition;
  const T* a;
  const T* b;
  T* y;
  MR_DEVICE void operator()(int64_t i) const {
    const Offsets o = OffsetsOf(shape, i);
    y[i] = condition[o.at[0]] ? a[o.at[1]] : b[o.at[2]];
  }
};

template <typename From, typename To>
struct CastBody {
  const From* x;
  To* y;
  MR_DEVICE void operator()(int64_t i) const {
    const auto wide = Widen(x[i]);
    y[i] = Wide<To>::Narrow(static_cast<typename Wide<To>::type>(wide));
  }
};

template <typename T>
struct AddNBody {
  const T* inputs[kMaxAddends];
  int count;
  T* y;
  MR_DEVICE void operator()(int64_t i) const {
    typename Wide<T>::type sum = Widen(inputs[0][i]);
    for (int k = 1; k < count; ++k) sum = static_cast<typename Wide<T>::type>(sum + Widen(inputs[k][i]));
    y[i] = Wide<T>::Narrow(sum);
  }
};

template <typename T>
void CastFrom(const Queue& queue, Type to, const T* x, void* y, int64_t n) {
  switch (to) {
    case Type::kFloat: return ForEach(queue, n, CastBody<T, float>{x, static_cast<float*>(y)});
    case Type::kDouble: return ForEach(queue, n, CastBody<T, double>{x, static_cast<double*>(y)});
    case Type::kHalf: return ForEach(queue, n, CastBody<T, Half>{x, static_cast<Half*>(y)});
    case Type::kBfloat16: return ForEach(queue, n, CastBody<T, Bfloat16>{x, static_cast<Bfloat16*>(y)});
    case Type::kInt32: return ForEach(queue, n, CastBody<T, int32_t>{x, static_cast<int32_t*>(y)});
    case Type::kInt64: return ForEach(queue, n, CastBody<T, int64_t>{x, static_cast<int64_t*>(y)});
    case Type::kBool: return ForEach(queue, n, CastBody<T, bool>{x, static_cast<bool*>(y)});
    default: return;
  }
}

}  // namespace

void LaunchUnary(const Queue& queue, UnaryOp op, Type type, const void* x, void* y, int64_t n, double alpha) {
  if (op > UnaryOp::kSquare || type <= Type::kBfloat16) {
    return ForFloating(type, [&](auto tag) {
      using T = typename decltype(tag)::type;
      ForEach(queue, n, UnaryBody<T, true>{op, static_cast<const T*>(x), static_cast<T*>(y), alpha});
    });
  }
  ForInteger(type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    ForEach(queue, n, UnaryBody<T, false>{op, static_cast<const T*>(x), static_cast<T*>(y), alpha});
  });
}

void LaunchBinary(const Queue& queue, BinaryOp op, Type type, const Broadcast& shape, const void* a, const void* b,
                  void* y, double alpha) {
  const auto launch = [&](auto body, auto tag) {
    using T = typename decltype(tag)::type;
    body = {op, shape, static_cast<const T*>(a), static_cast<const T*>(b), static_cast<T*>(y), alpha};
    ForEach(queue, shape.elements, body);
  };
  if (type <= Type::kBfloat16) {
    return ForFloating(type, [&](auto tag) { launch(BinaryBody<typename decltype(tag)::type, true>(), tag); });
  }
  ForInteger(type, [&](auto tag) { launch(BinaryBody<typename decltype(tag)::type, false>(), tag); });
}

void LaunchCompare(const Queue& queue, CompareOp op, Type type, const Broadcast& shape, const void* a, const void* b,
                   bool* y) {
  const auto launch = [&](auto tag) {
    using T = typename decltype(tag)::type;
    ForEach(queue, shape.elements,
            CompareBody<T>{op, shape, static_cast<const T*>(a), static_cast<const T*>(b), y});
  };
  if (type <= Type::kBfloat16) return ForFloating(type, launch);
  if (type == Type::kBool) return launch(Tag<uint8_t>());
  ForInteger(type, launch);
}

void LaunchLogical(const Queue& queue, LogicalOp op, const Broadcast& shape, const bool* a, const bool* b, bool* y) {
  ForEach(queue, shape.elements, LogicalBody{op, shape, a, b, y});
}

void LaunchSelect(const Queue& queue, int bytes, const Broadcast& shape, const bool* condition, const void* a,
                  const void* b, void* y) {
  ForSize(bytes, [&](auto tag) {
    using T = typename decltype(tag)::type;
    ForEach(queue, shape.elements,
            SelectBody<T>{shape, condition, static_cast<const T*>(a), static_cast<const T*>(b), static_cast<T*>(y)});
  });
}

void LaunchCast(const Queue& queue, Type from, Type to, const void* x, void* y, int64_t n) {
  switch (from) {
    case Type::kFloat: return CastFrom(queue, to, static_cast<const float*>(x), y, n);
    case Type::kDouble: return CastFrom(queue, to, static_cast<const double*>(x), y, n);
    case Type::kHalf: return CastFrom(queue, to, static_cast<const Half*>(x), y, n);
    case Type::kBfloat16: return CastFrom(queue, to, static_cast<const Bfloat16*>(x), y, n);
    case Type::kInt32: return CastFrom(queue, to, static_cast<const int32_t*>(x), y, n);
    case Type::kInt64: return CastFrom(queue, to, static_cast<const int64_t*>(x), y, n);
    case Type::kUint8: return CastFrom(queue, to, static_cast<const uint8_t*>(x), y, n);
    case Type::kBool: return CastFrom(queue, to, static_cast<const bool*>(x), y, n);
    default: return;
  }
}

void LaunchAddN(const Queue& queue, Type type, const void* const* inputs, int count, void* y, int64_t n) {
  const auto launch = [&](auto tag) {
    using T = typename decltype(tag)::type;
    AddNBody<T> body = {};
    for (int k = 0; k < count; ++k) body.inputs[k] = static_cast<const T*>(inputs[k]);
    body.count = count;
    body.y = static_cast<T*>(y);
    ForEach(queue, n, body);
  };
  if (type <= Type::kBfloat16) return ForFloating(type, launch);
  ForInteger(type, launch);
}

}  // namespace millrace::cuda
