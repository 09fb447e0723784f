// Error functions, gamma functions and their kin, by Eigen's special functions where no fit is faster.
#include <cmath>
#include <initializer_list>
#include <iterator>
#include <limits>
#include <type_traits>
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

// What the rounding of a square left out, by halves of x's digits: fused multiplications are not everywhere.
template <typename P>
P RestOfSquare(const P& x, const P& square) {
  namespace ei = Eigen::internal;
  using T = typename ei::unpacket_traits<P>::type;
  const P spread = ei::pmul(x, ei::pset1<P>(std::is_same_v<T, double> ? T(0x1p27 + 1) : T(0x1p12 + 1)));
  const P high = ei::psub(spread, ei::psub(spread, x)), low = ei::psub(x, high), both = ei::pmul(high, low);
  return ei::padd(ei::padd(ei::psub(ei::pmul(high, high), square), ei::padd(both, both)), ei::pmul(low, low));
}

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
    const P square = ei::pmul(a, a), rest = RestOfSquare(a, square);
    const P power = ei::pexp(ei::pnegate(square));
    value = ei::pmul(ei::pdiv(value, ei::pmadd(two, a, one)), ei::psub(power, ei::pmul(power, rest)));
    value = ei::pselect(ei::pcmp_lt(a, ei::pset1<P>(10.05f)), value, ei::pzero(x));
    value = ei::pselect(ei::pcmp_lt(x, ei::pzero(x)), ei::psub(two, value), value);
    return ei::pselect(ei::pcmp_eq(x, x), value, x);
  }
};

// Of double by the fits of Moshier's Cephes library: erf(x) near 0, and exp(-x^2) times one of two ratios further off.
template <bool kComplement>
struct DoubleErf {
  template <typename P>
  static P Apply(const P& x) {
    namespace ei = Eigen::internal;
    const auto all = [](double value) { return ei::pset1<P>(value); };
    const P one = all(1.0), a = ei::pmin(ei::pabs(x), all(27.5)), z = ei::pmul(a, a);  // erfc(27.5) is 0
    const P near = ei::pmul(x, Ratio(z, {9.60497373987051638749e0, 9.00260197203842689217e1, 2.23200534594684319226e3, 7.00332514112805075473e3,
                                         5.55923013010394962768e4},
                                     {1.0, 3.35617141647503099647e1, 5.21357949780152679795e2, 4.59432382970980127987e3, 2.26290000613890934246e4,
                                      4.92673942608635921086e4}));
    const P middle = Ratio(a, {2.46196981473530512524e-10, 5.64189564831068821977e-1, 7.46321056442269912687e0, 4.86371970985681366614e1,
                               1.96520832956077098242e2, 5.26445194995477358631e2, 9.34528527171957607540e2, 1.02755188689515710272e3,
                               5.57535335369399327526e2},
                           {1.0, 1.32281951154744992508e1, 8.67072140885989742329e1, 3.54937778887819891062e2, 9.75708501743205489753e2,
                            1.82390916687909736289e3, 2.24633760818710981792e3, 1.65666309194161350182e3, 5.57535340817727675546e2});
    const P far = Ratio(a, {5.64189583547755073984e-1, 1.27536670759978104416e0, 5.01905042251180477414e0, 6.16021097993053585195e0,
                            7.40974269950448939160e0, 2.97886665372100240670e0},
                        {1.0, 2.26052863220117276590e0, 9.39603524938001434673e0, 1.20489539808096656605e1, 1.70814450747565897222e1,
                         9.60896809063285878198e0, 3.36907645100081516050e0});
    // The square in two parts, as above. Where the result may be less than a normal number, exp(-64) comes last.
    const P is_tiny = ei::pcmp_lt(all(700.0), z), power = ei::pexp(ei::psub(ei::pand(is_tiny, all(64.0)), z));
    P tail = ei::pmul(ei::psub(power, ei::pmul(power, RestOfSquare(a, z))), ei::pselect(ei::pcmp_lt(a, all(8.0)), middle, far));
    tail = ei::pmul(tail, ei::pselect(is_tiny, all(1.6038108905486378e-28), one));
    // 1 - erf(x) would cancel: a fit around erfc(0.75), within 1e-17.
    if constexpr (kComplement) {
      const P from_middle = ei::psub(a, all(0.75));
      const P slope = Polynomial(from_middle, {-3.1600992171225526e-06, 7.418641285657392e-05, 0.00010211510358991465, -0.0006238495557363446,
                                               -0.00018568376110896458, 0.003968254716646357, -0.0023018031604559717, -0.018435235052172084,
                                               0.02687250985840368, 0.053242729166413705, -0.15068696934602846, -0.02678879454979515,
                                               0.4821983018964188, -0.6429310691952074});
      tail = ei::pselect(ei::pcmp_lt(a, one), ei::pmadd(from_middle, slope, all(0.28884436634648486)), tail);
    }
    const P above = kComplement ? tail : ei::psub(one, tail), below = kComplement ? ei::psub(ei::pset1<P>(2.0), tail) : ei::psub(tail, one);
    const P outer = ei::pselect(ei::pcmp_lt(x, ei::pzero(x)), below, above), inner = kComplement ? ei::psub(one, near) : near;
    return ei::pselect(ei::pcmp_eq(x, x), ei::pselect(ei::pcmp_lt(a, all(kComplement ? 0.5 : 1.0)), inner, outer), x);
  }

 private:
  // Coefficients of the highest powers come first.
  template <typename P>
  static P Polynomial(const P& x, std::initializer_list<double> coefficients) {
    P value = Eigen::internal::pzero(x);
    for (const double c : coefficients) value = Eigen::internal::pmadd(value, x, Eigen::internal::pset1<P>(c));
    return value;
  }
  template <typename P>
  static P Ratio(const P& x, std::initializer_list<double> above, std::initializer_list<double> below) {
    return Eigen::internal::pdiv(Polynomial(x, above), Polynomial(x, below));
  }
};

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
  RegisterUnary(registry, "Erf", {.on_float = &PacketLoop<FloatErf, float>, .on_double = &PacketLoop<DoubleErf<false>, double>},
                {.grain = kMathGrain});
  RegisterUnary(registry, "Erfc", {.on_float = &PacketLoop<FloatErfc, float>, .on_double = &PacketLoop<DoubleErf<true>, double>},
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
