// Gamma numbers by the method of Marsaglia and Tsang (ACM TOMS 26:3, 2000). Poisson numbers by Knuth's product for small rates and by
// Hörmann's transformed rejection (Insurance: Mathematics and Economics 12, 1993) for others. Binomial numbers by inversion for few
// expected successes, by Hörmann's transformed rejection (Journal of Statistical Computation and Simulation 46, 1993) for others.
// In double, whatever the tensors' types. Included by kernels of the CPU and by those that are compiled for devices.
#ifndef MILLRACE_SRC_GRAPH_DISTRIBUTIONS_H_
#define MILLRACE_SRC_GRAPH_DISTRIBUTIONS_H_

#include <cmath>
#include <cstdint>

#include "graph/philox.h"

namespace millrace {

// Doubles, two made of a sample and given out last first: uniform ones of [0, 1), or normal ones.
template <bool kNormal>
class SamplePairs {
 public:
  MR_ANYWHERE double Next(PhiloxStream& stream) {
    if (left_ == 0) {
      uint32_t words[PhiloxStream::kWords];
      stream.GenerateOne(words);
      stream.Skip(1);
      if (kNormal) {
        NormalPair(words, values_);
      } else {
        values_[0] = UniformDouble(words[0], words[1]);
        values_[1] = UniformDouble(words[2], words[3]);
      }
      left_ = 2;
    }
    return values_[--left_];
  }

 private:
  double values_[2];
  int left_ = 0;
};

// Of the shape parameter alpha.
struct GammaDraw {
  MR_ANYWHERE double operator()(double alpha, PhiloxStream stream) const {
    const double d = alpha + (alpha < 1 ? 2.0 / 3 : -1.0 / 3), c = 1.0 / 3 / std::sqrt(d);
    SamplePairs<false> uniform;
    SamplePairs<true> normal;
    if (alpha == 1) return -std::log1p(-uniform.Next(stream));
    while (true) {
      const double x = normal.Next(stream);
      double v = 1 + c * x;
      if (v <= 0) continue;
      v = v * v * v;
      const double u = uniform.Next(stream);
      if (u >= 1 - 0.0331 * (x * x) * (x * x) && std::log(u) >= 0.5 * x * x + d * (1 - v + std::log(v))) continue;
      return alpha < 1 ? d * v * std::pow(uniform.Next(stream), 1 / alpha) : d * v;
    }
  }
};

// Of a rate: 0 where it is negative, NaN where it is not finite.
struct PoissonDraw {
  MR_ANYWHERE double operator()(double rate, PhiloxStream stream) const {
    SamplePairs<false> uniform;
    if (rate - rate != 0) return DoubleOf(0x7ff8000000000000);
    if (rate < 10) {
      const double stop = std::exp(-rate);
      double product = 1, count = 0;
      while ((product *= uniform.Next(stream)) > stop) ++count;
      return count;
    }
    const double log_rate = std::log(rate), b = 0.931 + 2.53 * std::sqrt(rate), a = -0.059 + 0.02483 * b;
    const double inverse_alpha = 1.1239 + 1.1328 / (b - 3.4);
    while (true) {
      const double u = uniform.Next(stream) - 0.5, v = uniform.Next(stream), shifted = 0.5 - std::fabs(u);
      const double k = std::floor((2 * a / shifted + b) * u + rate + 0.43);
      if (shifted >= 0.07 && v <= 0.9277 - 3.6224 / (b - 2)) return k;
      if (k < 0 || (shifted < 0.013 && v > shifted)) continue;
      if (std::log(v * inverse_alpha / (a / (shifted * shifted) + b)) <= -rate + k * log_rate - std::lgamma(k + 1)) return k;
    }
  }
};

// Geometric numbers are added up until they exceed the count: as many as there were successes.
MR_ANYWHERE inline double BinomialByInversion(double count, double p, PhiloxStream stream) {
  SamplePairs<false> uniform;
  double successes = 0;
  for (double sum = 0;; ++successes) {
    sum += std::ceil(std::log(uniform.Next(stream)) / std::log1p(-p));
    if (sum > count) return successes;
  }
}

// What Stirling's formula for log k! is off by.
MR_ANYWHERE inline double StirlingTail(double k) {
  constexpr double kTwoPi = 6.28318530717958647692;
  if (k <= 9) {
    const double next = k + 1;
    return std::lgamma(next) - (0.5 * std::log(kTwoPi) + (k + 0.5) * std::log(next) - next);
  }
  const double square = (k + 1) * (k + 1);
  return (1.0 / 12 - (1.0 / 360 - 1.0 / 1260 / square) / square) / (k + 1);
}

MR_ANYWHERE inline double BinomialByRejection(double count, double p, PhiloxStream stream) {
  SamplePairs<false> uniform;
  const double deviation = std::sqrt(count * p * (1 - p)), b = 1.15 + 2.53 * deviation;
  const double a = -0.0873 + 0.0248 * b + 0.01 * p, center = count * p + 0.5, v_r = 0.92 - 4.2 / b, odds = p / (1 - p);
  const double alpha = (2.83 + 5.1 / b) * deviation, mode = std::floor((count + 1) * p);
  while (true) {
    const double u = uniform.Next(stream) - 0.5, v = uniform.Next(stream), shifted = 0.5 - std::fabs(u);
    const double k = std::floor((2 * a / shifted + b) * u + center);
    if (shifted >= 0.07 && v <= v_r) return k;
    if (k < 0 || k > count) continue;
    const double bound = (mode + 0.5) * std::log((mode + 1) / (odds * (count - mode + 1))) +
                         (count + 1) * std::log((count - mode + 1) / (count - k + 1)) +
                         (k + 0.5) * std::log(odds * (count - k + 1) / (k + 1)) + StirlingTail(mode) + StirlingTail(count - mode) -
                         StirlingTail(k) - StirlingTail(count - k);
    if (std::log(v * alpha / (a / (shifted * shifted) + b)) <= bound) return k;
  }
}

// Draw number `i` of the stream. round(double): as the type of the inputs does.
template <typename Round>
MR_ANYWHERE double BinomialDraw(double count, double p, const Round& round, const PhiloxStream& stream, int64_t i) {
  constexpr double kFew = 10;
  constexpr uint64_t kSamplesOfInversion = 42, kSamplesOfRejection = 256;
  if (count <= 0 || p <= 0) return 0;
  if (p >= 1) return count;
  if (p != p || count != count) return p != p ? p : count;
  const bool failures = p > 0.5;
  const double rarer = failures ? round(1 - p) : p;
  const bool few = round(count * rarer) < kFew;
  const PhiloxStream own = stream.After(static_cast<uint64_t>(i) * (few ? kSamplesOfInversion : kSamplesOfRejection));
  const double drawn = few ? BinomialByInversion(count, rarer, own) : BinomialByRejection(count, rarer, own);
  return failures ? count - drawn : drawn;
}

}  // namespace millrace

#endif  // MILLRACE_SRC_GRAPH_DISTRIBUTIONS_H_
