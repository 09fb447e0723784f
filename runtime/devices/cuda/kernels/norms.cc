// Batch norm and pooling.
#include <vector>

#include "absl/strings/match.h"
#include "cuda/kernels/common.h"
#include "cuda/kernels/register.h"
#include "cuda/launch/layout.h"
#include "cuda/launch/norm.h"
#include "graph/window.h"

namespace millrace::cuda {
namespace {

absl::StatusOr<std::unique_ptr<Kernel>> MakeBatchNorm(DeviceServices& services, const OpInstance& instance) {
  const bool gradient = absl::StrContains(instance.op, "Grad");
  MR_ASSIGN_OR_RETURN(const Type type, FloatingTypeOf(instance, instance.inputs[0].dtype));
  const Shape& x = instance.inputs[0].shape;
  const std::string format = instance.attrs.GetOr<std::string>("data_format", "NHWC");
  if (type == Type::kDouble || instance.inputs[gradient ? 2 : 1].dtype != DataType::kFloat) {
    return Refused(instance, "statistics that are not float");
  }
  if (format != "NHWC" && format != "NDHWC") return Refused(instance, format);
  if (x.num_elements() == 0) return Refused(instance, "an empty batch");
  BatchNormShape shape;
  shape.channels = x.dim(x.rank() - 1);
  shape.pixels = x.num_elements() / shape.channels;
  shape.training = instance.attrs.GetOr<bool>("is_training", true);
  shape.epsilon = instance.attrs.GetOr<float>("epsilon", 1e-4f);
  shape.average = instance.attrs.GetOr<float>("exponential_avg_factor", 1.0f);
  if (gradient) {
    return MakeLaunch(
        services,
        [=](const Queue& queue, const KernelContext& context) {
          LaunchBatchNormGrad(queue, type, shape,
                              {context.inputs[0], context.inputs[1], context.input<float>(2), context.input<float>(3),
                               context.input<float>(4), context.outputs[0], context.output<float>(1),
                               context.output<float>(2)},
                              context.scratch);
        },
        BatchNormScratchBytes(shape));
  }
  const int64_t spare = instance.outputs.size() > 5 ? instance.outputs[5].size_bytes() : 0;
  return MakeLaunch(
      services,
      [=](const Queue& queue, const KernelContext& context) {
        LaunchBatchNorm(queue, type, shape,
                        {context.inputs[0], context.input<float>(1), context.input<float>(2), context.input<float>(3),
                         context.input<float>(4), context.outputs[0], context.output<float>(1), context.output<float>(2),
                         context.output<float>(3), context.output<float>(4)},
                        context.scratch);
        if (spare > 0) LaunchZero(queue, context.outputs[5], spare);
      },
      BatchNormScratchBytes(shape));
}

absl::StatusOr<PoolShape> PoolOf(const OpInstance& instance, const Shape& input, const Shape& output) {
  const std::string format = instance.attrs.GetOr<std::string>("data_format", "NHWC");
  const std::string padding = instance.attrs.GetOr<std::string>("padding", "");
  if (format != "NHWC" || input.rank() != 4) return Refused(instance, format);
  if (padding == "EXPLICIT" || input.num_elements() == 0 || output.num_elements() == 0) {
    return Refused(instance, "this padding or an empty tensor");
  }
  using Ints = std::vector<int64_t>;
  const Ints sizes = instance.attrs.GetOr("ksize", Ints()), strides = instance.attrs.GetOr("strides", Ints());
  if (sizes.size() != 4 || strides.size() != 4 || sizes[0] != 1 || sizes[3] != 1) return Refused(instance, "this window");
  PoolShape shape;
  shape.batch = input.dim(0);
  shape.channels = input.dim(3);
  for (int i = 0; i < 2; ++i) {
    MR_ASSIGN_OR_RETURN(const WindowDim window, MakeWindowDim(input.dim(i + 1), sizes[i + 1], strides[i + 1], 1, padding));
    shape.in[i] = window.input;
    shape.out[i] = window.output;
    shape.window[i] = window.window;
    shape.stride[i] = window.stride;
    shape.pad[i] = window.pad_before;
  }
  return shape;
}

absl::StatusOr<std::unique_ptr<Kernel>> MakePool(DeviceServices& services, const OpInstance& instance) {
  MR_ASSIGN_OR_RETURN(const Type type, FloatingTypeOf(instance, instance.outputs[0].dtype));
  const bool average = absl::StrContains(instance.op, "Avg");
  MR_ASSIGN_OR_RETURN(const PoolShape shape, PoolOf(instance, instance.inputs[0].shape, instance.outputs[0].shape));
  return MakeLaunch(services, [=](const Queue& queue, const KernelContext& context) {
    LaunchPool(queue, type, average, shape, context.inputs[0], context.outputs[0]);
  });
}

// MaxPoolGrad(x, y, dy), AvgPoolGrad(shape of x, dy).
absl::StatusOr<std::unique_ptr<Kernel>> MakePoolGrad(DeviceServices& services, const OpInstance& instance) {
  MR_ASSIGN_OR_RETURN(const Type type, FloatingTypeOf(instance, instance.outputs[0].dtype));
  const bool average = absl::StrContains(instance.op, "Avg");
  const int dy = average ? 1 : 2;
  MR_ASSIGN_OR_RETURN(const PoolShape shape, PoolOf(instance, instance.outputs[0].shape, instance.inputs[dy].shape));
  return MakeLaunch(services, [=](const Queue& queue, const KernelContext& context) {
    LaunchPoolGrad(queue, type, average, shape, average ? nullptr : context.inputs[0], context.inputs[dy],
                   context.outputs[0]);
  });
}

}  // namespace

void RegisterNorms(KernelRegistry& registry, DeviceServices& services) {
  for (const char* op : {"FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3", "FusedBatchNormGrad",
                         "FusedBatchNormGradV2", "FusedBatchNormGradV3"}) {
    Add(registry, services, op, MakeBatchNorm);
  }
  for (const char* op : {"MaxPool", "AvgPool"}) Add(registry, services, op, MakePool);
  for (const char* op : {"MaxPoolGrad", "AvgPoolGrad"}) Add(registry, services, op, MakePoolGrad);
}

}  // namespace millrace::cuda
