// Pools a line at a time: one tap of all windows along a row, so that loops are long where channels are few. Every element sees taps
// (or, in a gradient, windows) in the same order as when windows are walked one after another.
#ifndef MILLRACE_RUNTIME_DEVICES_CPU_KERNELS_POOL_LINES_H_
#define MILLRACE_RUNTIME_DEVICES_CPU_KERNELS_POOL_LINES_H_

#include <type_traits>

#include "cpu/kernels/pool_windows.h"

namespace millrace::cpu {

// Elements of an output row that are worked on together: they stay in the first cache.
inline constexpr int64_t kLineElements = 2048;

// Output positions whose windows have tap `k` in the input.
inline TapRange OutputsWithTap(const WindowDim& dim, int64_t k) {
  const auto first_from = [&](int64_t position) {
    const int64_t distance = position - dim.Start(0) - k;
    if (distance <= dim.stride) return std::min<int64_t>(distance > 0, dim.output);  // without a division: it is asked for every line
    return std::min(dim.stride == 1 ? distance : (distance + dim.stride - 1) / dim.stride, dim.output);
  };
  return {first_from(0), first_from(dim.input)};
}

// Output positions whose windows have all taps in the input.
inline TapRange WholeWindows(const WindowDim& dim) {
  const int64_t begin = OutputsWithTap(dim, 0).begin;
  return {begin, std::max(begin, OutputsWithTap(dim, dim.window - 1).end)};
}

// Output positions whose windows reach input position `i`.
inline TapRange OutputsReaching(const WindowDim& dim, int64_t i) {
  const int64_t before = i - dim.Start(0), without = before - dim.window + 1;  // the last start that reaches it, the first
  const int64_t begin = without <= 0 ? 0 : (without + dim.stride - 1) / dim.stride;
  return {begin, std::max(begin, std::min(before / dim.stride + 1, dim.output))};
}

// Calls fn(output element, input element) for one tap of `n` neighbouring windows, both counted from those of the first one.
template <typename Fn>
[[gnu::always_inline]] inline void ForLine(int64_t n, int64_t channels, int64_t stride, Fn&& fn) {
  if (stride == 1) {
#pragma GCC ivdep
    for (int64_t e = 0; e < n * channels; ++e) fn(e, e);
    return;
  }
  const auto walk = [&](auto of_window, auto step) {
#pragma GCC ivdep
    for (int64_t j = 0; j < n; ++j) {
      for (int64_t c = 0; c < of_window; ++c) fn(j * of_window + c, j * step * of_window + c);
    }
  };
  const auto with_step = [&](auto of_window) { stride == 2 ? walk(of_window, std::integral_constant<int64_t, 2>()) : walk(of_window, stride); };
  switch (channels) {
    case 1: return with_step(std::integral_constant<int64_t, 1>());
    case 2: return with_step(std::integral_constant<int64_t, 2>());
    case 3: return with_step(std::integral_constant<int64_t, 3>());
    case 4: return with_step(std::integral_constant<int64_t, 4>());
    case 8: return walk(std::integral_constant<int64_t, 8>(), stride);
    case 16: return walk(std::integral_constant<int64_t, 16>(), stride);
    case 32: return walk(std::integral_constant<int64_t, 32>(), stride);
    default: break;
  }
  for (int64_t j = 0; j < n; ++j) {
#pragma GCC ivdep
    for (int64_t c = 0; c < channels; ++c) fn(j * channels + c, j * stride * channels + c);
  }
}

// Calls fn(columns) for parts of the output columns, in order.
template <typename Fn>
void ForColumnParts(const PoolGeometry& geometry, Fn&& fn) {
  const int64_t at_once = std::max<int64_t>(kLineElements / std::max<int64_t>(geometry.channels, 1), 1);
  for (int64_t begin = 0; begin < geometry.dims[2].output; begin += at_once) {
    fn(TapRange{begin, std::min(begin + at_once, geometry.dims[2].output)});
  }
}

// Calls fn(first column, number of columns) for those of `columns` whose windows lie inside the input as far as one another: the whole ones
// at once, others one by one. In order.
template <typename Fn>
void ForAlikeColumns(TapRange columns, TapRange whole, Fn&& fn) {
  const int64_t begin = std::clamp(whole.begin, columns.begin, columns.end), end = std::clamp(whole.end, begin, columns.end);
  for (int64_t j = columns.begin; j < begin; ++j) fn(j, int64_t{1});
  if (begin < end) fn(begin, end - begin);
  for (int64_t j = end; j < columns.end; ++j) fn(j, int64_t{1});
}

inline TapRange Common(TapRange a, TapRange b) {
  const int64_t begin = std::max(a.begin, b.begin);
  return {begin, std::max(begin, std::min(a.end, b.end))};
}

// Calls fn(windows, output element, input element) for runs of windows side by side among output columns `part` of the row that covers t0
// and t1 of an image, tap after tap. Elements are counted from the part's first and from the image's.
template <typename Fn>
void ForOutputLines(const PoolGeometry& geometry, TapRange t0, TapRange t1, TapRange part, Fn&& fn) {
  const WindowDim& columns = geometry.dims[2];
  ForEachTap(geometry, t0, t1, {0, 1}, [&](int64_t, int64_t row_at) {
    for (int64_t k = 0; k < columns.window; ++k) {
      const TapRange run = Common(OutputsWithTap(columns, k), part);
      if (run.begin == run.end) continue;
      fn(run.end - run.begin, (run.begin - part.begin) * geometry.channels, row_at + (columns.Start(run.begin) + k) * geometry.channels);
    }
  });
}

// Calls fn(t0, t1, columns, tap, element) for the runs of windows that reach input row `row` of an image, in the order of windows for every
// position: tap `tap` of the windows of output columns `columns` lies in the row; `element` is the image's of their row's column 0.
template <typename Fn>
void ForWindowLines(const PoolGeometry& geometry, int64_t row, Fn&& fn) {
  const auto& dims = geometry.dims;
  const TapRange over0 = OutputsReaching(dims[0], row / dims[1].input), over1 = OutputsReaching(dims[1], row % dims[1].input);
  for (int64_t j0 = over0.begin; j0 < over0.end; ++j0) {
    const TapRange t0 = Taps(dims[0], j0);
    for (int64_t j1 = over1.begin; j1 < over1.end; ++j1) {
      const TapRange t1 = Taps(dims[1], j1);
      const int64_t first = (j0 * dims[1].output + j1) * geometry.output_row_elements();
      ForColumnParts(geometry, [&](TapRange part) {
        for (int64_t k = dims[2].window - 1; k >= 0; --k) {
          const TapRange run = Common(OutputsWithTap(dims[2], k), part);
          if (run.begin < run.end) fn(t0, t1, run, k, first);
        }
      });
    }
  }
}

}  // namespace millrace::cpu

#endif  // MILLRACE_RUNTIME_DEVICES_CPU_KERNELS_POOL_LINES_H_
