// Conv2D, Conv3D, DepthwiseConv2dNative and their gradients: chooses the kernel.
#include <cstring>

#include "cpu/kernels/common.h"
#include "cpu/kernels/conv_kernels.h"
#include "cpu/kernels/register.h"
#include "millrace/status.h"

namespace millrace::cpu {
namespace {

// The measured exceptions: filter gradients and dilated input gradients.
bool OneDnnIsFasterDepthwise(const ConvGeometry& g, ConvKind kind) {
  const bool dilated = g.dilation[0] > 1 || g.dilation[1] > 1;
  return kind == ConvKind::kForward || (kind == ConvKind::kInput && !dilated);
}

absl::StatusOr<std::unique_ptr<Kernel>> MakeFloatConv(const OpInstance& instance, const ConvGeometry& geometry, ConvKind kind,
                                                     bool depthwise) {
  if (depthwise && !geometry.channels_first && geometry.in_channels == geometry.out_channels) {
    std::unique_ptr<Kernel> narrow = MakeNarrowDepthwiseConv(geometry, kind);
    if (narrow != nullptr && narrow->scratch_bytes() <= geometry.scratch_limit()) return narrow;
  }
  if (depthwise && !geometry.channels_first && geometry.in_channels > 1) {
    if (geometry.out_channels > geometry.in_channels) {
      return MakeSpreadDepthwiseConv(geometry, kind,
                                     [&](const ConvGeometry& spread) { return MakeFloatConv(instance, spread, kind, depthwise); });
    }
    if (!OneDnnIsFasterDepthwise(geometry, kind)) return MakeDepthwiseConv(geometry, kind);
  }
  if (WinogradIsFaster(geometry, kind)) {
    if (std::unique_ptr<Kernel> minimal = MakeWinogradConv(geometry, kind)) return minimal;
  }
  const bool patches = !geometry.channels_first && geometry.groups == 1;
  absl::StatusOr<std::unique_ptr<Kernel>> kernel = MakeOneDnnConv(geometry, kind, !patches);
  if (!kernel.ok() && !absl::IsUnimplemented(kernel.status())) return kernel;
  const bool modest = kernel.ok() && (*kernel)->scratch_bytes() <= geometry.scratch_limit();
  if (patches && !modest) return MakeGemmConv(instance, geometry, kind);
  if (kernel.ok()) return kernel;
  return MakeLoopConv(instance, DataType::kFloat, geometry, kind);
}

absl::StatusOr<std::unique_ptr<Kernel>> MakeConv(const OpInstance& instance, ConvKind kind, int spatial,
                                                bool depthwise) {
  MR_ASSIGN_OR_RETURN(const ConvGeometry geometry, ReadConvGeometry(instance, kind, spatial, depthwise));
  if (geometry.flops() == 0 || geometry.in_pixels() == 0) {  // of padding alone, too
    const int64_t bytes = instance.outputs[0].size_bytes();
    return MakeKernel([bytes](const KernelContext& context) {
      if (bytes > 0) std::memset(context.outputs[0], 0, bytes);
      return absl::OkStatus();
    });
  }
  const DataType dtype = instance.outputs[0].dtype;
  const auto make_float = [&](const ConvGeometry& g) { return MakeFloatConv(instance, g, kind, depthwise); };
  if (dtype == DataType::kFloat) return make_float(geometry);
  if (dtype == DataType::kHalf || dtype == DataType::kBfloat16) return MakeWidenedConv(dtype, geometry, kind, make_float);
  if (dtype == DataType::kDouble && depthwise && !geometry.channels_first && geometry.in_channels == geometry.out_channels) {
    return MakeDepthwiseConv(geometry, kind, dtype);
  }
  const bool patches = !geometry.channels_first && geometry.groups == 1;
  if (dtype == DataType::kDouble && patches) {
    MR_ASSIGN_OR_RETURN(std::unique_ptr<Kernel> kernel, MakeGemmConv(instance, geometry, kind, dtype));
    if (kernel->scratch_bytes() <= geometry.scratch_limit()) return kernel;
  }
  return MakeLoopConv(instance, dtype, geometry, kind);
}

}  // namespace

void RegisterConvKernels(KernelRegistry& registry) {
  const auto add = [&](const char* name, ConvKind kind, int spatial, bool depthwise = false) {
    AddKernel(registry, name, [=](const OpInstance& instance) { return MakeConv(instance, kind, spatial, depthwise); });
  };
  add("Conv2D", ConvKind::kForward, 2);
  add("Conv2DBackpropInput", ConvKind::kInput, 2);
  add("Conv2DBackpropFilter", ConvKind::kFilter, 2);
  add("Conv3D", ConvKind::kForward, 3);
  add("Conv3DBackpropInputV2", ConvKind::kInput, 3);
  add("Conv3DBackpropFilterV2", ConvKind::kFilter, 3);
  add("DepthwiseConv2dNative", ConvKind::kForward, 2, true);
  add("DepthwiseConv2dNativeBackpropInput", ConvKind::kInput, 2, true);
  add("DepthwiseConv2dNativeBackpropFilter", ConvKind::kFilter, 2, true);
}

}  // namespace millrace::cpu
