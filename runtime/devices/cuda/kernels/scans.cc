// Running totals (of exponentials, too), positions of maxima, the greatest of rows, places in rows that are sorted.
#include <vector>

#include "cuda/kernels/common.h"
#include "cuda/kernels/register.h"
#include "cuda/launch/scan.h"
#include "cuda/launch/top_k.h"

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

KernelOr MakeComplexScan(DeviceServices& services, const ScanRule& rule, Type type, const AxisShape& shape) {
  return MakeLaunch(
      services,
      [=](const Queue& queue, const KernelContext& context) {
        LaunchComplexScan(queue, rule, type, shape, context.inputs[0], context.outputs[0], context.scratch);
      },
      ComplexScanScratchBytes(shape));
}

KernelOr MakeScan(DeviceServices& services, const OpInstance& instance) {
  const DataType dtype = instance.inputs[0].dtype;
  ScanRule rule;
  rule.op = instance.op == "Cumprod" ? ScanOp::kProduct : instance.op == "Cumsum" ? ScanOp::kSum : ScanOp::kLogSumExp;
  rule.exclusive = instance.attrs.GetOr<bool>("exclusive", false);
  rule.reverse = instance.attrs.GetOr<bool>("reverse", false);
  MR_ASSIGN_OR_RETURN(const AxisShape shape, AxisOf(instance));
  if (rule.op != ScanOp::kLogSumExp && IsComplex(dtype)) {
    return MakeComplexScan(services, rule, dtype == DataType::kComplex64 ? Type::kFloat : Type::kDouble, shape);
  }
  MR_ASSIGN_OR_RETURN(const Type type, rule.op == ScanOp::kLogSumExp ? FloatingTypeOf(instance, dtype) : NumericTypeOf(instance, dtype));
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
  const DataType index = instance.outputs[1].dtype;
  if (index != DataType::kInt32 && index != DataType::kInt64) return Refused(instance, "positions of this type");
  TopShape shape;
  shape.wide = index == DataType::kInt64;
  shape.sorted = instance.attrs.GetOr<bool>("sorted", true);
  shape.columns = in.dim(in.rank() - 1);
  shape.k = out.dim(out.rank() - 1);
  shape.rows = shape.k == 0 ? 0 : out.num_elements() / shape.k;
  constexpr int64_t kMostRanks = 256;
  if (shape.k > kMostRanks && (TopKHeaps(shape) || !TopKSorts(type, shape.columns, shape.k))) return Refused(instance, "so many ranks");
  return MakeLaunch(
      services,
      [=](const Queue& queue, const KernelContext& context) {
        LaunchTopK(queue, type, shape, context.inputs[0], context.outputs[0], context.outputs[1], context.scratch);
      },
      TopKScratchBytes(type, shape));
}

// (sorted [rows, n], values [rows, m])
KernelOr MakeSortedBound(DeviceServices& services, const OpInstance& instance) {
  MR_ASSIGN_OR_RETURN(const Type type, NumericTypeOf(instance, instance.inputs[0].dtype));
  const DataType places = instance.outputs[0].dtype;
  if (places != DataType::kInt32 && places != DataType::kInt64) return Refused(instance, "places of this type");
  const Shape &sorted = instance.inputs[0].shape, &values = instance.inputs[1].shape;
  const SortedShape shape = {instance.op == "UpperBound", places == DataType::kInt64, values.dim(0), sorted.dim(1), values.dim(1)};
  return MakeLaunch(services, [=](const Queue& queue, const KernelContext& context) {
    LaunchSortedBound(queue, type, shape, context.inputs[0], context.inputs[1], context.outputs[0]);
  });
}

KernelOr MakeBucketize(DeviceServices& services, const OpInstance& instance) {
  MR_ASSIGN_OR_RETURN(const Type type, NumericTypeOf(instance, instance.inputs[0].dtype));
  const auto boundaries = instance.attrs.GetOr<std::vector<float>>("boundaries", {});
  const int64_t count = static_cast<int64_t>(boundaries.size()), n = instance.outputs[0].shape.num_elements();
  if (count > kMostBuckets) return Refused(instance, "so many boundaries");
  return MakeLaunch(services, [=](const Queue& queue, const KernelContext& context) {
    LaunchBucketize(queue, type, boundaries.data(), count, context.inputs[0], n, context.output<int32_t>(0));
  });
}

}  // namespace

void RegisterScans(KernelRegistry& registry, DeviceServices& services) {
  for (const char* op : {"Cumsum", "Cumprod", "CumulativeLogsumexp"}) Add(registry, services, op, MakeScan);
  for (const char* op : {"ArgMax", "ArgMin"}) Add(registry, services, op, MakeArg);
  for (const char* op : {"TopK", "TopKV2"}) Add(registry, services, op, MakeTopK);
  for (const char* op : {"LowerBound", "UpperBound"}) Add(registry, services, op, MakeSortedBound);
  Add(registry, services, "Bucketize", MakeBucketize);
}

}  // namespace millrace::cuda
