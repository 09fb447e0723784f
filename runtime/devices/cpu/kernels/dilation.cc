// Dilation2D, the largest sum of a pixel and a filter weight under a window; gradients go to where it was found.
#include <limits>

#include "cpu/kernels/common.h"
#include "cpu/kernels/rare.h"
#include "millrace/status.h"

namespace millrace::cpu {
namespace {

struct Window {
  int64_t batch, rows, columns, channels, out_rows, out_columns, filter_rows, filter_columns;
  int64_t stride_y, stride_x, rate_y, rate_x, pad_y, pad_x;

  int64_t image() const { return rows * columns * channels; }
  int64_t result() const { return out_rows * out_columns * channels; }
  int64_t filter() const { return filter_rows * filter_columns * channels; }
};

Window WindowOf(const OpInstance& node, const Shape& out) {
  const Shape &in = node.inputs[0].shape, &filter = node.inputs[1].shape;
  const auto strides = node.attrs.GetOr<std::vector<int64_t>>("strides", {1, 1, 1, 1});
  const auto rates = node.attrs.GetOr<std::vector<int64_t>>("rates", {1, 1, 1, 1});
  Window w = {in.dim(0), in.dim(1), in.dim(2), in.dim(3), out.dim(1), out.dim(2), filter.dim(0), filter.dim(1),
              strides[1], strides[2], rates[1], rates[2], 0, 0};
  if (node.attrs.GetOr<std::string>("padding", "") == "SAME") {
    const auto before = [](int64_t size, int64_t result, int64_t taps, int64_t stride, int64_t rate) {
      return std::max<int64_t>((result - 1) * stride + (taps - 1) * rate + 1 - size, 0) / 2;
    };
    w.pad_y = before(w.rows, w.out_rows, w.filter_rows, w.stride_y, w.rate_y);
    w.pad_x = before(w.columns, w.out_columns, w.filter_columns, w.stride_x, w.rate_x);
  }
  return w;
}

// Calls fn(result element, largest sum, its pixel, its weight); offsets are from the start of the image, the result and
// the filter. The first of equal sums is taken; with no pixel inside, pixel and weight are those at the window's corner.
template <typename T, typename Fn>
void ForEachLargest(const Window& w, const T* image, const T* filter, Fn&& fn) {
  for (int64_t y = 0; y < w.out_rows; ++y) {
    for (int64_t x = 0; x < w.out_columns; ++x) {
      const int64_t top = y * w.stride_y - w.pad_y, left = x * w.stride_x - w.pad_x;
      for (int64_t c = 0; c < w.channels; ++c) {
        T largest = std::numeric_limits<T>::lowest();
        int64_t pixel = (std::max<int64_t>(top, 0) * w.columns + std::max<int64_t>(left, 0)) * w.channels + c, weight = c;
        for (int64_t i = 0; i < w.filter_rows; ++i) {
          const int64_t row = top + i * w.rate_y;
          if (row < 0 || row >= w.rows) continue;
          for (int64_t j = 0; j < w.filter_columns; ++j) {
            const int64_t column = left + j * w.rate_x;
            if (column < 0 || column >= w.columns) continue;
            const int64_t at = (row * w.columns + column) * w.channels + c, of = (i * w.filter_columns + j) * w.channels + c;
            const T sum = static_cast<T>(image[at] + filter[of]);
            if (!(sum > largest)) continue;
            largest = sum;
            pixel = at;
            weight = of;
          }
        }
        fn((y * w.out_columns + x) * w.channels + c, largest, pixel, weight);
      }
    }
  }
}

absl::StatusOr<std::unique_ptr<Kernel>> MakeDilation(const OpInstance& node) {
  const Window w = WindowOf(node, node.outputs[0].shape);
  return DispatchNumeric(node, node.inputs[0].dtype, [&](auto tag) -> std::unique_ptr<Kernel> {
    using T = typename decltype(tag)::type;
    return MakeKernel([w](const KernelContext& context) {
      context.parallel->For(w.batch, [&](int64_t b) {
        T* out = context.output<T>(0) + b * w.result();
        ForEachLargest(w, context.input<T>(0) + b * w.image(), context.input<T>(1),
                       [&](int64_t at, T largest, int64_t, int64_t) { out[at] = largest; });
      });
      return absl::OkStatus();
    });
  });
}

// (input, filter, out_backprop); the filter's gradient is summed image after image.
template <bool kOfFilter>
absl::StatusOr<std::unique_ptr<Kernel>> MakeDilationGrad(const OpInstance& node) {
  const Window w = WindowOf(node, node.inputs[2].shape);
  return DispatchNumeric(node, node.inputs[0].dtype, [&](auto tag) -> std::unique_ptr<Kernel> {
    using T = typename decltype(tag)::type;
    return MakeKernel([w](const KernelContext& context) {
      const auto image = [&](int64_t b, T* to) {
        const T* gradient = context.input<T>(2) + b * w.result();
        ForEachLargest(w, context.input<T>(0) + b * w.image(), context.input<T>(1), [&](int64_t at, T, int64_t pixel, int64_t weight) {
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
