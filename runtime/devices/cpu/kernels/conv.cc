// Conv2D, Conv3D and their gradients: float32 by oneDNN, the rest by loops.
#include <cstring>

#include "cpu/kernels/common.h"
#include "cpu/kernels/conv_kernels.h"
#include "cpu/kernels/register.h"
#include "millrace/status.h"

namespace millrace::cpu {
namespace {

absl::StatusOr<std::unique_ptr<Kernel>> MakeConv(const OpInstance& instance, ConvKind kind, int spatial) {
  MR_ASSIGN_OR_RETURN(const ConvGeometry geometry, ReadConvGeometry(instance, kind, spatial, /*depthwise=*/false));
  if (geometry.flops() == 0) {
    const int64_t bytes = instance.outputs[0].size_bytes();
    return MakeKernel([bytes](const KernelContext& context) {
      if (bytes > 0) std::memset(context.outputs[0], 0, bytes);
      return absl::OkStatus();
    });
  }
  if (instance.outputs[0].dtype == DataType::kFloat) {
    absl::StatusOr<std::unique_ptr<Kernel>> kernel = MakeOneDnnConv(geometry, kind);
    if (kernel.ok() || !absl::IsUnimplemented(kernel.status())) return kernel;
  }
  return MakeLoopConv(instance, geometry, kind);
}

}  // namespace

void RegisterConvKernels(KernelRegistry& registry) {
  const auto add = [&](const char* name, ConvKind kind, int spatial) {
    AddKernel(registry, name, [=](const OpInstance& instance) { return MakeConv(instance, kind, spatial); });
  };
  add("Conv2D", ConvKind::kForward, 2);
  add("Conv2DBackpropInput", ConvKind::kInput, 2);
  add("Conv2DBackpropFilter", ConvKind::kFilter, 2);
  add("Conv3D", ConvKind::kForward, 3);
  add("Conv3DBackpropInputV2", ConvKind::kInput, 3);
  add("Conv3DBackpropFilterV2", ConvKind::kFilter, 3);
}

}  // namespace millrace::cpu
