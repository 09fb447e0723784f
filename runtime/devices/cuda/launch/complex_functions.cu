// Functions of numbers with float parts are computed in double, too: nothing overflows or cancels there that would not in the result.
#include "cuda/launch/complex_functions.h"

#include "cuda/launch/broadcast_index.h"
#include "cuda/launch/complex_math.h"

namespace millrace::cuda {
namespace {

using Number = Complex<double>;

struct Angle {
  double sine, cosine;
};
MR_DEVICE inline Angle AngleOf(double x) {
  Angle angle;
#if defined(__CUDA_ARCH__)
  sincos(x, &angle.sine, &angle.cosine);
#else
  angle.sine = sin(x);
  angle.cosine = cos(x);
#endif
  return angle;
}

// `z` times the exponential of x, which may be too large alone.
inline constexpr double kLargeExponent = 700, kExpOfLarge = 1.0142320547350045e304;
MR_DEVICE inline Number TimesExp(Number z, double x) {
  for (int k = 0; k < 2 && x > kLargeExponent; ++k) {
    z = Scaled(z, kExpOfLarge);
    x -= kLargeExponent;
  }
  return Scaled(z, exp(x));
}

MR_DEVICE inline Number Exp(Number z) {
  if (z.im == 0) return {exp(z.re), z.im};
  if (IsInfinite(z.re) && !IsFinite(z.im)) return z.re < 0 ? Number{0, copysign(0.0, z.im)} : Number{z.re, z.im - z.im};
  const Angle angle = AngleOf(z.im);
  return TimesExp({angle.cosine, angle.sine}, z.re);
}

// A number whose square neither overflows nor is rounded away, and the factor that made it so.
struct Tame {
  Number value;
  double factor, root;  // and the factor's root
};
MR_DEVICE inline Tame TameOf(Number z) {
  const double re = fabs(z.re), im = fabs(z.im), large = re > im ? re : im;
  const double root = large > 1e300 ? 0x1p-4 : large < 1e-290 ? 0x1p60 : 1;
  return {Scaled(z, root * root), root * root, root};
}

// x^2 + y^2 - 1 for 1/2 < x < 2 and y <= x, to rounding of the result: the squares are exact sums of two numbers each, and sums that
// cancel are exact in this order.
MR_DEVICE inline double SquareBeyondOne(double x, double y) {
  const double p = x * x, q = y * y;
  return p - 1 + q + fma(x, x, -p) + fma(y, y, -q);
}

MR_DEVICE inline Number Log(Number z) {
  const double re = fabs(z.re), im = fabs(z.im), large = re > im ? re : im, small = re > im ? im : re;
  const double angle = atan2(z.im, z.re);
  if (large > 0.5 && large < 2 && small <= large) return {0.5 * log1p(SquareBeyondOne(large, small)), angle};
  const Tame tame = TameOf(z);
  return {log(hypot(tame.value.re, tame.value.im)) - log(tame.factor), angle};
}

MR_DEVICE inline Number Sqrt(Number z) {
  if (IsInfinite(z.im)) return {fabs(z.im), z.im};
  if (IsInfinite(z.re)) {
    const double rest = IsNan(z.im) ? z.im : copysign(0.0, z.im);
    return z.re > 0 ? Number{z.re, rest} : Number{fabs(rest), copysign(z.re, z.im)};
  }
  if (IsZero(z)) return {0, z.im};
  // The part without cancellation by its formula, the other one from their product, which is half the imaginary part.
  const Tame tame = TameOf(z);
  const double part = sqrt(0.5 * (fabs(tame.value.re) + hypot(tame.value.re, tame.value.im)));
  const double first = part / tame.root, second = tame.value.im / (2 * part) / tame.root;
  return z.re >= 0 ? Number{first, second} : Number{fabs(second), copysign(first, z.im)};
}

// s * sinh(y) and c * cosh(y). Neither s nor c is 0 where y is infinite.
MR_DEVICE inline Number TimesHyperbolic(double s, double c, double y) {
  if (fabs(y) > kLargeExponent) {
    const double half = 0.5 * kExpOfLarge;
    return TimesExp({s * copysign(half, y), c * half}, fabs(y) - kLargeExponent);
  }
  return {s * sinh(y), c * cosh(y)};
}

MR_DEVICE inline Number Sin(Number z) {
  if (z.re == 0) return {z.re, sinh(z.im)};
  const Angle angle = AngleOf(z.re);
  if (!IsFinite(z.re) && (z.im == 0 || IsInfinite(z.im))) return {angle.sine, z.im == 0 ? z.im : fabs(z.im)};
  const Number parts = TimesHyperbolic(angle.cosine, angle.sine, z.im);
  return {parts.im, parts.re};
}

MR_DEVICE inline Number Cos(Number z) {
  if (z.re == 0) return {cosh(z.im), IsNan(z.im) ? z.re : z.re * copysign(1.0, -z.im)};
  const Angle angle = AngleOf(z.re);
  if (!IsFinite(z.re) && IsInfinite(z.im)) return {fabs(z.im), angle.sine};
  if (!IsFinite(z.re) && z.im == 0) return {angle.cosine, 0};
  const Number parts = TimesHyperbolic(angle.sine, angle.cosine, z.im);
  return {parts.im, -parts.re};
}

MR_DEVICE inline Number Tanh(Number z) {
  if (!IsFinite(z.im) && !IsInfinite(z.re)) return {z.re == 0 ? z.re : z.im - z.im, z.im - z.im};
  if (IsNan(z.re)) return {z.re, z.im == 0 ? z.im : z.re};
  if (IsInfinite(z.re) && !IsFinite(z.im)) return {copysign(1.0, z.re), copysign(0.0, z.im)};
  const Angle angle = AngleOf(z.im);
  constexpr double kLarge = 20;  // the hyperbolic tangent is 1 to rounding
  if (fabs(z.re) > kLarge) return {copysign(1.0, z.re), 4 * angle.sine * angle.cosine * exp(-2 * fabs(z.re))};
  const double s = sinh(z.re), c = cosh(z.re), square = s * s + angle.cosine * angle.cosine;
  return {s * c / square, angle.sine * angle.cosine / square};
}

// A product that is infinite is one, whatever NaN its terms make (C11, annex G).
template <typename T>
MR_DEVICE Complex<T> Product(Complex<T> a, Complex<T> b) {
  const Complex<T> product = a * b;
  if (!IsNan(product.re) || !IsNan(product.im)) return product;
  const bool a_large = IsInfinite(a.re) || IsInfinite(a.im), b_large = IsInfinite(b.re) || IsInfinite(b.im);
  const bool overflows = IsInfinite(a.re * b.re) || IsInfinite(a.im * b.im) || IsInfinite(a.re * b.im) || IsInfinite(a.im * b.re);
  if (!a_large && !b_large && !overflows) return product;
  // Infinite parts count as 1 beside finite ones, a NaN as 0.
  const auto unit = [](Complex<T> z, bool large) {
    const auto part = [large](T x) { return !large && !IsNan(x) ? x : static_cast<T>(copysign(large && IsInfinite(x) ? 1.0 : 0.0, x)); };
    return Complex<T>{part(z.re), part(z.im)};
  };
  return Scaled(unit(a, a_large) * unit(b, b_large), static_cast<T>(INFINITY));
}

template <typename T>
MR_DEVICE Number Widened(Complex<T> x) {
  return {x.re, x.im};
}
template <typename T>
MR_DEVICE Complex<T> Rounded(Number x) {
  return {static_cast<T>(x.re), static_cast<T>(x.im)};
}

template <typename T>
struct FunctionBody {
  using C = Complex<T>;
  ComplexFunction function;
  const C* x;
  MR_DEVICE C operator()(int64_t i) const {
    const C one = {T(1), T(0)};
    if (function == ComplexFunction::kOne) return one;
    const C value = x[i];
    switch (function) {
      case ComplexFunction::kSqrt: return Rounded<T>(Sqrt(Widened(value)));
      case ComplexFunction::kRsqrt: return one / Rounded<T>(Sqrt(Widened(value)));
      case ComplexFunction::kExp: return Rounded<T>(Exp(Widened(value)));
      case ComplexFunction::kLog: return Rounded<T>(Log(Widened(value)));
      case ComplexFunction::kSin: return Rounded<T>(Sin(Widened(value)));
      case ComplexFunction::kCos: return Rounded<T>(Cos(Widened(value)));
      case ComplexFunction::kTanh: return Rounded<T>(Tanh(Widened(value)));
      case ComplexFunction::kSigmoid: return one / (one + Rounded<T>(Exp(Widened(-value))));
      case ComplexFunction::kOne: break;
    }
    return one;
  }
};

template <typename T>
struct PowBody {
  StridedIndex<3> index;
  const Complex<T>* a;
  const Complex<T>* b;
  MR_DEVICE Complex<T> operator()(int64_t i) const {
    int64_t at[3];
    index.Offsets(i, at);
    // Rounded in between as the CPU does it, so that the same powers are infinite.
    const Complex<T> exponent = Product(b[at[1]], Rounded<T>(Log(Widened(a[at[0]]))));
    return Rounded<T>(Exp(Widened(exponent)));
  }
};

}  // namespace

void LaunchComplexFunction(const Queue& queue, ComplexFunction function, Type type, const void* x, void* y, int64_t n) {
  ForParts(type, [&]<typename T>(Tag<T>) {
    MapEach(queue, n, static_cast<Complex<T>*>(y), FunctionBody<T>{function, static_cast<const Complex<T>*>(x)});
  });
}

void LaunchComplexPow(const Queue& queue, Type type, const Broadcast& shape, const void* a, const void* b, void* y) {
  ForParts(type, [&]<typename T>(Tag<T>) {
    using C = Complex<T>;
    MapEach(queue, shape.elements, static_cast<C*>(y), PowBody<T>{IndexOf(shape), static_cast<const C*>(a), static_cast<const C*>(b)});
  });
}

}  // namespace millrace::cuda
