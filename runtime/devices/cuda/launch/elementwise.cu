// The op is chosen inside the kernel, the same for all threads: one kernel per element type. Ops that graphs are full of
// have one each.
#include "cuda/launch/elementwise.h"

#include <type_traits>

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

// kOp: the op, where it is one of those that graphs are full of and so has a kernel of its own; else kAnyOp.
inline constexpr int kAnyOp = -1;

template <typename T, bool kFloating, int kOp = kAnyOp>
struct UnaryBody {
  UnaryOp op;
  const T* x;
  double alpha;
  MR_DEVICE T operator()(int64_t i) const {
    using W = typename Wide<T>::type;
    const UnaryOp which = kOp == kAnyOp ? op : static_cast<UnaryOp>(kOp);
    if constexpr (kFloating) {
      return Wide<T>::Narrow(FloatUnary<W>(which, Widen(x[i]), static_cast<W>(alpha)));
    } else {
      return SimpleUnary<T>(which, x[i]);
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

StridedIndex<3> IndexOf(const Broadcast& shape) {
  StridedIndex<3> index;
  index.rank = shape.rank;
  for (int d = 0; d < shape.rank; ++d) {
    index.SetDim(d, shape.dims[d], shape.elements);
    for (int k = 0; k < 3; ++k) index.strides[k][d] = shape.strides[k][d];
  }
  return index;
}

template <typename T, bool kFloating, int kOp = kAnyOp>
struct BinaryBody {
  BinaryOp op;
  StridedIndex<3> index;
  const T* a;
  const T* b;
  double alpha;
  MR_DEVICE T operator()(int64_t i) const {
    using W = typename Wide<T>::type;
    const BinaryOp which = kOp == kAnyOp ? op : static_cast<BinaryOp>(kOp);
    int64_t at[3];
    index.Offsets(i, at);
    if constexpr (kFloating) {
      return Wide<T>::Narrow(FloatBinary<W>(which, Widen(a[at[0]]), Widen(b[at[1]]), static_cast<W>(alpha)));
    } else {
      return SimpleBinary<T>(which, a[at[0]], b[at[1]]);
    }
  }
};

template <typename T>
struct CompareBody {
  CompareOp op;
  StridedIndex<3> index;
  const T* a;
  const T* b;
  MR_DEVICE bool operator()(int64_t i) const {
    int64_t at[3];
    index.Offsets(i, at);
    const auto p = Widen(a[at[0]]);
    const auto q = Widen(b[at[1]]);
    switch (op) {
      case CompareOp::kLess: return p < q;
      case CompareOp::kLessEqual: return p <= q;
      case CompareOp::kGreater: return p > q;
      case CompareOp::kGreaterEqual: return p >= q;
      case CompareOp::kEqual: return p == q;
      case CompareOp::kNotEqual: return p != q;
    }
    return false;
  }
};

struct LogicalBody {
  LogicalOp op;
  StridedIndex<3> index;
  const bool* a;
  const bool* b;
  MR_DEVICE bool operator()(int64_t i) const {
    int64_t at[3];
    index.Offsets(i, at);
    if (op == LogicalOp::kNot) return !a[at[0]];
    return op == LogicalOp::kAnd ? a[at[0]] && b[at[1]] : a[at[0]] || b[at[1]];
  }
};

template <typename T>
struct SelectBody {
  StridedIndex<3> index;
  const bool* condition;
  const T* a;
  const T* b;
  MR_DEVICE T operator()(int64_t i) const {
    int64_t at[3];
    index.Offsets(i, at);
    return condition[at[0]] ? a[at[1]] : b[at[2]];
  }
};

template <typename T>
inline constexpr bool kToInteger = std::is_same_v<T, int32_t> || std::is_same_v<T, int64_t>;

template <typename From, typename To>
struct CastBody {
  const From* x;
  MR_DEVICE To operator()(int64_t i) const {
    const auto wide = Widen(x[i]);
    if constexpr (kToInteger<To> && !kToInteger<decltype(Widen(From{}))> && !std::is_same_v<From, bool>) {
      // Out of range (a NaN, too): the lowest integer, as on the processors that TensorFlow's results are from.
      constexpr double kLimit = sizeof(To) == 8 ? 9223372036854775808.0 : 2147483648.0;
      const double value = static_cast<double>(wide);
      if (!(value >= -kLimit && value < kLimit)) return sizeof(To) == 8 ? static_cast<To>(INT64_MIN) : static_cast<To>(INT32_MIN);
    }
    return Wide<To>::Narrow(static_cast<typename Wide<To>::type>(wide));
  }
};

template <typename T>
struct AddNBody {
  const T* inputs[kMaxAddends];
  int count;
  MR_DEVICE T operator()(int64_t i) const {
    typename Wide<T>::type sum = Widen(inputs[0][i]);
    for (int k = 1; k < count; ++k) sum = static_cast<typename Wide<T>::type>(sum + Widen(inputs[k][i]));
    return Wide<T>::Narrow(sum);
  }
};

template <typename T>
void CastFrom(const Queue& queue, Type to, const T* x, void* y, int64_t n) {
  const auto launch = [&](auto tag) {
    using To = typename decltype(tag)::type;
    Map(queue, n, static_cast<To*>(y), CastBody<T, To>{x});
  };
  if (to <= Type::kBfloat16) return ForFloating(to, launch);
  if (to == Type::kBool) return launch(Tag<bool>());
  ForInteger(to, launch);
}

template <UnaryOp kOp>
void HotUnary(const Queue& queue, const void* x, void* y, int64_t n, double alpha) {
  Map(queue, n, static_cast<float*>(y), UnaryBody<float, true, static_cast<int>(kOp)>{kOp, static_cast<const float*>(x), alpha});
}

// Whether the op was one with a kernel of its own.
bool LaunchHotUnary(const Queue& queue, UnaryOp op, const void* x, void* y, int64_t n, double alpha) {
  switch (op) {
    case UnaryOp::kRelu: HotUnary<UnaryOp::kRelu>(queue, x, y, n, alpha); return true;
    case UnaryOp::kTanh: HotUnary<UnaryOp::kTanh>(queue, x, y, n, alpha); return true;
    case UnaryOp::kSigmoid: HotUnary<UnaryOp::kSigmoid>(queue, x, y, n, alpha); return true;
    case UnaryOp::kSquare: HotUnary<UnaryOp::kSquare>(queue, x, y, n, alpha); return true;
    case UnaryOp::kRsqrt: HotUnary<UnaryOp::kRsqrt>(queue, x, y, n, alpha); return true;
    default: return false;
  }
}

template <BinaryOp kOp>
void HotBinary(const Queue& queue, const Broadcast& shape, const void* a, const void* b, void* y, double alpha) {
  Map(queue, shape.elements, static_cast<float*>(y),
      BinaryBody<float, true, static_cast<int>(kOp)>{kOp, IndexOf(shape), static_cast<const float*>(a),
                                                     static_cast<const float*>(b), alpha});
}

bool LaunchHotBinary(const Queue& queue, BinaryOp op, const Broadcast& shape, const void* a, const void* b, void* y,
                     double alpha) {
  switch (op) {
    case BinaryOp::kAdd: HotBinary<BinaryOp::kAdd>(queue, shape, a, b, y, alpha); return true;
    case BinaryOp::kSub: HotBinary<BinaryOp::kSub>(queue, shape, a, b, y, alpha); return true;
    case BinaryOp::kMul: HotBinary<BinaryOp::kMul>(queue, shape, a, b, y, alpha); return true;
    case BinaryOp::kReluGrad: HotBinary<BinaryOp::kReluGrad>(queue, shape, a, b, y, alpha); return true;
    case BinaryOp::kTanhGrad: HotBinary<BinaryOp::kTanhGrad>(queue, shape, a, b, y, alpha); return true;
    case BinaryOp::kSigmoidGrad: HotBinary<BinaryOp::kSigmoidGrad>(queue, shape, a, b, y, alpha); return true;
    default: return false;
  }
}

}  // namespace

void LaunchUnary(const Queue& queue, UnaryOp op, Type type, const void* x, void* y, int64_t n, double alpha) {
  if (type == Type::kFloat && LaunchHotUnary(queue, op, x, y, n, alpha)) return;
  const auto launch = [&](auto tag, auto floating) {
    using T = typename decltype(tag)::type;
    Map(queue, n, static_cast<T*>(y), UnaryBody<T, decltype(floating)::value>{op, static_cast<const T*>(x), alpha});
  };
  if (type <= Type::kBfloat16) return ForFloating(type, [&](auto tag) { launch(tag, std::true_type()); });
  ForInteger(type, [&](auto tag) { launch(tag, std::false_type()); });
}

void LaunchBinary(const Queue& queue, BinaryOp op, Type type, const Broadcast& shape, const void* a, const void* b,
                  void* y, double alpha) {
  if (type == Type::kFloat && LaunchHotBinary(queue, op, shape, a, b, y, alpha)) return;
  const auto launch = [&](auto tag, auto floating) {
    using T = typename decltype(tag)::type;
    Map(queue, shape.elements, static_cast<T*>(y),
        BinaryBody<T, decltype(floating)::value>{op, IndexOf(shape), static_cast<const T*>(a), static_cast<const T*>(b), alpha});
  };
  if (type <= Type::kBfloat16) return ForFloating(type, [&](auto tag) { launch(tag, std::true_type()); });
  ForInteger(type, [&](auto tag) { launch(tag, std::false_type()); });
}

void LaunchCompare(const Queue& queue, CompareOp op, Type type, const Broadcast& shape, const void* a, const void* b,
                   bool* y) {
  const auto launch = [&](auto tag) {
    using T = typename decltype(tag)::type;
    Map(queue, shape.elements, y, CompareBody<T>{op, IndexOf(shape), static_cast<const T*>(a), static_cast<const T*>(b)});
  };
  if (type <= Type::kBfloat16) return ForFloating(type, launch);
  if (type == Type::kBool) return launch(Tag<uint8_t>());
  ForInteger(type, launch);
}

void LaunchLogical(const Queue& queue, LogicalOp op, const Broadcast& shape, const bool* a, const bool* b, bool* y) {
  Map(queue, shape.elements, y, LogicalBody{op, IndexOf(shape), a, b});
}

void LaunchSelect(const Queue& queue, int bytes, const Broadcast& shape, const bool* condition, const void* a,
                  const void* b, void* y) {
  ForSize(bytes, [&](auto tag) {
    using T = typename decltype(tag)::type;
    Map(queue, shape.elements, static_cast<T*>(y),
        SelectBody<T>{IndexOf(shape), condition, static_cast<const T*>(a), static_cast<const T*>(b)});
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
    Map(queue, n, static_cast<T*>(y), body);
  };
  if (type <= Type::kBfloat16) return ForFloating(type, launch);
  ForInteger(type, launch);
}

}  // namespace millrace::cuda
