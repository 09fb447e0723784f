// Crops of images, dilation, and maxima with their places.
#include <algorithm>
#include <string>

#include "cuda/kernels/common.h"
#include "cuda/kernels/pool_shape.h"
#include "cuda/kernels/register.h"
#include "cuda/launch/region.h"
#include "cuda/launch/window.h"

namespace millrace::cuda {
namespace {

using KernelOr = absl::StatusOr<std::unique_ptr<Kernel>>;

// Positions are floats, which count pixels up to here; the sides of crops are counted by 32 bits.
constexpr int64_t kMostPixels = 1 << 24;

// `boxes`: the input of these; their images follow.
absl::StatusOr<CropShape> CropOf(const OpInstance& instance, const Shape& images, const Shape& crops, int boxes) {
  if (instance.inputs[boxes].dtype != DataType::kFloat || instance.inputs[boxes + 1].dtype != DataType::kInt32) {
    return Refused(instance, "these boxes");
  }
  const int64_t sides = std::max({images.dim(1), images.dim(2), crops.dim(1), crops.dim(2)});
  if (sides > kMostPixels) return Refused(instance, "images of this size");
  CropShape shape;
  shape.batch = images.dim(0);
  shape.height = images.dim(1);
  shape.width = images.dim(2);
  shape.channels = images.dim(3);
  shape.boxes = crops.dim(0);
  shape.crop_height = crops.dim(1);
  shape.crop_width = crops.dim(2);
  shape.nearest = instance.attrs.GetOr<std::string>("method", "bilinear") == "nearest";
  shape.extrapolation = instance.attrs.GetOr<float>("extrapolation_value", 0.0f);
  shape.owners_input = boxes + 1;
  return shape;
}

KernelOr MakeCrop(DeviceServices& services, const OpInstance& instance) {
  MR_RETURN_IF_ERROR(ExpectOnDevice(instance, {0, 1, 2}));
  MR_ASSIGN_OR_RETURN(const Type type, NumericTypeOf(instance, instance.inputs[0].dtype));
  MR_ASSIGN_OR_RETURN(const CropShape shape, CropOf(instance, instance.inputs[0].shape, instance.outputs[0].shape, 1));
  return MakeLaunch(services, [=](const Queue& queue, const KernelContext& context) {
    LaunchCrop(queue, type, shape, context.inputs[0], context.input<float>(1), context.input<int32_t>(2), context.output<float>(0));
  });
}

KernelOr MakeCropGradImage(DeviceServices& services, const OpInstance& instance) {
  MR_RETURN_IF_ERROR(ExpectOnDevice(instance, {0, 1, 2}));
  MR_ASSIGN_OR_RETURN(const Type type, FloatingTypeOf(instance, instance.outputs[0].dtype));
  if (instance.inputs[0].dtype != DataType::kFloat) return Refused(instance, "gradients that are no floats");
  MR_ASSIGN_OR_RETURN(const CropShape shape, CropOf(instance, instance.outputs[0].shape, instance.inputs[0].shape, 1));
  if (shape.boxes > INT32_MAX) return Refused(instance, "so many boxes");
  return MakeLaunch(
      services,
      [=](const Queue& queue, const KernelContext& context) {
        LaunchCropGradImage(queue, type, shape, context.input<float>(0), context.input<float>(1), context.input<int32_t>(2),
                            context.outputs[0], context.scratch);
      },
      CropGradImageScratchBytes(shape));
}

KernelOr MakeCropGradBoxes(DeviceServices& services, const OpInstance& instance) {
  MR_RETURN_IF_ERROR(ExpectOnDevice(instance, {0, 1, 2, 3}));
  MR_ASSIGN_OR_RETURN(const Type type, NumericTypeOf(instance, instance.inputs[1].dtype));
  if (instance.inputs[0].dtype != DataType::kFloat) return Refused(instance, "gradients that are no floats");
  MR_ASSIGN_OR_RETURN(const CropShape shape, CropOf(instance, instance.inputs[1].shape, instance.inputs[0].shape, 2));
  return MakeLaunch(
      services,
      [=](const Queue& queue, const KernelContext& context) {
        LaunchCropGradBoxes(queue, type, shape, context.input<float>(0), context.inputs[1], context.input<float>(2),
                            context.input<int32_t>(3), context.output<float>(0), context.scratch);
      },
      CropGradBoxesScratchBytes(shape));
}

absl::StatusOr<DilationShape> DilationOf(const OpInstance& instance, const Shape& out) {
  const DilationShape shape = DilationGeometryOf(instance, out);
  if (shape.rows * shape.columns > INT32_MAX || shape.filter_rows * shape.filter_columns > INT32_MAX) {
    return Refused(instance, "images of this size");
  }
  return shape;
}

KernelOr MakeDilation(DeviceServices& services, const OpInstance& instance) {
  MR_RETURN_IF_ERROR(ExpectOnDevice(instance, {0, 1}));
  MR_ASSIGN_OR_RETURN(const Type type, NumericTypeOf(instance, instance.inputs[0].dtype));
  MR_ASSIGN_OR_RETURN(const DilationShape shape, DilationOf(instance, instance.outputs[0].shape));
  return MakeLaunch(services, [=](const Queue& queue, const KernelContext& context) {
    LaunchDilation(queue, type, shape, context.inputs[0], context.inputs[1], context.outputs[0]);
  });
}

// (input, filter, out_backprop)
KernelOr MakeDilationGrad(DeviceServices& services, const OpInstance& instance) {
  MR_RETURN_IF_ERROR(ExpectOnDevice(instance, {0, 1, 2}));
  MR_ASSIGN_OR_RETURN(const Type type, NumericTypeOf(instance, instance.inputs[0].dtype));
  MR_ASSIGN_OR_RETURN(const DilationShape shape, DilationOf(instance, instance.inputs[2].shape));
  const bool of_filter = instance.op == "Dilation2DBackpropFilter";
  return MakeLaunch(
      services,
      [=](const Queue& queue, const KernelContext& context) {
        LaunchDilationGrad(queue, type, of_filter, shape, context.inputs[0], context.inputs[1], context.inputs[2], context.outputs[0],
                           context.scratch);
      },
      DilationGradScratchBytes(of_filter, shape));
}

absl::StatusOr<bool> IsWide(const OpInstance& instance, DataType index) {
  if (index != DataType::kInt32 && index != DataType::kInt64) return Refused(instance, "these places");
  return index == DataType::kInt64;
}

KernelOr MakeArgmaxPool(DeviceServices& services, const OpInstance& instance) {
  MR_RETURN_IF_ERROR(ExpectOnDevice(instance, {0}));
  MR_ASSIGN_OR_RETURN(const Type type, NumericTypeOf(instance, instance.inputs[0].dtype));
  MR_ASSIGN_OR_RETURN(const PoolShape shape, PoolOf(instance, instance.inputs[0].shape));
  MR_ASSIGN_OR_RETURN(const bool wide, IsWide(instance, instance.outputs[1].dtype));
  const bool in_batch = instance.attrs.GetOr<bool>("include_batch_in_index", false);
  return MakeLaunch(services, [=](const Queue& queue, const KernelContext& context) {
    LaunchArgmaxPool(queue, type, shape, in_batch, wide, context.inputs[0], context.outputs[0], context.outputs[1]);
  });
}

// (input, grad, argmax)
KernelOr MakeArgmaxPoolGrad(DeviceServices& services, const OpInstance& instance) {
  MR_RETURN_IF_ERROR(ExpectOnDevice(instance, {1, 2}));
  MR_ASSIGN_OR_RETURN(const Type type, NumericTypeOf(instance, instance.inputs[0].dtype));
  const Shape& in = instance.inputs[0].shape;
  MR_ASSIGN_OR_RETURN(const PoolShape shape, PoolOf(instance, in));
  MR_ASSIGN_OR_RETURN(const bool wide, IsWide(instance, instance.inputs[2].dtype));
  const bool in_batch = instance.attrs.GetOr<bool>("include_batch_in_index", false);
  if (shape.batch != in.dim(0)) return Refused(instance, "channels that are not last");
  if (shape.batch > 0 && in.num_elements() / shape.batch > INT32_MAX) return Refused(instance, "images of this size");
  return MakeLaunch(
      services,
      [=](const Queue& queue, const KernelContext& context) {
        LaunchArgmaxPoolGrad(queue, type, shape, in_batch, wide, context.inputs[1], context.inputs[2], context.outputs[0], context.scratch);
      },
      ArgmaxPoolGradScratchBytes(shape));
}

}  // namespace

void RegisterRegions(KernelRegistry& registry, DeviceServices& services) {
  Add(registry, services, "CropAndResize", MakeCrop);
  Add(registry, services, "CropAndResizeGradImage", MakeCropGradImage);
  Add(registry, services, "CropAndResizeGradBoxes", MakeCropGradBoxes);
  Add(registry, services, "Dilation2D", MakeDilation);
  for (const char* op : {"Dilation2DBackpropInput", "Dilation2DBackpropFilter"}) Add(registry, services, op, MakeDilationGrad);
  Add(registry, services, "MaxPoolWithArgmax", MakeArgmaxPool);
  Add(registry, services, "MaxPoolGradWithArgmax", MakeArgmaxPoolGrad);
}

}  // namespace millrace::cuda
