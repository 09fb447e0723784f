// Rarer special functions. Bessel functions and the incomplete beta function are Eigen's; the integrals are computed in
// double precision from series and continued fractions (Abramowitz and Stegun, chapters 5, 7 and 27.7; Dawson's integral
// by the method of Rybicki, 1989).
#include <cmath>
#include <complex>
#include <limits>
#include <unsupported/Eigen/SpecialFunctions>

#include "cpu/kernels/rare.h"
#include "cpu/kernels/unary.h"
#include "cpu/kernels/wrap_function.h"

namespace millrace::cpu {
namespace {

namespace numext = Eigen::numext;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

MILLRACE_UNARY(BesselJ0, numext::bessel_j0);
MILLRACE_UNARY(BesselJ1, numext::bessel_j1);
MILLRACE_UNARY(BesselK0, numext::bessel_k0);
MILLRACE_UNARY(BesselK0e, numext::bessel_k0e);
MILLRACE_UNARY(BesselK1, numext::bessel_k1);
MILLRACE_UNARY(BesselK1e, numext::bessel_k1e);
MILLRACE_UNARY(BesselY0, numext::bessel_y0);
MILLRACE_UNARY(BesselY1, numext::bessel_y1);

// exp(-x^2) times the integral of exp(t^2) from 0 to x: the sum of exp(-(x - n h)^2) / n over odd n, over sqrt(pi).
double Dawson(double x) {
  constexpr double kStep = 0.2;
  const double size = std::abs(x);
  if (std::isnan(x)) return x;
  if (size > 1e8) return 0.5 / x;
  if (size < kStep) {
    double term = x, sum = x;
    for (int k = 1; k < 14; ++k) sum += term *= -2 * x * x / (2 * k + 1);
    return sum;
  }
  const double middle = 2 * std::nearbyint(0.5 * size / kStep), rest = size - middle * kStep;
  double sum = 0;
  for (int n = 1; n <= 33; n += 2) {
    const double up = rest - n * kStep, down = rest + n * kStep;
    sum += std::exp(-up * up) / (middle + n) + std::exp(-down * down) / (middle - n);
  }
  return std::copysign(sum / std::sqrt(M_PI), x);
}

// The integral of exp(t) / t up to x, for x > 0.
double ExponentialIntegral(double x) {
  if (std::isnan(x) || x < 0 || std::isinf(x)) return kNan;
  if (x == 0) return -kInf;
  double term = 1, sum = 0;
  if (x < 40) {
    for (int k = 1; k < 200; ++k) {
      term *= x / k;
      sum += term / k;
      if (term / k < sum * 1e-17) break;
    }
    return 0.57721566490153286061 + std::log(x) + sum;
  }
  for (int k = 0; k < 40; ++k) {
    sum += term;
    term *= (k + 1) / x;
  }
  return std::exp(x) / x * sum;
}

// (C, S): the integrals of cos and sin of pi t^2 / 2 from 0 to x, as one complex number.
std::complex<double> Fresnel(double x) {
  using Complex = std::complex<double>;
  const double size = std::abs(x), square = M_PI / 2 * size * size;
  if (std::isnan(x)) return {kNan, kNan};
  if (size > 36974) return {std::copysign(0.5, x), std::copysign(0.5, x)};
  Complex value;
  if (size < 1.5) {
    // The sum of (i square)^k / (k! (2k + 1)), times x.
    Complex term(size, 0);
    for (int k = 0; k < 40; ++k) {
      value += term / (2.0 * k + 1);
      term *= Complex(0, square / (k + 1));
    }
  } else {
    // By the error function of (1 - i) sqrt(pi) x / 2 and its continued fraction, evaluated as Lentz does.
    Complex b(1, -2 * square), d = 1.0 / b, h = d, c(1e300, 0);
    for (int k = 2, n = -1; k < 200; ++k) {
      n += 2;
      const double a = -static_cast<double>(n) * (n + 1);
      b += 4.0;
      d = 1.0 / (a * d + b);
      c = b + a / c;
      const Complex change = c * d;
      h *= change;
      if (std::abs(change.real() - 1) + std::abs(change.imag()) < 1e-16) break;
    }
    h *= Complex(size, -size);
    value = Complex(0.5, 0.5) * (1.0 - Complex(std::cos(square), std::sin(square)) * h);
  }
  return std::signbit(x) ? -value : value;
}

// The dilogarithm of 1 - x.
double Dilogarithm(double x) {
  if (std::isnan(x) || x < 0 || std::isinf(x)) return kNan;
  if (x == 0) return M_PI * M_PI / 6;
  if (x > 1.5) return -0.5 * std::log(x) * std::log(x) - Dilogarithm(1 / x);
  if (x < 0.5) return M_PI * M_PI / 6 - std::log(x) * std::log1p(-x) - Dilogarithm(1 - x);
  const double z = 1 - x;
  double power = 1, sum = 0;
  for (int k = 1; k < 60; ++k) {
    power *= z;
    sum += power / (static_cast<double>(k) * k);
  }
  return sum;
}

#define MILLRACE_IN_DOUBLE(Name, expression)                      \
  struct Name {                                                   \
    template <typename T>                                         \
    static T Apply(T v) {                                         \
      const double x = static_cast<double>(v);                    \
      return static_cast<T>(expression);                          \
    }                                                             \
  }
MILLRACE_IN_DOUBLE(Dawsn, Dawson(x));
MILLRACE_IN_DOUBLE(Expint, ExponentialIntegral(x));
MILLRACE_IN_DOUBLE(FresnelCos, Fresnel(x).real());
MILLRACE_IN_DOUBLE(FresnelSin, Fresnel(x).imag());
MILLRACE_IN_DOUBLE(Spence, Dilogarithm(x));
#undef MILLRACE_IN_DOUBLE

// (a, b, x): scalars are taken for every element.
absl::StatusOr<std::unique_ptr<Kernel>> MakeBetainc(const OpInstance& node) {
  const int64_t count = node.outputs[0].shape.num_elements();
  const auto make = [&](auto tag) -> std::unique_ptr<Kernel> {
    using T = typename decltype(tag)::type;
    return MakeKernel([count](const KernelContext& context) {
      int64_t stride[3];
      for (int i = 0; i < 3; ++i) stride[i] = context.input_type(i).shape.rank() == 0 ? 0 : 1;
      ParallelRange(context, count, kSpecialGrain, [&](int64_t begin, int64_t end) {
        for (int64_t k = begin; k < end; ++k) {
          context.output<T>(0)[k] = numext::betainc(context.input<T>(0)[k * stride[0]], context.input<T>(1)[k * stride[1]],
                                                    context.input<T>(2)[k * stride[2]]);
        }
      });
      return absl::OkStatus();
    });
  };
  if (node.inputs[0].dtype == DataType::kFloat) return make(TypeTag<float>());
  if (node.inputs[0].dtype == DataType::kDouble) return make(TypeTag<double>());
  return UnsupportedType(node, node.inputs[0].dtype);
}

absl::StatusOr<std::unique_ptr<Kernel>> MakePopulationCount(const OpInstance& node) {
  const int64_t count = node.outputs[0].shape.num_elements();
  return DispatchInteger(node, node.inputs[0].dtype, [&](auto tag) -> std::unique_ptr<Kernel> {
    using T = typename decltype(tag)::type;
    return MakeKernel([count](const KernelContext& context) {
      for (int64_t i = 0; i < count; ++i) {
        const auto bits = static_cast<uint64_t>(static_cast<std::make_unsigned_t<T>>(context.input<T>(0)[i]));
        context.output<uint8_t>(0)[i] = static_cast<uint8_t>(__builtin_popcountll(bits));
      }
      return absl::OkStatus();
    });
  });
}

}  // namespace

void RegisterSpecialRareKernels(KernelRegistry& registry) {
  const UnaryOptions slow = {.grain = kSpecialGrain};
  RegisterUnary(registry, "BesselJ0", FloatingUnary<BesselJ0>(), slow);
  RegisterUnary(registry, "BesselJ1", FloatingUnary<BesselJ1>(), slow);
  RegisterUnary(registry, "BesselK0", FloatingUnary<BesselK0>(), slow);
  RegisterUnary(registry, "BesselK0e", FloatingUnary<BesselK0e>(), slow);
  RegisterUnary(registry, "BesselK1", FloatingUnary<BesselK1>(), slow);
  RegisterUnary(registry, "BesselK1e", FloatingUnary<BesselK1e>(), slow);
  RegisterUnary(registry, "BesselY0", FloatingUnary<BesselY0>(), slow);
  RegisterUnary(registry, "BesselY1", FloatingUnary<BesselY1>(), slow);
  RegisterUnary(registry, "Dawsn", FloatingUnary<Dawsn>(), slow);
  RegisterUnary(registry, "Expint", FloatingUnary<Expint>(), slow);
  RegisterUnary(registry, "FresnelCos", FloatingUnary<FresnelCos>(), slow);
  RegisterUnary(registry, "FresnelSin", FloatingUnary<FresnelSin>(), slow);
  RegisterUnary(registry, "Spence", FloatingUnary<Spence>(), slow);
  AddKernel(registry, "Betainc", MakeBetainc);
  AddKernel(registry, "PopulationCount", MakePopulationCount);
}

}  // namespace millrace::cpu
