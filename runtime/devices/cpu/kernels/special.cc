// Error functions, gamma functions and their kin, by Eigen's special functions.
#include <cmath>
#include <limits>
#include <iterator>
#include <unsupported/Eigen/SpecialFunctions>

#include "cpu/kernels/elementwise.h"
#include "cpu/kernels/vector_math.h"
#include "cpu/kernels/wrap_function.h"

namespace millrace::cpu {
namespace {

namespace numext = Eigen::numext;

struct FloatErf {
  template <typename P>
  static P Apply(const P& x) {
    return Eigen::internal::perf(x);
  }
};

// exp(-x^2) times (1 + 2x) erfcx(x) / (1 + 2x) for x >= 0, the middle factor a polynomial of (x - 3.75) / (x + 3.75), after
// Shepherd and Laframboise, "Chebyshev approximation of (1 + 2x) exp(x^2) erfc x", Math. Comp. 36, 1981; its coefficients
// are fitted to 1e-9 up to where the result is no float any more. Below 0 it is 2 - erfc(-x).
struct FloatErfc {
  template <typename P>
  static P Apply(const P& x) {
    namespace ei = Eigen::internal;
    constexpr float kCoefficients[] = {-2.077085856e-04f, 4.895449451e-04f,  1.810587460e-03f, -9.833615976e-03f,
                                       2.831735216e-02f,  -5.867997288e-02f, 9.231359763e-02f, -1.088047284e-01f,
                                       8.227604693e-02f,  3.585433578e-03f,  -1.402405846e-01f, 1.237512631e+00f};
    const P one = ei::pset1<P>(1.0f), two = ei::pset1<P>(2.0f), centre = ei::pset1<P>(3.75f);
    const P a = ei::pmin(ei::pabs(x), ei::pset1<P>(10.5f));
    const P u = ei::pdiv(ei::psub(a, centre), ei::padd(a, centre));
    P value = ei::pset1<P>(kCoefficients[0]);
    for (size_t i = 1; i < std::size(kCoefficients); ++i) value = ei::pmadd(value, u, ei::pset1<P>(kCoefficients[i]));
    // The square in two parts: what its rounding leaves out would count in the exponent.
    const P square = ei::pmul(a, a), rest = ei::pmadd(a, a, ei::pnegate(square));
    const P power = ei::pexp(ei::pnegate(square));
    value = ei::pmul(ei::pdiv(value, ei::pmadd(two, a, one)), ei::psub(power, ei::pmul(power, rest)));
    value = ei::pselect(ei::pcmp_lt(a, ei::pset1<P>(10.05f)), value, ei::pzero(x));
    value = ei::pselect(ei::pcmp_lt(x, ei::pzero(x)), ei::psub(two, value), value);
    return ei::pselect(ei::pcmp_eq(x, x), value, x);
  }
};

MILLRACE_UNARY(Erf, std::erf);
MILLRACE_UNARY(Erfc, std::erfc);
MILLRACE_UNARY(Lgamma, numext::lgamma);
MILLRACE_UNARY(Digamma, numext::digamma);

// Functions whose packets Eigen has.
#define MILLRACE_PACKET_UNARY(Name, function) \
  struct Name {                               \
    template <typename P>                     \
    static P Apply(const P& x) {              \
      return Eigen::internal::function(x);    \
    }                                         \
  }
MILLRACE_PACKET_UNARY(BesselI0, pbessel_i0);
MILLRACE_PACKET_UNARY(BesselI1, pbessel_i1);
MILLRACE_PACKET_UNARY(BesselI0e, pbessel_i0e);
MILLRACE_PACKET_UNARY(BesselI1e, pbessel_i1e);
#undef MILLRACE_PACKET_UNARY

// NaN of what is no probability.
struct Ndtri {
  template <typename P>
  static P Apply(const P& x) {
    namespace ei = Eigen::internal;
    using T = typename ei::unpacket_traits<P>::type;
    const P is_inside = ei::pand(ei::pcmp_le(ei::pzero(x), x), ei::pcmp_le(x, ei::pset1<P>(T{1})));
    return ei::pselect(is_inside, ei::pndtri(x), ei::pset1<P>(std::numeric_limits<T>::quiet_NaN()));
  }
};
struct Erfinv {
  template <typename P>
  static P Apply(const P& x) {
    namespace ei = Eigen::internal;
    using T = typename ei::unpacket_traits<P>::type;
    const P probability = ei::pmul(ei::padd(x, ei::pset1<P>(T{1})), ei::pset1<P>(T(0.5)));
    return ei::pmul(Ndtri::Apply(probability), ei::pset1<P>(T(M_SQRT1_2)));
  }
};
// The limits at infinity, of which the series makes NaN.
struct Zeta {
  template <typename T>
  static T Apply(T x, T q) {
    constexpr T kInfinity = std::numeric_limits<T>::infinity();
    if (q == kInfinity && x > T{1}) return T{0};
    if (x == kInfinity && q >= T{1}) return q > T{1} ? T{0} : T{1};
    const T value = numext::zeta(x, q);
    // What is behind the first terms follows from the last of them; of a 0 the formula makes NaN.
    if (value == value || !(x > T{1} && q > T{0}) || numext::pow(q + kTerms, -x) != T{0}) return value;
    T sum = 0;
    for (int term = 0; term < kTerms; ++term) sum += numext::pow(q + static_cast<T>(term), -x);
    return sum;
  }

 private:
  static constexpr int kTerms = 9;
};
// NaN where Zeta is not, for the same reason.
struct Polygamma {
  template <typename T>
  static T Apply(T n, T x) {
    const T value = numext::polygamma(n, x);
    if (value == value || !(n >= T{1} && x > T{0}) || n != numext::floor(n)) return value;
    return numext::pow(T{-1}, n + 1) * numext::exp(numext::lgamma(n + 1)) * Zeta::Apply(n + 1, x);
  }
};

MILLRACE_BINARY(Igamma, numext::igamma);
MILLRACE_BINARY(Igammac, numext::igammac);
MILLRACE_BINARY(IgammaGradA, numext::igamma_der_a);
MILLRACE_BINARY(RandomGammaGrad, numext::gamma_sample_der_alpha);

template <typename Op>
UnaryLoops Packets() {
  return {.on_float = &PacketLoop<Op, float>, .on_double = &PacketLoop<Op, double>};
}

}  // namespace

void RegisterSpecialKernels(KernelRegistry& registry) {
  RegisterUnary(registry, "Erf", {.on_float = &PacketLoop<FloatErf, float>, .on_double = &UnaryLoopOver<Erf, double>},
                {.grain = kMathGrain});
  RegisterUnary(registry, "Erfc", {.on_float = &PacketLoop<FloatErfc, float>, .on_double = &UnaryLoopOver<Erfc, double>},
                {.grain = kMathGrain});
  const UnaryOptions slow = {.grain = kSpecialGrain};
  RegisterUnary(registry, "Erfinv", Packets<Erfinv>(), {.grain = kMathGrain});
  RegisterUnary(registry, "Ndtri", Packets<Ndtri>(), {.grain = kMathGrain});
  RegisterUnary(registry, "Lgamma", FloatingUnary<Lgamma>(), slow);
  RegisterUnary(registry, "Digamma", FloatingUnary<Digamma>(), slow);
  RegisterUnary(registry, "BesselI0", Packets<BesselI0>(), {.grain = kMathGrain});
  RegisterUnary(registry, "BesselI1", Packets<BesselI1>(), {.grain = kMathGrain});
  RegisterUnary(registry, "BesselI0e", Packets<BesselI0e>(), {.grain = kMathGrain});
  RegisterUnary(registry, "BesselI1e", Packets<BesselI1e>(), {.grain = kMathGrain});
  const BinaryOptions slow_pairs = {.grain = kSpecialGrain};
  RegisterBinary(registry, "Igamma", FloatingLoops<Igamma>(), slow_pairs);
  RegisterBinary(registry, "Igammac", FloatingLoops<Igammac>(), slow_pairs);
  RegisterBinary(registry, "IgammaGradA", FloatingLoops<IgammaGradA>(), slow_pairs);
  RegisterBinary(registry, "RandomGammaGrad", FloatingLoops<RandomGammaGrad>(), slow_pairs);
  RegisterBinary(registry, "Zeta", FloatingLoops<Zeta>(), slow_pairs);
  RegisterBinary(registry, "Polygamma", FloatingLoops<Polygamma>(), slow_pairs);
}

}  // namespace millrace::cpu
