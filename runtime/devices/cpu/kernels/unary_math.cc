// Exponentials, logarithms, trigonometric and hyperbolic functions, Sigmoid, Softplus.
#include <algorithm>
#include <cmath>
#include <type_traits>

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
MILLRACE_SCALAR_MATH(ScalarTanh, std::tanh);
MILLRACE_SCALAR_MATH(Tan, std::tan);
MILLRACE_SCALAR_MATH(Asin, std::asin);
MILLRACE_SCALAR_MATH(Acos, std::acos);
MILLRACE_SCALAR_MATH(Atan, std::atan);
MILLRACE_SCALAR_MATH(Sinh, std::sinh);
MILLRACE_SCALAR_MATH(Cosh, std::cosh);
MILLRACE_SCALAR_MATH(Asinh, std::asinh);
MILLRACE_SCALAR_MATH(Acosh, std::acosh);
MILLRACE_SCALAR_MATH(Atanh, std::atanh);
#undef MILLRACE_SCALAR_MATH

template <typename Op, typename DoubleOp>
UnaryLoops PacketOnFloat() {
  return {.on_float = &PacketLoop<Op, float>, .on_double = &UnaryLoopOver<DoubleOp, double>};
}
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
  RegisterUnary(registry, "Tanh", PacketOnFloat<Tanh, ScalarTanh>(), math);
  const UnaryOptions slow = {.grain = kSpecialGrain};
  RegisterUnary(registry, "Tan", FloatingUnary<Tan>(), slow);
  RegisterUnary(registry, "Asin", FloatingUnary<Asin>(), slow);
  RegisterUnary(registry, "Acos", FloatingUnary<Acos>(), slow);
  RegisterUnary(registry, "Atan", FloatingUnary<Atan>(), slow);
  RegisterUnary(registry, "Sinh", FloatingUnary<Sinh>(), slow);
  RegisterUnary(registry, "Cosh", FloatingUnary<Cosh>(), slow);
  RegisterUnary(registry, "Asinh", FloatingUnary<Asinh>(), slow);
  RegisterUnary(registry, "Acosh", FloatingUnary<Acosh>(), slow);
  RegisterUnary(registry, "Atanh", FloatingUnary<Atanh>(), slow);
}

}  // namespace millrace::cpu
