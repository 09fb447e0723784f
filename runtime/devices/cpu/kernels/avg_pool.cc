// AvgPool and AvgPool3D and their gradients: the mean over the part of a window that lies inside the input.
#include "cpu/kernels/pool.h"
#include "cpu/kernels/pool_windows.h"
#include "cpu/kernels/register.h"
#include "millrace/status.h"

namespace millrace::cpu {
namespace {

constexpr int64_t kBlock = 64;

template <typename T>
using SumFor = std::conditional_t<std::is_same_v<T, double>, double, float>;

int64_t TapCount(TapRange t0, TapRange t1, TapRange t2) {
  return (t0.end - t0.begin) * (t1.end - t1.begin) * (t2.end - t2.begin);
}

template <typename T>
absl::Status RunAvgPool(const KernelContext& context, const PoolGeometry& geometry) {
  using Sum = SumFor<T>;
  const T* input = context.input<T>(0);
  T* output = context.output<T>(0);
  const auto& dims = geometry.dims;
  const int64_t image_elements = geometry.input_rows() * geometry.input_row_elements();
  ParallelOutputRows(context, geometry, [&](int64_t row) {
    const int64_t image = row / geometry.output_rows(), in_image = row % geometry.output_rows();
    const T* from = input + image * image_elements;
    const TapRange t0 = Taps(dims[0], in_image / dims[1].output), t1 = Taps(dims[1], in_image % dims[1].output);
    T* to = output + row * geometry.output_row_elements();
    for (int64_t j = 0; j < dims[2].output; ++j, to += geometry.channels) {
      const TapRange t2 = Taps(dims[2], j);
      const Sum count = static_cast<Sum>(TapCount(t0, t1, t2));
      for (int64_t block = 0; block < geometry.channels; block += kBlock) {
        const int64_t channels = std::min(kBlock, geometry.channels - block);
        Sum sums[kBlock] = {};
        ForEachTap(geometry, t0, t1, t2, [&](int64_t, int64_t tap) {
          const T* source = from + tap + block;
          for (int64_t c = 0; c < channels; ++c) sums[c] += static_cast<Sum>(source[c]);
        });
        for (int64_t c = 0; c < channels; ++c) to[block + c] = static_cast<T>(sums[c] / count);
      }
    }
  });
  return absl::OkStatus();
}

// AvgPoolGrad(orig_input_shape, grad).
template <typename T>
absl::Status RunAvgPoolGrad(const KernelContext& context, const PoolGeometry& geometry) {
  using Sum = SumFor<T>;
  const T* dy = context.input<T>(1);
  T* dx = context.output<T>(0);
  const int64_t row_elements = geometry.input_row_elements();
  const int64_t image_elements = geometry.input_rows() * row_elements;
  const int64_t image_windows = geometry.output_rows() * geometry.output_row_elements();
  ParallelInputRows(context, geometry, [&](int64_t image, int64_t first_row, int64_t last_row) {
    T* to = dx + image * image_elements;
    std::fill(to + first_row * row_elements, to + last_row * row_elements, T(0));
    ForEachWindowReaching(geometry, first_row, last_row, [&](TapRange t0, TapRange t1, TapRange t2, int64_t window) {
      const T* gradient = dy + image * image_windows + window * geometry.channels;
      const Sum share = Sum(1) / static_cast<Sum>(TapCount(t0, t1, t2));
      ForEachTap(geometry, t0, t1, t2, [&](int64_t row, int64_t tap) {
        if (row < first_row || row >= last_row) return;
        T* into = to + tap;
#pragma GCC ivdep
        for (int64_t c = 0; c < geometry.channels; ++c) {
          into[c] = static_cast<T>(static_cast<Sum>(into[c]) + static_cast<Sum>(gradient[c]) * share);
        }
      });
    });
  });
  return absl::OkStatus();
}

template <bool kGradient>
absl::StatusOr<std::unique_ptr<Kernel>> MakeAvgPool(const OpInstance& node) {
  const Shape& input = kGradient ? node.outputs[0].shape : node.inputs[0].shape;
  MR_ASSIGN_OR_RETURN(const PoolGeometry geometry, PoolGeometryOf(node, input));
  return DispatchFloating(node, node.outputs[0].dtype, [&](auto tag) -> std::unique_ptr<Kernel> {
    using T = typename decltype(tag)::type;
    return MakeKernel([geometry](const KernelContext& context) {
      return kGradient ? RunAvgPoolGrad<T>(context, geometry) : RunAvgPool<T>(context, geometry);
    });
  });
}

}  // namespace

void RegisterAvgPoolKernels(KernelRegistry& registry) {
  for (const char* name : {"AvgPool", "AvgPool3D"}) AddKernel(registry, name, MakeAvgPool<false>);
  for (const char* name : {"AvgPoolGrad", "AvgPool3DGrad"}) AddKernel(registry, name, MakeAvgPool<true>);
}

}  // namespace millrace::cpu
