// Sparse tensors combined with sparse tensors, cut, joined and reduced. Each is indices [n, rank] in lexical order,
// values [n] and dense shape [rank]. How many values a result has depends on the indices: shapes are bounds.
#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"
#include "millrace/status.h"
#include "ops/rare.h"
#include "ops/rules.h"
#include "ops/sizes.h"

namespace millrace {
namespace {

// Inputs of a sparse tensor whose sizes are int64.
absl::Status ExpectLongSparse(const InferenceContext& context, int indices, int values, int shape) {
  if (context.dtype(indices) != DataType::kInt64 || context.dtype(shape) != DataType::kInt64) {
    return context.Error("indices and shapes must be int64");
  }
  return ExpectSparse(context, indices, values, shape);
}

int64_t RowsOf(const Shape& shape) { return shape.unknown_rank() || shape.rank() == 0 ? -1 : shape.dim(0); }
int64_t SumOf(int64_t a, int64_t b) { return a < 0 || b < 0 ? -1 : SizeSum(a, b); }

// Outputs first and first + 1: at most `rows` indices of that rank, and values.
void AddBounded(InferenceContext& context, int first, int64_t rows, int64_t rank, DataType type) {
  context.AddOutput(DataType::kInt64, Shape({rows, rank}));
  context.AddOutput(type, Shape({rows}));
  context.MarkBound(first);
  context.MarkBound(first + 1);
}

// (a: indices, values, shape; b: the same; SparseAdd: threshold) -> indices, values, and of SparseAdd the shape
absl::Status UnionShape(InferenceContext& context) {
  const bool add = context.op() == "SparseAdd";
  MR_RETURN_IF_ERROR(context.ExpectInputs(add ? 7 : 6));
  if (add) MR_RETURN_IF_ERROR(ExpectScalar(context, 6, "The magnitude threshold"));
  MR_RETURN_IF_ERROR(ExpectLongSparse(context, 0, 1, 2));
  MR_RETURN_IF_ERROR(ExpectLongSparse(context, 3, 4, 5));
  MR_RETURN_IF_ERROR(ExpectEqualTypes(context, {1, 4}));
  if (context.shape(2).fully_known() && context.shape(5).fully_known() && context.shape(2) != context.shape(5)) {
    return context.Error(absl::StrCat("Operands do not have the same ranks; got shapes of ", context.shape(2).ToString(), " and ",
                                      context.shape(5).ToString(), " elements"));
  }
  AddBounded(context, 0, SumOf(RowsOf(context.shape(1)), RowsOf(context.shape(4))), RowsOf(context.shape(2)), context.dtype(1));
  if (add) context.AddOutput(DataType::kInt64, context.shape(2));
  return absl::OkStatus();
}

// (gradient of the sum's values, a's indices, b's, the sum's) -> gradients of a's and b's values
absl::Status AddGradShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(4));
  for (int i : {1, 2, 3}) {
    if (context.dtype(i) != DataType::kInt64 || (!context.shape(i).unknown_rank() && context.shape(i).rank() != 2)) {
      return context.Error(absl::StrCat("input ", i, " is ", context.input(i).ToString(), ", expected int64 indices [n,rank]"));
    }
  }
  for (int i : {1, 2}) context.AddOutput(context.dtype(0), Shape({RowsOf(context.shape(i))}));
  return absl::OkStatus();
}

// (N indices, N values, N shapes) -> indices, values, shape
absl::Status ConcatShape(InferenceContext& context) {
  const int count = context.num_inputs() / 3;
  if (count < 1 || context.num_inputs() != 3 * count) return context.Error("expected N indices, N values and N shapes");
  int64_t rows = 0;
  for (int i = 0; i < count; ++i) {
    MR_RETURN_IF_ERROR(ExpectLongSparse(context, i, count + i, 2 * count + i));
    MR_RETURN_IF_ERROR(ExpectEqualTypes(context, {count, count + i}));
    const Shape &first = context.shape(2 * count), &shape = context.shape(2 * count + i);
    if (first.fully_known() && shape.fully_known() && first != shape) {
      return context.Error(absl::StrCat("Ranks of all input tensors must match: shapes are int64", first.ToString(), " and int64", shape.ToString()));
    }
    rows = SumOf(rows, RowsOf(context.shape(count + i)));
  }
  const int64_t rank = RowsOf(context.shape(2 * count));
  MR_ASSIGN_OR_RETURN(const int64_t axis, RequiredAttr<int64_t>(context, "concat_dim"));
  if (rank >= 0) MR_RETURN_IF_ERROR(NormalizeAxis(context, axis, static_cast<int>(rank)).status());
  context.AddOutput(DataType::kInt64, Shape({rows, rank}));
  context.AddOutput(context.dtype(count), Shape({rows}));
  context.AddOutput(DataType::kInt64, Shape({rank}));
  return absl::OkStatus();
}

// (indices, values, shape, start, size) -> indices, values, shape
absl::Status SliceShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(5));
  MR_RETURN_IF_ERROR(ExpectLongSparse(context, 0, 1, 2));
  for (int i : {3, 4}) {
    if (context.dtype(i) != DataType::kInt64 ||
        (context.shape(i).fully_known() && context.shape(2).fully_known() && context.shape(i) != context.shape(2))) {
      return context.Error(absl::StrCat("start and size must be int64", context.shape(2).ToString(), ", got ", context.input(i).ToString()));
    }
  }
  AddBounded(context, 0, RowsOf(context.shape(1)), RowsOf(context.shape(2)), context.dtype(1));
  context.AddOutput(DataType::kInt64, context.shape(2));
  return absl::OkStatus();
}

// (gradient of the slice's values, input_indices, input_start, output_indices) -> gradient of the input's values
absl::Status SliceGradShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(4));
  for (int i = 0; i < 4; ++i) {
    const Shape& shape = context.shape(i);
    const int rank = i % 2 == 0 ? 1 : 2;
    if ((i == 0 || context.dtype(i) == DataType::kInt64) && (shape.unknown_rank() || shape.rank() == rank)) continue;
    return context.Error(absl::StrCat("input ", i, " is ", context.input(i).ToString(), ", expected values, indices, start and indices"));
  }
  context.AddOutput(context.dtype(0), Shape({RowsOf(context.shape(1))}));
  return absl::OkStatus();
}

// (split_dim, indices, values, shape) -> indices, values and shape of each part
absl::Status SplitShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(4));
  MR_RETURN_IF_ERROR(ExpectScalar(context, 0, "split_dim"));
  MR_RETURN_IF_ERROR(ExpectLongSparse(context, 1, 2, 3));
  MR_ASSIGN_OR_RETURN(const int64_t parts, RequiredAttr<int64_t>(context, "num_split"));
  constexpr int64_t kMostParts = 1 << 16;  // no dimension of use has more
  if (parts < 1 || parts > kMostParts) return context.Error(absl::StrCat("num_split must be in [1, ", kMostParts, "], got ", parts));
  const int64_t rows = RowsOf(context.shape(2)), rank = RowsOf(context.shape(3));
  for (int64_t i = 0; i < parts; ++i) {
    context.AddOutput(DataType::kInt64, Shape({rows, rank}));
    context.MarkBound(static_cast<int>(i));
  }
  for (int64_t i = 0; i < parts; ++i) {
    context.AddOutput(context.dtype(2), Shape({rows}));
    context.MarkBound(static_cast<int>(parts + i));
  }
  for (int64_t i = 0; i < parts; ++i) context.AddOutput(DataType::kInt64, Shape({rank}));
  return absl::OkStatus();
}

// (indices, values, shape, axes) -> dense
absl::Status ReduceShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(4));
  MR_RETURN_IF_ERROR(ExpectLongSparse(context, 0, 1, 2));
  MR_ASSIGN_OR_RETURN(const std::vector<int64_t> dims, KnownInts(context, 2));
  MR_ASSIGN_OR_RETURN(const std::vector<int64_t> axes, KnownInts(context, 3));
  for (int64_t dim : dims) {
    if (dim < 0) return context.Error(absl::StrCat("Expected shape dimensions to be non-negative, got ", dim, " of input_shape"));
  }
  const bool keep = context.attrs().GetOr<bool>("keep_dims", false);
  std::vector<bool> reduced(dims.size(), false);
  for (int64_t axis : axes) {
    MR_ASSIGN_OR_RETURN(const int at, NormalizeAxis(context, axis, static_cast<int>(dims.size())));
    reduced[at] = true;
  }
  Shape out;
  for (size_t d = 0; d < dims.size(); ++d) {
    if (!reduced[d]) out.AddDim(dims[d]);
    if (reduced[d] && keep) out.AddDim(1);
  }
  context.AddOutput(context.dtype(1), out);
  return absl::OkStatus();
}

// (indices, values, shape, axes) -> indices, values and shape of what is there
absl::Status ReduceSparseShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(4));
  MR_RETURN_IF_ERROR(ExpectLongSparse(context, 0, 1, 2));
  MR_ASSIGN_OR_RETURN(const std::vector<int64_t> axes, KnownInts(context, 3));
  const int64_t rank = RowsOf(context.shape(2));
  if (rank < 0) return context.Error("the rank of input_shape must be known when planning");
  std::vector<bool> reduced(rank, false);
  for (int64_t axis : axes) {
    MR_ASSIGN_OR_RETURN(const int at, NormalizeAxis(context, axis, static_cast<int>(rank)));
    reduced[at] = true;
  }
  const bool keep = context.attrs().GetOr<bool>("keep_dims", false);
  const int64_t left = keep ? rank : std::count(reduced.begin(), reduced.end(), false);
  AddBounded(context, 0, RowsOf(context.shape(1)), left, context.dtype(1));
  context.AddOutput(DataType::kInt64, Shape({left}));
  return absl::OkStatus();
}

// (a: indices, values, shape; b: the same), matrices -> indices, values of the product
absl::Status ProductShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(6));
  MR_RETURN_IF_ERROR(ExpectLongSparse(context, 0, 1, 2));
  MR_RETURN_IF_ERROR(ExpectLongSparse(context, 3, 4, 5));
  MR_RETURN_IF_ERROR(ExpectEqualTypes(context, {1, 4}));
  MR_ASSIGN_OR_RETURN(const std::vector<int64_t> a, KnownInts(context, 2));
  MR_ASSIGN_OR_RETURN(const std::vector<int64_t> b, KnownInts(context, 5));
  if (a.size() != 2 || b.size() != 2) return context.Error(absl::StrCat("operands have ", a.size(), " and ", b.size(), " dimensions, expected matrices"));
  const bool turn_a = context.attrs().GetOr<bool>("transpose_a", false), turn_b = context.attrs().GetOr<bool>("transpose_b", false);
  const int64_t rows = a[turn_a ? 1 : 0], inner = a[turn_a ? 0 : 1], columns = b[turn_b ? 0 : 1];
  if (inner != b[turn_b ? 1 : 0]) {
    return context.Error(absl::StrCat("Cannot multiply A and B because inner dimension does not match: ", inner, " vs. ", b[turn_b ? 1 : 0]));
  }
  // TensorFlow's sparse matrices hold rows and columns in 32 bits.
  for (int64_t dim : {rows, inner, columns}) {
    if (dim < 0 || dim > std::numeric_limits<int32_t>::max()) return context.Error(absl::StrCat("a dimension of ", dim, ", expected 31 bits"));
  }
  const int64_t of_a = RowsOf(context.shape(1)), of_b = RowsOf(context.shape(4));
  // Each of a's values meets a row of b.
  const int64_t most = of_a < 0 || of_b < 0 ? -1 : std::min(SizeProduct(rows, columns), SizeProduct(of_a, std::min(columns, of_b)));
  AddBounded(context, 0, most, 2, context.dtype(1));
  return absl::OkStatus();
}

}  // namespace

void RegisterSparseAlgebraOps(OpRegistry& registry) {
  for (const char* name : {"SparseAdd", "SparseSparseMaximum", "SparseSparseMinimum"}) {
    AddOp(registry, {.name = name, .shape = UnionShape, .cost = MoveCost});
  }
  AddOp(registry, {.name = "_SparseMatrixProduct", .shape = ProductShape, .cost = MoveCost});
  AddOp(registry, {.name = "SparseAddGrad", .shape = AddGradShape, .cost = MoveCost});
  AddOp(registry, {.name = "SparseConcat", .shape = ConcatShape, .cost = MoveCost});
  AddOp(registry, {.name = "SparseSlice", .shape = SliceShape, .cost = MoveCost});
  AddOp(registry, {.name = "SparseSliceGrad", .shape = SliceGradShape, .cost = MoveCost});
  AddOp(registry, {.name = "SparseSplit", .shape = SplitShape, .cost = MoveCost});
  for (const char* name : {"SparseReduceSum", "SparseReduceMax"}) AddOp(registry, {.name = name, .shape = ReduceShape});
  for (const char* name : {"SparseReduceSumSparse", "SparseReduceMaxSparse"}) AddOp(registry, {.name = name, .shape = ReduceSparseShape});
}

}  // namespace millrace
