// Local response normalisation, resizing, and the loss of unsegmented sequences.
#include "absl/strings/match.h"
#include "cuda/kernels/common.h"
#include "cuda/kernels/register.h"
#include "cuda/launch/ctc.h"
#include "cuda/launch/image.h"

namespace millrace::cuda {
namespace {

using KernelOr = absl::StatusOr<std::unique_ptr<Kernel>>;

KernelOr MakeLrn(DeviceServices& services, const OpInstance& instance) {
  MR_ASSIGN_OR_RETURN(const Type type, FloatingTypeOf(instance, instance.inputs[0].dtype));
  if (type == Type::kDouble) return Refused(instance, "this element type");
  const Shape& input = instance.inputs[0].shape;
  if (input.num_elements() == 0) return Refused(instance, "an empty tensor");
  LrnShape shape;
  shape.channels = input.dim(3);
  shape.positions = input.num_elements() / shape.channels;
  shape.radius = std::min<int64_t>(instance.attrs.GetOr<int64_t>("depth_radius", 5), shape.channels);
  shape.bias = instance.attrs.GetOr<float>("bias", 1.0f);
  shape.alpha = instance.attrs.GetOr<float>("alpha", 1.0f);
  shape.beta = instance.attrs.GetOr<float>("beta", 0.5f);
  if (instance.op == "LRN") {
    return MakeLaunch(services, [=](const Queue& queue, const KernelContext& context) {
      LaunchLrn(queue, type, shape, context.inputs[0], context.outputs[0]);
    });
  }
  return MakeLaunch(
      services,
      [=](const Queue& queue, const KernelContext& context) {
        LaunchLrnGrad(queue, type, shape, context.inputs[0], context.inputs[1], context.inputs[2], context.outputs[0],
                      context.scratch);
      },
      LrnGradScratchBytes(shape));
}

// For the forward op from `input` to `output`.
ResizeShape ResizeOf(const OpInstance& instance, const Shape& input, const Shape& output) {
  ResizeShape shape;
  shape.nearest = absl::StrContains(instance.op, "Nearest");
  shape.cubic = absl::StrContains(instance.op, "Bicubic");
  shape.align_corners = instance.attrs.GetOr<bool>("align_corners", false);
  shape.half_pixel_centers = instance.attrs.GetOr<bool>("half_pixel_centers", false);
  shape.batch = input.dim(0);
  shape.channels = input.dim(3);
  for (int d = 0; d < 2; ++d) {
    ResizeAxis& axis = d == 0 ? shape.rows : shape.columns;
    axis.input = input.dim(d + 1);
    axis.output = output.dim(d + 1);
    const bool corners = shape.align_corners && axis.output > 1;
    axis.scale = corners ? static_cast<float>(axis.input - 1) / static_cast<float>(axis.output - 1)
                         : static_cast<float>(axis.input) / static_cast<float>(axis.output);
  }
  return shape;
}

KernelOr MakeResize(DeviceServices& services, const OpInstance& instance) {
  const ResizeShape shape = ResizeOf(instance, instance.inputs[0].shape, instance.outputs[0].shape);
  if (shape.nearest) {
    MR_ASSIGN_OR_RETURN(const int bytes, ElementBytes(instance, instance.inputs[0].dtype));
    return MakeLaunch(services, [=](const Queue& queue, const KernelContext& context) {
      LaunchResizeNearest(queue, bytes, shape, context.inputs[0], context.outputs[0]);
    });
  }
  MR_ASSIGN_OR_RETURN(const Type type, NumericTypeOf(instance, instance.inputs[0].dtype));
  return MakeLaunch(services, [=](const Queue& queue, const KernelContext& context) {
    LaunchResizeBlended(queue, type, shape, context.inputs[0], context.output<float>(0));
  });
}

KernelOr MakeResizeGrad(DeviceServices& services, const OpInstance& instance) {
  MR_ASSIGN_OR_RETURN(const Type type, FloatingTypeOf(instance, instance.outputs[0].dtype));
  const ResizeShape shape = ResizeOf(instance, instance.outputs[0].shape, instance.inputs[0].shape);
  if (instance.outputs[0].shape.num_elements() == 0) return Refused(instance, "an empty tensor");
  return MakeLaunch(services, [=](const Queue& queue, const KernelContext& context) {
    LaunchResizeGrad(queue, type, shape, context.inputs[0], context.outputs[0]);
  });
}

KernelOr MakeCtc(DeviceServices& services, const OpInstance& instance) {
  MR_ASSIGN_OR_RETURN(const Type type, FloatingTypeOf(instance, instance.inputs[0].dtype));
  if (type != Type::kFloat && type != Type::kDouble) return Refused(instance, "this element type");
  if (instance.attrs.GetOr<bool>("preprocess_collapse_repeated", false)) return Refused(instance, "collapsed labels");
  for (size_t i = 1; i < 4; ++i) {
    if (ValueOf(instance, i) != nullptr) return Refused(instance, "labels that are on the host");
  }
  const Shape& inputs = instance.inputs[0].shape;
  CtcShape shape;
  shape.time = inputs.dim(0);
  shape.batch = inputs.dim(1);
  shape.classes = inputs.dim(2);
  shape.labels = instance.inputs[2].shape.num_elements();
  shape.merge_repeated = instance.attrs.GetOr<bool>("ctc_merge_repeated", true);
  shape.ignore_longer = instance.attrs.GetOr<bool>("ignore_longer_outputs_than_inputs", false);
  shape.blank_first = instance.op == "CTCLossV2";
  if (inputs.num_elements() == 0) return Refused(instance, "an empty tensor");
  return MakeLaunch(
      services,
      [=](const Queue& queue, const KernelContext& context) {
        LaunchCtc(queue, type, shape, context.inputs[0], context.input<int64_t>(1), context.input<int32_t>(2),
                  context.input<int32_t>(3), context.outputs[0], context.outputs[1], context.scratch);
      },
      CtcScratchBytes(shape));
}

}  // namespace

void RegisterImages(KernelRegistry& registry, DeviceServices& services) {
  for (const char* op : {"LRN", "LRNGrad"}) Add(registry, services, op, MakeLrn);
  for (const char* op : {"ResizeBilinear", "ResizeBicubic", "ResizeNearestNeighbor"}) Add(registry, services, op, MakeResize);
  for (const char* op : {"ResizeBilinearGrad", "ResizeBicubicGrad", "ResizeNearestNeighborGrad"}) {
    Add(registry, services, op, MakeResizeGrad);
  }
  for (const char* op : {"CTCLoss", "CTCLossV2"}) Add(registry, services, op, MakeCtc);
}

}  // namespace millrace::cuda
