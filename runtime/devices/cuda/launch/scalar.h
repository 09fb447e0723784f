// Numbers on the device: half precision, the type that arithmetic is done in, division by what is known beforehand.
// Included by launch/*.cu and by kernels that are compiled while a program runs, which have no standard headers.
#ifndef MILLRACE_RUNTIME_DEVICES_CUDA_LAUNCH_SCALAR_H_
#define MILLRACE_RUNTIME_DEVICES_CUDA_LAUNCH_SCALAR_H_

#if defined(__CUDACC_RTC__)
#define MR_DEVICE __device__
using int8_t = signed char;
using uint8_t = unsigned char;
using int16_t = short;
using uint16_t = unsigned short;
using int32_t = int;
using uint32_t = unsigned int;
using int64_t = long;
using uint64_t = unsigned long;
#else
#include <cmath>
#include <cstdint>
#include <cstring>
#if defined(__CUDACC__)
#define MR_DEVICE __host__ __device__
#else
#define MR_DEVICE
#endif
#endif

namespace millrace::cuda {

// The upper half of a product.
MR_DEVICE inline uint64_t HighProduct(uint64_t a, uint64_t b) {
#if defined(__CUDA_ARCH__)
  return __umul64hi(a, b);
#else
  __extension__ using Product = unsigned __int128;
  return static_cast<uint64_t>(static_cast<Product>(a) * b >> 64);
#endif
}

// Divides numbers that are not negative by one that is known before the launch: a product and a shift, without a branch, so
// that what is loaded by quotients of several elements is on its way at once.
struct Divider {
  struct Parts {
    int64_t quotient, rest;
  };
  int64_t by = 1;
  uint64_t magic = uint64_t{1} << 63;
  uint32_t small_magic = uint32_t{1} << 31;  // for dividends below 2^31; 0: there may be others
  int32_t shift = 0;
  MR_DEVICE int64_t operator()(int64_t i) const {
    return static_cast<int64_t>(HighProduct(static_cast<uint64_t>(i) << 1, magic) >> shift);
  }
  // kSmall: small_magic is not 0, and half of the instructions do.
  template <bool kSmall>
  MR_DEVICE Parts Split(int64_t i) const {
    if constexpr (kSmall) {
      const uint32_t n = static_cast<uint32_t>(i);
      const uint32_t quotient = static_cast<uint32_t>(static_cast<uint64_t>(n << 1) * small_magic >> 32) >> shift;
      return {quotient, n - quotient * static_cast<uint32_t>(by)};
    } else {
      const int64_t quotient = (*this)(i);
      return {quotient, i - quotient * by};
    }
  }
};

#if !defined(__CUDACC_RTC__)
// Dividends are in [0, bound). With s = ceil(log2(by)) and magic = ceil(2^(N+s) / by), the error magic * by - 2^(N+s) is
// below 2^s, too little to reach the next quotient of any dividend below 2^N (Granlund and Montgomery, PLDI 1994); N is 63,
// and 31 for the small one.
inline Divider DivideBy(int64_t by, int64_t bound) {
  __extension__ using Wide = unsigned __int128;
  Divider divider;
  divider.by = by > 0 ? by : 1;
  while (uint64_t{1} << divider.shift < static_cast<uint64_t>(divider.by)) ++divider.shift;
  const auto inverse = [&](int bits) {
    return static_cast<uint64_t>(((Wide{1} << (bits + divider.shift)) + divider.by - 1) / divider.by);
  };
  divider.magic = inverse(63);
  divider.small_magic = bound > int64_t{1} << 31 || divider.by >= int64_t{1} << 31 ? 0 : static_cast<uint32_t>(inverse(31));
  return divider;
}
#endif

// Half precision as 16 bits, so that both compilers agree: round to nearest, ties to even.
struct Bfloat16 {
  uint16_t bits;
};
struct Half {
  uint16_t bits;
};

MR_DEVICE inline uint32_t BitsOf(float value) {
#if defined(__CUDA_ARCH__)
  return __float_as_uint(value);
#else
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
#endif
}
MR_DEVICE inline float FloatOf(uint32_t bits) {
#if defined(__CUDA_ARCH__)
  return __uint_as_float(bits);
#else
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
#endif
}
MR_DEVICE inline double DoubleOf(uint64_t bits) {
#if defined(__CUDA_ARCH__)
  return __longlong_as_double(static_cast<long long>(bits));
#else
  double value;
  memcpy(&value, &bits, sizeof value);
  return value;
#endif
}

MR_DEVICE inline float Widen(Bfloat16 x) { return FloatOf(static_cast<uint32_t>(x.bits) << 16); }
MR_DEVICE inline float Widen(Half x) {
  const uint32_t sign = static_cast<uint32_t>(x.bits & 0x8000u) << 16, rest = x.bits & 0x7fffu;
  if (rest >= 0x7c00u) return FloatOf(sign | 0x7f800000u | (rest & 0x3ffu) << 13);
  // The exponent is moved by a product, which also makes denormal halves right.
  const float magnitude = FloatOf(rest << 13) * FloatOf(0x77800000u);
  return FloatOf(sign | BitsOf(magnitude));
}
MR_DEVICE inline float Widen(float x) { return x; }
MR_DEVICE inline double Widen(double x) { return x; }
template <typename T>
MR_DEVICE inline T Widen(T x) {
  return x;
}

MR_DEVICE inline Bfloat16 NarrowBfloat16(float x) {
  const uint32_t bits = BitsOf(x);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return {static_cast<uint16_t>((bits >> 16) | 0x40u)};
  return {static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16)};
}
MR_DEVICE inline Half NarrowHalf(float x) {
  const uint32_t bits = BitsOf(x), sign = bits >> 16 & 0x8000u, rest = bits & 0x7fffffffu;
  if (rest > 0x7f800000u) return {static_cast<uint16_t>(sign | 0x7e00u)};
  if (rest >= 0x47800000u) return {static_cast<uint16_t>(sign | 0x7c00u)};
  if (rest < 0x38800000u) {
    // Denormal: adding a half rounds at the right bit.
    const float sum = FloatOf(rest) + 0.5f;
    return {static_cast<uint16_t>(sign | (BitsOf(sum) - 0x3f000000u))};
  }
  const uint32_t rounded = rest + 0xfffu + (rest >> 13 & 1u) - 0x38000000u;
  return {static_cast<uint16_t>(sign | rounded >> 13)};
}

// The type that arithmetic on T is done in, and the way back.
template <typename T>
struct Wide {
  using type = T;
  MR_DEVICE static T Narrow(T x) { return x; }
};
template <>
struct Wide<Half> {
  using type = float;
  MR_DEVICE static Half Narrow(float x) { return NarrowHalf(x); }
};
template <>
struct Wide<Bfloat16> {
  using type = float;
  MR_DEVICE static Bfloat16 Narrow(float x) { return NarrowBfloat16(x); }
};

}  // namespace millrace::cuda

#endif  // MILLRACE_RUNTIME_DEVICES_CUDA_LAUNCH_SCALAR_H_
