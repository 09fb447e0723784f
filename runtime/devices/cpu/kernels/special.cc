// Error functions, gamma functions and their kin, by Eigen's special functions.
#include <cmath>
#include <unsupported/Eigen/SpecialFunctions>

#include "cpu/kernels/elementwise.h"
#include "cpu/kernels/vector_math.h"

namespace millrace::cpu {
namespace {

namespace numext = Eigen::numext;

struct FloatErf {
  template <typename P>
  static P Apply(const P& x) {
    return Eigen::internal::perf(x);
  }
};

#define MILLRACE_UNARY(Name, function) \
  struct Name {                        \
    template <typename T>              \
    static T Apply(T x) {              \
      return function(x);              \
    }                                  \
  }
MILLRACE_UNARY(Erf, std::erf);
MILLRACE_UNARY(Erfc, std::erfc);
MILLRACE_UNARY(Lgamma, numext::lgamma);
MILLRACE_UNARY(Digamma, numext::digamma);
MILLRACE_UNARY(Ndtri, numext::ndtri);
MILLRACE_UNARY(BesselI0, numext::bessel_i0);
MILLRACE_UNARY(BesselI1, numext::bessel_i1);
MILLRACE_UNARY(BesselI0e, numext::bessel_i0e);
MILLRACE_UNARY(BesselI1e, numext::bessel_i1e);
#undef MILLRACE_UNARY

struct Erfinv {
  template <typename T>
  static T Apply(T x) {
    return numext::ndtri((x + T{1}) / T{2}) * T(M_SQRT1_2);
  }
};

#define MILLRACE_BINARY(Name, function) \
  struct Name {                         \
    template <typename T>               \
    static T Apply(T a, T b) {          \
      return function(a, b);            \
    }                                   \
  }
MILLRACE_BINARY(Igamma, numext::igamma);
MILLRACE_BINARY(Igammac, numext::igammac);
MILLRACE_BINARY(IgammaGradA, numext::igamma_der_a);
MILLRACE_BINARY(RandomGammaGrad, numext::gamma_sample_der_alpha);
MILLRACE_BINARY(Zeta, numext::zeta);
MILLRACE_BINARY(Polygamma, numext::polygamma);
#undef MILLRACE_BINARY

}  // namespace

void RegisterSpecialKernels(KernelRegistry& registry) {
  RegisterUnary(registry, "Erf", {.on_float = &PacketLoop<FloatErf, float>, .on_double = &UnaryLoopOver<Erf, double>},
                {.grain = kMathGrain});
  const UnaryOptions slow = {.grain = kSpecialGrain};
  RegisterUnary(registry, "Erfc", FloatingUnary<Erfc>(), slow);
  RegisterUnary(registry, "Erfinv", FloatingUnary<Erfinv>(), slow);
  RegisterUnary(registry, "Ndtri", FloatingUnary<Ndtri>(), slow);
  RegisterUnary(registry, "Lgamma", FloatingUnary<Lgamma>(), slow);
  RegisterUnary(registry, "Digamma", FloatingUnary<Digamma>(), slow);
  RegisterUnary(registry, "BesselI0", FloatingUnary<BesselI0>(), slow);
  RegisterUnary(registry, "BesselI1", FloatingUnary<BesselI1>(), slow);
  RegisterUnary(registry, "BesselI0e", FloatingUnary<BesselI0e>(), slow);
  RegisterUnary(registry, "BesselI1e", FloatingUnary<BesselI1e>(), slow);
  const BinaryOptions slow_pairs = {.grain = kSpecialGrain};
  RegisterBinary(registry, "Igamma", FloatingLoops<Igamma>(), slow_pairs);
  RegisterBinary(registry, "Igammac", FloatingLoops<Igammac>(), slow_pairs);
  RegisterBinary(registry, "IgammaGradA", FloatingLoops<IgammaGradA>(), slow_pairs);
  RegisterBinary(registry, "RandomGammaGrad", FloatingLoops<RandomGammaGrad>(), slow_pairs);
  RegisterBinary(registry, "Zeta", FloatingLoops<Zeta>(), slow_pairs);
  RegisterBinary(registry, "Polygamma", FloatingLoops<Polygamma>(), slow_pairs);
}

}  // namespace millrace::cpu
