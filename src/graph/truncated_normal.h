// Normal numbers between bounds by rejection of what Robert proposes (Statistics and Computing 5, 1995). Included by kernels of the CPU
// and by those that are compiled for devices.
#ifndef MILLRACE_SRC_GRAPH_TRUNCATED_NORMAL_H_
#define MILLRACE_SRC_GRAPH_TRUNCATED_NORMAL_H_

#include <cmath>
#include <cstdint>

#include "graph/philox.h"

namespace millrace {

// The numbers of type T that a sample's words make: Uniform(words, values) and Normal(words, values), kCount of them.
template <typename T>
struct SampleNumbers;

template <>
struct SampleNumbers<float> {
  static constexpr int kCount = 4;
  MR_ANYWHERE static void Uniform(const uint32_t* words, float* values) {
    for (int i = 0; i < kCount; ++i) values[i] = UniformFloat(words[i]);
  }
  MR_ANYWHERE static void Normal(const uint32_t* words, float* values) {
    NormalPair(words, values);
    NormalPair(words + 2, values + 2);
  }
};
template <>
struct SampleNumbers<double> {
  static constexpr int kCount = 2;
  MR_ANYWHERE static void Uniform(const uint32_t* words, double* values) {
    for (int i = 0; i < kCount; ++i) values[i] = UniformDouble(words[2 * i], words[2 * i + 1]);
  }
  MR_ANYWHERE static void Normal(const uint32_t* words, double* values) { NormalPair(words, values); }
};

// Proposals that are rejected one after another until sampling is given up.
inline constexpr int kMostTruncatedTries = 1000;

template <typename T>
struct TruncatedParameters {
  T mean, deviation, low, high;
  // False where there is no such distribution. Else mirrors it, so that the bound that there is, or the one nearer to the mean, is the
  // lower one.
  MR_ANYWHERE bool Arrange() {
    if (!(deviation > T(0)) || !(low < high) || (!IsFinite(low) && !IsFinite(high))) return false;
    if ((!IsFinite(low) && low < T(0)) || high < mean) {
      const T other = low;
      low = high;
      high = other;
      deviation = -deviation;
    }
    return true;
  }
  MR_ANYWHERE static bool IsFinite(T value) {
    const double wide = static_cast<double>(value);
    return wide - wide == 0;
  }
};

// Standard normal numbers in [low, high].
template <typename T>
class TruncatedNormal {
 public:
  static constexpr int kCount = SampleNumbers<T>::kCount;

  MR_ANYWHERE explicit TruncatedNormal(const TruncatedParameters<T>& arranged)
      : low_((arranged.low - arranged.mean) / arranged.deviation), high_((arranged.high - arranged.mean) / arranged.deviation) {
    using std::exp;
    using std::sqrt;
    constexpr float kInside = 1.3f;  // from here on most normal numbers are accepted
    const T root = sqrt(low_ * low_ + T(4)), cutoff = T(2) * exp(T(0.5) + low_ * (low_ - root) / T(4)) / (low_ + root);
    way_ = (low_ < T(-kInside) && high_ >= T(0)) || (high_ > T(kInside) && low_ <= T(0)) ? Way::kNormal
           : high_ - low_ < cutoff                                                       ? Way::kUniform
                                                                                         : Way::kExponential;
    alpha_ = (low_ + root) / T(2);
  }

  // Samples that a call of Propose takes.
  MR_ANYWHERE int samples() const { return way_ == Way::kUniform ? 2 : 1; }

  // Numbers of the stream's next samples, in their order, and whether they are accepted. How many, at most kCount.
  MR_ANYWHERE int Propose(const PhiloxStream& stream, T* drawn, bool* accepted) const {
    using std::exp;
    using std::log;
    uint32_t words[PhiloxStream::kWords];
    T numbers[kCount], limits[kCount];
    stream.GenerateOne(words);
    if (way_ == Way::kNormal) {
      SampleNumbers<T>::Normal(words, drawn);
      for (int i = 0; i < kCount; ++i) accepted[i] = drawn[i] >= low_ && drawn[i] <= high_;
      return kCount;
    }
    SampleNumbers<T>::Uniform(words, numbers);
    if (way_ == Way::kUniform) {
      stream.After(1).GenerateOne(words);
      SampleNumbers<T>::Uniform(words, limits);
      const T most = low_ < T(0) ? T(0) : low_ * low_;
      for (int i = 0; i < kCount; ++i) {
        drawn[i] = numbers[i] * (high_ - low_) + low_;
        accepted[i] = limits[i] <= exp((most - drawn[i] * drawn[i]) / T(2));
      }
      return kCount;
    }
    for (int i = 0; i < kCount / 2; ++i) {
      drawn[i] = -log(numbers[2 * i]) / alpha_ + low_;
      const T x = low_ < alpha_ ? alpha_ - drawn[i] : low_ - alpha_;
      accepted[i] = numbers[2 * i + 1] <= exp(-x * x / T(2)) && drawn[i] < high_;
    }
    return kCount / 2;
  }

 private:
  enum class Way { kNormal, kUniform, kExponential };

  T low_, high_, alpha_;
  Way way_;
};

}  // namespace millrace

#endif  // MILLRACE_SRC_GRAPH_TRUNCATED_NORMAL_H_
