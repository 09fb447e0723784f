// Transposes a square of vectors in registers: the step of every fast transposition.
#ifndef MILLRACE_RUNTIME_DEVICES_CPU_KERNELS_TRANSPOSE_TILE_H_
#define MILLRACE_RUNTIME_DEVICES_CPU_KERNELS_TRANSPOSE_TILE_H_

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "cpu/kernels/gemm_tile.h"

namespace millrace::cpu {

// `to[j * to_step + i] = from[i * from_step + j]` for i, j below kLanes, the elements of a vector. S has 4 or 8
// bytes. Rows of `from` past `rows` are read as zeros.
template <typename S>
class TransposeTile {
 public:
  static constexpr int kLanes = kGemmLanes<S>;

  static void Run(const S* from, int64_t from_step, int64_t rows, S* to, int64_t to_step) {
    Vector v[kLanes] = {};
    if (rows >= kLanes) {
#pragma GCC unroll 16
      for (int i = 0; i < kLanes; ++i) std::memcpy(&v[i], from + i * from_step, sizeof(Vector));
    } else {
      for (int64_t i = 0; i < rows; ++i) std::memcpy(&v[i], from + i * from_step, sizeof(Vector));
    }
    if constexpr (kLanes >= 16) Swap<8>(v);
    if constexpr (kLanes >= 8) Swap<4>(v);
    Swap<2>(v);
    Swap<1>(v);
#pragma GCC unroll 16
    for (int i = 0; i < kLanes; ++i) std::memcpy(to + i * to_step, &v[i], sizeof(Vector));
  }

 private:
  using Index = std::conditional_t<sizeof(S) == 4, int32_t, int64_t>;
  using Vector = GemmVector<S>;
  using Mask = GemmVector<Index>;

  // Swaps the off-diagonal squares of size kSize in every square of size 2 * kSize.
  template <int kSize>
  static void Swap(Vector* v) {
    Mask low, high;
    for (int lane = 0; lane < kLanes; ++lane) {
      low[lane] = lane & kSize ? kLanes + lane - kSize : lane;
      high[lane] = lane & kSize ? kLanes + lane : lane + kSize;
    }
#pragma GCC unroll 16
    for (int i = 0; i < kLanes; ++i) {
      if (i & kSize) continue;
      const Vector a = v[i], b = v[i + kSize];
      v[i] = __builtin_shuffle(a, b, low);
      v[i + kSize] = __builtin_shuffle(a, b, high);
    }
  }
};

}  // namespace millrace::cpu

#endif  // MILLRACE_RUNTIME_DEVICES_CPU_KERNELS_TRANSPOSE_TILE_H_
