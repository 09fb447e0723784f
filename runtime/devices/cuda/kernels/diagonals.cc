// Diagonals of matrices and tensors: MatrixDiag, MatrixDiagPart, MatrixSetDiag, MatrixBandPart, Diag and DiagPart.
#include <cstring>
#include <string>

#include "absl/strings/match.h"
#include "cuda/kernels/common.h"
#include "cuda/kernels/register.h"
#include "cuda/launch/rearrange.h"
#include "graph/shape_math.h"

namespace millrace::cuda {
namespace {

using KernelOr = absl::StatusOr<std::unique_ptr<Kernel>>;

DiagonalShape MatricesOf(const Shape& matrix) {
  DiagonalShape shape;
  for (int d = 0; d + 2 < matrix.rank(); ++d) shape.batch *= matrix.dim(d);
  shape.rows = matrix.dim(matrix.rank() - 2);
  shape.columns = matrix.dim(matrix.rank() - 1);
  return shape;
}

// The main diagonal, or those that input `k` names, if the op has it.
absl::StatusOr<DiagonalShape> DiagonalsOf(const OpInstance& instance, const Shape& matrix, size_t k) {
  DiagonalShape shape = MatricesOf(matrix);
  if (k < instance.inputs.size()) {
    const Tensor* value = ValueOf(instance, k);
    if (value == nullptr || value->num_elements() == 0) return Refused(instance, "diagonals that are not known when planning");
    shape.lower = value->IntAt(0);
    shape.upper = value->IntAt(value->num_elements() - 1);
  }
  shape.length = DiagonalRange{shape.lower, shape.upper}.MaxLength(shape.rows, shape.columns);
  const bool third = absl::EndsWith(instance.op, "V3");
  const std::string align = instance.attrs.GetOr<std::string>("align", third ? "RIGHT_LEFT" : "LEFT_LEFT");
  shape.left_above = absl::StartsWith(align, "LEFT");
  shape.left_below = absl::EndsWith(align, "LEFT");
  return shape;
}

// The value of input `input`, if the op has it, which may be in the kernels' memory.
struct PaddingInput {
  DiagonalPadding constant;
  int on_device = -1;
  DiagonalPadding Get(const KernelContext& context) const {
    return on_device < 0 ? constant : DiagonalPadding{context.inputs[on_device], 0};
  }
};

PaddingInput PaddingOf(const OpInstance& instance, int input, int bytes) {
  PaddingInput padding;
  if (input >= static_cast<int>(instance.inputs.size())) return padding;
  if (const Tensor* value = ValueOf(instance, input); value != nullptr) {
    std::memcpy(&padding.constant.bits, value->data(), bytes);
  } else {
    padding.on_device = input;
  }
  return padding;
}

KernelOr MakeMatrixDiag(DeviceServices& services, const OpInstance& instance) {
  MR_ASSIGN_OR_RETURN(const int bytes, ElementBytes(instance, instance.outputs[0].dtype));
  MR_ASSIGN_OR_RETURN(DiagonalShape shape, DiagonalsOf(instance, instance.outputs[0].shape, 1));
  const Shape& in = instance.inputs[0].shape;
  shape.length = in.dim(in.rank() - 1);
  const PaddingInput padding = PaddingOf(instance, 4, bytes);
  return MakeLaunch(services, [=](const Queue& queue, const KernelContext& context) {
    LaunchMatrixDiag(queue, bytes, shape, padding.Get(context), context.inputs[0], context.outputs[0]);
  });
}

KernelOr MakeMatrixDiagPart(DeviceServices& services, const OpInstance& instance) {
  MR_ASSIGN_OR_RETURN(const int bytes, ElementBytes(instance, instance.outputs[0].dtype));
  MR_ASSIGN_OR_RETURN(const DiagonalShape shape, DiagonalsOf(instance, instance.inputs[0].shape, 1));
  const PaddingInput padding = PaddingOf(instance, 2, bytes);
  return MakeLaunch(services, [=](const Queue& queue, const KernelContext& context) {
    LaunchMatrixDiagPart(queue, bytes, shape, padding.Get(context), context.inputs[0], context.outputs[0]);
  });
}

KernelOr MakeMatrixSetDiag(DeviceServices& services, const OpInstance& instance) {
  MR_ASSIGN_OR_RETURN(const int bytes, ElementBytes(instance, instance.outputs[0].dtype));
  MR_ASSIGN_OR_RETURN(const DiagonalShape shape, DiagonalsOf(instance, instance.inputs[0].shape, 2));
  return MakeLaunch(services, [=](const Queue& queue, const KernelContext& context) {
    LaunchMatrixSetDiag(queue, bytes, shape, context.inputs[0], context.inputs[1], context.outputs[0]);
  });
}

KernelOr MakeMatrixBandPart(DeviceServices& services, const OpInstance& instance) {
  MR_ASSIGN_OR_RETURN(const int bytes, ElementBytes(instance, instance.outputs[0].dtype));
  const Tensor *below = ValueOf(instance, 1), *above = ValueOf(instance, 2);
  if (below == nullptr || above == nullptr) return Refused(instance, "a band that is not known when planning");
  DiagonalShape shape = MatricesOf(instance.inputs[0].shape);
  const int64_t rows_kept = below->IntAt(0), columns_kept = above->IntAt(0);
  if (rows_kept > shape.rows || columns_kept > shape.columns) return Refused(instance, "a band that is wider than the matrix");
  shape.lower = rows_kept < 0 ? -shape.rows : -rows_kept;
  shape.upper = columns_kept < 0 ? shape.columns : columns_kept;
  return MakeLaunch(services, [=](const Queue& queue, const KernelContext& context) {
    LaunchMatrixBandPart(queue, bytes, shape, context.inputs[0], context.outputs[0]);
  });
}

// A tensor of n elements against its diagonal matrix [n, n], shapes flattened.
DiagonalShape SquareOf(const Shape& diagonal) {
  DiagonalShape shape;
  shape.rows = shape.columns = shape.length = diagonal.num_elements();
  return shape;
}

KernelOr MakeDiag(DeviceServices& services, const OpInstance& instance) {
  MR_ASSIGN_OR_RETURN(const int bytes, ElementBytes(instance, instance.outputs[0].dtype));
  return MakeLaunch(services, [bytes, shape = SquareOf(instance.inputs[0].shape)](const Queue& queue, const KernelContext& context) {
    LaunchMatrixDiag(queue, bytes, shape, DiagonalPadding(), context.inputs[0], context.outputs[0]);
  });
}

KernelOr MakeDiagPart(DeviceServices& services, const OpInstance& instance) {
  MR_ASSIGN_OR_RETURN(const int bytes, ElementBytes(instance, instance.outputs[0].dtype));
  return MakeLaunch(services, [bytes, shape = SquareOf(instance.outputs[0].shape)](const Queue& queue, const KernelContext& context) {
    LaunchMatrixDiagPart(queue, bytes, shape, DiagonalPadding(), context.inputs[0], context.outputs[0]);
  });
}

}  // namespace

void RegisterDiagonals(KernelRegistry& registry, DeviceServices& services) {
  for (const char* op : {"MatrixDiag", "BatchMatrixDiag", "MatrixDiagV2", "MatrixDiagV3"}) Add(registry, services, op, MakeMatrixDiag);
  for (const char* op : {"MatrixDiagPart", "BatchMatrixDiagPart", "MatrixDiagPartV2", "MatrixDiagPartV3"}) {
    Add(registry, services, op, MakeMatrixDiagPart);
  }
  for (const char* op : {"MatrixSetDiag", "BatchMatrixSetDiag", "MatrixSetDiagV2", "MatrixSetDiagV3"}) {
    Add(registry, services, op, MakeMatrixSetDiag);
  }
  for (const char* op : {"MatrixBandPart", "BatchMatrixBandPart"}) Add(registry, services, op, MakeMatrixBandPart);
  Add(registry, services, "Diag", MakeDiag);
  Add(registry, services, "DiagPart", MakeDiagPart);
}

}  // namespace millrace::cuda
