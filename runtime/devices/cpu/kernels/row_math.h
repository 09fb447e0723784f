// Vectorised maths over a row of floats or doubles. Rows may be read and written in place.
#ifndef MILLRACE_RUNTIME_DEVICES_CPU_KERNELS_ROW_MATH_H_
#define MILLRACE_RUNTIME_DEVICES_CPU_KERNELS_ROW_MATH_H_

#include <bit>
#include <cmath>
#include <cstdint>
#include <type_traits>

#include <Eigen/Core>

namespace millrace::cpu {

// What sums of T are computed in.
template <typename T>
using ComputeType = std::conditional_t<std::is_same_v<T, double>, double, float>;

template <typename S>
using RowMap = Eigen::Map<Eigen::Array<S, Eigen::Dynamic, 1>>;
template <typename S>
using ConstRowMap = Eigen::Map<const Eigen::Array<S, Eigen::Dynamic, 1>>;

// Requires n > 0.
template <typename S>
S RowMax(const S* x, int64_t n) {
  return ConstRowMap<S>(x, n).maxCoeff();
}

// exp(x) for x <= 0 within 2 units in the last place, by operations that vectorise; 0 where the result would not be a
// normal number; NaN stays.
inline float NonPositiveExp(float x) {
  constexpr float kRounder = 12582912.0f;  // 1.5 * 2^23: adding it leaves the nearest integer in the low bits
  const float rounded = x * 1.44269504088896341f + kRounder;
  const float n = rounded - kRounder;
  const float r = (x - n * 0.693359375f) - n * -2.12194440e-4f;
  float p = 1.9875691500e-4f;
  for (const float term : {1.3981999507e-3f, 8.3334519073e-3f, 4.1665795894e-2f, 1.6666665459e-1f, 5.0000001201e-1f}) {
    p = p * r + term;
  }
  const float mantissa = (p * r) * r + r + 1.0f;
  const uint32_t exponent = (std::bit_cast<uint32_t>(rounded) - std::bit_cast<uint32_t>(kRounder) + 127u) << 23;
  return x < -87.3f ? 0.0f : mantissa * std::bit_cast<float>(exponent);
}
inline double NonPositiveExp(double x) {
  constexpr double kRounder = 6755399441055744.0;  // 1.5 * 2^52
  const double rounded = x * 1.4426950408889634074 + kRounder;
  const double n = rounded - kRounder;
  const double r = (x - n * 6.93145751953125e-1) - n * 1.42860682030941723212e-6, z = r * r;
  const double odd = r * ((1.26177193074810590878e-4 * z + 3.02994407707441961300e-2) * z + 9.99999999999999999910e-1);
  const double even = ((3.00198505138664455042e-6 * z + 2.52448340349684104192e-3) * z + 2.27265548208155028766e-1) * z + 2.0;
  const uint64_t exponent = (std::bit_cast<uint64_t>(rounded) - std::bit_cast<uint64_t>(kRounder) + 1023u) << 52;
  return x < -0x1.6232bdd7abcd2p+9 ? 0.0 : (1.0 + 2.0 * (odd / (even - odd))) * std::bit_cast<double>(exponent);
}

// y = exp(x - shift). Requires x <= shift.
template <typename S>
void RowExp(const S* x, S shift, int64_t n, S* y) {
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) y[i] = NonPositiveExp(x[i] - shift);
}

// Row `x` of type T as S: itself, or converted into `buffer`.
template <typename T, typename S>
const S* LoadRow(const T* x, int64_t n, S* buffer) {
  if constexpr (std::is_same_v<T, S>) {
    return x;
  } else {
    for (int64_t i = 0; i < n; ++i) buffer[i] = static_cast<S>(x[i]);
    return buffer;
  }
}

// Where to compute a row that goes to `y`: y itself, or `buffer`, which StoreRow then converts.
template <typename T, typename S>
S* WorkRow(T* y, S* buffer) {
  if constexpr (std::is_same_v<T, S>) {
    return y;
  } else {
    return buffer;
  }
}
template <typename T, typename S>
void StoreRow(const S* row, int64_t n, T* y) {
  if constexpr (!std::is_same_v<T, S>) {
    for (int64_t i = 0; i < n; ++i) y[i] = static_cast<T>(row[i]);
  }
}

}  // namespace millrace::cpu

#endif  // MILLRACE_RUNTIME_DEVICES_CPU_KERNELS_ROW_MATH_H_
