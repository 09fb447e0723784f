// Conversions between wider floating types and the two of 8 bits (Micikevicius et al., FP8 Formats for Deep Learning, 2022):
// E5M2 has infinities as float has; E4M3FN has none, what is too large is NaN. Numbers are rounded once, to nearest even.
#ifndef MILLRACE_SRC_GRAPH_FLOAT8_H_
#define MILLRACE_SRC_GRAPH_FLOAT8_H_

#include <array>
#include <bit>
#include <concepts>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "millrace/types.h"

namespace millrace {

constexpr bool IsFloat8(DataType dtype) { return dtype == DataType::kFloat8E5M2 || dtype == DataType::kFloat8E4M3fn; }

struct E5M2 {
  static constexpr int kFractionBits = 2, kBias = 15;
  static constexpr uint8_t kTooLarge = 0x7c, kNan = 0x7e;
};
struct E4M3fn {
  static constexpr int kFractionBits = 3, kBias = 7;
  static constexpr uint8_t kTooLarge = 0x7f, kNan = 0x7f;
};

// T: float or double.
template <typename Format, std::floating_point T>
uint8_t ToFloat8(T value) {
  using Bits = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;
  constexpr int kFraction = std::numeric_limits<T>::digits - 1, kBias = std::numeric_limits<T>::max_exponent - 1;
  constexpr int kDropped = kFraction - Format::kFractionBits;
  constexpr Bits kInfinity = std::bit_cast<Bits>(std::numeric_limits<T>::infinity());
  // The least normal number, and what a smaller one is added to so that its last bit is that of a denormal one.
  constexpr Bits kLeastNormal = Bits{kBias - Format::kBias + 1} << kFraction;
  constexpr Bits kRounder = Bits{kBias - Format::kBias + 1 + kDropped} << kFraction;
  const Bits bits = std::bit_cast<Bits>(value);
  const auto sign = static_cast<uint8_t>(bits >> (sizeof(T) * 8 - 1) << 7);
  const Bits size = bits & ~(Bits{1} << (sizeof(T) * 8 - 1));
  const Bits denormal = std::bit_cast<Bits>(std::bit_cast<T>(size) + std::bit_cast<T>(kRounder)) - kRounder;
  const Bits rounded = (size + (Bits{1} << (kDropped - 1)) - 1 + (size >> kDropped & 1)) >> kDropped;
  const Bits normal = rounded - (Bits{kBias - Format::kBias} << Format::kFractionBits);
  Bits code = size < kLeastNormal ? denormal : normal;
  code = size >= kInfinity || code > Format::kTooLarge ? Format::kTooLarge : code;
  code = size > kInfinity ? Format::kNan : code;
  return static_cast<uint8_t>(sign | code);
}

// The number of every code.
template <typename Format>
constexpr std::array<float, 256> Float8Numbers() {
  constexpr int kFractions = 1 << Format::kFractionBits;
  std::array<float, 256> numbers{};
  for (int code = 0; code < 256; ++code) {
    const int size = code & 0x7f, exponent = size >> Format::kFractionBits, fraction = size & (kFractions - 1);
    float number = static_cast<float>(exponent == 0 ? fraction : fraction + kFractions) / kFractions;
    for (int e = exponent == 0 ? 1 : exponent; e < Format::kBias; ++e) number /= 2;
    for (int e = Format::kBias; e < exponent; ++e) number *= 2;
    if (size >= Format::kTooLarge) {
      number = size == Format::kTooLarge && Format::kTooLarge != Format::kNan ? std::numeric_limits<float>::infinity()
                                                                             : std::numeric_limits<float>::quiet_NaN();
    }
    numbers[code] = code < 0x80 ? number : -number;
  }
  return numbers;
}

template <typename Format>
float Float8ToFloat(uint8_t code) {
  static constexpr std::array<float, 256> kNumbers = Float8Numbers<Format>();
  return kNumbers[code];
}

}  // namespace millrace

#endif  // MILLRACE_SRC_GRAPH_FLOAT8_H_
