// 16-bit floats whose conversions are operations on bits, so that loops over them vectorise.
#ifndef MILLRACE_RUNTIME_DEVICES_CPU_KERNELS_PLAIN_FLOATS_H_
#define MILLRACE_RUNTIME_DEVICES_CPU_KERNELS_PLAIN_FLOATS_H_

#include <bit>
#include <cstdint>

namespace millrace::cpu {

// bfloat16. Rounds as the conversions of convert.h do.
class PlainBfloat16 {
 public:
  explicit PlainBfloat16(float value) {
    const uint32_t bits = std::bit_cast<uint32_t>(value);
    const uint32_t rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16, nan = ((bits >> 16) & 0x8000) | 0x7fc0;
    bits_ = static_cast<uint16_t>((bits & 0x7fffffff) > 0x7f800000 ? nan : rounded);
  }
  explicit operator float() const { return std::bit_cast<float>(static_cast<uint32_t>(bits_) << 16); }

 private:
  uint16_t bits_;
};

// half, likewise.
class PlainHalf {
 public:
  explicit PlainHalf(float value) {
    constexpr uint32_t kInfinity = 0x7f800000, kLeastNormal = 0x38800000, kTooLarge = 0x47800000;
    const uint32_t bits = std::bit_cast<uint32_t>(value), size = bits & 0x7fffffff;
    const uint32_t normal = (size - kRebias + 0xfff + ((size >> 13) & 1)) >> 13;
    const uint32_t small = std::bit_cast<uint32_t>(std::bit_cast<float>(size) + 0.5f) - std::bit_cast<uint32_t>(0.5f);
    const uint32_t large = size > kInfinity ? 0x7e00 | ((bits >> 13) & 0x3ff) : 0x7c00;
    const uint32_t rounded = size < kLeastNormal ? small : size < kTooLarge ? normal : large;
    bits_ = static_cast<uint16_t>(rounded | ((bits >> 16) & 0x8000));
  }
  explicit operator float() const {
    const uint32_t size = bits_ & 0x7fff, sign = static_cast<uint32_t>(bits_ & 0x8000) << 16;
    const float small = static_cast<float>(static_cast<int32_t>(size)) * 0x1p-24f;
    const uint32_t others = (size << 13) + (size < 0x7c00 ? kRebias : 2 * kRebias), quiet = size > 0x7c00 ? 0x400000 : 0;
    return std::bit_cast<float>((size < 0x400 ? std::bit_cast<uint32_t>(small) : others) | quiet | sign);
  }

 private:
  static constexpr uint32_t kRebias = 112u << 23;  // between the exponents of the two types
  uint16_t bits_;
};

}  // namespace millrace::cpu

#endif  // MILLRACE_RUNTIME_DEVICES_CPU_KERNELS_PLAIN_FLOATS_H_
