// Functions of the gamma function's family, in double. Included by launch/*.cu alone.
#ifndef MILLRACE_RUNTIME_DEVICES_CUDA_LAUNCH_SPECIAL_GAMMA_H_
#define MILLRACE_RUNTIME_DEVICES_CUDA_LAUNCH_SPECIAL_GAMMA_H_

#include <cmath>

#include "cuda/launch/scalar.h"

namespace millrace::cuda {

inline constexpr double kHalfRounding = 0x1p-53;

template <int kCount>
MR_DEVICE double Polynomial(const double (&coefficients)[kCount], double x) {
  double sum = coefficients[kCount - 1];
  for (int i = kCount - 2; i >= 0; --i) sum = sum * x + coefficients[i];
  return sum;
}

// Stirling's series from 10 on, the recurrence psi(x + 1) = psi(x) + 1 / x below.
MR_DEVICE inline double PositiveDigamma(double x) {
  double below = 0;
  for (; x < 10; x += 1) below += 1 / x;
  constexpr double kBernoulli[] = {1.0 / 12, -1.0 / 120, 1.0 / 252, -1.0 / 240, 1.0 / 132, -691.0 / 32760, 1.0 / 12};
  const double inverse = 1 / x, square = inverse * inverse;
  return log(x) - 0.5 * inverse - square * Polynomial(kBernoulli, square) - below;
}

// psi(1 - x) = psi(x) + pi cot(pi x) for what is not positive. NaN at the poles.
MR_DEVICE inline double Digamma(double x) {
  constexpr double kPi = 3.14159265358979323846;
  if (!(x <= 0)) return PositiveDigamma(x);
  const double fraction = x - rint(x);
  if (!(fraction != 0)) return NAN;
  const double cotangent = fabs(fraction) == 0.5 ? 0 : kPi / tan(kPi * fraction);
  return PositiveDigamma(1 - x) - cotangent;
}

// The sum of (q + n)^-s over n >= 0, for s > 1 and q > 0: ten terms, and Euler's and Maclaurin's formula for the others.
MR_DEVICE inline double PositiveZeta(double s, double q) {
  // B_2k / (2k)!
  constexpr double kBernoulli[] = {1.0 / 12,
                                   -1.0 / 720,
                                   1.0 / 30240,
                                   -1.0 / 1209600,
                                   1.0 / 47900160,
                                   -691.0 / 1307674368000,
                                   1.0 / 74724249600,
                                   -3617.0 / 10670622842880000};
  constexpr int kTerms = 10;
  double sum = 0, power = 0;
  for (int n = 0; n < kTerms; ++n, q += 1) {
    power = pow(q, -s);
    sum += power;
    if (power <= kHalfRounding * sum && power > 0) return sum;
  }
  power = pow(q, -s);
  sum += power * q / (s - 1) + 0.5 * power;
  double rising = s * power / q;
  for (int k = 0; k < 8; ++k) {
    const double term = kBernoulli[k] * rising;
    sum += term;
    if (fabs(term) <= kHalfRounding * sum) break;
    rising *= (s + 2 * k + 1) * (s + 2 * k + 2) / (q * q);
  }
  return sum;
}

// Below 0, where s is an integer: of the terms on either side of 0.
MR_DEVICE inline double HurwitzZeta(double s, double q) {
  if (s == 1) return INFINITY;
  if (!(s > 1)) return NAN;
  if (!(q <= 0)) return PositiveZeta(s, q);
  const bool even = fmod(s, 2.0) == 0;
  if (q == floor(q)) return even ? INFINITY : NAN;
  if (s != floor(s)) return NAN;
  const double fraction = q - floor(q), others = PositiveZeta(s, 1 - fraction) - PositiveZeta(s, 1 - q);
  return PositiveZeta(s, fraction) + (even ? others : -others);
}
// With the limits at infinity.
MR_DEVICE inline double Zeta(double s, double q) {
  if (q == INFINITY && s > 1) return 0;
  if (s == INFINITY && q == q) return q > 1 ? 0 : q == 1 ? 1 : INFINITY;
  return HurwitzZeta(s, q);
}

// The derivatives of Digamma.
MR_DEVICE inline double Polygamma(double n, double x) {
  if (!(n >= 0) || n != floor(n)) return NAN;
  if (n == 0) return Digamma(x);
  const double size = exp(lgamma(n + 1)) * Zeta(n + 1, x);
  return fmod(n, 2.0) == 0 ? -size : size;
}

// What is asked of the regularized incomplete gamma function P(a, x): itself, its derivative by a, or that of the x that has a given P,
// which is minus this over the density.
enum class GammaPart { kValue, kDerivative, kSampleDerivative };

// Of its series, which near x = a take some 8 sqrt(a). Beyond an a of 10^7 they may be cut off, so that a launch ends.
MR_DEVICE inline int MostGammaTerms(double a) {
  constexpr double kMost = 30000;
  const double most = 2000 + 9 * sqrt(a);
  return static_cast<int>(most < kMost ? most : kMost);
}

// x^a exp(-x) / gamma(b)
MR_DEVICE inline double GammaFactor(double a, double x, double b) {
  constexpr double kMostExponent = 709.78;
  const double exponent = a * log(x) - x - lgamma(b);
  return exponent >= -kMostExponent ? exp(exponent) : 0;
}

// Of P by its power series: the sum of x^k / ((a + 1) ... (a + k)).
MR_DEVICE inline double GammaSeries(GammaPart part, double a, double x) {
  const int most = MostGammaTerms(a);
  double term = 1, sum = 1, change = 0, changes = 0;
  for (int k = 1; k < most; ++k) {
    const double factor = x / (a + k);
    change = (change - term / (a + k)) * factor;
    term *= factor;
    sum += term;
    changes += change;
    if (term <= kHalfRounding * sum && (part == GammaPart::kValue || fabs(change) <= kHalfRounding * fabs(changes))) break;
  }
  if (part == GammaPart::kSampleDerivative) return -(sum * (log(x) - Digamma(a + 1)) + changes) * x / a;
  const double factor = GammaFactor(a, x, a + 1);
  if (factor == 0) return 0;
  return factor * (part == GammaPart::kValue ? sum : sum * (log(x) - Digamma(a + 1)) + changes);
}

// Of 1 - P by Legendre's continued fraction, 1 / (x + 1 - a - (1 - a) / (x + 3 - a - 2 (2 - a) / ...)), evaluated as Lentz does; with
// derivatives by a.
MR_DEVICE inline double GammaFraction(GammaPart part, double a, double x) {
  constexpr double kHuge = 1e300;
  const int most = MostGammaTerms(a);
  double b = x + 1 - a, c = kHuge, c_change = 0, d = 1 / b, d_change = d * d, h = d, h_change = d_change;
  for (int k = 1; k < most; ++k) {
    const double top = -k * (k - a);
    b += 2;
    const double under = top * d + b, under_change = k * d + top * d_change - 1;
    d = 1 / under;
    d_change = -under_change * d * d;
    const double over = top / c;
    c_change = k / c - over / c * c_change - 1;
    c = b + over;
    const double ratio = c * d, ratio_change = c_change * d + c * d_change, before = h_change;
    h_change = h_change * ratio + h * ratio_change;
    h *= ratio;
    const bool still = part == GammaPart::kValue || fabs(h_change - before) <= 2 * kHalfRounding * fabs(h_change);
    if (fabs(ratio - 1) <= 2 * kHalfRounding && still) break;
  }
  if (part == GammaPart::kSampleDerivative) return (h * (log(x) - Digamma(a)) + h_change) * x;
  const double factor = GammaFactor(a, x, a);
  if (factor == 0) return 0;
  return factor * (part == GammaPart::kValue ? h : h * (log(x) - Digamma(a)) + h_change);
}

MR_DEVICE inline double IncompleteGamma(GammaPart part, double a, double x) {
  if (x == 0) return 0;
  if (!(x > 0) || !(a > 0)) return NAN;
  if (part == GammaPart::kSampleDerivative && (a == INFINITY || x == INFINITY)) return 0;
  if (!(x > 1 && x > a)) return GammaSeries(part, a, x);
  const double rest = GammaFraction(part, a, x);
  return part == GammaPart::kValue ? 1 - rest : part == GammaPart::kDerivative ? -rest : rest;
}
MR_DEVICE inline double IncompleteGammaRest(double a, double x) {
  if (!(x >= 0) || !(a > 0)) return NAN;
  if (x == 0) return 1;
  return x < 1 || x < a ? 1 - GammaSeries(GammaPart::kValue, a, x) : GammaFraction(GammaPart::kValue, a, x);
}

// The continued fraction of the incomplete beta function (Abramowitz and Stegun 26.5.8), evaluated as Lentz does.
MR_DEVICE inline double BetaFraction(double a, double b, double x) {
  constexpr int kMostTerms = 5000;
  constexpr double kTiny = 1e-300;
  const auto apart = [](double value) { return fabs(value) < kTiny ? kTiny : value; };
  double c = 1, d = 1 / apart(1 - (a + b) * x / (a + 1)), h = d;
  for (int k = 1; k < kMostTerms; ++k) {
    const double even = k * (b - k) * x / ((a + 2 * k - 1) * (a + 2 * k)), odd = -(a + k) * (a + b + k) * x / ((a + 2 * k) * (a + 2 * k + 1));
    d = 1 / apart(1 + even * d);
    c = apart(1 + even / c);
    h *= c * d;
    d = 1 / apart(1 + odd * d);
    c = apart(1 + odd / c);
    h *= c * d;
    if (fabs(c * d - 1) <= 2 * kHalfRounding) break;
  }
  return h;
}
MR_DEVICE inline double IncompleteBeta(double a, double b, double x) {
  if (!(a > 0) || !(b > 0) || !(x >= 0 && x <= 1)) return NAN;
  if (x == 0 || x == 1) return x;
  const double factor = exp(lgamma(a + b) - lgamma(a) - lgamma(b) + a * log(x) + b * log1p(-x));
  if (x < (a + 1) / (a + b + 2)) return factor * BetaFraction(a, b, x) / a;
  return 1 - factor * BetaFraction(b, a, 1 - x) / b;
}

}  // namespace millrace::cuda

#endif  // MILLRACE_RUNTIME_DEVICES_CUDA_LAUNCH_SPECIAL_GAMMA_H_
