// Bessel functions of the orders 0 and 1, in double. Included by launch/*.cu alone.
#ifndef MILLRACE_RUNTIME_DEVICES_CUDA_LAUNCH_SPECIAL_BESSEL_H_
#define MILLRACE_RUNTIME_DEVICES_CUDA_LAUNCH_SPECIAL_BESSEL_H_

#include <cmath>

#include "cuda/launch/scalar.h"
#include "cuda/launch/special_gamma.h"

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

// J and Y: rational functions of S. L. Moshier's Cephes library (j0.c, j1.c), which the CPU's kernels have, too. CUDA's own j0, j1, y0 and y1
// are right to twelve digits only beyond 10.
inline constexpr double kBesselFar = 5, kTwoOverPi = 0.636619772367581343076;

// Of Hankel's expansion beyond kBesselFar, where J is `cosine` cos(t) - `sine` sin(t) and Y is `cosine` sin(t) + `sine` cos(t) at
// t = x - (2 order + 1) pi / 4.
struct HankelFactors {
  double cosine, sine;
};
MR_DEVICE inline HankelFactors HankelFactorsOf(int order, double x) {
  constexpr double kCosine0[] = {9.99999999999999997821e-1, 5.30324038235394892183e0,  8.74716500199817011941e0, 5.44725003058768775090e0,
                                 1.23953371646414299388e0,  8.28352392107440799803e-2, 7.96936729297347051624e-4};
  constexpr double kCosine0Under[] = {1.00000000000000000218e0, 5.30605288235394617618e0,  8.76190883237069594232e0, 5.47097740330417105182e0,
                                      1.25352743901058953537e0, 8.56288474354474431428e-2, 9.24408810558863637013e-4};
  constexpr double kSine0[] = {-6.05014350600728481186e0, -5.14105326766599330220e1, -1.47077505154951170175e2, -1.77681167980488050595e2,
                               -9.32060152123768231369e1, -1.95539544257735972385e1, -1.28252718670509318512e0, -1.13663838898469149931e-2};
  constexpr double kSine0Under[] = {2.42005740240291393179e2, 2.06209331660327847417e3, 5.93072701187316984827e3, 7.24046774195652478189e3,
                                    3.88240183605401609683e3, 8.56430025976980587198e2, 6.43178256118178023184e1, 1};
  constexpr double kCosine1[] = {1.00000000000000000254e0, 5.21451598682361504063e0,  8.42404590141772420927e0, 5.11207951146807644818e0,
                                 1.12719608129684925192e0, 7.31397056940917570436e-2, 7.62125616208173112003e-4};
  constexpr double kCosine1Under[] = {9.99999999999999997461e-1, 5.20982848682361821619e0,  8.39985554327604159757e0, 5.07386386128601488557e0,
                                      1.10514232634061696926e0,  6.88455908754495404082e-2, 5.71323128072548699714e-4};
  constexpr double kSine1[] = {2.52070205858023719784e1, 2.11688757100572135698e2, 5.97489612400613639965e2, 7.10856304998926107277e2,
                               3.66779609360150777800e2, 7.58238284132545283818e1, 4.98213872951233449420e0, 5.10862594750176621635e-2};
  constexpr double kSine1Under[] = {3.36093607810698293419e2, 2.82619278517639096600e3, 7.99704160447350683650e3, 9.56231892404756170795e3,
                                    4.98641058337653607651e3, 1.05644886038262816351e3, 7.42373277035675149943e1, 1};
  const double near = kBesselFar / x, z = near * near, size = sqrt(kTwoOverPi / x);
  if (order == 0) return {size * (Polynomial(kCosine0, z) / Polynomial(kCosine0Under, z)), size * near * (Polynomial(kSine0, z) / Polynomial(kSine0Under, z))};
  return {size * (Polynomial(kCosine1, z) / Polynomial(kCosine1Under, z)), size * near * (Polynomial(kSine1, z) / Polynomial(kSine1Under, z))};
}
MR_DEVICE inline double HankelAngle(int order, double x) { return x - (order == 0 ? 0.78539816339744830962 : 2.35619449019234492885); }

MR_DEVICE inline double BesselJ(int order, double x) {
  constexpr double kOver0[] = {9.70862251047306323952e15, -2.49248344360967716204e14, 1.95617491946556577543e12, -4.79443220978201773821e9};
  constexpr double kUnder0[] = {1.71086294081043136091e18, 3.18121955943204943306e16, 3.10518229857422583814e14,
                                2.11277520115489217587e12, 1.11855537045356834862e10, 4.84409658339962045305e7,
                                1.73785401676374683123e5,  4.99563147152651017219e2,  1};
  constexpr double kOver1[] = {3.68295732863852883286e15, -7.27494245221818276015e13, 4.52228297998194034323e11, -8.99971225705559398224e8};
  constexpr double kUnder1[] = {5.32278620332680085395e18, 8.95222336184627338078e16, 7.84369607876235854894e14,
                                4.74914122079991414898e12, 2.21511595479792499675e10, 8.35146791431949253037e7,
                                2.56987256757748830383e5,  6.20836478118054335476e2,  1};
  const double size = fabs(x), square = x * x;
  if (size > kBesselFar) {
    const HankelFactors factors = HankelFactorsOf(order, size);
    const double angle = HankelAngle(order, size), value = factors.cosine * cos(angle) - factors.sine * sin(angle);
    return order == 1 && x < 0 ? -value : value;
  }
  if (order == 0 && size < 1e-5) return 1 - square / 4;
  // With the squares of the first two zeros taken out.
  if (order == 0) return (square - 5.78318596294678452118) * (square - 30.4712623436620863991) * (Polynomial(kOver0, square) / Polynomial(kUnder0, square));
  return x * (square - 14.6819706421238932572) * (square - 49.2184563216946036703) * (Polynomial(kOver1, square) / Polynomial(kUnder1, square));
}

// Of x > 0.
MR_DEVICE inline double BesselY(int order, double x) {
  constexpr double kOver0[] = {-1.84950800436986690637e16, 4.42733268572569800351e16, -3.46628303384729719441e15, 8.75906394395366999549e13,
                               -9.82136065717911466409e11, 5.43526477051876500413e9,  -1.46639295903971606143e7,  1.55924367855235737965e4};
  constexpr double kUnder0[] = {2.50596256172653059228e17, 3.17157752842975028269e15, 2.02979612750105546709e13, 8.64002487103935000337e10,
                                2.68919633393814121987e8,  6.26107330137134956842e5,  1.04128353664259848412e3,  1};
  constexpr double kOver1[] = {-7.78877196265950026825e17, 2.02439475713594898196e17,  -8.12770255501325109621e15,
                               1.14509511541823727583e14,  -6.47355876379160291031e11, 1.26320474790178026440e9};
  constexpr double kUnder1[] = {3.97270608116560655612e18, 6.87141087355300489866e16, 6.20557727146953693363e14,
                                3.88231277496238566008e12, 1.87601316108706159478e10, 7.34811944459721705660e7,
                                2.35564092943068577943e5,  5.94301592346128195359e2,  1};
  if (x > kBesselFar) {
    const HankelFactors factors = HankelFactorsOf(order, x);
    const double angle = HankelAngle(order, x);
    return factors.cosine * sin(angle) + factors.sine * cos(angle);
  }
  const double square = x * x;
  if (order == 0) return Polynomial(kOver0, square) / Polynomial(kUnder0, square) + kTwoOverPi * log(x) * BesselJ(0, x);
  return x * (Polynomial(kOver1, square) / Polynomial(kUnder1, square)) + kTwoOverPi * (BesselJ(1, x) * log(x) - 1 / x);
}

}  // namespace millrace::cuda

#endif  // MILLRACE_RUNTIME_DEVICES_CUDA_LAUNCH_SPECIAL_BESSEL_H_
