// MaxPoolGradGradWithArgmax: of a gradient of the pooled images' gradient, what stands where the maxima were.
#include "absl/strings/str_cat.h"
#include "cpu/kernels/common.h"
#include "cpu/kernels/indices.h"
#include "cpu/kernels/rarest.h"

namespace millrace::cpu {
namespace {

// (input, grad of the input's shape, argmax)
absl::StatusOr<std::unique_ptr<Kernel>> MakeArgmaxGather(const OpInstance& node) {
  const Shape &in = node.inputs[0].shape, &out = node.outputs[0].shape;
  const int64_t batch = in.dim(0), image = batch == 0 ? 0 : in.num_elements() / batch, windows = batch == 0 ? 0 : out.num_elements() / batch;
  const bool in_batch = node.attrs.GetOr<bool>("include_batch_in_index", false);
  return DispatchBySize(node, node.inputs[1].dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    return DispatchIndex(node, 2, [&](auto index_tag) -> std::unique_ptr<Kernel> {
      using Index = typename decltype(index_tag)::type;
      return MakeKernel([=](const KernelContext& context) -> absl::Status {
        const Index* places = context.input<Index>(2);
        const auto place_of = [=](int64_t i) { return static_cast<int64_t>(places[i]) - (in_batch ? i / windows * image : 0); };
        for (int64_t i = 0; i < batch * windows; ++i) {
          if (place_of(i) >= 0 && place_of(i) < image) continue;
          return absl::InvalidArgumentError(absl::StrCat("argmax[", i, "] = ", places[i], " is not in its image of ", image, " elements"));
        }
        ParallelRange(context, batch * windows, kElementGrain, [&](int64_t begin, int64_t end) {
          for (int64_t i = begin; i < end; ++i) context.output<T>(0)[i] = context.input<T>(1)[i / windows * image + place_of(i)];
        });
        return absl::OkStatus();
      });
    });
  });
}

}  // namespace

void RegisterArgmaxGatherKernels(KernelRegistry& registry) { AddKernel(registry, "MaxPoolGradGradWithArgmax", MakeArgmaxGather); }

}  // namespace millrace::cpu
