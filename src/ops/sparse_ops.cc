// Sparse tensors as (indices [n, rank], values [n], dense shape [rank]): products, sums and mixtures with dense tensors.
#include "absl/strings/str_cat.h"
#include "millrace/status.h"
#include "ops/register.h"
#include "ops/rules.h"
#include "ops/sizes.h"

namespace millrace {
namespace {

// (indices, values, shape [2], b): a matrix
absl::Status SparseMatMulShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(4));
  MR_RETURN_IF_ERROR(ExpectSparse(context, 0, 1, 2));
  MR_ASSIGN_OR_RETURN(const std::vector<int64_t> a, KnownInts(context, 2));
  const Shape& b = context.shape(3);
  if (a.size() != 2 || !b.fully_known() || b.rank() != 2) {
    return context.Error(absl::StrCat("a has ", a.size(), " dimensions and b is ", b.ToString(), ", expected matrices"));
  }
  const bool adjoint_a = context.attrs().GetOr<bool>("adjoint_a", false);
  const bool adjoint_b = context.attrs().GetOr<bool>("adjoint_b", false);
  const int64_t inner_a = a[adjoint_a ? 0 : 1], inner_b = b.dim(adjoint_b ? 1 : 0);
  if (inner_a != inner_b) {
    return context.Error(absl::StrCat("Cannot multiply A and B because inner dimension does not match: ", inner_a, " vs. ", inner_b));
  }
  context.AddOutput(context.dtype(1), Shape({a[adjoint_a ? 1 : 0], b.dim(adjoint_b ? 0 : 1)}));
  return absl::OkStatus();
}

// (indices, shape, new_shape) -> indices, shape
absl::Status SparseReshapeShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(3));
  const Shape &indices = context.shape(0), &dims = context.shape(1), &target = context.shape(2);
  if (indices.fully_known() && dims.fully_known() && indices.rank() == 2 && indices.dim(1) != dims.num_elements()) {
    return context.Error(absl::StrCat("Input tensor rank must match input shape length, indices are ", indices.ToString(), " and the shape ",
                                      dims.ToString()));
  }
  const int64_t rank = target.fully_known() ? target.num_elements() : -1;
  context.AddOutput(DataType::kInt64, Shape({indices.rank() == 2 ? indices.dim(0) : -1, rank}));
  context.AddOutput(DataType::kInt64, Shape({rank}));
  return absl::OkStatus();
}

// (indices, values, shape, dense) -> a value per index
absl::Status CwiseShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(4));
  MR_RETURN_IF_ERROR(ExpectSparse(context, 0, 1, 2));
  MR_RETURN_IF_ERROR(ExpectEqualTypes(context, {1, 3}));
  context.AddOutput(context.dtype(1), context.shape(1));
  return absl::OkStatus();
}

// (indices, values, shape, dense) -> dense
absl::Status DenseAddShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(4));
  MR_RETURN_IF_ERROR(ExpectSparse(context, 0, 1, 2));
  MR_RETURN_IF_ERROR(ExpectEqualTypes(context, {1, 3}));
  const Shape &shape = context.shape(2), &dense = context.shape(3);
  if (shape.fully_known() && !dense.unknown_rank() && shape.num_elements() != dense.rank()) {
    return context.Error(absl::StrCat("Two operands should have the same ndims; got ", shape.num_elements(), " and ", dense.ToString()));
  }
  context.AddOutput(context.dtype(3), dense);
  return absl::OkStatus();
}

// (indices, values, shape) -> values
absl::Status SparseSoftmaxShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(3));
  MR_RETURN_IF_ERROR(ExpectSparse(context, 0, 1, 2));
  const Shape& dims = context.shape(2);
  if (dims.fully_known() && dims.num_elements() < 2) {
    return context.Error(absl::StrCat("Input should have rank >= 2, but its shape has ", dims.num_elements(), " dimensions"));
  }
  context.AddOutput(context.dtype(1), context.shape(1));
  return absl::OkStatus();
}

absl::Status ReorderShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(3));
  MR_RETURN_IF_ERROR(ExpectSparse(context, 0, 1, 2));
  for (int i : {0, 1}) context.AddOutput(context.dtype(i), context.shape(i));
  return absl::OkStatus();
}

// (indices, values, dense_shape, default_value) -> indices, values, empty_row_indicator, reverse_index_map
absl::Status FillRowsShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(4));
  MR_RETURN_IF_ERROR(ExpectSparse(context, 0, 1, 2));
  MR_RETURN_IF_ERROR(ExpectEqualTypes(context, {1, 3}));
  if (context.dtype(0) != DataType::kInt64) return context.Error("indices must be int64");
  MR_ASSIGN_OR_RETURN(const std::vector<int64_t> dense, KnownInts(context, 2));
  if (dense.empty() || dense[0] < 0) return context.Error("Dense shape cannot be empty or negative.");
  const Shape &indices = context.shape(0), &fill = context.shape(3);
  if (fill.fully_known() && fill.rank() != 0) return context.Error(absl::StrCat("default_value must be a scalar, saw ", fill.ToString()));
  const int64_t count = indices.rank() == 2 ? indices.dim(0) : -1, most = count < 0 ? -1 : SizeSum(count, dense[0]);
  context.AddOutput(DataType::kInt64, Shape({most, static_cast<int64_t>(dense.size())}));
  context.AddOutput(context.dtype(1), Shape({most}));
  context.AddOutput(DataType::kBool, Shape({dense[0]}));
  context.AddOutput(DataType::kInt64, Shape({count}));
  context.MarkBound(0);
  context.MarkBound(1);
  return absl::OkStatus();
}

// (row of each value, values, number of rows, default_value) -> the same, empty_row_indicator, reverse_index_map
absl::Status FillRaggedRowsShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(4));
  MR_RETURN_IF_ERROR(ExpectEqualTypes(context, {1, 3}));
  MR_ASSIGN_OR_RETURN(const int64_t rows, KnownInt(context, 2));
  const Shape &of_values = context.shape(0), &values = context.shape(1), &fill = context.shape(3);
  if (!of_values.unknown_rank() && of_values.rank() != 1) return context.Error(absl::StrCat("`value_rowids` must be a vector, saw: ", of_values.ToString()));
  if (!values.unknown_rank() && values.rank() != 1) return context.Error(absl::StrCat("`values` must be a vector, saw: ", values.ToString()));
  if (fill.fully_known() && fill.rank() != 0) return context.Error(absl::StrCat("`default_value` must be a scalar, saw: ", fill.ToString()));
  if (of_values.fully_known() && values.fully_known() && of_values != values) {
    return context.Error(absl::StrCat("The length of `values` (", values.dim(0), ") must match the first dimension of `value_rowids` (", of_values.dim(0), ")."));
  }
  if (rows < 0) return context.Error(absl::StrCat("`nrows` is ", rows, ", expected at least 0"));
  const int64_t count = of_values.fully_known() ? of_values.dim(0) : -1, most = count < 0 ? -1 : SizeSum(count, rows);
  context.AddOutput(DataType::kInt64, Shape({most}));
  context.AddOutput(context.dtype(1), Shape({most}));
  context.AddOutput(DataType::kBool, Shape({rows}));
  context.AddOutput(DataType::kInt64, Shape({count}));
  context.MarkBound(0);
  context.MarkBound(1);
  return absl::OkStatus();
}

// (reverse_index_map, grad_values) -> d_values, d_default_value
absl::Status FillRowsGradShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(2));
  if (context.dtype(0) != DataType::kInt64) return context.Error("reverse_index_map must be int64");
  for (int i : {0, 1}) {
    const Shape& shape = context.shape(i);
    if (!shape.unknown_rank() && shape.rank() != 1) return context.Error(absl::StrCat("input ", i, " must be a vector, saw: ", shape.ToString()));
  }
  context.AddOutput(context.dtype(1), context.shape(0));
  context.AddOutput(context.dtype(1), Shape());
  return absl::OkStatus();
}

// Two flops for every stored value and column of b.
Cost SparseMatMulCost(const OpInstance& node) {
  Cost cost;
  for (const TensorType& type : node.inputs) cost.bytes += type.size_bytes();
  cost.bytes += node.outputs[0].size_bytes();
  cost.flops = 2.0 * node.inputs[1].shape.num_elements() * node.outputs[0].shape.dim(1);
  return cost;
}

}  // namespace

void RegisterSparseOps(OpRegistry& registry) {
  AddOp(registry, {.name = "SparseTensorDenseMatMul", .shape = SparseMatMulShape, .cost = SparseMatMulCost});
  AddOp(registry, {.name = "SparseReshape", .shape = SparseReshapeShape, .cost = NoCost});
  AddOp(registry, {.name = "SparseReorder", .shape = ReorderShape});
  for (const char* name : {"SparseDenseCwiseAdd", "SparseDenseCwiseMul", "SparseDenseCwiseDiv"}) {
    AddOp(registry, {.name = name, .shape = CwiseShape});
  }
  AddOp(registry, {.name = "SparseTensorDenseAdd", .shape = DenseAddShape, .in_place = {{0, 3}}});
  AddOp(registry, {.name = "SparseSoftmax", .shape = SparseSoftmaxShape});
  AddOp(registry, {.name = "SparseFillEmptyRows", .shape = FillRowsShape});
  AddOp(registry, {.name = "RaggedFillEmptyRows", .shape = FillRaggedRowsShape});
  for (const char* name : {"SparseFillEmptyRowsGrad", "RaggedFillEmptyRowsGrad"}) AddOp(registry, {.name = name, .shape = FillRowsGradShape});
}

}  // namespace millrace
