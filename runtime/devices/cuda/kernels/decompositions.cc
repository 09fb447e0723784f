// Decompositions, determinants and inverses of matrices, and solutions of linear equations, each matrix of a batch on its own. In
// double, as on the host; matrices that take too many launches are the host's.
#include "cuda/launch/decomposition.h"

#include "cuda/kernels/common.h"
#include "cuda/kernels/register.h"

namespace millrace::cuda {
namespace {

using KernelOr = absl::StatusOr<std::unique_ptr<Kernel>>;

// What a node's kernel knows of [..., rows, columns].
struct Batch {
  explicit Batch(const Shape& shape) : rows(shape.dim(shape.rank() - 2)), columns(shape.dim(shape.rank() - 1)) {
    for (int d = 0; d < shape.rank() - 2; ++d) dims.AddDim(shape.dim(d));
    count = dims.num_elements();
  }
  int64_t elements() const { return count * rows * columns; }
  Shape dims;
  int64_t count, rows, columns;
};

absl::StatusOr<Type> RealTypeOf(const OpInstance& instance) {
  constexpr int64_t kMostRows = 2048;
  const DataType dtype = instance.inputs[0].dtype;
  if (dtype != DataType::kFloat && dtype != DataType::kDouble) {
    return Refused(instance, absl::StrCat("element type ", std::string(DataTypeName(dtype))));
  }
  if (Batch(instance.inputs[0].shape).rows > kMostRows) return Refused(instance, absl::StrCat("more than ", kMostRows, " rows"));
  return TypeOf(instance, dtype);
}

int64_t SquaresBytes(const Batch& batch) {
  return batch.elements() * sizeof(double) + batch.count * (batch.rows + 1) * static_cast<int64_t>(sizeof(int32_t));
}

// In scratch memory from `at` on.
Squares SquaresAt(char* at, const Batch& batch) {
  Squares squares{.count = batch.count, .n = batch.rows};
  squares.values = reinterpret_cast<double*>(at);
  squares.rows = reinterpret_cast<int32_t*>(squares.values + batch.elements());
  squares.state = squares.rows + batch.count * batch.rows;
  return squares;
}

// Solutions are computed in the output where that is of doubles, else in scratch memory.
int64_t SidesBytes(const Batch& batch, Type type) {
  return type == Type::kDouble ? 0 : batch.elements() * static_cast<int64_t>(sizeof(double));
}
Sides SidesAt(char* at, const Batch& batch, Type type, void* output) {
  return {batch.count, batch.rows, batch.columns, type == Type::kDouble ? static_cast<double*>(output) : reinterpret_cast<double*>(at)};
}

// `run(queue, squares, context)` of the matrices of input 0, in scratch memory.
template <typename Fn>
std::unique_ptr<Kernel> WithSquares(DeviceServices& services, const OpInstance& instance, Type type, Fn run) {
  const Batch batch(instance.inputs[0].shape);
  return MakeLaunch(
      services,
      [=](const Queue& queue, const KernelContext& context) {
        const Squares squares = SquaresAt(static_cast<char*>(context.scratch), batch);
        LaunchLoadSquares(queue, type, false, context.inputs[0], squares);
        run(queue, squares, context);
      },
      SquaresBytes(batch));
}

KernelOr MakeLu(DeviceServices& services, const OpInstance& instance) {
  MR_ASSIGN_OR_RETURN(const Type type, RealTypeOf(instance));
  const bool wide = instance.outputs[1].dtype == DataType::kInt64;
  return WithSquares(services, instance, type, [=](const Queue& queue, const Squares& squares, const KernelContext& context) {
    LaunchLu(queue, squares, true);
    LaunchStoreLu(queue, type, wide, squares, context.outputs[0], context.outputs[1]);
  });
}

KernelOr MakeDeterminant(DeviceServices& services, const OpInstance& instance) {
  MR_ASSIGN_OR_RETURN(const Type type, RealTypeOf(instance));
  return WithSquares(services, instance, type, [=](const Queue& queue, const Squares& squares, const KernelContext& context) {
    LaunchLu(queue, squares, false);
    LaunchDeterminant(queue, type, squares, context.outputs[0]);
  });
}

KernelOr MakeLogDeterminant(DeviceServices& services, const OpInstance& instance) {
  MR_ASSIGN_OR_RETURN(const Type type, RealTypeOf(instance));
  return WithSquares(services, instance, type, [=](const Queue& queue, const Squares& squares, const KernelContext& context) {
    LaunchLu(queue, squares, false);
    LaunchLogDeterminant(queue, type, squares, context.outputs[0], context.outputs[1]);
  });
}

KernelOr MakeCholesky(DeviceServices& services, const OpInstance& instance) {
  MR_ASSIGN_OR_RETURN(const Type type, RealTypeOf(instance));
  return WithSquares(services, instance, type, [=](const Queue& queue, const Squares& squares, const KernelContext& context) {
    LaunchCholesky(queue, squares);
    LaunchStoreCholesky(queue, type, squares, context.outputs[0]);
  });
}

// MatrixSolve, or MatrixInverse: of the identity. Of an empty result the host does not ask whether there is an inverse.
KernelOr MakeSolve(DeviceServices& services, const OpInstance& instance) {
  MR_ASSIGN_OR_RETURN(const Type type, RealTypeOf(instance));
  const bool adjoint = instance.attrs.GetOr<bool>("adjoint", false), inverse = instance.op == "MatrixInverse";
  const Batch batch(instance.inputs[0].shape), result(instance.outputs[0].shape);
  MR_ASSIGN_OR_RETURN(const Broadcast numbers, BroadcastOf(instance, result.dims, {batch.dims, result.dims}));
  return MakeLaunch(
      services,
      [=](const Queue& queue, const KernelContext& context) {
        if (result.elements() == 0) return;
        char* const scratch = static_cast<char*>(context.scratch);
        const Sides sides = SidesAt(scratch, result, type, context.outputs[0]);
        const Squares squares = SquaresAt(scratch + SidesBytes(result, type), batch);
        LaunchLoadSquares(queue, type, adjoint, context.inputs[0], squares);
        LaunchLu(queue, squares, true);
        LaunchLoadSides(queue, type, numbers, inverse ? nullptr : context.inputs[1], squares.rows, sides);
        Triangles triangles{.values = squares.values, .row_stride = 1, .column_stride = squares.n, .lower = true, .unit = true, .batch = numbers};
        LaunchSolve(queue, triangles, sides);
        triangles.lower = triangles.unit = false;
        LaunchSolve(queue, triangles, sides);
        LaunchStoreSides(queue, type, sides, context.outputs[0]);
      },
      SidesBytes(result, type) + SquaresBytes(batch));
}

KernelOr MakeTriangularSolve(DeviceServices& services, const OpInstance& instance) {
  MR_ASSIGN_OR_RETURN(const Type type, RealTypeOf(instance));
  const Batch given(instance.inputs[0].shape), sides_given(instance.inputs[1].shape), result(instance.outputs[0].shape);
  const bool adjoint = instance.attrs.GetOr<bool>("adjoint", false);
  Triangles triangles{.type = type, .row_stride = given.rows, .column_stride = 1};
  triangles.lower = instance.attrs.GetOr<bool>("lower", true) != adjoint;
  if (adjoint) std::swap(triangles.row_stride, triangles.column_stride);
  MR_ASSIGN_OR_RETURN(triangles.batch, BroadcastOf(instance, result.dims, {given.dims, sides_given.dims}));
  return MakeLaunch(
      services,
      [=](const Queue& queue, const KernelContext& context) {
        Triangles read = triangles;
        read.values = context.inputs[0];
        const Sides sides = SidesAt(static_cast<char*>(context.scratch), result, type, context.outputs[0]);
        LaunchLoadSides(queue, type, triangles.batch, context.inputs[1], nullptr, sides);
        LaunchSolve(queue, read, sides);
        LaunchStoreSides(queue, type, sides, context.outputs[0]);
      },
      SidesBytes(result, type));
}

}  // namespace

void RegisterDecompositions(KernelRegistry& registry, DeviceServices& services) {
  Add(registry, services, "Lu", MakeLu);
  Add(registry, services, "Cholesky", MakeCholesky);
  Add(registry, services, "MatrixDeterminant", MakeDeterminant);
  Add(registry, services, "LogMatrixDeterminant", MakeLogDeterminant);
  for (const char* op : {"MatrixInverse", "MatrixSolve"}) Add(registry, services, op, MakeSolve);
  Add(registry, services, "MatrixTriangularSolve", MakeTriangularSolve);
}

}  // namespace millrace::cuda
