// MaxPool, MaxPoolV2, MaxPool3D. As in TensorFlow a window's maximum starts from the lowest finite value and NaN never
// wins.
#include <limits>

#include "cpu/kernels/pool.h"
#include "cpu/kernels/pool_windows.h"
#include "cpu/kernels/register.h"
#include "millrace/status.h"

namespace millrace::cpu {
namespace {

template <typename T>
void MaxInto(const T* __restrict__ from, int64_t channels, T* __restrict__ into) {
  for (int64_t c = 0; c < channels; ++c) into[c] = from[c] > into[c] ? from[c] : into[c];
}

template <typename T>
absl::Status RunMaxPool(const KernelContext& context, const PoolGeometry& geometry) {
  const T* input = context.input<T>(0);
  T* output = context.output<T>(0);
  const auto& dims = geometry.dims;
  const int64_t image_elements = geometry.input_rows() * geometry.input_row_elements();
  ParallelOutputRows(context, geometry, [&](int64_t row) {
    const int64_t image = row / geometry.output_rows(), in_image = row % geometry.output_rows();
    const T* from = input + image * image_elements;
    const TapRange t0 = Taps(dims[0], in_image / dims[1].output), t1 = Taps(dims[1], in_image % dims[1].output);
    T* to = output + row * geometry.output_row_elements();
    std::fill(to, to + geometry.output_row_elements(), Eigen::NumTraits<T>::lowest());
    for (int64_t j = 0; j < dims[2].output; ++j, to += geometry.channels) {
      ForEachTap(geometry, t0, t1, Taps(dims[2], j),
                 [&](int64_t, int64_t tap) { MaxInto(from + tap, geometry.channels, to); });
    }
  });
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Kernel>> MakeMaxPool(const OpInstance& node) {
  MR_ASSIGN_OR_RETURN(const PoolGeometry geometry,
                      PoolGeometryOf(node, node.inputs[0].shape, node.op == "MaxPoolV2" ? 1 : -1));
  return DispatchNumeric(node, node.inputs[0].dtype, [&](auto tag) -> std::unique_ptr<Kernel> {
    using T = typename decltype(tag)::type;
    return MakeKernel([geometry](const KernelContext& context) { return RunMaxPool<T>(context, geometry); });
  });
}

}  // namespace

void RegisterMaxPoolKernels(KernelRegistry& registry) {
  for (const char* name : {"MaxPool", "MaxPoolV2", "MaxPool3D"}) AddKernel(registry, name, MakeMaxPool);
}

}  // namespace millrace::cpu
