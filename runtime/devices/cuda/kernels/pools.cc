// Pooling.
#include <vector>

#include "absl/strings/match.h"
#include "cuda/kernels/common.h"
#include "cuda/kernels/pool_shape.h"
#include "cuda/kernels/register.h"
#include "cuda/launch/pool.h"
#include "graph/pool_geometry.h"

namespace millrace::cuda {
absl::StatusOr<PoolShape> PoolOf(const OpInstance& instance, const Shape& input, int window_inputs) {
  PoolWindow window;
  for (int i = 0; window_inputs >= 0 && i < 2; ++i) {
    const size_t at = window_inputs + i;
    if (at >= instance.input_values.size() || instance.input_values[at].empty()) {
      return Refused(instance, "a window that is not known when planning");
    }
    const Tensor& value = instance.input_values[at];
    for (int64_t k = 0; k < value.num_elements(); ++k) (i == 0 ? window.ksize : window.strides).push_back(value.IntAt(k));
  }
  MR_ASSIGN_OR_RETURN(const PoolGeometry geometry, MakePoolGeometry(instance.attrs, input, input.rank(),
                                                                    window_inputs >= 0 ? &window : nullptr));
  PoolShape shape;
  shape.batch = geometry.batch;
  shape.channels = geometry.channels;
  for (int d = 0; d < 3; ++d) {
    shape.in[d] = geometry.dims[d].input;
    shape.out[d] = geometry.dims[d].output;
    shape.window[d] = geometry.dims[d].window;
    shape.stride[d] = geometry.dims[d].stride;
    shape.pad[d] = geometry.dims[d].pad_before;
  }
  return shape;
}

namespace {

using Ints = std::vector<int64_t>;

bool AsXla(const OpInstance& instance) { return instance.attrs.GetOr<bool>(kPoolsAsXla, false); }

absl::StatusOr<std::unique_ptr<Kernel>> MakePool(DeviceServices& services, const OpInstance& instance) {
  MR_ASSIGN_OR_RETURN(const Type type, FloatingTypeOf(instance, instance.outputs[0].dtype));
  const PoolRule rule = absl::StrContains(instance.op, "Avg") ? PoolRule::kAverage : AsXla(instance) ? PoolRule::kMaximumAsXla : PoolRule::kMaximum;
  MR_ASSIGN_OR_RETURN(const PoolShape shape,
                      PoolOf(instance, instance.inputs[0].shape, instance.op == "MaxPoolV2" ? 1 : -1));
  return MakeLaunch(services, [=](const Queue& queue, const KernelContext& context) {
    LaunchPool(queue, type, rule, shape, context.inputs[0], context.outputs[0]);
  });
}

// MaxPoolGrad(x, y, dy), AvgPoolGrad(shape of x, dy).
absl::StatusOr<std::unique_ptr<Kernel>> MakePoolGrad(DeviceServices& services, const OpInstance& instance) {
  MR_ASSIGN_OR_RETURN(const Type type, FloatingTypeOf(instance, instance.outputs[0].dtype));
  const bool every = absl::StrContains(instance.op, "3D") && !AsXla(instance);
  const PoolGradRule rule = absl::StrContains(instance.op, "Avg") ? PoolGradRule::kAverage
                            : every                               ? PoolGradRule::kEveryMaximum
                                                                  : PoolGradRule::kFirstMaximum;
  const bool average = rule == PoolGradRule::kAverage;
  MR_ASSIGN_OR_RETURN(const PoolShape shape,
                      PoolOf(instance, instance.outputs[0].shape, instance.op == "MaxPoolGradV2" ? 3 : -1));
  return MakeLaunch(
      services,
      [=](const Queue& queue, const KernelContext& context) {
        LaunchPoolGrad(queue, type, rule, shape, average ? nullptr : context.inputs[0], average ? nullptr : context.inputs[1],
                       context.inputs[average ? 1 : 2], context.outputs[0], context.scratch);
      },
      PoolGradScratchBytes(rule, shape));
}

absl::StatusOr<std::unique_ptr<Kernel>> MakePoolGradGrad(DeviceServices& services, const OpInstance& instance) {
  MR_ASSIGN_OR_RETURN(const Type type, FloatingTypeOf(instance, instance.outputs[0].dtype));
  MR_ASSIGN_OR_RETURN(const PoolShape shape,
                      PoolOf(instance, instance.inputs[0].shape, instance.op == "MaxPoolGradGradV2" ? 3 : -1));
  return MakeLaunch(services, [=](const Queue& queue, const KernelContext& context) {
    LaunchPoolGradGrad(queue, type, shape, context.inputs[0], context.inputs[2], context.outputs[0]);
  });
}

}  // namespace

void RegisterPools(KernelRegistry& registry, DeviceServices& services) {
  for (const char* op : {"MaxPool", "MaxPoolV2", "MaxPool3D", "AvgPool", "AvgPool3D"}) Add(registry, services, op, MakePool);
  for (const char* op : {"MaxPoolGrad", "MaxPoolGradV2", "MaxPool3DGrad", "AvgPoolGrad", "AvgPool3DGrad"}) {
    Add(registry, services, op, MakePoolGrad);
  }
  for (const char* op : {"MaxPoolGradGrad", "MaxPoolGradGradV2", "MaxPool3DGradGrad"}) {
    Add(registry, services, op, MakePoolGradGrad);
  }
}

}  // namespace millrace::cuda
