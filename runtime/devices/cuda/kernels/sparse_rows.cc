// Gradients of sparse segment reductions, sparse matrices times dense ones, counts of numbers.

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "cuda/kernels/common.h"
#include "cuda/kernels/register.h"
#include "cuda/kernels/rows.h"
#include "cuda/launch/sparse_rows.h"

namespace millrace::cuda {
namespace {

using KernelOr = absl::StatusOr<std::unique_ptr<Kernel>>;

constexpr int64_t kMostRows = INT32_MAX - 1;

KernelOr MakeSparseGrad(DeviceServices& services, const OpInstance& instance) {
  MR_ASSIGN_OR_RETURN(const Type type, FloatingTypeOf(instance, instance.outputs[0].dtype));
  MR_ASSIGN_OR_RETURN(const Rows rows, RowsOf(instance, instance.outputs[0].shape, 1, /*nd=*/false));
  MR_ASSIGN_OR_RETURN(const Rows segments, RowsOf(instance, instance.inputs[0].shape, 2, /*nd=*/false));
  if (rows.rows > kMostRows || segments.rows > kMostRows) return Refused(instance, "so many rows");
  SparseGrad shape;
  shape.op = absl::StrContains(instance.op, "Mean")    ? SegmentOp::kMean
             : absl::StrContains(instance.op, "SqrtN") ? SegmentOp::kSqrtN
                                                       : SegmentOp::kSum;
  shape.indices = rows.index;
  shape.ids = segments.index;
  shape.inner = rows.inner;
  return MakeLaunch(
      services,
      [=](const Queue& queue, const KernelContext& context) {
        LaunchSparseGrad(queue, type, shape, context.inputs[1], context.inputs[2], context.inputs[0], context.outputs[0], context.scratch);
      },
      SparseGradScratchBytes(shape));
}

// (indices [n, 2], values [n], the dimensions of a, b)
KernelOr MakeSparseProduct(DeviceServices& services, const OpInstance& instance) {
  MR_ASSIGN_OR_RETURN(const Type type, NumericTypeOf(instance, instance.outputs[0].dtype));
  MR_ASSIGN_OR_RETURN(const int bytes, ElementBytes(instance, instance.outputs[0].dtype));
  if (instance.outputs[0].dtype == DataType::kBfloat16) return Refused(instance, "bfloat16, which the CPU does not add up as floats");
  const Tensor* dims = ValueOf(instance, 2);
  if (dims == nullptr || dims->num_elements() != 2) return Refused(instance, "dimensions that are not known when planning");
  const DataType dtype = instance.inputs[0].dtype;
  const bool known = ValueOf(instance, 0) != nullptr || ValueOf(instance, 1) != nullptr || ValueOf(instance, 3) != nullptr;
  if ((dtype != DataType::kInt32 && dtype != DataType::kInt64) || known) return Refused(instance, "these indices or values");
  const Shape& out = instance.outputs[0].shape;
  SparseProduct shape;
  shape.adjoint_a = instance.attrs.GetOr<bool>("adjoint_a", false);
  shape.adjoint_b = instance.attrs.GetOr<bool>("adjoint_b", false);
  shape.rows = out.dim(0);
  shape.columns = out.dim(1);
  shape.terms = dims->IntAt(shape.adjoint_a ? 0 : 1);
  shape.places.wide = dtype == DataType::kInt64;
  shape.places.count = instance.inputs[1].shape.num_elements();
  shape.places.depth = 2;
  for (int d = 0; d < 2; ++d) {
    shape.places.dims[d] = dims->IntAt(d);
    shape.places.strides[d] = d == (shape.adjoint_a ? 1 : 0) ? 1 : 0;
  }
  if (shape.rows > kMostRows || shape.places.count > INT32_MAX) return Refused(instance, "so many rows or values");
  return MakeLaunch(
      services,
      [=](const Queue& queue, const KernelContext& context) {
        LaunchSparseProduct(queue, type, bytes, shape, context.inputs[0], context.inputs[1], context.inputs[3], context.outputs[0],
                            context.scratch);
      },
      SparseProductScratchBytes(bytes, shape));
}

// (numbers [n] or, of DenseBincount, [rows, n], how many bins, weights like the numbers or none)
KernelOr MakeCount(DeviceServices& services, const OpInstance& instance) {
  MR_ASSIGN_OR_RETURN(const Type type, NumericTypeOf(instance, instance.outputs[0].dtype));
  const Shape &in = instance.inputs[0].shape, &out = instance.outputs[0].shape, &weights = instance.inputs[2].shape;
  const DataType dtype = instance.inputs[0].dtype;
  if (dtype != DataType::kInt32 && dtype != DataType::kInt64) return Refused(instance, "numbers of this type");
  for (size_t i : {0, 2}) {
    if (ValueOf(instance, i) != nullptr) return Refused(instance, "numbers or weights that are on the host");
  }
  const bool weighted = weights.num_elements() > 0, by_rows = instance.op == "DenseBincount" && in.rank() == 2;
  if (weighted && weights.num_elements() != in.num_elements()) return Refused(instance, "these weights");
  CountShape shape;
  shape.wide = dtype == DataType::kInt64;
  shape.rows = by_rows ? in.dim(0) : 1;
  shape.count = by_rows ? in.dim(1) : in.num_elements();
  shape.size = out.dim(out.rank() - 1);
  shape.binary = instance.attrs.GetOr<bool>("binary_output", false);
  if (in.num_elements() > INT32_MAX || out.num_elements() > kMostRows) return Refused(instance, "so many numbers or bins");
  return MakeLaunch(
      services,
      [=](const Queue& queue, const KernelContext& context) {
        LaunchCount(queue, type, shape, context.inputs[0], weighted ? context.inputs[2] : nullptr, context.outputs[0], context.scratch);
      },
      CountScratchBytes(shape));
}

}  // namespace

void RegisterSparseRows(KernelRegistry& registry, DeviceServices& services) {
  for (const char* name : {"Sum", "Mean", "SqrtN"}) Add(registry, services, absl::StrCat("SparseSegment", name, "Grad"), MakeSparseGrad);
  Add(registry, services, "SparseTensorDenseMatMul", MakeSparseProduct);
  for (const char* op : {"Bincount", "DenseBincount"}) Add(registry, services, op, MakeCount);
}

}  // namespace millrace::cuda
