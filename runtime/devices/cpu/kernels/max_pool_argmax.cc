// MaxPoolWithArgmax and the gradient that goes where the maxima were.
#include "absl/strings/str_cat.h"
#include "cpu/kernels/common.h"
#include "cpu/kernels/families.h"
#include "cpu/kernels/indices.h"
#include "cpu/kernels/pool.h"
#include "cpu/kernels/pool_windows.h"
#include "millrace/status.h"

namespace millrace::cpu {
namespace {

// The first maximum of each window; its place is counted within the image, or within the batch.
template <typename T, typename Index>
void FindMaxima(const KernelContext& context, const PoolGeometry& geometry, bool in_batch) {
  const int64_t image_elements = geometry.input_rows() * geometry.input_row_elements();
  ParallelOutputRows(context, geometry, [&](int64_t row, int64_t image, TapRange t0, TapRange t1) {
    const T* from = context.input<T>(0) + image * image_elements;
    T* best = context.output<T>(0) + row * geometry.output_row_elements();
    Index* place = context.output<Index>(1) + row * geometry.output_row_elements();
    for (int64_t j = 0; j < geometry.dims[2].output; ++j, best += geometry.channels, place += geometry.channels) {
      bool first = true;
      ForEachTap(geometry, t0, t1, Taps(geometry.dims[2], j), [&](int64_t, int64_t tap) {
        for (int64_t c = 0; c < geometry.channels; ++c) {
          if (!first && !(best[c] < from[tap + c])) continue;
          best[c] = from[tap + c];
          place[c] = static_cast<Index>(tap + c + (in_batch ? image * image_elements : 0));
        }
        first = false;
      });
    }
  });
}

absl::StatusOr<std::unique_ptr<Kernel>> MakeArgmax(const OpInstance& node) {
  MR_ASSIGN_OR_RETURN(const PoolGeometry geometry, PoolGeometryOf(node, node.inputs[0].shape));
  const bool in_batch = node.attrs.GetOr<bool>("include_batch_in_index", false);
  const bool wide = node.outputs[1].dtype == DataType::kInt64;
  return DispatchNumeric(node, node.inputs[0].dtype, [&](auto tag) -> std::unique_ptr<Kernel> {
    using T = typename decltype(tag)::type;
    return MakeKernel([=](const KernelContext& context) {
      wide ? FindMaxima<T, int64_t>(context, geometry, in_batch) : FindMaxima<T, int32_t>(context, geometry, in_batch);
      return absl::OkStatus();
    });
  });
}

// (input, grad, argmax): a shard owns whole images.
absl::StatusOr<std::unique_ptr<Kernel>> MakeArgmaxGrad(const OpInstance& node) {
  const Shape &in = node.inputs[0].shape, &out = node.inputs[1].shape;
  const int64_t batch = in.dim(0), image = batch == 0 ? 0 : in.num_elements() / batch;
  const int64_t windows = batch == 0 ? 0 : out.num_elements() / batch;
  const bool in_batch = node.attrs.GetOr<bool>("include_batch_in_index", false);
  return DispatchNumeric(node, node.inputs[0].dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    return DispatchIndex(node, 2, [&](auto index_tag) -> std::unique_ptr<Kernel> {
      using Index = typename decltype(index_tag)::type;
      return MakeKernel([=](const KernelContext& context) -> absl::Status {
        const Index* places = context.input<Index>(2);
        for (int64_t i = 0; i < batch * windows; ++i) {
          const int64_t place = static_cast<int64_t>(places[i]) - (in_batch ? i / windows * image : 0);
          if (place < 0 || place >= image) {
            return absl::InvalidArgumentError(absl::StrCat("argmax[", i, "] = ", places[i], " is not in its image of ",
                                                           image, " elements"));
          }
        }
        ParallelRange(context, batch, std::max<int64_t>(kElementGrain / std::max<int64_t>(image, 1), 1),
                      [&](int64_t begin, int64_t end) {
                        T* dx = context.output<T>(0);
                        std::fill(dx + begin * image, dx + end * image, T(0));
                        for (int64_t i = begin * windows; i < end * windows; ++i) {
                          dx[static_cast<int64_t>(places[i]) + (in_batch ? 0 : i / windows * image)] += context.input<T>(1)[i];
                        }
                      });
        return absl::OkStatus();
      });
    });
  });
}

}  // namespace

void RegisterMaxPoolArgmaxKernels(KernelRegistry& registry) {
  AddKernel(registry, "MaxPoolWithArgmax", MakeArgmax);
  AddKernel(registry, "MaxPoolGradWithArgmax", MakeArgmaxGrad);
}

}  // namespace millrace::cpu
