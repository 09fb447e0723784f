// The grid that QuantizeAndDequantize rounds numbers to. Included by kernels of the CPU and by those that are compiled for devices.
#ifndef MILLRACE_SRC_GRAPH_QUANTIZE_GRID_H_
#define MILLRACE_SRC_GRAPH_QUANTIZE_GRID_H_

#include <cstdint>
#include <limits>

#include "graph/normal_pair.h"

namespace millrace {

template <typename T>
inline constexpr T kLargestOf = std::numeric_limits<T>::max();

// Of numbers in [low, high].
template <typename T>
struct QuantizeGrid {
  T low, high, scale, inverse;
};
template <typename T>
MR_ANYWHERE QuantizeGrid<T> QuantizeGridOf(T low, T high, bool is_signed, bool narrow, int64_t bits) {
  const int64_t least = !is_signed ? 0 : -(int64_t{1} << (bits - 1)) + (narrow ? 1 : 0);
  const int64_t most = is_signed ? (int64_t{1} << (bits - 1)) - 1 : (int64_t{1} << bits) - 1;
  const T lower = static_cast<T>(least), upper = static_cast<T>(most);
  const T by_low = lower * low > 0 ? lower / low : kLargestOf<T>, by_high = upper * high > 0 ? upper / high : kLargestOf<T>;
  if (by_low < by_high) {
    const T inverse = low / lower;
    return {low, upper * inverse, by_low, inverse};
  }
  const T inverse = high / upper;
  return {lower * inverse, high, by_high, inverse};
}

}  // namespace millrace

#endif  // MILLRACE_SRC_GRAPH_QUANTIZE_GRID_H_
