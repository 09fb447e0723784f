// Two normal numbers of two uniform ones, by Box and Muller. Logarithm, sine and cosine are written out, in sums, products and
// quotients of doubles that are rounded alike everywhere (no multiply-adds, no fast math): a device's numbers are the host's.
// Without branches, so that loops over it vectorise. Included by kernels of the CPU and by those that are compiled for devices.
#ifndef MILLRACE_SRC_GRAPH_NORMAL_PAIR_H_
#define MILLRACE_SRC_GRAPH_NORMAL_PAIR_H_

#include <cmath>
#include <cstdint>

#include "graph/anywhere.h"

namespace millrace {

// The natural logarithm of a normal positive number, to two units in the last place.
MR_ANYWHERE inline double PortableLog(double x) {
  // x = 2^e m, with m in [sqrt(1/2), sqrt(2)): log(m) = 2 atanh(s) for s = (m - 1) / (m + 1), |s| < 0.172.
  constexpr uint64_t kRootOfHalf = 0x3fe6a09e667f3bcd, kBias = uint64_t{1024} << 52, kMagic = 0x4330000000000000;
  constexpr double kLn2High = 0x1.62e42feep-1, kLn2Low = 0x1.a39ef35793c76p-33;  // products of the first with e are exact
  const uint64_t from_root = BitsOf(x) - kRootOfHalf + kBias, exponent = from_root >> 52;
  const double m = DoubleOf(BitsOf(x) - (exponent << 52) + kBias), e = DoubleOf(kMagic | exponent) - (0x1p52 + 1024);
  const double s = (m - 1) / (m + 1), z = s * s;
  double series = 1.0 / 21;
  series = series * z + 1.0 / 19;
  series = series * z + 1.0 / 17;
  series = series * z + 1.0 / 15;
  series = series * z + 1.0 / 13;
  series = series * z + 1.0 / 11;
  series = series * z + 1.0 / 9;
  series = series * z + 1.0 / 7;
  series = series * z + 1.0 / 5;
  series = series * z + 1.0 / 3;
  return e * kLn2High + (2 * s + (2 * s * z * series + e * kLn2Low));
}

// Of an angle in [0, 2 pi], to two units in the last place.
MR_ANYWHERE inline void PortableSinCos(double angle, double* sine, double* cosine) {
  // angle = k pi/2 + r, |r| <= pi/4. Added to this number, a small one is rounded, and stands in the low bits.
  constexpr double kRounds = 0x1.8p52, kTwoByPi = 0.63661977236758134308;
  constexpr double kHalfPiHigh = 0x1.921fb544p0, kHalfPiLow = 0x1.0b4611a626331p-34;  // products of the first with k are exact
  const double rounded = angle * kTwoByPi + kRounds, k = rounded - kRounds;
  const uint64_t quadrant = BitsOf(rounded);
  const double r = (angle - k * kHalfPiHigh) - k * kHalfPiLow, z = r * r;
  double s = 1.0 / 355687428096000;
  s = s * z - 1.0 / 1307674368000;
  s = s * z + 1.0 / 6227020800;
  s = s * z - 1.0 / 39916800;
  s = s * z + 1.0 / 362880;
  s = s * z - 1.0 / 5040;
  s = s * z + 1.0 / 120;
  s = s * z - 1.0 / 6;
  s = r + r * z * s;
  double c = 1.0 / 20922789888000;
  c = c * z - 1.0 / 87178291200;
  c = c * z + 1.0 / 479001600;
  c = c * z - 1.0 / 3628800;
  c = c * z + 1.0 / 40320;
  c = c * z - 1.0 / 720;
  c = c * z + 1.0 / 24;
  c = 1 - (0.5 * z - z * z * c);
  // A quarter turn on: sine from cosine, cosine from minus sine; half a turn: both change their sign.
  const uint64_t swap = ~((quadrant & 1) - 1), difference = (BitsOf(s) ^ BitsOf(c)) & swap;
  *sine = DoubleOf((BitsOf(s) ^ difference) ^ (quadrant & 2) << 62);
  *cosine = DoubleOf((BitsOf(c) ^ difference) ^ ((quadrant + 1) & 2) << 62);
}

// Of u and v in [0, 1).
MR_ANYWHERE inline void NormalPairOf(float u, float v, float* pair) {
  constexpr double kTwoPi = 6.283185307179586;
  const float log = static_cast<float>(PortableLog(static_cast<double>(u < 1.0e-7f ? 1.0e-7f : u)));
  const float radius = std::sqrt(-2.0f * log), angle = static_cast<float>(kTwoPi * static_cast<double>(v));
  double sine, cosine;
  PortableSinCos(static_cast<double>(angle), &sine, &cosine);
  pair[0] = static_cast<float>(sine) * radius;
  pair[1] = static_cast<float>(cosine) * radius;
}
MR_ANYWHERE inline void NormalPairOf(double u, double v, double* pair) {
  constexpr double kTwoPi = 6.283185307179586;
  const double radius = std::sqrt(-2 * PortableLog(u < 1.0e-7 ? 1.0e-7 : u));
  double sine, cosine;
  PortableSinCos(kTwoPi * v, &sine, &cosine);
  pair[0] = sine * radius;
  pair[1] = cosine * radius;
}

}  // namespace millrace

#endif  // MILLRACE_SRC_GRAPH_NORMAL_PAIR_H_
