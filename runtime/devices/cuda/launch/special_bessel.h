// Modified Bessel functions of the orders 0 and 1, in double. Included by launch/*.cu alone.
#ifndef MILLRACE_RUNTIME_DEVICES_CUDA_LAUNCH_SPECIAL_BESSEL_H_
#define MILLRACE_RUNTIME_DEVICES_CUDA_LAUNCH_SPECIAL_BESSEL_H_

#include <cmath>

#include "cuda/launch/scalar.h"

namespace millrace::cuda {

// I of the order, times exp(-|x|) where it is `scaled`: the power series, all of whose terms have one sign, or far out Hankel's expansion
// (Abramowitz and Stegun 9.6.10 and 9.7.1).
MR_DEVICE inline double BesselI(int order, bool scaled, double x) {
  constexpr double kFar = 20, kTwoPi = 6.28318530717958647692, kLeast = 1e-17;
  const double size = fabs(x), sign = order == 1 && x < 0 ? -1 : 1;
  double term = 1, sum = 1;
  if (size <= kFar) {
    const double square = size * size / 4;
    for (int k = 1; k < 100 && term > kLeast * sum; ++k) sum += term *= square / (static_cast<double>(k) * (k + order));
    return (order == 1 ? x / 2 : 1) * sum * (scaled ? exp(-size) : 1);
  }
  for (int k = 1; k < 30 && fabs(term) > kLeast; ++k) {
    const double odd = 2 * k - 1;
    sum += term *= (odd * odd - 4 * order) / (8 * k * size);
  }
  return sign * sum / sqrt(kTwoPi * size) * (scaled ? 1 : exp(size));
}

// K of the order, times exp(x) where it is `scaled`: the integral of exp(-x (cosh(t) - 1)) cosh(order t) by the trapezoidal rule, whose
// error falls off exponentially with the steps for such functions (Abramowitz and Stegun 9.6.24). Below 0, too, it is infinite, as on the CPU.
MR_DEVICE inline double BesselK(int order, bool scaled, double x) {
  constexpr double kLeast = 1e-18, kMostStep = 0.2;
  if (x != x) return x;
  if (x <= 0) return INFINITY;
  if (x - x != 0) return 0;
  const double narrow = 0.28 / sqrt(x), step = narrow < kMostStep ? narrow : kMostStep;
  double sum = 0.5, term = 1;
  for (int k = 1; term > kLeast * sum; ++k) {
    const double root = sinh(k * step / 2), above = 2 * root * root;  // cosh(t) - 1
    term = exp(-x * above) * (order == 1 ? 1 + above : 1);
    if (!(term > 0)) break;
    sum += term;
  }
  return sum * step * (scaled ? 1 : exp(-x));
}

}  // namespace millrace::cuda

#endif  // MILLRACE_RUNTIME_DEVICES_CUDA_LAUNCH_SPECIAL_BESSEL_H_
