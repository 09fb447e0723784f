// Pools of floats and doubles whose channels fill vectors: what a few windows, or a position of the input, come to stays in registers.
// Every element sees taps (or, in a gradient, windows) in the same order as when windows are walked one after another.
#ifndef MILLRACE_RUNTIME_DEVICES_CPU_KERNELS_POOL_VECTORS_H_
#define MILLRACE_RUNTIME_DEVICES_CPU_KERNELS_POOL_VECTORS_H_

#include <algorithm>
#include <type_traits>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "cpu/kernels/lanes.h"
#include "cpu/kernels/pool_lines.h"

namespace millrace::cpu {

template <typename T>
bool ChannelsFillVectors(const PoolGeometry& geometry) {
  return std::is_floating_point_v<T> && geometry.channels > 0 && geometry.channels % Lanes<T>::kCount == 0;
}

// Whether windows that see all of their columns are at least as many as FoldOutputRow takes at a time.
inline bool HasWholeWindows(const PoolGeometry& geometry) {
  const TapRange whole = WholeWindows(geometry.dims[2]);
  return whole.end - whole.begin >= 4;
}

// For every window of the output row that covers t0 and t1 of the image `from`: fold(value, result) for its taps, from `initial` on, then
// finish(result, the window's part in the third dimension), which goes to `to`.
template <typename T, typename Fold, typename Finish>
void FoldOutputRow(const PoolGeometry& geometry, const T* from, TapRange t0, TapRange t1, T initial, T* to, Fold&& fold, Finish&& finish) {
  using L = Lanes<T>;
  const WindowDim& columns = geometry.dims[2];
  const int64_t channels = geometry.channels, step = columns.stride * channels;
  const auto fold_vectors = [&](auto windows, auto vectors, int64_t first, TapRange t2, int64_t c) {
    typename L::Vector results[windows()][vectors()], value;
    for (auto& of_window : results) std::fill_n(of_window, vectors(), initial - typename L::Vector{});
    ForEachTap(geometry, t0, t1, t2, [&](int64_t, int64_t tap) {
      for (int w = 0; w < windows(); ++w) {
        for (int v = 0; v < vectors(); ++v) {
          L::Load(from + tap + w * step + c + v * L::kCount, L::kCount, value);
          fold(value, results[w][v]);
        }
      }
    });
    for (int w = 0; w < windows(); ++w) {
      for (int v = 0; v < vectors(); ++v) {
        finish(results[w][v], t2);
        L::Store(results[w][v], L::kCount, to + (first + w) * channels + c + v * L::kCount);
      }
    }
  };
  // Of fewer windows more vectors.
  const auto fold_windows = [&](auto windows, int64_t first) {
    constexpr int kVectors = 4 / windows();
    const TapRange t2 = Taps(columns, first);
    int64_t c = 0;
    for (; c + kVectors * L::kCount <= channels; c += kVectors * L::kCount) fold_vectors(windows, std::integral_constant<int, kVectors>(), first, t2, c);
    for (; c < channels; c += L::kCount) fold_vectors(windows, std::integral_constant<int, 1>(), first, t2, c);
  };
  ForAlikeColumns({0, columns.output}, WholeWindows(columns), [&](int64_t first, int64_t windows) {
    int64_t w = 0;
    for (; w + 4 <= windows; w += 4) fold_windows(std::integral_constant<int, 4>(), first + w);
    for (; w < windows; ++w) fold_windows(std::integral_constant<int, 1>(), first + w);
  });
}

// Which windows reach every position of the third dimension.
inline std::vector<TapRange> WindowsByColumn(const PoolGeometry& geometry) {
  std::vector<TapRange> windows(geometry.dims[2].input);
  for (int64_t i = 0; i < geometry.dims[2].input; ++i) windows[i] = OutputsReaching(geometry.dims[2], i);
  return windows;
}

// A row of windows: its number, and how much of the first two dimensions they cover.
struct WindowRow {
  int64_t number, taps;
};

// For every position of input row `row` of an image: add(position, window, window row, window in its row, sum) for the windows that reach it
// in order, from 0 on. The sums go to `to`; positions and windows are elements of the image and of its output.
template <typename T, typename Fn>
void SumOverWindows(const PoolGeometry& geometry, const std::vector<TapRange>& by_column, int64_t row, T* to, Fn&& add) {
  using L = Lanes<T>;
  const auto& dims = geometry.dims;
  const TapRange over0 = OutputsReaching(dims[0], row / dims[1].input), over1 = OutputsReaching(dims[1], row % dims[1].input);
  absl::InlinedVector<WindowRow, 16> rows;
  for (int64_t j0 = over0.begin; j0 < over0.end; ++j0) {
    const TapRange t0 = Taps(dims[0], j0);
    for (int64_t j1 = over1.begin; j1 < over1.end; ++j1) {
      const TapRange t1 = Taps(dims[1], j1);
      rows.push_back({j0 * dims[1].output + j1, (t0.end - t0.begin) * (t1.end - t1.begin)});
    }
  }
  const int64_t channels = geometry.channels;
  for (int64_t i = 0; i < dims[2].input; ++i) {
    const int64_t position = (row * dims[2].input + i) * channels;
    for (int64_t c = 0; c < channels; c += L::kCount) {
      typename L::Vector sum = {};
      for (const WindowRow& windows : rows) {
        for (int64_t j = by_column[i].begin; j < by_column[i].end; ++j) {
          add(position + c, (windows.number * dims[2].output + j) * channels + c, windows, j, sum);
        }
      }
      L::Store(sum, L::kCount, to + position + c);
    }
  }
}

}  // namespace millrace::cpu

#endif  // MILLRACE_RUNTIME_DEVICES_CPU_KERNELS_POOL_VECTORS_H_
