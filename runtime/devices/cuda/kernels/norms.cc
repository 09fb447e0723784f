// Batch norm, alone or with a sum and a Relu behind (graph/fused_norm.h).
#include "absl/strings/match.h"
#include "cuda/kernels/common.h"
#include "cuda/kernels/register.h"
#include "cuda/launch/norm.h"
#include "graph/fused_norm.h"
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
  MR_ASSIGN_OR_RETURN(const DataLayout layout, ParseDataFormat(format));
  if (x.num_elements() == 0) return Refused(instance, "an empty batch");
  BatchNormShape shape;
  shape.channels = x.dim(layout.channel());
  shape.channels_first = layout.channels_first;
  shape.pixels = x.num_elements() / shape.channels;
  shape.plane = shape.pixels / x.dim(0);
  shape.training = instance.attrs.GetOr<bool>("is_training", true);
  shape.epsilon = instance.attrs.GetOr<float>("epsilon", 1e-4f);
  shape.average = instance.attrs.GetOr<float>("exponential_avg_factor", 1.0f);
  if (gradient) {
    const bool relu = instance.op == kFusedNormGrad;
    return MakeLaunch(
        services,
        [=](const Queue& queue, const KernelContext& context) {
          LaunchBatchNormGrad(queue, type, shape,
                              {context.inputs[0], context.inputs[1], context.input<float>(2), context.input<float>(3),
                               context.input<float>(4), relu ? context.input<float>(5) : nullptr, context.outputs[0],
                               context.output<float>(1), context.output<float>(2)},
                              context.scratch);
        },
        BatchNormScratchBytes(shape));
  }
  const absl::StatusOr<NormEpilogue> epilogue = instance.op == kFusedNorm ? NormEpilogueOf(instance.attrs) : NormEpilogue{};
  MR_RETURN_IF_ERROR(epilogue.status());
  const bool side = epilogue->side, relu = epilogue->relu, reserves = instance.outputs.size() > 5;
  return MakeLaunch(
      services,
      [=](const Queue& queue, const KernelContext& context) {
        LaunchBatchNorm(queue, type, shape,
                        {context.inputs[0], side ? context.inputs[5] : nullptr, context.input<float>(1), context.input<float>(2),
                         context.input<float>(3), context.input<float>(4), context.outputs[0], context.output<float>(1),
                         context.output<float>(2), context.output<float>(3), context.output<float>(4),
                         reserves ? context.output<float>(5) : nullptr, relu},
                        context.scratch);
      },
      BatchNormScratchBytes(shape));
}

}  // namespace

void RegisterNorms(KernelRegistry& registry, DeviceServices& services) {
  for (const char* op : {"FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3", "FusedBatchNormGrad",
                         "FusedBatchNormGradV2", "FusedBatchNormGradV3", kFusedNorm, kFusedNormGrad}) {
    Add(registry, services, op, MakeBatchNorm);
  }
}

}  // namespace millrace::cuda
