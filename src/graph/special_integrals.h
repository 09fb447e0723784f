// Integrals in double precision from series and continued fractions (Abramowitz and Stegun, chapters 5, 7 and 27.7; Dawson's integral
// by the method of Rybicki, 1989). Included by kernels of the CPU and by those that are compiled for devices.
#ifndef MILLRACE_SRC_GRAPH_SPECIAL_INTEGRALS_H_
#define MILLRACE_SRC_GRAPH_SPECIAL_INTEGRALS_H_

#include <cmath>

#include "graph/anywhere.h"

namespace millrace {

inline constexpr double kSpecialPi = 3.14159265358979323846;

// exp(-x^2) times the integral of exp(t^2) from 0 to x: the sum of exp(-(x - n h)^2) / n over odd n, over sqrt(pi).
MR_ANYWHERE inline double DawsonIntegral(double x) {
  constexpr double kStep = 0.2;
  const double size = std::fabs(x);
  if (x != x) return x;
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
  return std::copysign(sum / std::sqrt(kSpecialPi), x);
}

// The integral of exp(t) / t up to x, for x > 0.
MR_ANYWHERE inline double ExponentialIntegral(double x) {
  if (!(x >= 0) || x - x != 0) return NAN;
  if (x == 0) return -INFINITY;
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

// A complex number of the few operations that follow.
struct FresnelPair {
  double real, imag;
};
MR_ANYWHERE inline FresnelPair Product(FresnelPair a, FresnelPair b) {
  return {a.real * b.real - a.imag * b.imag, a.real * b.imag + a.imag * b.real};
}
// Without squares that overflow.
MR_ANYWHERE inline FresnelPair Quotient(double a, FresnelPair b) {
  if (std::fabs(b.real) >= std::fabs(b.imag)) {
    const double ratio = b.imag / b.real, scale = a / (b.real + b.imag * ratio);
    return {scale, -ratio * scale};
  }
  const double ratio = b.real / b.imag, scale = a / (b.real * ratio + b.imag);
  return {ratio * scale, -scale};
}

// The integrals of cos (real) and sin (imag) of pi t^2 / 2 from 0 to x.
MR_ANYWHERE inline FresnelPair FresnelIntegrals(double x) {
  const double size = std::fabs(x), square = kSpecialPi / 2 * size * size;
  if (x != x) return {x, x};
  if (size > 36974) return {std::copysign(0.5, x), std::copysign(0.5, x)};
  FresnelPair value = {0, 0};
  if (size < 1.5) {
    // The sum of (i square)^k / (k! (2k + 1)), times x.
    FresnelPair term = {size, 0};
    for (int k = 0; k < 40; ++k) {
      const double over = 2.0 * k + 1, factor = square / (k + 1);
      value = {value.real + term.real / over, value.imag + term.imag / over};
      term = {-term.imag * factor, term.real * factor};
    }
  } else {
    // By the error function of (1 - i) sqrt(pi) x / 2 and its continued fraction, evaluated as Lentz does.
    FresnelPair b = {1, -2 * square}, d = Quotient(1, b), h = d, c = {1e300, 0};
    for (int k = 2, n = -1; k < 200; ++k) {
      n += 2;
      const double a = -static_cast<double>(n) * (n + 1);
      b.real += 4;
      d = Quotient(1, {a * d.real + b.real, a * d.imag + b.imag});
      const FresnelPair over = Quotient(a, c);
      c = {b.real + over.real, b.imag + over.imag};
      const FresnelPair change = Product(c, d);
      h = Product(h, change);
      if (std::fabs(change.real - 1) + std::fabs(change.imag) < 1e-16) break;
    }
    const FresnelPair rest = Product({std::cos(square), std::sin(square)}, Product(h, {size, -size}));
    value = Product({0.5, 0.5}, {1 - rest.real, -rest.imag});
  }
  return std::copysign(1.0, x) < 0 ? FresnelPair{-value.real, -value.imag} : value;
}

// The dilogarithm of 1 - x, for x in [0.5, 1.5].
MR_ANYWHERE inline double DilogarithmSeries(double x) {
  const double z = 1 - x;
  double power = 1, sum = 0;
  for (int k = 1; k < 60; ++k) {
    power *= z;
    sum += power / (static_cast<double>(k) * k);
  }
  return sum;
}
// For x in (0, 1.5].
MR_ANYWHERE inline double DilogarithmBelow(double x) {
  if (x >= 0.5) return DilogarithmSeries(x);
  return kSpecialPi * kSpecialPi / 6 - std::log(x) * std::log1p(-x) - DilogarithmSeries(1 - x);
}
MR_ANYWHERE inline double Dilogarithm(double x) {
  if (!(x >= 0) || x - x != 0) return NAN;
  if (x == 0) return kSpecialPi * kSpecialPi / 6;
  if (x > 1.5) return -0.5 * std::log(x) * std::log(x) - DilogarithmBelow(1 / x);
  return DilogarithmBelow(x);
}

}  // namespace millrace

#endif  // MILLRACE_SRC_GRAPH_SPECIAL_INTEGRALS_H_
