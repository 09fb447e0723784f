// What the elementwise ops compute of one element. No standard headers (scalar.h).
#ifndef MILLRACE_RUNTIME_DEVICES_CUDA_LAUNCH_ELEMENTWISE_MATH_H_
#define MILLRACE_RUNTIME_DEVICES_CUDA_LAUNCH_ELEMENTWISE_MATH_H_

#include "cuda/launch/elementwise_ops.h"
#include "cuda/launch/scalar.h"

namespace millrace::cuda {

template <typename W>
MR_DEVICE bool IsNegative(W x) {
  if constexpr (static_cast<W>(-1) < W(0)) {
    return x < W(0);
  } else {
    return false;
  }
}

// What integers are added and multiplied as, so that they wrap: what overflows as a signed number has no meaning in C++.
// Narrower ones are computed as int, in which only products of 16 unsigned bits do not fit.
template <typename W>
struct WrappingOf {
  using Type = W;
};
template <>
struct WrappingOf<unsigned short> {
  using Type = unsigned;
};
template <>
struct WrappingOf<int> {
  using Type = unsigned;
};
template <>
struct WrappingOf<long> {
  using Type = unsigned long;
};
template <>
struct WrappingOf<long long> {
  using Type = unsigned long long;
};

template <typename W>
MR_DEVICE W SimpleUnary(UnaryOp op, W x) {
  using Wrapping = typename WrappingOf<W>::Type;
  switch (op) {
    case UnaryOp::kNeg: return static_cast<W>(-static_cast<Wrapping>(x));
    case UnaryOp::kAbs: return IsNegative(x) ? static_cast<W>(-static_cast<Wrapping>(x)) : (x == W(0) ? W(0) : x);
    case UnaryOp::kSign: return x > W(0) ? W(1) : IsNegative(x) ? static_cast<W>(-1) : x == W(0) ? W(0) : x;
    case UnaryOp::kSquare: return static_cast<W>(static_cast<Wrapping>(x) * static_cast<Wrapping>(x));
    default: return x;
  }
}

template <typename W>
MR_DEVICE W Softplus(W x) {
  // Beyond the threshold one of the two terms is all there is to see.
  const W threshold = sizeof(W) == 8 ? W(-34.04365338911715) : W(-13.9423847f);  // log(epsilon) + 2
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
    // 0 has no sign behind these, and NaN stays.
    case UnaryOp::kRelu: return x <= W(0) ? W(0) : x;
    case UnaryOp::kRelu6: return x <= W(0) ? W(0) : x > W(6) ? W(6) : x;
    case UnaryOp::kElu: return x < W(0) ? expm1(x) : x;
    case UnaryOp::kSelu: return x < W(0) ? W(kScaleAlpha) * expm1(x) : W(kScale) * x;
    case UnaryOp::kSoftplus: return Softplus(x);
    case UnaryOp::kSoftsign: return x / (W(1) + (x < W(0) ? -x : x));
    case UnaryOp::kLeakyRelu: return x > W(0) ? x : x * alpha;
    case UnaryOp::kAsin: return asin(x);
    case UnaryOp::kAcos: return acos(x);
    case UnaryOp::kAtan: return atan(x);
    case UnaryOp::kSinh: return sinh(x);
    case UnaryOp::kCosh: return cosh(x);
    case UnaryOp::kAsinh: return asinh(x);
    case UnaryOp::kAcosh: return acosh(x);
    case UnaryOp::kAtanh: return atanh(x);
    case UnaryOp::kAbs: return fabs(x);
    default: return SimpleUnary(op, x);
  }
}

template <typename W>
MR_DEVICE W SimpleBinary(BinaryOp op, W a, W b) {
  using Wrapping = typename WrappingOf<W>::Type;
  const Wrapping x = static_cast<Wrapping>(a), y = static_cast<Wrapping>(b);
  switch (op) {
    case BinaryOp::kAdd: return static_cast<W>(x + y);
    case BinaryOp::kSub: return static_cast<W>(x - y);
    case BinaryOp::kMul: return static_cast<W>(x * y);
    // NaN from either side, as TensorFlow has it.
    case BinaryOp::kMaximum: return a != a || a > b ? a : b;
    case BinaryOp::kMinimum: return a != a || a < b ? a : b;
    case BinaryOp::kLower: return b < a ? b : a;
    case BinaryOp::kRaise: return b > a ? b : a;
    case BinaryOp::kSquaredDifference: return static_cast<W>((x - y) * (x - y));
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
    // These are 0 wherever the incoming one is.
    case BinaryOp::kSqrtGrad: return b == W(0) ? W(0) : b * W(0.5) / a;
    case BinaryOp::kRsqrtGrad: return b == W(0) ? W(0) : W(-0.5) * b * (a * a) * a;
    case BinaryOp::kReciprocalGrad: return b == W(0) ? W(0) : -b * a * a;
    case BinaryOp::kSoftplusGrad: return a / (exp(-b) + W(1));
    case BinaryOp::kSoftsignGrad: {
      const W d = W(1) + (b < W(0) ? -b : b);
      return a / (d * d);
    }
    case BinaryOp::kEluGrad: return b < W(0) ? (b + W(1)) * a : a;
    case BinaryOp::kSeluGrad: return b < W(0) ? a * (b + W(kScaleAlpha)) : a * W(kScale);
    case BinaryOp::kAtan2: return atan2(a, b);
    case BinaryOp::kXlogy: return a == W(0) ? W(0) : a * log(b);
    case BinaryOp::kXlog1py: return a == W(0) ? W(0) : a * log1p(b);
    case BinaryOp::kXdivy: return a == W(0) ? W(0) : a / b;
    default: return SimpleBinary(op, a, b);
  }
}

// Of floating types, computed in float or double.
template <typename T>
MR_DEVICE T UnaryOne(UnaryOp op, T x, double alpha) {
  using W = typename Wide<T>::type;
  return Wide<T>::Narrow(FloatUnary<W>(op, Widen(x), static_cast<W>(alpha)));
}
template <typename T>
MR_DEVICE T BinaryOne(BinaryOp op, T a, T b, double alpha) {
  using W = typename Wide<T>::type;
  return Wide<T>::Narrow(FloatBinary<W>(op, Widen(a), Widen(b), static_cast<W>(alpha)));
}

template <typename T>
MR_DEVICE bool CompareOne(CompareOp op, T a, T b) {
  const auto p = Widen(a);
  const auto q = Widen(b);
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

MR_DEVICE inline bool LogicalOne(LogicalOp op, bool a, bool b) {
  if (op == LogicalOp::kNot) return !a;
  return op == LogicalOp::kAnd ? a && b : a || b;
}

template <typename T>
inline constexpr bool kIsWideInteger = false;
template <>
inline constexpr bool kIsWideInteger<int32_t> = true;
template <>
inline constexpr bool kIsWideInteger<int64_t> = true;
template <typename T>
inline constexpr bool kIsBool = false;
template <>
inline constexpr bool kIsBool<bool> = true;

template <typename To, typename From>
MR_DEVICE To CastOne(From x) {
  const auto wide = Widen(x);
  if constexpr (kIsWideInteger<To> && !kIsWideInteger<decltype(Widen(From{}))> && !kIsBool<From>) {
    // Out of range (a NaN, too): the lowest integer, as on the processors that TensorFlow's results are from.
    constexpr double kLimit = sizeof(To) == 8 ? 9223372036854775808.0 : 2147483648.0;
    const double value = static_cast<double>(wide);
    if (!(value >= -kLimit && value < kLimit)) return static_cast<To>(uint64_t{1} << (8 * sizeof(To) - 1));
  }
  return Wide<To>::Narrow(static_cast<typename Wide<To>::type>(wide));
}

}  // namespace millrace::cuda

#endif  // MILLRACE_RUNTIME_DEVICES_CUDA_LAUNCH_ELEMENTWISE_MATH_H_
