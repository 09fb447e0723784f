// Dilation2D, the largest sum of a pixel and a filter weight under a window; gradients go to where it was found.
#include <limits>
#include <vector>

#include "cpu/kernels/common.h"
#include "cpu/kernels/rare.h"
#include "graph/dilation_geometry.h"

namespace millrace::cpu {
namespace {

struct Window : DilationGeometry {
  int64_t image() const { return rows * columns * channels; }
  int64_t result() const { return out_rows * out_columns * channels; }
  int64_t filter() const { return filter_rows * filter_columns * channels; }
};

// The taps of a window in one dimension that lie inside: [first, last).
struct Taps {
  Taps(int64_t start, int64_t rate, int64_t taps, int64_t size)
      : first(start >= 0 ? 0 : std::min(taps, (-start + rate - 1) / rate)),
        last(start >= size ? 0 : std::min(taps, (size - start + rate - 1) / rate)) {}
  int64_t first, last;
};

constexpr int64_t kChunk = 64;  // elements that are compared side by side

// Largest sums, and with kTaps which tap gave each: the first of equal ones, or -1 with no pixel inside.
template <typename T>
struct Chunk {
  alignas(64) T largest[kChunk];
  alignas(64) int32_t tap[kChunk];

  template <bool kTaps>
  void Begin() {
    std::fill_n(largest, kChunk, std::numeric_limits<T>::lowest());
    if (kTaps) std::fill_n(tap, kChunk, -1);
  }
  template <bool kTaps>
  void Compare(const T* pixels, const T* weights, int64_t n, int64_t of) {
    const auto found = static_cast<int32_t>(of);
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) {
      const T sum = static_cast<T>(pixels[i] + weights[i]);
      const bool more = sum > largest[i];
      if (kTaps) tap[i] = more ? found : tap[i];
      largest[i] = more ? sum : largest[i];
    }
  }
};

// Visits all windows of an image. Thin images are taken several pixels at a time where the window lies inside: their
// filter is repeated as often.
template <typename T>
class Windows {
 public:
  Windows(const Window& w, const T* filter) : w_(w), filter_(filter) {
    pixels_ = w.stride_x == 1 ? std::max<int64_t>(kChunk / std::max<int64_t>(w.channels, 1), 1) : 1;
    if (pixels_ == 1) return;
    const int64_t taps = w.filter_rows * w.filter_columns;
    repeated_.resize(taps * kChunk);
    for (int64_t t = 0; t < taps; ++t) {
      for (int64_t i = 0; i < pixels_ * w.channels; ++i) repeated_[t * kChunk + i] = filter[t * w.channels + i % w.channels];
    }
  }

  // Calls fn(result element, largest sum, its pixel, its weight); offsets are from the start of the image, the result and
  // the filter. With no pixel inside, pixel and weight are those at the window's corner. Without kTaps both are 0.
  template <bool kTaps, typename Fn>
  void ForEachLargest(const T* image, Fn&& fn) const {
    for (int64_t y = 0; y < w_.out_rows; ++y) {
      for (int64_t x = 0; x < w_.out_columns;) {
        const int64_t left = x * w_.stride_x - w_.pad_x;
        const int64_t run = std::min(pixels_, w_.out_columns - x);
        const bool inside = left >= 0 && left + run - 1 + (w_.filter_columns - 1) * w_.rate_x < w_.columns;
        const int64_t pixels = inside ? run : 1;
        if (pixels > 1) {
          Visit<kTaps>(image, y, x, 0, pixels * w_.channels, repeated_.data(), kChunk, fn);
        } else {
          for (int64_t c = 0; c < w_.channels; c += kChunk) {
            Visit<kTaps>(image, y, x, c, std::min(kChunk, w_.channels - c), filter_ + c, w_.channels, fn);
          }
        }
        x += pixels;
      }
    }
  }

 private:
  // n elements of the result from channel c of pixel (y, x) on; `weights` of a tap are `step` apart.
  template <bool kTaps, typename Fn>
  void Visit(const T* image, int64_t y, int64_t x, int64_t c, int64_t n, const T* weights, int64_t step, Fn&& fn) const {
    const int64_t top = y * w_.stride_y - w_.pad_y, left = x * w_.stride_x - w_.pad_x;
    const Taps rows(top, w_.rate_y, w_.filter_rows, w_.rows), columns(left, w_.rate_x, w_.filter_columns, w_.columns);
    Chunk<T> chunk;
    chunk.template Begin<kTaps>();
    for (int64_t i = rows.first; i < rows.last; ++i) {
      const T* row = image + (top + i * w_.rate_y) * w_.columns * w_.channels + c;
      for (int64_t j = columns.first; j < columns.last; ++j) {
        const int64_t tap = i * w_.filter_columns + j;
        chunk.template Compare<kTaps>(row + (left + j * w_.rate_x) * w_.channels, weights + tap * step, n, tap);
      }
    }
    const int64_t at = (y * w_.out_columns + x) * w_.channels + c;
    for (int64_t i = 0; i < n; ++i) {
      int64_t pixel = 0, weight = 0;
      if (kTaps) {
        const int64_t tap = chunk.tap[i], tap_row = tap / w_.filter_columns, tap_column = tap % w_.filter_columns;
        const int64_t in_y = tap < 0 ? std::max<int64_t>(top, 0) : top + tap_row * w_.rate_y;
        const int64_t in_x = tap < 0 ? std::max<int64_t>(left, 0) : left + tap_column * w_.rate_x;
        pixel = (in_y * w_.columns + in_x) * w_.channels + c + i;
        weight = std::max<int64_t>(tap, 0) * w_.channels + (c + i) % w_.channels;
      }
      fn(at + i, chunk.largest[i], pixel, weight);
    }
  }

  const Window& w_;
  const T* filter_;
  int64_t pixels_ = 1;
  std::vector<T> repeated_;  // per tap kChunk weights
};

absl::StatusOr<std::unique_ptr<Kernel>> MakeDilation(const OpInstance& node) {
  const Window w = {DilationGeometryOf(node, node.outputs[0].shape)};
  return DispatchNumeric(node, node.inputs[0].dtype, [&](auto tag) -> std::unique_ptr<Kernel> {
    using T = typename decltype(tag)::type;
    return MakeKernel([w](const KernelContext& context) {
      const Windows<T> windows(w, context.input<T>(1));
      context.parallel->For(w.batch, [&](int64_t b) {
        T* out = context.output<T>(0) + b * w.result();
        windows.template ForEachLargest<false>(context.input<T>(0) + b * w.image(),
                                               [&](int64_t at, T largest, int64_t, int64_t) { out[at] = largest; });
      });
      return absl::OkStatus();
    });
  });
}

// (input, filter, out_backprop); the filter's gradient is summed image after image.
template <bool kOfFilter>
absl::StatusOr<std::unique_ptr<Kernel>> MakeDilationGrad(const OpInstance& node) {
  const Window w = {DilationGeometryOf(node, node.inputs[2].shape)};
  return DispatchNumeric(node, node.inputs[0].dtype, [&](auto tag) -> std::unique_ptr<Kernel> {
    using T = typename decltype(tag)::type;
    return MakeKernel([w](const KernelContext& context) {
      const Windows<T> windows(w, context.input<T>(1));
      const auto image = [&](int64_t b, T* to) {
        const T* gradient = context.input<T>(2) + b * w.result();
        windows.template ForEachLargest<true>(context.input<T>(0) + b * w.image(), [&](int64_t at, T, int64_t pixel, int64_t weight) {
          T& sum = to[kOfFilter ? weight : pixel];
          sum = static_cast<T>(sum + gradient[at]);
        });
      };
      T* out = context.output<T>(0);
      std::fill_n(out, kOfFilter ? w.filter() : w.batch * w.image(), T(0));
      if (kOfFilter) {
        for (int64_t b = 0; b < w.batch; ++b) image(b, out);
      } else {
        context.parallel->For(w.batch, [&](int64_t b) { image(b, out + b * w.image()); });
      }
      return absl::OkStatus();
    });
  });
}

}  // namespace

void RegisterDilationKernels(KernelRegistry& registry) {
  AddKernel(registry, "Dilation2D", MakeDilation);
  AddKernel(registry, "Dilation2DBackpropInput", MakeDilationGrad<false>);
  AddKernel(registry, "Dilation2DBackpropFilter", MakeDilationGrad<true>);
}

}  // namespace millrace::cpu
