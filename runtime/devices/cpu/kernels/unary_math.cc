// Exponentials, logarithms, trigonometric and hyperbolic functions, Sigmoid, Softplus.
#include <algorithm>
#include <bit>
#include <cmath>
#include <type_traits>

#include "cpu/kernels/arctangent.h"
#include "cpu/kernels/elementwise.h"
#include "cpu/kernels/vector_math.h"

namespace millrace::cpu {
namespace {

namespace ei = Eigen::internal;

// Eigen's exp is infinite a little before the largest power of e that a float can hold. There, it is taken of an
// argument smaller by 64 ln 2, whose last bits go into the factor that makes up for it.
struct FloatExp {
  // Below the smallest normal number is nothing, as TensorFlow flushes subnormal ones; Eigen stops there at a value that
  // differs from machine to machine.
  static constexpr float kLogOfSmallest = -87.336544f;
  template <typename P>
  static P Apply(const P& x) {
    constexpr float kShift = 44.361419677734375f, kRest = 1.21897875e-7f;
    const P far = ei::pcmp_lt(ei::pset1<P>(88.0f), x), zero = ei::pzero(x), one = ei::pset1<P>(1.0f);
    const P power = ei::pexp(ei::psub(x, ei::pselect(far, ei::pset1<P>(kShift), zero)));
    const P result = ei::pmul(power, ei::pselect(far, ei::pset1<P>(0x1p64f * (1.0f + kRest)), one));
    return ei::pselect(ei::pcmp_lt(x, ei::pset1<P>(kLogOfSmallest)), zero, result);
  }
};
struct DoubleExp {
  static constexpr double kLogOfSmallest = -708.3964185322641;
  template <typename P>
  static P Apply(const P& x) {
    return ei::pselect(ei::pcmp_lt(x, ei::pset1<P>(kLogOfSmallest)), ei::pzero(x), ei::pexp(x));
  }
};
struct Log {
  template <typename P>
  static P Apply(const P& x) {
    return ei::plog(x);
  }
};
struct Expm1 {
  template <typename P>
  static P Apply(const P& x) {
    const P near = ei::generic_expm1(x);
    if constexpr (!std::is_same_v<typename ei::unpacket_traits<P>::type, double>) {
      // Far up, where the 1 is less than rounding, by what reaches the largest power.
      const P far = ei::pcmp_lt(ei::pset1<P>(88.0f), x);
      if (ei::predux_any(far)) return ei::pselect(far, FloatExp::Apply(x), near);
    }
    return near;
  }
};
struct Log1p {
  template <typename P>
  static P Apply(const P& x) {
    return ei::generic_plog1p(x);
  }
};
struct Sigmoid {
  template <typename P>
  static P Apply(const P& x) {
    const P one = ei::pset1<P>(1);
    return ei::pdiv(one, ei::padd(one, ei::pexp(ei::pnegate(x))));
  }
};
// log(1 + exp(x)); far from 0 the exact limits x and exp(x).
struct Softplus {
  template <typename P>
  static P Apply(const P& x) {
    using T = typename ei::unpacket_traits<P>::type;
    const P threshold = ei::pset1<P>(std::log(Eigen::NumTraits<T>::epsilon()) + T(2));
    const P power = std::conditional_t<std::is_same_v<T, double>, DoubleExp, FloatExp>::Apply(x);
    const P small = ei::pselect(ei::pcmp_lt(x, threshold), power, ei::generic_plog1p(power));
    return ei::pselect(ei::pcmp_lt(ei::pnegate(threshold), x), x, small);
  }
};
// Sine, or cosine, of float: x = r + k pi / 2 with pi / 2 in three parts, and Cephes' polynomials for r (S. L. Moshier).
// Far from 0, where k takes bits that r needs, the standard library's.
template <bool kCosine>
void SineLoop(const void* vx, void* vy, int64_t n) {
  constexpr int64_t kRun = 256;
  constexpr float kNear = 8192.0f;
  float x[kRun];  // the output may be the input
  for (int64_t at = 0; at < n; at += kRun) {
    const int64_t run = std::min(kRun, n - at);
    std::copy_n(static_cast<const float*>(vx) + at, run, x);
    float* y = static_cast<float*>(vy) + at;
    int32_t far = 0;
    for (int64_t i = 0; i < run; ++i) {
      far |= !(std::fabs(x[i]) <= kNear);
      const float near = std::fabs(x[i]) <= kNear ? x[i] : 0.0f;
      const float k = std::rint(near * 0.636619772f);
      float r = std::fma(-k, 1.57079637f, near);
      r = std::fma(-k, -4.37113883e-8f, r);
      r = std::fma(-k, -1.71512489e-15f, r);
      const float q = r * r;
      const float third = std::fma(std::fma(-1.9515295891e-4f, q, 8.3321608736e-3f), q, -1.6666654611e-1f);
      const float odd = std::fma(third, q * r, r);
      const float fourth = std::fma(std::fma(2.443315711809948e-5f, q, -1.388731625493765e-3f), q, 4.166664568298827e-2f);
      const float even = std::fma(fourth, q * q, std::fma(-0.5f, q, 1.0f));
      const int32_t quarter = static_cast<int32_t>(k) + (kCosine ? 1 : 0);
      const float value = (quarter & 1) != 0 ? even : odd;
      y[i] = (quarter & 2) != 0 ? -value : value;
    }
    for (int64_t i = 0; far != 0 && i < run; ++i) {
      if (!(std::fabs(x[i]) <= kNear)) y[i] = kCosine ? std::cos(x[i]) : std::sin(x[i]);
    }
  }
}
struct Tanh {
  template <typename P>
  static P Apply(const P& x) {
    return ei::ptanh(x);
  }
};

// Near 0, and 1 - 2 / (exp(2 |x|) + 1) further off; the fit is of Moshier's Cephes library.
struct DoubleTanh {
  template <typename P>
  static P Apply(const P& x) {
    const P one = ei::pset1<P>(1.0), two = ei::pset1<P>(2.0), a = ei::pabs(x), z = ei::pmul(a, a);
    P above = ei::pset1<P>(-9.64399179425052238628e-1), below = ei::padd(z, ei::pset1<P>(1.12811678491632931402e2));
    for (const double c : {-9.92877231001918586564e1, -1.61468768441708447952e3}) above = ei::padd(ei::pmul(above, z), ei::pset1<P>(c));
    for (const double c : {2.23548839060100448583e3, 4.84406305325125486048e3}) below = ei::padd(ei::pmul(below, z), ei::pset1<P>(c));
    const P near = ei::padd(a, ei::pmul(a, ei::pdiv(ei::pmul(z, above), below)));
    // Past 20 it is 1.
    const P power = ei::pexp(ei::pmul(two, ei::pmin(a, ei::pset1<P>(20.0))));
    const P far = ei::psub(one, ei::pdiv(two, ei::padd(power, one)));
    const P result = ei::pselect(ei::pcmp_lt(a, ei::pset1<P>(0.625)), near, far);
    return ei::pselect(ei::pcmp_eq(x, x), ei::por(result, ei::pand(x, ei::pset1<P>(-0.0))), x);
  }
};
// Half of exp(|x|) and a quarter over it. |x| = r + k ln 2 with ln 2 in two parts, and Cephes' polynomial for r.
struct FloatCosh {
  static float Apply(float x) {
    const float a = std::min(90.0f, std::abs(x)), k = std::rint(a * 1.44269504f);  // past 90 it is infinite
    const float r = (a - k * 0.693359375f) + k * 2.12194440e-4f;
    const float power = (((((1.9875691500e-4f * r + 1.3981999507e-3f) * r + 8.3334519073e-3f) * r + 4.1665795894e-2f) * r +
                          1.6666665459e-1f) * r + 5.0000001201e-1f) * (r * r) + r + 1.0f;
    const float half = power * std::bit_cast<float>((static_cast<int32_t>(k) + 125) << 23) * 2.0f;
    return x == x ? half + 0.25f / half : x;
  }
};

// What pi / 2 is more than its T.
template <typename T>
constexpr T kRightAngleRest = std::is_same_v<T, float> ? -4.37113883e-8f : 6.123233995736766e-17;
struct Atan {
  template <typename P>
  static P Apply(const P& x) {
    using S = typename ei::unpacket_traits<P>::type;
    const auto all = [](double value) { return ei::pset1<P>(static_cast<S>(value)); };
    const P one = all(1), a = ei::pabs(x), inverse = ei::pdiv(all(-1), a);
    const P middle = ei::pcmp_lt(all(0.41421356237309503), a), far = ei::pcmp_lt(all(2.4142135623730950), a);
    const P slanted = ei::pselect(middle, ei::pdiv(ei::psub(a, one), ei::padd(a, one)), a);
    const P t = ei::pselect(far, inverse, slanted);
    const S right = static_cast<S>(M_PI_2), rest = kRightAngleRest<S>;
    const P base = ei::pselect(far, all(right), ei::pselect(middle, all(right / 2), all(0)));
    const P base_rest = ei::pselect(far, all(rest), ei::pselect(middle, all(rest / 2), all(0)));
    const P angle = ei::padd(base, ei::padd(t, ei::padd(ei::pmul(t, AtanTail(ei::pmul(t, t), S())), base_rest)));
    return ei::pselect(ei::pcmp_eq(x, x), ei::por(angle, ei::pand(x, all(-0.0))), x);
  }
};

// asin(x) - x over x, of x^2, for 0 <= x <= 1/2; of Cephes too.
inline float AsinTail(float z) {
  return ((((4.2163199048e-2f * z + 2.4181311049e-2f) * z + 4.5470025998e-2f) * z + 7.4953002686e-2f) * z + 1.6666752422e-1f) * z;
}
inline double AsinTail(double z) {
  const double above = ((((4.253011369004428248960e-3 * z - 6.019598008014123785661e-1) * z + 5.444622390564711410273) * z -
                         1.626247967210700244449e1) * z + 1.956261983317594739197e1) * z - 8.198089802484824371615;
  const double below = ((((z - 1.474091372988853791896e1) * z + 7.049610280856842141659e1) * z - 1.471791292232726029859e2) * z +
                        1.395105614657485689735e2) * z - 4.918853881490881290097e1;
  return z * above / below;
}
// asin(|x|) up to 1/2, and above that asin(sqrt((1 - |x|) / 2)), of which asin(|x|) is pi / 2 less the double.
template <typename T>
T AsinPart(T x) {
  const T a = std::abs(x), far = std::sqrt(T(0.5) * (T(1) - a)), s = a > T(0.5) ? far : a;
  return s + s * AsinTail(a > T(0.5) ? T(0.5) * (T(1) - a) : a * a);
}
struct Asin {
  template <typename T>
  static T Apply(T x) {
    const T part = AsinPart(x);
    return std::copysign(std::abs(x) > T(0.5) ? (T(M_PI_2) - (part + part)) + kRightAngleRest<T> : part, x);
  }
};
struct Acos {
  template <typename T>
  static T Apply(T x) {
    const T part = AsinPart(x), twice = part + part;
    const T far = x < T(0) ? T(M_PI) - twice : twice;
    return std::abs(x) > T(0.5) ? far : T(M_PI_2) - std::copysign(part, x);
  }
};

// Near 0 by a fit of Cephes, and half the logarithm of (1 + |x|) / (1 - |x|) further off.
struct Atanh {
  static float Near(float a, float z) {
    return ((((1.81740078349e-1f * z + 8.24370301058e-2f) * z + 1.46691431730e-1f) * z + 1.99782164500e-1f) * z + 3.33337300303e-1f) * z * a + a;
  }
  static double Near(double a, double z) {
    const double above = (((-8.54074331929669305196e-1 * z + 1.20426861384072379242e1) * z - 4.61252884198732692637e1) * z +
                          6.54566728676544377376e1) * z - 3.09092539379866942570e1;
    const double below = ((((z - 1.95638849376911654834e1) * z + 1.08938092147140262656e2) * z - 2.49839401325893582852e2) * z +
                          2.52006675691344555838e2) * z - 9.27277618139601130017e1;
    return above / below * z * a + a;
  }
  template <typename T>
  static void Loop(const void* vx, void* vy, int64_t n) {
    constexpr int64_t kRun = 256;
    using P = PacketOf<T>;
    constexpr int64_t kLanes = ei::unpacket_traits<P>::size;
    alignas(64) T x[kRun], ratio[kRun];
    for (int64_t at = 0; at < n; at += kRun) {
      const int64_t run = std::min(kRun, n - at);
      std::fill(std::copy_n(static_cast<const T*>(vx) + at, run, x), x + kRun, T{0});
      for (int64_t i = 0; i < kRun; ++i) ratio[i] = (T{1} + std::abs(x[i])) / (T{1} - std::abs(x[i]));
      for (int64_t i = 0; i < kRun; i += kLanes) ei::pstore(ratio + i, ei::plog(ei::pload<P>(ratio + i)));
      T* y = static_cast<T*>(vy) + at;
      for (int64_t i = 0; i < run; ++i) {
        const T a = std::abs(x[i]), near = Near(a, a * a);
        y[i] = std::copysign(a < T(0.5) ? near : T(0.5) * ratio[i], x[i]);
      }
    }
  }
};

// Functions without a packet form, element by element.
#define MILLRACE_SCALAR_MATH(Name, function) \
  struct Name {                              \
    template <typename T>                    \
    static T Apply(T x) {                    \
      return function(x);                    \
    }                                        \
  }
MILLRACE_SCALAR_MATH(ScalarSin, std::sin);
MILLRACE_SCALAR_MATH(ScalarCos, std::cos);
MILLRACE_SCALAR_MATH(Tan, std::tan);
MILLRACE_SCALAR_MATH(Sinh, std::sinh);
MILLRACE_SCALAR_MATH(Cosh, std::cosh);
MILLRACE_SCALAR_MATH(Asinh, std::asinh);
MILLRACE_SCALAR_MATH(Acosh, std::acosh);
#undef MILLRACE_SCALAR_MATH

template <typename Op>
UnaryLoops Packets() {
  return {.on_float = &PacketLoop<Op, float>, .on_double = &PacketLoop<Op, double>};
}

}  // namespace

void RegisterUnaryMathKernels(KernelRegistry& registry) {
  const UnaryOptions math = {.grain = kMathGrain};
  RegisterUnary(registry, "Exp",
                {.on_float = &PacketLoop<FloatExp, float>, .on_double = &PacketLoop<DoubleExp, double>}, math);
  RegisterUnary(registry, "Log", Packets<Log>(), math);
  RegisterUnary(registry, "Sigmoid", Packets<Sigmoid>(), math);
  RegisterUnary(registry, "Softplus", Packets<Softplus>(), math);
  RegisterUnary(registry, "Expm1", Packets<Expm1>(), math);
  RegisterUnary(registry, "Log1p", Packets<Log1p>(), math);
  RegisterUnary(registry, "Sin", {.on_float = &SineLoop<false>, .on_double = &UnaryLoopOver<ScalarSin, double>}, math);
  RegisterUnary(registry, "Cos", {.on_float = &SineLoop<true>, .on_double = &UnaryLoopOver<ScalarCos, double>}, math);
  RegisterUnary(registry, "Tanh", {.on_float = &PacketLoop<Tanh, float>, .on_double = &PacketLoop<DoubleTanh, double>}, math);
  RegisterUnary(registry, "Cosh", {.on_float = &UnaryLoopOver<FloatCosh, float>, .on_double = &UnaryLoopOver<Cosh, double>}, math);
  RegisterUnary(registry, "Asin", FloatingUnary<Asin>(), math);
  RegisterUnary(registry, "Acos", FloatingUnary<Acos>(), math);
  RegisterUnary(registry, "Atan", Packets<Atan>(), math);
  RegisterUnary(registry, "Atanh", {.on_float = &Atanh::Loop<float>, .on_double = &Atanh::Loop<double>}, math);
  const UnaryOptions slow = {.grain = kSpecialGrain};
  RegisterUnary(registry, "Tan", FloatingUnary<Tan>(), slow);
  RegisterUnary(registry, "Sinh", FloatingUnary<Sinh>(), slow);
  RegisterUnary(registry, "Asinh", FloatingUnary<Asinh>(), slow);
  RegisterUnary(registry, "Acosh", FloatingUnary<Acosh>(), slow);
}

}  // namespace millrace::cpu
