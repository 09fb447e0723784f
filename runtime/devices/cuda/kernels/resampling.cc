// Images resampled by areas (ResizeArea) and by filters (ScaleAndTranslate, which antialiased resizing is).
#include "cuda/launch/resampling.h"

#include <string>

#include "cuda/kernels/common.h"
#include "cuda/kernels/register.h"

namespace millrace::cuda {
namespace {

using KernelOr = absl::StatusOr<std::unique_ptr<Kernel>>;

// (images, size)
KernelOr MakeResizeArea(DeviceServices& services, const OpInstance& instance) {
  MR_ASSIGN_OR_RETURN(const Type type, NumericTypeOf(instance, instance.inputs[0].dtype));
  MR_RETURN_IF_ERROR(ExpectOnDevice(instance, {0}));
  const Shape &in = instance.inputs[0].shape, &out = instance.outputs[0].shape;
  const bool align_corners = instance.attrs.GetOr<bool>("align_corners", false);
  const auto axis = [&](int d) { return AreaAxis{in.dim(d), out.dim(d), AreaScale(in.dim(d), out.dim(d), align_corners)}; };
  const AreaShape shape = {in.dim(0), in.dim(3), axis(1), axis(2)};
  return MakeLaunch(
      services,
      [=](const Queue& queue, const KernelContext& context) {
        LaunchResizeArea(queue, type, shape, context.inputs[0], context.output<float>(0), context.scratch);
      },
      ResizeAreaScratchBytes(shape));
}

// For the forward op from `input` to `output`, of a node with scale and translation in inputs 2 and 3.
absl::StatusOr<ScaleShape> ScaleShapeOf(const OpInstance& instance, const Shape& input, const Shape& output) {
  MR_RETURN_IF_ERROR(ExpectOnDevice(instance, {2, 3}));
  const auto filter = ResampleFilterOf(instance.attrs.GetOr<std::string>("kernel_type", "lanczos3"));
  if (!filter) return Refused(instance, "this kernel_type");
  ScaleShape shape;
  shape.filter = *filter;
  shape.antialias = instance.attrs.GetOr<bool>("antialias", true);
  shape.batch = input.dim(0);
  shape.channels = input.dim(3);
  for (int d = 0; d < 2; ++d) {
    shape.input[d] = input.dim(d + 1);
    shape.output[d] = output.dim(d + 1);
  }
  return shape;
}

// (images, size, scale, translation)
KernelOr MakeScale(DeviceServices& services, const OpInstance& instance) {
  MR_RETURN_IF_ERROR(ExpectOnDevice(instance, {0}));
  MR_ASSIGN_OR_RETURN(const Type type, NumericTypeOf(instance, instance.inputs[0].dtype));
  MR_ASSIGN_OR_RETURN(const ScaleShape shape, ScaleShapeOf(instance, instance.inputs[0].shape, instance.outputs[0].shape));
  return MakeLaunch(
      services,
      [=](const Queue& queue, const KernelContext& context) {
        LaunchScaleAndTranslate(queue, type, shape, context.inputs[0], context.input<float>(2), context.input<float>(3), context.output<float>(0),
                    context.scratch);
      },
      ScaleScratchBytes(shape));
}

// (grads, original_image, scale, translation)
KernelOr MakeScaleGrad(DeviceServices& services, const OpInstance& instance) {
  if (instance.outputs[0].dtype != DataType::kFloat) return Refused(instance, "this element type");
  MR_RETURN_IF_ERROR(ExpectOnDevice(instance, {0}));
  MR_ASSIGN_OR_RETURN(const ScaleShape shape, ScaleShapeOf(instance, instance.outputs[0].shape, instance.inputs[0].shape));
  return MakeLaunch(
      services,
      [=](const Queue& queue, const KernelContext& context) {
        LaunchScaleAndTranslateGrad(queue, shape, context.input<float>(0), context.input<float>(2), context.input<float>(3), context.output<float>(0),
                        context.scratch);
      },
      ScaleScratchBytes(shape));
}

}  // namespace

void RegisterResampling(KernelRegistry& registry, DeviceServices& services) {
  Add(registry, services, "ResizeArea", MakeResizeArea);
  Add(registry, services, "ScaleAndTranslate", MakeScale);
  Add(registry, services, "ScaleAndTranslateGrad", MakeScaleGrad);
}

}  // namespace millrace::cuda
