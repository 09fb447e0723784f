// The innermost part of a product: sums of a few rows times a few vectors of columns, in registers.
#ifndef MILLRACE_RUNTIME_DEVICES_CPU_KERNELS_GEMM_TILE_H_
#define MILLRACE_RUNTIME_DEVICES_CPU_KERNELS_GEMM_TILE_H_

#include <cstdint>
#include <cstring>
#include <type_traits>

namespace millrace::cpu {

// What the registers of the machine hold: 8 x 3 sums of 64 bytes, or 4 x 3 of 32.
#ifdef __AVX512F__
inline constexpr int kGemmVectorBytes = 64, kGemmRows = 8;
#else
inline constexpr int kGemmVectorBytes = 32, kGemmRows = 4;
#endif
inline constexpr int kGemmVectors = 3;

template <typename S>
inline constexpr int kGemmLanes = kGemmVectorBytes / static_cast<int>(sizeof(S));

template <typename S>
struct GemmVectorOf {
  typedef S Type __attribute__((vector_size(kGemmVectorBytes)));
};
template <typename S>
using GemmVector = typename GemmVectorOf<S>::Type;

// Fills rows[kRows * kVectors] with the sums of a[i * row_step + l * k_step] * b[l * b_step + column] over l in
// [0, depth). When kPrefetch > 0, that many rows of b ahead are asked for: b is read in place, its rows far apart.
template <int kRows, int kVectors, int kPrefetch, typename S>
inline void MultiplyTile(int64_t depth, const S* a, int64_t row_step, int64_t k_step, const S* b, int64_t b_step,
                         GemmVector<S>* rows) {
  GemmVector<S> sums[kRows][kVectors] = {};
  for (int64_t l = 0; l < depth; ++l) {
    GemmVector<S> columns[kVectors];
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      std::memcpy(&columns[v], b + v * kGemmLanes<S>, sizeof(columns[v]));
      if constexpr (kPrefetch > 0) __builtin_prefetch(b + kPrefetch * b_step + v * kGemmLanes<S>);
    }
#pragma GCC unroll 8
    for (int i = 0; i < kRows; ++i) {
      const S factor = a[i * row_step];
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) sums[i][v] += factor * columns[v];
    }
    a += k_step;
    b += b_step;
  }
  std::memcpy(rows, sums, sizeof(sums));
}

// Calls fn(integral_constant<rows>, first row) for groups of kMaxRows rows, then of fewer.
template <int kMaxRows = kGemmRows, typename Fn>
void ForRowGroups(int64_t rows, Fn&& fn) {
  int64_t row = 0;
  const auto cover = [&](auto count) {
    if constexpr (count() <= kMaxRows) {
      for (; row + count() <= rows; row += count()) fn(count, row);
    }
  };
  cover(std::integral_constant<int, 8>());
  cover(std::integral_constant<int, 6>());
  cover(std::integral_constant<int, 4>());
  cover(std::integral_constant<int, 2>());
  cover(std::integral_constant<int, 1>());
}

}  // namespace millrace::cpu

#endif  // MILLRACE_RUNTIME_DEVICES_CPU_KERNELS_GEMM_TILE_H_
