// Conversions between float and the 16-bit formats, round to nearest even (Eigen's implementation).
#ifndef MILLRACE_SRC_GRAPH_FLOAT16_H_
#define MILLRACE_SRC_GRAPH_FLOAT16_H_

#include <bit>
#include <cstdint>

#include <Eigen/Core>

namespace millrace {

inline float HalfToFloat(uint16_t bits) {
  return static_cast<float>(Eigen::numext::bit_cast<Eigen::half>(bits));
}
inline uint16_t FloatToHalf(float value) {
  return Eigen::numext::bit_cast<uint16_t>(Eigen::half(value));
}
inline float Bfloat16ToFloat(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}
inline uint16_t FloatToBfloat16(float value) {
  return Eigen::numext::bit_cast<uint16_t>(Eigen::bfloat16(value));
}

}  // namespace millrace

#endif  // MILLRACE_SRC_GRAPH_FLOAT16_H_
