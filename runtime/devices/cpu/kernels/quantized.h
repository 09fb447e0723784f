// What TensorFlow makes of a quantized number and of the range that travels beside it, in its own arithmetic.
#ifndef MILLRACE_RUNTIME_DEVICES_CPU_KERNELS_QUANTIZED_H_
#define MILLRACE_RUNTIME_DEVICES_CPU_KERNELS_QUANTIZED_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "millrace/kernel.h"

namespace millrace::cpu {

struct QuantizedRange {
  float low = 0, high = 0;
};

// Inputs `first` and `first` + 1: scalars.
inline QuantizedRange InputRange(const KernelContext& context, int first) {
  return {*context.input<float>(first), *context.input<float>(first + 1)};
}
// Outputs 1 and 2, or `first` and the one behind it.
inline void SetOutputRange(const KernelContext& context, QuantizedRange range, int first = 1) {
  *context.output<float>(first) = range.low;
  *context.output<float>(first + 1) = range.high;
}

// T: the integers that a type is held in.
template <typename T>
struct Quantized {
  static constexpr int64_t kLowest = std::numeric_limits<T>::lowest(), kHighest = std::numeric_limits<T>::max();
  static constexpr double kSpan = static_cast<double>(kHighest - kLowest), kSteps = kSpan + 1;

  // The integer that stands for `value`, which may be one that T has not. What no int64 holds is 0.
  static int64_t Unclamped(float value, QuantizedRange range) {
    if (range.low == range.high) return kLowest;
    const double scale = kSteps / ((range.high - range.low) * (kSteps / kSpan));
    const double steps = std::round(value * scale) - std::round(range.low * scale);
    return (std::fabs(steps) < 0x1p62 ? static_cast<int64_t>(steps) : 0) + kLowest;
  }
  static T Of(float value, QuantizedRange range) { return static_cast<T>(std::clamp(Unclamped(value, range), kLowest, kHighest)); }

  static float ToFloat(T held, QuantizedRange range) {
    if (range.low == range.high) return range.low;
    const double scale = (range.high - range.low) * (kSteps / kSpan) / kSteps;
    const double first = std::round(range.low / static_cast<float>(scale)) * static_cast<float>(scale);
    return static_cast<float>(first + static_cast<double>(static_cast<int64_t>(held) - kLowest) * scale);
  }
};

// The same for many numbers, in floats.
template <typename T>
class FromQuantized {
 public:
  explicit FromQuantized(QuantizedRange range) : scale_(static_cast<float>((range.high - range.low) / Quantized<T>::kSpan)) {
    const float first = range.high == range.low ? range.low : std::round(range.low / scale_) * scale_;
    offset_ = first - static_cast<float>(Quantized<T>::kLowest) * scale_;
  }
  float operator()(T held) const { return offset_ + static_cast<float>(held) * scale_; }

 private:
  float scale_, offset_;
};

template <typename T>
class ToQuantized {
 public:
  explicit ToQuantized(QuantizedRange range)
      : scale_(range.high == range.low ? 0.0f : static_cast<float>(Quantized<T>::kSpan / (range.high - range.low))),
        offset_(std::round(range.low * scale_) - static_cast<float>(Quantized<T>::kLowest)) {}
  T operator()(float value) const {
    constexpr float kLowest = static_cast<float>(Quantized<T>::kLowest), kHighest = std::min(static_cast<float>(Quantized<T>::kHighest), 2147483520.0f);
    return static_cast<T>(std::min(std::max(kLowest, std::round(value * scale_) - offset_), kHighest));  // NaN is the lowest one
  }

 private:
  float scale_, offset_;
};

// Of products of numbers of 8 bits, held in 32.
inline QuantizedRange RangeOfProducts(QuantizedRange a, QuantizedRange b) {
  const float step = (a.high - a.low) / 255.0f * ((b.high - b.low) / 255.0f);
  return {step * -2147483648.0f, step * 2147483648.0f};
}

// A sum of 32 bits that may have gone round at their ends.
inline int32_t Wrapped(uint32_t sum) { return static_cast<int32_t>(sum); }

}  // namespace millrace::cpu

#endif  // MILLRACE_RUNTIME_DEVICES_CPU_KERNELS_QUANTIZED_H_
