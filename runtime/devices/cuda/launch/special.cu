#include "cuda/launch/special.h"

#include "cuda/launch/broadcast_index.h"
#include "cuda/launch/portable.h"
#include "cuda/launch/special_bessel.h"
#include "cuda/launch/special_gamma.h"
#include "graph/special_integrals.h"

namespace millrace::cuda {
namespace {

// Of the distance q of a probability from 1/2, and of the smaller tail. Wichura, "The percentage points of the normal distribution",
// Applied Statistics 37, 1988 (AS 241): to 15 digits, beyond seven deviations to nine.
MR_DEVICE inline double NormalQuantile(double q, double tail) {
  constexpr double kNear[] = {3.3871328727963666080e0,  1.3314166789178437745e+2, 1.9715909503065514427e+3, 1.3731693765509461125e+4,
                              4.5921953931549871457e+4, 6.7265770927008700853e+4, 3.3430575583588128105e+4, 2.5090809287301226727e+3};
  constexpr double kNearUnder[] = {1.0,                      4.2313330701600911252e+1, 6.8718700749205790830e+2, 5.3941960214247511077e+3,
                                   2.1213794301586595867e+4, 3.9307895800092710610e+4, 2.8729085735721942674e+4, 5.2264952788528545610e+3};
  constexpr double kFar[] = {1.42343711074968357734e0, 4.63033784615654529590e0,  5.76949722146069140550e0,  3.64784832476320460504e0,
                             1.27045825245236838258e0, 2.41780725177450611770e-1, 2.27238449892691845833e-2, 7.74545014278341407640e-4};
  constexpr double kFarUnder[] = {1.0,
                                  2.05319162663775882187e0,
                                  1.67638483018380384940e0,
                                  6.89767334985100004550e-1,
                                  1.48103976427480074590e-1,
                                  1.51986665636164571966e-2,
                                  5.47593808499534494600e-4,
                                  1.05075007164441684324e-9};
  constexpr double kFarthest[] = {6.65790464350110377720e0,  5.46378491116411436990e0,  1.78482653991729133580e0,  2.96560571828504891230e-1,
                                  2.65321895265761230930e-2, 1.24266094738807843860e-3, 2.71155556874348757815e-5, 2.01033439929228813265e-7};
  constexpr double kFarthestUnder[] = {1.0,
                                       5.99832206555887937690e-1,
                                       1.36929880922735805310e-1,
                                       1.48753612908506148525e-2,
                                       7.86869131745613259100e-4,
                                       1.84631831751005468180e-5,
                                       1.42151175831644588870e-7,
                                       2.04426310338993978564e-15};
  if (fabs(q) <= 0.425) {
    const double r = 0.180625 - q * q;
    return q * Polynomial(kNear, r) / Polynomial(kNearUnder, r);
  }
  if (tail == 0) return q < 0 ? -INFINITY : INFINITY;
  if (!(tail > 0)) return NAN;
  const double r = sqrt(-log(tail));
  const double size = r <= 5 ? Polynomial(kFar, r - 1.6) / Polynomial(kFarUnder, r - 1.6)
                             : Polynomial(kFarthest, r - 5) / Polynomial(kFarthestUnder, r - 5);
  return q < 0 ? -size : size;
}

// Of Bessel functions, NaN at infinity, as on the CPU; those of the second kind are infinite up to 0.
MR_DEVICE inline double OfFinite(double x, double value) { return x - x == 0 ? value : NAN; }
MR_DEVICE inline double OfPositive(double x, double value) { return x <= 0 ? -INFINITY : OfFinite(x, value); }

// `is_double`: of doubles, for which Y1(0) is infinite; of other numbers it is NaN, as on the CPU.
MR_DEVICE inline double Evaluate(SpecialOp op, double x, bool is_double) {
  switch (op) {
    case SpecialOp::kLgamma: return lgamma(x);
    case SpecialOp::kDigamma: return Digamma(x);
    case SpecialOp::kErfinv: return NormalQuantile(0.5 * x, 0.5 * (1 - fabs(x))) * 0.70710678118654752440;
    case SpecialOp::kNdtri: return NormalQuantile(x - 0.5, x < 0.5 ? x : 1 - x);
    case SpecialOp::kBesselI0: return BesselI(0, false, x);
    case SpecialOp::kBesselI0e: return BesselI(0, true, x);
    case SpecialOp::kBesselI1: return BesselI(1, false, x);
    case SpecialOp::kBesselI1e: return BesselI(1, true, x);
    case SpecialOp::kBesselK0: return BesselK(0, false, x);
    case SpecialOp::kBesselK0e: return BesselK(0, true, x);
    case SpecialOp::kBesselK1: return BesselK(1, false, x);
    case SpecialOp::kBesselK1e: return BesselK(1, true, x);
    case SpecialOp::kBesselJ0: return OfFinite(x, BesselJ(0, x));
    case SpecialOp::kBesselJ1: return OfFinite(x, BesselJ(1, x));
    case SpecialOp::kBesselY0: return OfPositive(x, BesselY(0, x));
    case SpecialOp::kBesselY1: return x == 0 && !is_double ? NAN : OfPositive(x, BesselY(1, x));
    case SpecialOp::kDawsn: return DawsonIntegral(x);
    case SpecialOp::kExpint: return ExponentialIntegral(x);
    case SpecialOp::kFresnelCos: return FresnelIntegrals(x).real;
    case SpecialOp::kFresnelSin: return FresnelIntegrals(x).imag;
    case SpecialOp::kSpence: return Dilogarithm(x);
  }
  return 0;
}

MR_DEVICE inline double EvaluatePair(SpecialPairOp op, double a, double b) {
  switch (op) {
    case SpecialPairOp::kIgamma: return IncompleteGamma(GammaPart::kValue, a, b);
    case SpecialPairOp::kIgammac: return IncompleteGammaRest(a, b);
    case SpecialPairOp::kIgammaGradA: return IncompleteGamma(GammaPart::kDerivative, a, b);
    case SpecialPairOp::kRandomGammaGrad: return IncompleteGamma(GammaPart::kSampleDerivative, a, b);
    case SpecialPairOp::kZeta: return Zeta(a, b);
    case SpecialPairOp::kPolygamma: return Polygamma(a, b);
  }
  return 0;
}

template <typename T>
MR_DEVICE double AsDouble(T x) {
  return static_cast<double>(Widen(x));
}
template <typename T>
MR_DEVICE T FromDouble(double x) {
  return Wide<T>::Narrow(static_cast<typename Wide<T>::type>(x));
}

template <typename T>
struct SpecialBody {
  SpecialOp op;
  const T* x;
  MR_DEVICE T operator()(int64_t i) const { return FromDouble<T>(Evaluate(op, AsDouble(x[i]), sizeof(T) == sizeof(double))); }
};

template <typename T>
struct SpecialPairBody {
  SpecialPairOp op;
  StridedIndex<3> index;
  const T* a;
  const T* b;
  MR_DEVICE T operator()(int64_t i) const {
    int64_t at[3];
    index.Offsets(i, at);
    return FromDouble<T>(EvaluatePair(op, AsDouble(a[at[0]]), AsDouble(b[at[1]])));
  }
};

template <typename T>
struct IncompleteBetaBody {
  BetaSteps steps;
  const T* a;
  const T* b;
  const T* x;
  MR_DEVICE T operator()(int64_t i) const {
    return FromDouble<T>(IncompleteBeta(AsDouble(a[i * steps.a]), AsDouble(b[i * steps.b]), AsDouble(x[i * steps.x])));
  }
};

}  // namespace

void LaunchSpecial(const Queue& queue, SpecialOp op, Type type, const void* x, void* y, int64_t n) {
  ForFloating(type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    MapEach(queue, n, static_cast<T*>(y), SpecialBody<T>{op, static_cast<const T*>(x)});
  });
}

void LaunchSpecialPairs(const Queue& queue, SpecialPairOp op, Type type, const Broadcast& shape, const void* a, const void* b, void* y) {
  ForFloating(type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    MapEach(queue, shape.elements, static_cast<T*>(y), SpecialPairBody<T>{op, IndexOf(shape), static_cast<const T*>(a), static_cast<const T*>(b)});
  });
}

void LaunchIncompleteBeta(const Queue& queue, Type type, const BetaSteps& steps, const void* a, const void* b, const void* x, void* y, int64_t n) {
  ForFloating(type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const auto as = [](const void* data) { return static_cast<const T*>(data); };
    MapEach(queue, n, static_cast<T*>(y), IncompleteBetaBody<T>{steps, as(a), as(b), as(x)});
  });
}

}  // namespace millrace::cuda
