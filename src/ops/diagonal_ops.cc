// Diagonals of matrices and tensors: MatrixDiag, MatrixDiagPart, MatrixSetDiag (V1 to V3), MatrixBandPart, Diag.
#include "absl/strings/str_cat.h"
#include "graph/shape_math.h"
#include "millrace/status.h"
#include "ops/register.h"
#include "ops/rules.h"

namespace millrace {
namespace {

// Input `k`, one or two numbers: the lowest and the highest diagonal.
absl::StatusOr<DiagonalRange> KnownDiagonals(const InferenceContext& context, int input) {
  if (input >= context.num_inputs()) return DiagonalRange{0, 0};
  MR_ASSIGN_OR_RETURN(const std::vector<int64_t> k, KnownInts(context, input));
  if (k.empty() || k.size() > 2) return context.Error("diag_index must be a scalar or a vector of 1 or 2 elements");
  constexpr int64_t kMost = int64_t{1} << 31;  // sums with dimensions must not overflow
  if (k.front() < -kMost || k.back() > kMost) {
    return context.Error(absl::StrCat("diagonals ", k.front(), " to ", k.back(), " are out of range"));
  }
  if (k.front() > k.back()) {
    return context.Error(absl::StrCat("lower_diag_index must not be larger than upper_diag_index: ", k.front(), " > ",
                                      k.back()));
  }
  return DiagonalRange{k.front(), k.back()};
}

absl::Status CheckAlign(const InferenceContext& context) {
  const std::string align = context.attrs().GetOr<std::string>("align", "RIGHT_LEFT");
  for (const char* known : {"RIGHT_LEFT", "LEFT_RIGHT", "LEFT_LEFT", "RIGHT_RIGHT"}) {
    if (align == known) return absl::OkStatus();
  }
  return context.Error(absl::StrCat("align is ", align, ", expected RIGHT_LEFT, LEFT_RIGHT, LEFT_LEFT or RIGHT_RIGHT"));
}

Shape DropLast(const Shape& shape, int count) { return Shape(shape.dims().subspan(0, shape.rank() - count)); }

absl::Status MatrixDiagShape(InferenceContext& context) {
  if (context.num_inputs() < 1) return context.Error("has no inputs, expected at least 1");
  MR_RETURN_IF_ERROR(CheckAlign(context));
  MR_ASSIGN_OR_RETURN(const DiagonalRange k, KnownDiagonals(context, 1));
  int64_t rows = -1, columns = -1;
  if (context.num_inputs() > 3) {
    MR_ASSIGN_OR_RETURN(rows, KnownInt(context, 2));
    MR_ASSIGN_OR_RETURN(columns, KnownInt(context, 3));
  }
  if (context.num_inputs() > 4) MR_RETURN_IF_ERROR(ExpectScalar(context, 4, "padding_value"));
  const Shape& diagonal = context.shape(0);
  const int diagonal_dims = k.count() > 1 ? 2 : 1;
  if (!diagonal.fully_known()) {
    context.AddOutput(context.dtype(0), Shape::UnknownRank());
    return absl::OkStatus();
  }
  if (diagonal.rank() < diagonal_dims) {
    return context.Error(absl::StrCat("diagonal must be at least ", diagonal_dims, "-dim, received shape: ",
                                      diagonal.ToString()));
  }
  if (diagonal_dims == 2 && diagonal.dim(diagonal.rank() - 2) != k.count()) {
    return context.Error(absl::StrCat("The number of diagonals provided in the input does not match the "
                                      "lower_diag_index and upper_diag_index range: ", diagonal.ToString()));
  }
  const int64_t length = diagonal.dim(diagonal.rank() - 1);
  const int64_t least_rows = length - std::min<int64_t>(k.upper, 0);
  const int64_t least_columns = length + std::max<int64_t>(k.lower, 0);
  if (rows == -1 && columns == -1) {
    rows = columns = std::max(least_rows, least_columns);
  } else {
    if (rows == -1) rows = least_rows;
    if (columns == -1) columns = least_columns;
  }
  if (rows < least_rows) return context.Error("The number of rows is too small.");
  if (columns < least_columns) return context.Error("The number of columns is too small.");
  if (rows != least_rows && columns != least_columns) {
    return context.Error("The number of rows or columns is not consistent with the specified d_lower, d_upper, and "
                         "diagonal.");
  }
  Shape out = DropLast(diagonal, diagonal_dims);
  out.AddDim(rows);
  out.AddDim(columns);
  context.AddOutput(context.dtype(0), std::move(out));
  return absl::OkStatus();
}

// The diagonals `k` of matrices of this shape, as MatrixDiagPart gives them.
absl::StatusOr<Shape> DiagonalsShape(const InferenceContext& context, const Shape& matrix, const DiagonalRange& k) {
  if (matrix.rank() < 2) {
    return context.Error(absl::StrCat("input must be at least 2-dim, received shape: ", matrix.ToString()));
  }
  const int64_t rows = matrix.dim(matrix.rank() - 2), columns = matrix.dim(matrix.rank() - 1);
  for (int64_t d : {k.lower, k.upper}) {
    if (d != 0 && (d <= -rows || d >= columns)) {
      return context.Error(absl::StrCat("diag_index is out of bound: ", d, ". It must be between ", -rows, " and ",
                                        columns));
    }
  }
  Shape out = DropLast(matrix, 2);
  if (k.count() > 1) out.AddDim(k.count());
  out.AddDim(k.MaxLength(rows, columns));
  return out;
}

absl::Status MatrixDiagPartShape(InferenceContext& context) {
  if (context.num_inputs() < 1) return context.Error("has no inputs, expected at least 1");
  MR_RETURN_IF_ERROR(CheckAlign(context));
  MR_ASSIGN_OR_RETURN(const DiagonalRange k, KnownDiagonals(context, 1));
  if (context.num_inputs() > 2) MR_RETURN_IF_ERROR(ExpectScalar(context, 2, "padding_value"));
  if (!context.shape(0).fully_known()) {
    context.AddOutput(context.dtype(0), Shape::UnknownRank());
    return absl::OkStatus();
  }
  MR_ASSIGN_OR_RETURN(Shape out, DiagonalsShape(context, context.shape(0), k));
  context.AddOutput(context.dtype(0), std::move(out));
  return absl::OkStatus();
}

absl::Status MatrixSetDiagShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(CheckAlign(context));
  MR_ASSIGN_OR_RETURN(const DiagonalRange k, KnownDiagonals(context, 2));
  if (context.num_inputs() < 2) return context.ExpectInputs(2);
  MR_RETURN_IF_ERROR(ExpectEqualTypes(context, {0, 1}));
  if (context.shape(0).fully_known() && context.shape(1).fully_known()) {
    MR_ASSIGN_OR_RETURN(const Shape diagonals, DiagonalsShape(context, context.shape(0), k));
    if (context.shape(1) != diagonals) {
      return context.Error(absl::StrCat("diagonal has shape ", context.shape(1).ToString(), ", expected ",
                                        diagonals.ToString()));
    }
  }
  return SameAsFirstInput(context);
}

absl::Status MatrixBandPartShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(3));
  const Shape& in = context.shape(0);
  if (!in.unknown_rank() && in.rank() < 2) {
    return context.Error(absl::StrCat("input must be at least 2-dim, received shape: ", in.ToString()));
  }
  for (int i = 1; i < 3; ++i) {
    if (context.value(i) == nullptr || in.unknown_rank()) continue;
    MR_ASSIGN_OR_RETURN(const int64_t keep, KnownInt(context, i));
    const int64_t dim = in.dim(in.rank() - 3 + i);
    if (dim >= 0 && keep > dim) {
      return context.Error(absl::StrCat(i == 1 ? "num_lower must be negative or less or equal to number of rows ("
                                               : "num_upper must be negative or less or equal to number of columns (",
                                        dim, ") got: ", keep));
    }
  }
  return SameAsFirstInput(context);
}

absl::Status DiagShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(1));
  Shape out = context.shape(0);
  if (out.unknown_rank()) return SameAsFirstInput(context);
  if (out.rank() < 1) return context.Error("Input must be at least rank 1, got 0");
  for (int64_t dim : context.shape(0).dims()) out.AddDim(dim);
  context.AddOutput(context.dtype(0), std::move(out));
  return absl::OkStatus();
}

absl::Status DiagPartShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(1));
  const Shape& in = context.shape(0);
  if (in.unknown_rank()) return SameAsFirstInput(context);
  const int half = in.rank() / 2;
  if (in.rank() == 0 || in.rank() % 2 != 0 || in.dims().subspan(0, half) != in.dims().subspan(half)) {
    return context.Error(absl::StrCat("The rank of the tensor should be even and positive and its halves equal, got "
                                      "shape ", in.ToString()));
  }
  context.AddOutput(context.dtype(0), DropLast(in, half));
  return absl::OkStatus();
}

}  // namespace

void RegisterDiagonalOps(OpRegistry& registry) {
  for (const char* name : {"MatrixDiag", "BatchMatrixDiag", "MatrixDiagV2", "MatrixDiagV3"}) {
    AddOp(registry, {.name = name, .shape = MatrixDiagShape, .cost = MoveCost});
  }
  for (const char* name : {"MatrixDiagPart", "BatchMatrixDiagPart", "MatrixDiagPartV2", "MatrixDiagPartV3"}) {
    AddOp(registry, {.name = name, .shape = MatrixDiagPartShape, .cost = MoveCost});
  }
  for (const char* name : {"MatrixSetDiag", "BatchMatrixSetDiag", "MatrixSetDiagV2", "MatrixSetDiagV3"}) {
    AddOp(registry, {.name = name, .shape = MatrixSetDiagShape, .cost = MoveCost, .in_place = {{0, 0}}});
  }
  for (const char* name : {"MatrixBandPart", "BatchMatrixBandPart"}) {
    AddOp(registry, {.name = name, .shape = MatrixBandPartShape, .cost = MoveCost, .in_place = {{0, 0}}});
  }
  AddOp(registry, {.name = "Diag", .shape = DiagShape, .cost = MoveCost});
  AddOp(registry, {.name = "DiagPart", .shape = DiagPartShape, .cost = MoveCost});
}

}  // namespace millrace
