#include <map>
#include <vector>

#include "cuda/kernels/common.h"
#include "cuda/kernels/complex.h"
#include "cuda/kernels/reduce_shape.h"
#include "cuda/kernels/register.h"
#include "cuda/launch/reduce.h"

namespace millrace::cuda {
namespace {

// Adds a dimension, merged with the one before it where they are one run. False: there are kMaxDims already.
bool AddDim(int64_t dim, int64_t stride, int& rank, int64_t* dims, int64_t* strides) {
  if (dim == 1) return true;
  if (rank > 0 && strides[rank - 1] == dim * stride) {
    dims[rank - 1] *= dim;
    strides[rank - 1] = stride;
    return true;
  }
  if (rank == kMaxDims) return false;
  dims[rank] = dim;
  strides[rank] = stride;
  ++rank;
  return true;
}

}  // namespace

absl::StatusOr<std::vector<bool>> ReducedBy(const OpInstance& instance) {
  const Tensor* const axes = ValueOf(instance, 1);
  if (axes == nullptr) return Refused(instance, "dimensions that are not known when planning");
  const int rank = instance.inputs[0].shape.rank();
  std::vector<bool> reduced(rank, false);
  for (int64_t i = 0; i < axes->num_elements(); ++i) {
    const int64_t axis = axes->IntAt(i) < 0 ? axes->IntAt(i) + rank : axes->IntAt(i);
    if (axis < 0 || axis >= rank) return Refused(instance, "a dimension that is not there");
    reduced[axis] = true;
  }
  return reduced;
}

absl::StatusOr<ReduceShape> ReduceShapeOf(const OpInstance& instance, const Shape& shape, const std::vector<bool>& reduced) {
  ReduceShape result;
  bool fits = true;
  std::vector<int64_t> strides(shape.rank(), 1);
  for (int d = shape.rank() - 2; d >= 0; --d) strides[d] = strides[d + 1] * shape.dim(d + 1);
  for (int d = 0; d < shape.rank(); ++d) {
    if (reduced[d]) {
      result.terms *= shape.dim(d);
      fits &= AddDim(shape.dim(d), strides[d], result.term_rank, result.term_dims, result.term_strides);
    } else {
      result.rows *= shape.dim(d);
      fits &= AddDim(shape.dim(d), strides[d], result.row_rank, result.row_dims, result.row_strides);
    }
  }
  if (!fits) return Refused(instance, absl::StrCat("more than ", kMaxDims, " dimensions"));
  result.columns = result.row_rank > 0 && result.row_strides[result.row_rank - 1] == 1;
  return result;
}

namespace {

absl::StatusOr<std::unique_ptr<Kernel>> MakeOf(DeviceServices& services, const OpInstance& instance, ReduceOp op,
                                               const std::vector<bool>& reduced) {
  MR_ASSIGN_OR_RETURN(const Type type, TypeOf(instance, instance.inputs[0].dtype));
  const bool logical = op == ReduceOp::kAll || op == ReduceOp::kAny;
  if (logical != (type == Type::kBool) || type == Type::kUint8) return Refused(instance, "this element type");
  MR_ASSIGN_OR_RETURN(const ReduceShape shape, ReduceShapeOf(instance, instance.inputs[0].shape, reduced));
  return MakeLaunch(
      services,
      [=](const Queue& queue, const KernelContext& context) {
        LaunchReduce(queue, op, type, shape, context.inputs[0], context.outputs[0], context.scratch);
      },
      ReduceScratchBytes(shape.rows, shape.terms, shape.columns));
}

absl::StatusOr<std::unique_ptr<Kernel>> MakeReduction(DeviceServices& services, const OpInstance& instance) {
  if (IsComplex(instance.inputs[0].dtype)) return MakeComplexReduction(services, instance);
  static const auto* const ops = new std::map<std::string, ReduceOp>{
      {"Sum", ReduceOp::kSum}, {"Mean", ReduceOp::kMean}, {"Prod", ReduceOp::kProd}, {"Max", ReduceOp::kMax},
      {"Min", ReduceOp::kMin}, {"All", ReduceOp::kAll},   {"Any", ReduceOp::kAny},   {"EuclideanNorm", ReduceOp::kEuclideanNorm}};
  MR_ASSIGN_OR_RETURN(const std::vector<bool> reduced, ReducedBy(instance));
  const ReduceOp op = ops->at(instance.op);
  const bool integer = IsInteger(instance.inputs[0].dtype);
  if (integer && (op == ReduceOp::kMean || op == ReduceOp::kEuclideanNorm)) return Refused(instance, "integers");
  return MakeOf(services, instance, op, reduced);
}

absl::StatusOr<std::unique_ptr<Kernel>> MakeL2Loss(DeviceServices& services, const OpInstance& instance) {
  MR_RETURN_IF_ERROR(FloatingTypeOf(instance, instance.inputs[0].dtype).status());
  return MakeOf(services, instance, ReduceOp::kL2Loss, std::vector<bool>(instance.inputs[0].shape.rank(), true));
}

absl::StatusOr<std::unique_ptr<Kernel>> MakeBiasAddGrad(DeviceServices& services, const OpInstance& instance) {
  MR_RETURN_IF_ERROR(NumericTypeOf(instance, instance.inputs[0].dtype).status());
  const bool first = instance.attrs.GetOr<std::string>("data_format", "NHWC") != "NHWC";
  std::vector<bool> reduced(instance.inputs[0].shape.rank(), true);
  reduced[first ? 1 : reduced.size() - 1] = false;
  return MakeOf(services, instance, ReduceOp::kSum, reduced);
}

absl::StatusOr<std::unique_ptr<Kernel>> MakeSumColumns(DeviceServices& services, const OpInstance& instance) {
  MR_ASSIGN_OR_RETURN(const Type type, FloatingTypeOf(instance, instance.outputs[0].dtype));
  const int count = static_cast<int>(instance.inputs.size());
  if (count > kMostSummed) return Refused(instance, absl::StrCat("more than ", kMostSummed, " inputs"));
  const int64_t columns = instance.attrs.GetOr<int64_t>("columns", 1), divisor = instance.attrs.GetOr<int64_t>("divisor", 1);
  const int64_t rows = instance.inputs[0].shape.num_elements() / columns;
  return MakeLaunch(
      services,
      [=](const Queue& queue, const KernelContext& context) {
        LaunchSumColumns(queue, type, context.inputs, count, rows, columns, divisor, context.outputs[0], context.scratch);
      },
      ReduceScratchBytes(columns, count * rows, columns > 1));
}

absl::StatusOr<std::unique_ptr<Kernel>> MakeSoftmax(DeviceServices& services, const OpInstance& instance) {
  MR_ASSIGN_OR_RETURN(const Type type, FloatingTypeOf(instance, instance.inputs[0].dtype));
  const Shape& shape = instance.inputs[0].shape;
  const int64_t columns = shape.dim(shape.rank() - 1), rows = columns == 0 ? 0 : shape.num_elements() / columns;
  return MakeLaunch(services, [=, log = instance.op == "LogSoftmax"](const Queue& queue, const KernelContext& context) {
    LaunchSoftmax(queue, type, log, rows, columns, context.inputs[0], context.outputs[0]);
  });
}

absl::StatusOr<std::unique_ptr<Kernel>> MakeCrossEntropy(DeviceServices& services, const OpInstance& instance) {
  MR_ASSIGN_OR_RETURN(const Type type, FloatingTypeOf(instance, instance.inputs[0].dtype));
  const bool index_labels = instance.op == "SparseSoftmaxCrossEntropyWithLogits";
  if (instance.outputs[1].shape != instance.inputs[0].shape ||
      (!index_labels && instance.inputs[1].shape != instance.inputs[0].shape)) {
    return Refused(instance, "operands that broadcast");
  }
  const int64_t rows = instance.inputs[0].shape.dim(0), columns = instance.inputs[0].shape.dim(1);
  const bool wide = instance.inputs[1].dtype == DataType::kInt64;
  return MakeLaunch(services, [=](const Queue& queue, const KernelContext& context) {
    LaunchCrossEntropy(queue, type, index_labels, wide, rows, columns, context.inputs[0], context.inputs[1],
                       context.outputs[0], context.outputs[1]);
  });
}

}  // namespace

void RegisterReductions(KernelRegistry& registry, DeviceServices& services) {
  for (const char* op : {"Sum", "Mean", "Prod", "Max", "Min", "All", "Any", "EuclideanNorm"}) {
    Add(registry, services, op, MakeReduction);
  }
  Add(registry, services, "L2Loss", MakeL2Loss);
  Add(registry, services, "BiasAddGrad", MakeBiasAddGrad);
  Add(registry, services, "_SumColumns", MakeSumColumns);
  for (const char* op : {"Softmax", "LogSoftmax"}) Add(registry, services, op, MakeSoftmax);
  for (const char* op : {"SoftmaxCrossEntropyWithLogits", "SparseSoftmaxCrossEntropyWithLogits"}) {
    Add(registry, services, op, MakeCrossEntropy);
  }
}

}  // namespace millrace::cuda
