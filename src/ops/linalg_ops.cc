// Decompositions and solutions of matrices, each matrix of a batch [..., rows, columns] on its own.
#include "absl/strings/str_cat.h"
#include "millrace/status.h"
#include "ops/register.h"
#include "ops/rules.h"

namespace millrace {
namespace {

// The batch dimensions, after which come `rows` and `columns` (left out when negative).
Shape BatchWith(const Shape& batch, int64_t rows, int64_t columns) {
  Shape out;
  for (int d = 0; d < batch.rank() - 2; ++d) out.AddDim(batch.dim(d));
  if (rows >= 0) out.AddDim(rows);
  if (columns >= 0) out.AddDim(columns);
  return out;
}

absl::Status ExpectMatrix(const InferenceContext& context, int input, bool square) {
  const Shape& shape = context.shape(input);
  if (!shape.fully_known()) {
    return context.Error(absl::StrCat("input ", input, " is ", shape.ToString(), ", expected a shape that is known"));
  }
  const int rank = shape.rank();
  if (rank < 2) return context.Error(absl::StrCat("Input tensor ", input, " must have rank >= 2, got ", shape.ToString()));
  if (square && shape.dim(rank - 1) != shape.dim(rank - 2)) {
    return context.Error(absl::StrCat("Input matrix must be square, got ", shape.ToString()));
  }
  return absl::OkStatus();
}

absl::Status SquareShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(1));
  MR_RETURN_IF_ERROR(ExpectMatrix(context, 0, true));
  return SameAsFirstInput(context);
}

// (factor, gradient of the factor) -> gradient of the matrix
absl::Status CholeskyGradShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(2));
  MR_RETURN_IF_ERROR(ExpectEqualTypes(context, {0, 1}));
  MR_RETURN_IF_ERROR(ExpectMatrix(context, 0, true));
  if (context.shape(0) != context.shape(1)) {
    return context.Error(absl::StrCat("Inputs (L and grad) must have the same shape, got ", context.shape(0).ToString(), " and ", context.shape(1).ToString()));
  }
  return SameAsFirstInput(context);
}

// A number for every matrix; LogMatrixDeterminant has its sign before it.
absl::Status DeterminantShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(1));
  MR_RETURN_IF_ERROR(ExpectMatrix(context, 0, true));
  const int outputs = context.op() == "LogMatrixDeterminant" ? 2 : 1;
  for (int i = 0; i < outputs; ++i) context.AddOutput(context.dtype(0), BatchWith(context.shape(0), -1, -1));
  return absl::OkStatus();
}

// (matrix [..., n, n], rhs [..., n, k]) -> [..., n, k]; MatrixTriangularSolve broadcasts the batches.
absl::Status SolveShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(2));
  MR_RETURN_IF_ERROR(ExpectEqualTypes(context, {0, 1}));
  MR_RETURN_IF_ERROR(ExpectMatrix(context, 0, true));
  MR_RETURN_IF_ERROR(ExpectMatrix(context, 1, false));
  const Shape &matrix = context.shape(0), &rhs = context.shape(1);
  if (matrix.dim(matrix.rank() - 1) != rhs.dim(rhs.rank() - 2)) {
    return context.Error(absl::StrCat("Input matrix ", matrix.ToString(), " and rhs ", rhs.ToString(), " are incompatible"));
  }
  const Shape batch = BatchWith(matrix, -1, -1), rhs_batch = BatchWith(rhs, -1, -1);
  absl::StatusOr<Shape> out = BroadcastShapes(batch, rhs_batch);
  if (!out.ok()) return ErrorAtNode(context, out.status());
  if (context.op() == "MatrixSolve" && !(batch == rhs_batch)) {
    return context.Error(absl::StrCat("batches of ", matrix.ToString(), " and ", rhs.ToString(), " differ"));
  }
  out->AddDim(rhs.dim(rhs.rank() - 2));
  out->AddDim(rhs.dim(rhs.rank() - 1));
  context.AddOutput(context.dtype(0), *std::move(out));
  return absl::OkStatus();
}

// (matrix [..., m, n], rhs [..., m, k], l2_regularizer) -> [..., n, k]
absl::Status LeastSquaresShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(3));
  MR_RETURN_IF_ERROR(ExpectEqualTypes(context, {0, 1}));
  MR_RETURN_IF_ERROR(ExpectMatrix(context, 0, false));
  MR_RETURN_IF_ERROR(ExpectMatrix(context, 1, false));
  const Shape &matrix = context.shape(0), &rhs = context.shape(1);
  if (context.dtype(2) != DataType::kDouble || context.shape(2).rank() > 0) {
    return context.Error(absl::StrCat("l2_regularizer is ", context.input(2).ToString(), ", expected a scalar double"));
  }
  if (matrix.dim(matrix.rank() - 2) != rhs.dim(rhs.rank() - 2) || !(BatchWith(matrix, -1, -1) == BatchWith(rhs, -1, -1))) {
    return context.Error(absl::StrCat("Input matrix ", matrix.ToString(), " and rhs ", rhs.ToString(), " are incompatible"));
  }
  context.AddOutput(context.dtype(0), BatchWith(matrix, matrix.dim(matrix.rank() - 1), rhs.dim(rhs.rank() - 1)));
  return absl::OkStatus();
}

absl::Status QrShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(1));
  MR_RETURN_IF_ERROR(ExpectMatrix(context, 0, false));
  const Shape& shape = context.shape(0);
  const int64_t rows = shape.dim(shape.rank() - 2), columns = shape.dim(shape.rank() - 1);
  const int64_t inner = context.attrs().GetOr<bool>("full_matrices", false) ? rows : std::min(rows, columns);
  context.AddOutput(context.dtype(0), BatchWith(shape, rows, inner));
  context.AddOutput(context.dtype(0), BatchWith(shape, inner, columns));
  return absl::OkStatus();
}

// (bands [..., bands, n], rhs [..., n, k]) -> [..., n, k]: the matrix of these diagonals, batches broadcast.
absl::Status BandedSolveShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(2));
  MR_RETURN_IF_ERROR(ExpectEqualTypes(context, {0, 1}));
  MR_RETURN_IF_ERROR(ExpectMatrix(context, 0, false));
  MR_RETURN_IF_ERROR(ExpectMatrix(context, 1, false));
  const Shape &bands = context.shape(0), &rhs = context.shape(1);
  const int64_t count = bands.dim(bands.rank() - 2), n = bands.dim(bands.rank() - 1);
  if (count < 1 || count > n || n != rhs.dim(rhs.rank() - 2)) {
    return context.Error(absl::StrCat("bands ", bands.ToString(), " and rhs ", rhs.ToString(), " are incompatible"));
  }
  absl::StatusOr<Shape> out = BroadcastShapes(BatchWith(bands, -1, -1), BatchWith(rhs, -1, -1));
  if (!out.ok()) return ErrorAtNode(context, out.status());
  out->AddDim(n);
  out->AddDim(rhs.dim(rhs.rank() - 1));
  context.AddOutput(context.dtype(0), *std::move(out));
  return absl::OkStatus();
}

absl::Status EigenShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(1));
  MR_RETURN_IF_ERROR(ExpectMatrix(context, 0, true));
  const Shape& shape = context.shape(0);
  const int64_t n = shape.dim(shape.rank() - 1);
  // Of matrices that need not be their own adjoints they are complex.
  DataType dtype = context.dtype(0);
  if (context.op() == "Eig") {
    const bool wide = dtype == DataType::kDouble || dtype == DataType::kComplex128;
    dtype = context.attrs().GetOr<DataType>("Tout", wide ? DataType::kComplex128 : DataType::kComplex64);
    if (dtype != (wide ? DataType::kComplex128 : DataType::kComplex64)) {
      return context.Error(absl::StrCat("gives ", std::string(DataTypeName(dtype)), " of ", context.input(0).ToString()));
    }
  }
  context.AddOutput(dtype, BatchWith(shape, n, -1));
  context.AddOutput(dtype, context.attrs().GetOr<bool>("compute_v", true) ? shape : Shape({0}));
  return absl::OkStatus();
}

// (a, tensor of singular values, u, v): s always, u and v on request.
absl::Status SvdShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(1));
  MR_RETURN_IF_ERROR(ExpectMatrix(context, 0, false));
  const Shape& shape = context.shape(0);
  const int64_t rows = shape.dim(shape.rank() - 2), columns = shape.dim(shape.rank() - 1), inner = std::min(rows, columns);
  const bool full = context.attrs().GetOr<bool>("full_matrices", false);
  const bool vectors = context.attrs().GetOr<bool>("compute_uv", true);
  context.AddOutput(context.dtype(0), BatchWith(shape, inner, -1));
  context.AddOutput(context.dtype(0), vectors ? BatchWith(shape, rows, full ? rows : inner) : Shape({0}));
  context.AddOutput(context.dtype(0), vectors ? BatchWith(shape, columns, full ? columns : inner) : Shape({0}));
  return absl::OkStatus();
}

// -> both triangles in one matrix, and the row that each row of the product comes from
absl::Status LuShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(1));
  MR_RETURN_IF_ERROR(ExpectMatrix(context, 0, true));
  MR_ASSIGN_OR_RETURN(const DataType index, IndexTypeAttr(context, "output_idx_type", DataType::kInt32));
  const Shape& shape = context.shape(0);
  context.AddOutput(context.dtype(0), shape);
  context.AddOutput(index, BatchWith(shape, shape.dim(shape.rank() - 1), -1));
  return absl::OkStatus();
}

// TridiagonalSolve(diagonals [..., 3, n], rhs [..., n, k]); TridiagonalMatMul(three diagonals [..., 1, n], rhs): like rhs
absl::Status TridiagonalShape(InferenceContext& context) {
  const int rhs_at = context.op() == "TridiagonalSolve" ? 1 : 3;
  MR_RETURN_IF_ERROR(context.ExpectInputs(rhs_at + 1));
  if (context.attrs().GetOr("perturb_singular", false) && !context.attrs().GetOr("partial_pivoting", true)) {
    return context.Error("Setting perturb_singular requires also setting partial_pivoting.");
  }
  MR_RETURN_IF_ERROR(ExpectMatrix(context, rhs_at, false));
  const Shape& rhs = context.shape(rhs_at);
  for (int i = 0; i < rhs_at; ++i) {
    MR_RETURN_IF_ERROR(ExpectEqualTypes(context, {i, rhs_at}));
    MR_RETURN_IF_ERROR(ExpectMatrix(context, i, false));
    const Shape& diagonal = context.shape(i);
    const Shape expected = BatchWith(rhs, rhs_at == 1 ? 3 : 1, rhs.dim(rhs.rank() - 2));
    if (!(diagonal == expected)) {
      return context.Error(absl::StrCat("input ", i, " is ", diagonal.ToString(), " and rhs ", rhs.ToString(), ", expected ", expected.ToString()));
    }
  }
  context.AddOutput(context.dtype(rhs_at), rhs);
  return absl::OkStatus();
}

// A few times n^3 for every matrix.
Cost CubicCost(const OpInstance& node) {
  const Shape& shape = node.inputs[0].shape;
  Cost cost;
  for (const TensorType& type : node.inputs) cost.bytes += type.size_bytes();
  for (const TensorType& type : node.outputs) cost.bytes += type.size_bytes();
  cost.flops = 4.0 * shape.num_elements() * shape.dim(shape.rank() - 1);
  return cost;
}

}  // namespace

void RegisterLinalgOps(OpRegistry& registry) {
  AddOp(registry, {.name = "MatrixSolveLs", .shape = LeastSquaresShape, .cost = CubicCost});
  for (const char* name : {"Cholesky", "MatrixInverse", "MatrixLogarithm", "MatrixSquareRoot"}) {
    AddOp(registry, {.name = name, .shape = SquareShape, .cost = CubicCost});
  }
  AddOp(registry, {.name = "CholeskyGrad", .shape = CholeskyGradShape, .cost = CubicCost});
  for (const char* name : {"MatrixDeterminant", "LogMatrixDeterminant"}) {
    AddOp(registry, {.name = name, .shape = DeterminantShape, .cost = CubicCost});
  }
  for (const char* name : {"MatrixSolve", "MatrixTriangularSolve"}) {
    AddOp(registry, {.name = name, .shape = SolveShape, .cost = CubicCost});
  }
  AddOp(registry, {.name = "Lu", .shape = LuShape, .cost = CubicCost});
  for (const char* name : {"TridiagonalSolve", "TridiagonalMatMul"}) AddOp(registry, {.name = name, .shape = TridiagonalShape});
  AddOp(registry, {.name = "Qr", .shape = QrShape, .cost = CubicCost});
  AddOp(registry, {.name = "BandedTriangularSolve", .shape = BandedSolveShape});
  for (const char* name : {"Eig", "SelfAdjointEigV2"}) AddOp(registry, {.name = name, .shape = EigenShape, .cost = CubicCost});
  AddOp(registry, {.name = "Svd", .shape = SvdShape, .cost = CubicCost});
}

}  // namespace millrace
