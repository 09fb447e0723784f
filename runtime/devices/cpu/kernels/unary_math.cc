// Exponentials, logarithms, trigonometric and hyperbolic functions, Sigmoid, Softplus.
#include <cmath>

#include "cpu/kernels/elementwise.h"
#include "cpu/kernels/vector_math.h"

namespace millrace::cpu {
namespace {

namespace ei = Eigen::internal;

// Eigen's exp is infinite a little before the largest power of e that a float can hold. There, it is taken of an
// argument smaller by 64 ln 2, whose last bits go into the factor that makes up for it.
struct FloatExp {
  template <typename P>
  static P Apply(const P& x) {
    constexpr float kShift = 44.361419677734375f, kRest = 1.21897875e-7f;
    const P far = ei::pcmp_lt(ei::pset1<P>(88.0f), x), zero = ei::pzero(x), one = ei::pset1<P>(1.0f);
    const P power = ei::pexp(ei::psub(x, ei::pselect(far, ei::pset1<P>(kShift), zero)));
    const P result = ei::pmul(power, ei::pselect(far, ei::pset1<P>(0x1p64f * (1.0f + kRest)), one));
    // Eigen holds on to the smallest normal number; below half of the smallest subnormal one there is nothing.
    return ei::pselect(ei::pcmp_lt(x, ei::pset1<P>(-103.972084f)), zero, result);
  }
};
struct DoubleExp {
  template <typename P>
  static P Apply(const P& x) {
    return ei::pselect(ei::pcmp_lt(x, ei::pset1<P>(-745.1332191019412)), ei::pzero(x), ei::pexp(x));
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
    return ei::generic_expm1(x);
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
    const P power = ei::pexp(x);
    const P small = ei::pselect(ei::pcmp_lt(x, threshold), power, ei::generic_plog1p(power));
    return ei::pselect(ei::pcmp_lt(ei::pnegate(threshold), x), x, small);
  }
};
struct Sin {
  template <typename P>
  static P Apply(const P& x) {
    return ei::psin(x);
  }
};
struct Cos {
  template <typename P>
  static P Apply(const P& x) {
    return ei::pcos(x);
  }
};
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
  RegisterUnary(registry, "Sin", PacketOnFloat<Sin, ScalarSin>(), math);
  RegisterUnary(registry, "Cos", PacketOnFloat<Cos, ScalarCos>(), math);
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
