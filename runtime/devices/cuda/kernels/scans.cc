// Running totals, positions of maxima, the greatest of rows.
#include <optional>

#include "cuda/kernels/common.h"
#include "cuda/kernels/register.h"
#include "cuda/launch/scan.h"

namespace millrace::cuda {
namespace {

using KernelOr = absl::StatusOr<std::unique_ptr<Kernel>>;

absl::StatusOr<AxisShape> AxisOf(const OpInstance& instance) {
  const Tensor* value = ValueOf(instance, 1);
  if (value == nullptr) return Refused(instance, "an axis that is not known when planning");
  const Shape& shape = instance.inputs[0].shape;
  const int64_t axis = value->IntAt(0) < 0 ? value->IntAt(0) + shape.rank() : value->IntAt(0);
  AxisShape result;
  for (int d = 0; d < shape.rank(); ++d) {
    (d < axis ? result.outer : d == axis ? result.length : result.inner) *= shape.dim(d);
  }
  return result;
}

KernelOr MakeScan(DeviceServices& services, const OpInstance& instance) {
  MR_ASSIGN_OR_RETURN(const Type type, NumericTypeOf(instance, instance.inputs[0].dtype));
  MR_ASSIGN_OR_RETURN(const AxisShape shape, AxisOf(instance));
  const ScanRule rule = {instance.op == "Cumprod", instance.attrs.GetOr<bool>("exclusive", false),
                         instance.attrs.GetOr<bool>("reverse", false)};
  return MakeLaunch(
      services,
      [=](const Queue& queue, const KernelContext& context) {
        LaunchScan(queue, rule, type, shape, context.inputs[0], context.outputs[0], context.scratch);
      },
      ScanScratchBytes(shape));
}

KernelOr MakeArg(DeviceServices& services, const OpInstance& instance) {
  MR_ASSIGN_OR_RETURN(const Type type, TypeOf(instance, instance.inputs[0].dtype));
  MR_ASSIGN_OR_RETURN(const AxisShape shape, AxisOf(instance));
  const DataType index = instance.outputs[0].dtype;
  if (index != DataType::kInt32 && index != DataType::kInt64) return Refused(instance, "positions of this type");
  const bool wide = index == DataType::kInt64, smallest = instance.op == "ArgMin";
  return MakeLaunch(
      services,
      [=](const Queue& queue, const KernelContext& context) {
        LaunchArgMax(queue, smallest, type, wide, shape, context.inputs[0], context.outputs[0], context.scratch);
      },
      ArgScratchBytes(shape));
}

KernelOr MakeTopK(DeviceServices& services, const OpInstance& instance) {
  MR_ASSIGN_OR_RETURN(const Type type, NumericTypeOf(instance, instance.inputs[0].dtype));
  const Shape &in = instance.inputs[0].shape, &out = instance.outputs[0].shape;
  const int64_t columns = in.dim(in.rank() - 1), k = out.dim(out.rank() - 1);
  const DataType index = instance.outputs[1].dtype;
  constexpr int64_t kMostRanks = 256;
  if (k > kMostRanks && !TopKSorts(type, columns)) return Refused(instance, "so many ranks");
  if (index != DataType::kInt32 && index != DataType::kInt64) return Refused(instance, "positions of this type");
  const int64_t rows = k == 0 ? 0 : out.num_elements() / k;
  const bool wide = index == DataType::kInt64;
  return MakeLaunch(
      services,
      [=](const Queue& queue, const KernelContext& context) {
        LaunchTopK(queue, type, wide, rows, columns, k, context.inputs[0], context.outputs[0], context.outputs[1],
                   context.scratch);
      },
      TopKScratchBytes(rows, columns));
}

}  // namespace

void RegisterScans(KernelRegistry& registry, DeviceServices& services) {
  for (const char* op : {"Cumsum", "Cumprod"}) Add(registry, services, op, MakeScan);
  for (const char* op : {"ArgMax", "ArgMin"}) Add(registry, services, op, MakeArg);
  for (const char* op : {"TopK", "TopKV2"}) Add(registry, services, op, MakeTopK);
}

}  // namespace millrace::cuda
