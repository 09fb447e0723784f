// Gradients of sparse tensors, given as (indices [n, rank], values [n], dense shape [rank]), by their values and by the
// dense tensors that they meet.
#include "absl/strings/str_cat.h"
#include "builder/emit.h"
#include "builder/gradient_rules.h"

namespace millrace {
namespace {

using Context = GradientContext;
using In = const Output&;

// Where in `dense`, broadcast to the sparse tensor's shape, the stored values are: [n, rank of dense].
Output BroadcastIndices(In indices, In dense) {
  const int64_t count = indices.dim(0), extra = indices.dim(1) - dense.rank();
  Output own = extra == 0 ? indices : ops::Slice(indices, {0, extra}, {count, dense.rank()});
  Tensor moves(indices.dtype(), Shape({dense.rank()}));
  bool all = true;
  for (int i = 0; i < dense.rank(); ++i) {
    moves.mutable_as<int64_t>()[i] = dense.dim(i) == 1 ? 0 : 1;
    all = all && dense.dim(i) != 1;
  }
  return all ? own : own * indices.builder()->SharedConst(std::move(moves));
}

// (indices, values, shape, dense) -> values
absl::Status CwiseGradient(Context& c) {
  MR_RETURN_IF_ERROR(ExpectKnownShapes(c));
  const Output g = c.gradient(), values = c.input(1), dense = c.input(3);
  const Output where = BroadcastIndices(c.input(0), dense);
  Output by_values = g, by_dense = g;
  if (c.op() == "SparseDenseCwiseMul") {
    by_values = g * GatherNd(c, dense, where);
    by_dense = g * values;
  } else if (c.op() == "SparseDenseCwiseDiv") {
    const Output met = GatherNd(c, dense, where);
    by_values = g / met;
    by_dense = -g * values / ops::Square(met);
  }
  if (c.wants(1)) c.Set(1, by_values);
  if (c.wants(3)) c.Set(3, ScatterNd(c, where, by_dense, ShapeOf(dense, where.dtype())));
  return absl::OkStatus();
}

// (indices, values, shape, dense) -> dense
absl::Status DenseAddGradient(Context& c) {
  if (c.wants(1)) c.Set(1, GatherNd(c, c.gradient(), c.input(0)));
  if (c.wants(3)) c.Set(3, c.gradient());
  return absl::OkStatus();
}

// (indices, values, shape, b) -> a b: a stored value meets a row of b and a row of the result.
absl::Status DenseMatMulGradient(Context& c) {
  MR_RETURN_IF_ERROR(ExpectKnownShapes(c));
  const bool adjoint_a = c.attrs().GetOr<bool>("adjoint_a", false);
  const bool adjoint_b = c.attrs().GetOr<bool>("adjoint_b", false);
  const Output g = c.gradient(), indices = c.input(0), b = c.input(3);
  if (c.wants(1)) {
    const Output rows = ops::Index(indices, adjoint_a ? 1 : 0, 1), columns = ops::Index(indices, adjoint_a ? 0 : 1, 1);
    const Output met = ops::Gather(adjoint_b ? ops::Transpose(b, {1, 0}) : b, columns);
    c.Set(1, ops::Sum(ops::Gather(g, rows) * met, {1}));
  }
  if (c.wants(3)) {
    AttrMap attrs = c.attrs();
    attrs.Set("adjoint_a", !adjoint_a);
    attrs.Set("adjoint_b", false);
    const Output db = Emit(c.op(), {indices, c.input(1), c.input(2), g}, std::move(attrs));
    c.Set(3, adjoint_b ? ops::Transpose(db, {1, 0}) : db);
  }
  return absl::OkStatus();
}

// (indices, values, shape) -> (indices, values): the positions of the values are reordered in the same way.
absl::Status ReorderGradient(Context& c) {
  MR_RETURN_IF_ERROR(ExpectKnownShapes(c));
  if (!c.wants(1)) return absl::OkStatus();
  GraphBuilder& b = c.builder();
  const Output positions = ops::Range(b.Int(0), b.Int(c.input(1).dim(0)), b.Int(1));
  const Output from = Emit(c.op(), {c.input(0), positions, c.input(2)}, {{"T", positions.dtype()}}).output(1);
  c.Set(1, ops::UnsortedSegmentSum(c.gradient(1), from, c.input(1).dim(0)));
  return absl::OkStatus();
}

// A number for every row (all dimensions but the last) that holds values, by value: [n] in [0, n).
Output RowOfValues(In indices, In shape) {
  GraphBuilder& b = *indices.builder();
  const int64_t count = indices.dim(0), leading = indices.dim(1) - 1;
  const Output rows = ops::Slice(indices, {0, 0}, {count, leading}), dims = ops::Slice(shape, {0}, {leading});
  const Output strides = Emit("Cumprod", {dims, b.Int(0)}, {{"T", dims.dtype()}, {"Tidx", DataType::kInt32},
                                                            {"exclusive", true}, {"reverse", true}});
  const Output flat = ops::Sum(rows * strides, {1});
  return Emit("Unique", {flat}, {{"T", flat.dtype()}, {"out_idx", DataType::kInt32}}).output(1);
}

// (indices, values, shape) -> values
absl::Status SoftmaxGradient(Context& c) {
  MR_RETURN_IF_ERROR(ExpectKnownShapes(c));
  if (!c.wants(1)) return absl::OkStatus();
  const Output g = c.gradient(), y = c.output(0), rows = RowOfValues(c.input(0), c.input(2));
  const Output sums = ops::UnsortedSegmentSum(g * y, rows, y.dim(0));
  c.Set(1, (g - ops::Gather(sums, rows)) * y);
  return absl::OkStatus();
}

// (indices, values, shape, default) -> (indices, values, empty rows, where each value went); of ragged rows, too
absl::Status FillRowsGradient(Context& c) {
  constexpr int kValues = 1, kDefault = 3, kPlaces = 3;
  const Operation gradients =
      Emit(absl::StrCat(c.op(), "Grad"), {c.output(kPlaces), c.gradient(kValues)}, {{"T", c.input(kValues).dtype()}});
  if (c.wants(kValues)) c.Set(kValues, gradients.output(0));
  if (c.wants(kDefault)) c.Set(kDefault, gradients.output(1));
  return absl::OkStatus();
}

}  // namespace

// (indices, values, shape, axes) -> dense: every value gets the gradient of the sum that it went into.
absl::Status ReduceSumGradient(Context& c) {
  MR_RETURN_IF_ERROR(ExpectKnownShapes(c));
  if (!c.wants(1)) return absl::OkStatus();
  MR_ASSIGN_OR_RETURN(const std::vector<int64_t> dims, c.ConstantInts(2));
  MR_ASSIGN_OR_RETURN(const std::vector<int64_t> axes, c.ConstantInts(3));
  std::vector<int64_t> kept = dims;
  Tensor moves(DataType::kInt64, Shape({static_cast<int64_t>(dims.size())}));
  for (size_t d = 0; d < dims.size(); ++d) moves.mutable_as<int64_t>()[d] = 1;
  for (int64_t axis : axes) {
    const int64_t at = axis < 0 ? axis + static_cast<int64_t>(dims.size()) : axis;
    kept[at] = 1;
    moves.mutable_as<int64_t>()[at] = 0;
  }
  const Output where = c.input(0) * c.input(0).builder()->SharedConst(std::move(moves));
  c.Set(1, GatherNd(c, ops::Reshape(c.gradient(), kept), where));
  return absl::OkStatus();
}

// (row splits, values) -> indices, values, shape: the same values, in order.
absl::Status RaggedToSparseGradient(Context& c) {
  MR_RETURN_IF_ERROR(ExpectKnownShapes(c));
  const int values = c.num_inputs() - 1;
  if (c.wants(values)) c.Set(values, ops::Reshape(c.gradient(1), Dims(c.input(values))));
  return absl::OkStatus();
}

void AddSparseGradients(GradientTable& table) {
  table.Add("RaggedTensorToSparse", RaggedToSparseGradient);
  table.Add("SparseReduceSum", ReduceSumGradient);
  table.Add({"SparseDenseCwiseAdd", "SparseDenseCwiseMul", "SparseDenseCwiseDiv"}, CwiseGradient);
  table.Add("SparseTensorDenseAdd", DenseAddGradient);
  table.Add("SparseTensorDenseMatMul", DenseMatMulGradient);
  table.Add("SparseReorder", ReorderGradient);
  table.Add("SparseSoftmax", SoftmaxGradient);
  for (const char* name : {"SparseFillEmptyRows", "RaggedFillEmptyRows"}) table.Add(name, FillRowsGradient);
}

}  // namespace millrace
