// Walking the windows of a pool: which input positions ("taps") window (d0, d1, d2) of an image covers.
#ifndef MILLRACE_RUNTIME_DEVICES_CPU_KERNELS_POOL_WINDOWS_H_
#define MILLRACE_RUNTIME_DEVICES_CPU_KERNELS_POOL_WINDOWS_H_

#include "cpu/kernels/common.h"
#include "graph/pool_geometry.h"

namespace millrace::cpu {

// Part of the input that a window covers in one dimension.
struct TapRange {
  int64_t begin = 0;
  int64_t end = 0;
};

inline TapRange Taps(const WindowDim& dim, int64_t j) {
  const int64_t start = dim.Start(j);
  return {std::max<int64_t>(start, 0), std::min(start + dim.window, dim.input)};
}

// Input rows are numbered d0 * dims[1].input + d1 within an image. Calls visit(row, tap) for each tap of the window
// in rows [first_row, last_row), in order of memory; `tap` is its element offset within the image without the channel.
template <typename Visit>
void ForEachTap(const PoolGeometry& geometry, TapRange t0, TapRange t1, TapRange t2, Visit&& visit) {
  for (int64_t d0 = t0.begin; d0 < t0.end; ++d0) {
    for (int64_t d1 = t1.begin; d1 < t1.end; ++d1) {
      const int64_t row = d0 * geometry.dims[1].input + d1;
      const int64_t base = row * geometry.dims[2].input;
      for (int64_t d2 = t2.begin; d2 < t2.end; ++d2) visit(row, (base + d2) * geometry.channels);
    }
  }
}

// Calls fn(row, image, t0, t1) for output rows (d0, d1 of every image), side by side: its number among those of all images, and what its
// windows cover in the first two dimensions.
template <typename Fn>
void ParallelOutputRows(const KernelContext& context, const PoolGeometry& geometry, Fn&& fn) {
  const int64_t rows = geometry.batch * geometry.output_rows();
  const int64_t work = std::max<int64_t>(geometry.output_row_elements() * geometry.window_elements(), 1);
  ParallelRange(context, rows, std::max<int64_t>(kElementGrain / work, 1), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const int64_t image = row / geometry.output_rows(), in_image = row % geometry.output_rows();
      fn(row, image, Taps(geometry.dims[0], in_image / geometry.dims[1].output), Taps(geometry.dims[1], in_image % geometry.dims[1].output));
    }
  });
}

// A gradient kernel adds to the input's positions. A shard owns input rows [begin, end) of the images laid one after
// another and adds only there, walking every window that reaches them in order: so sums have one order.
// fn(image, first_row, last_row): rows within the image.
template <typename Fn>
void ParallelInputRows(const KernelContext& context, const PoolGeometry& geometry, Fn&& fn) {
  const int64_t per_image = geometry.input_rows(), rows = geometry.batch * per_image;
  const int64_t row_elements = std::max<int64_t>(geometry.input_row_elements(), 1);
  ParallelRange(context, rows, std::max<int64_t>(kElementGrain / row_elements, 1), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end;) {
      const int64_t image = row / per_image, stop = std::min(end, (image + 1) * per_image);
      fn(image, row - image * per_image, stop - image * per_image);
      row = stop;
    }
  });
}

// Calls fn(t0, t1, row of windows) for every row of an image's windows that reaches input rows [first_row, last_row), in order.
template <typename Fn>
void ForEachWindowRowReaching(const PoolGeometry& geometry, int64_t first_row, int64_t last_row, Fn&& fn) {
  const auto& dims = geometry.dims;
  for (int64_t j0 = 0; j0 < dims[0].output; ++j0) {
    const TapRange t0 = Taps(dims[0], j0);
    for (int64_t j1 = 0; j1 < dims[1].output; ++j1) {
      const TapRange t1 = Taps(dims[1], j1);
      if (t0.begin >= t0.end || t1.begin >= t1.end) continue;
      const int64_t lowest = t0.begin * dims[1].input + t1.begin;
      const int64_t highest = (t0.end - 1) * dims[1].input + t1.end - 1;
      if (highest >= first_row && lowest < last_row) fn(t0, t1, j0 * dims[1].output + j1);
    }
  }
}

// Calls fn(t0, t1, t2, window) for every window of an image that reaches input rows [first_row, last_row), in order; `window` is its index
// within the image.
template <typename Fn>
void ForEachWindowReaching(const PoolGeometry& geometry, int64_t first_row, int64_t last_row, Fn&& fn) {
  const WindowDim& columns = geometry.dims[2];
  ForEachWindowRowReaching(geometry, first_row, last_row, [&](TapRange t0, TapRange t1, int64_t row) {
    for (int64_t j = 0; j < columns.output; ++j) fn(t0, t1, Taps(columns, j), row * columns.output + j);
  });
}

}  // namespace millrace::cpu

#endif  // MILLRACE_RUNTIME_DEVICES_CPU_KERNELS_POOL_WINDOWS_H_
