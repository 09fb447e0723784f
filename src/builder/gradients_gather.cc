// Gradients of gathers, scatters, segments and top-k. Rows that are gathered get their gradients added densely.
#include "builder/emit.h"
#include "builder/gradient_rules.h"

namespace millrace {
namespace {

using Context = GradientContext;
using ops::IntList;

int64_t Product(const Shape& shape, int begin, int end) {
  int64_t product = 1;
  for (int i = begin; i < end; ++i) product *= shape.dim(i);
  return product;
}

// Sums over segments and places in the whole have no numbers of 16 bits.
Output AsPlaces(const Output& indices) {
  return indices.dtype() == DataType::kInt32 || indices.dtype() == DataType::kInt64 ? indices : ops::Cast(indices, DataType::kInt32);
}

Output ZerosOf(const Output& x) { return HasKnownShape(x) ? ops::Full(*x.builder(), x.type(), 0) : ops::ZerosLike(x); }

// x as a matrix of rows of `columns` elements.
Output LastFlat(const Output& x, const Output& columns) {
  const Output shape = ops::Pack({x.builder()->Int(-1), columns}, 0);
  return Emit("Reshape", {x, shape}, {{"T", x.dtype()}, {"Tshape", DataType::kInt32}});
}

// offset[i] = i * stride, [count, 1]: moves the ids of batch i into its own segments.
Output RowOffsets(GraphBuilder& b, DataType dtype, int64_t count, int64_t stride) {
  Tensor offsets(dtype, Shape({count, 1}));
  for (int64_t i = 0; i < count; ++i) {
    if (dtype == DataType::kInt32) {
      offsets.mutable_as<int32_t>()[i] = static_cast<int32_t>(i * stride);
    } else {
      offsets.mutable_as<int64_t>()[i] = i * stride;
    }
  }
  return b.SharedConst(std::move(offsets));
}

// params is [batch, outer, rows, inner], indices [batch, picked], g [batch, outer, picked, inner].
Output GatherGradient(const Output& g, const Output& indices, const Shape& params, int axis, int batch_dims) {
  GraphBuilder& b = *g.builder();
  const int rank = params.rank();
  const int64_t batch = Product(params, 0, batch_dims), outer = Product(params, batch_dims, axis);
  const int64_t rows = params.dim(axis), inner = Product(params, axis + 1, rank);
  // Of an unknown number of indices, which lie in one batch.
  const int64_t picked = HasKnownShape(indices) ? Product(indices.shape(), batch_dims, indices.rank()) : -1;

  Output values = g;
  if (outer > 1) {
    values = ops::Transpose(ops::Reshape(g, {batch, outer, picked, inner}), {0, 2, 1, 3});
  }
  IntList row_dims = {picked < 0 ? -1 : batch * picked};
  if (outer > 1) {
    row_dims.push_back(outer * inner);
  } else {
    for (int i = axis + 1; i < rank; ++i) row_dims.push_back(params.dim(i));
  }
  values = ops::Reshape(values, row_dims);
  Output ids = AsPlaces(indices);
  if (batch > 1) {
    ids = ops::Reshape(ids, {batch, picked}) + RowOffsets(b, ids.dtype(), batch, rows);
  }
  ids = ops::Reshape(ids, {picked < 0 ? -1 : batch * picked});
  Output sum = ops::UnsortedSegmentSum(values, ids, batch * rows);
  if (outer > 1) {
    sum = ops::Transpose(ops::Reshape(sum, {batch, rows, outer, inner}), {0, 2, 1, 3});
  }
  return sum.shape() == params ? sum : ops::Reshape(sum, {params.dims().begin(), params.dims().end()});
}

// The sum of rows by ids, [segments, ...].
Output SumOfRows(const Output& rows, const Output& ids, const Output& segments) {
  return Emit("UnsortedSegmentSum", {rows, ids, segments}, {{"T", rows.dtype()}, {"Tindices", ids.dtype()}, {"Tnumsegments", DataType::kInt32}});
}

// x, [a.., b.., c..], as [b.., a.., c..]: `a` and `b` dimensions of `rank`.
Output Exchanged(const Output& x, int a, int b, int rank) {
  if (a == 0 || b == 0) return x;
  IntList order;
  for (int i = 0; i < b; ++i) order.push_back(a + i);
  for (int i = 0; i < a; ++i) order.push_back(i);
  for (int i = a + b; i < rank; ++i) order.push_back(i);
  return ops::Transpose(x, order);
}

// Of params or batches whose shapes are not known.
absl::Status GatherOfUnknown(Context& c, int axis, int batch_dims) {
  const Output &params = c.input(0), g = c.gradient();
  const Output ids = AsPlaces(c.input(1)), rows = DimOf(params, axis);
  GraphBuilder& b = c.builder();
  if (batch_dims == 0) {
    const int rank = params.rank();
    c.Set(0, Exchanged(SumOfRows(Exchanged(g, axis, ids.rank(), rank - 1 + ids.rank()), ids, rows), 1, axis, rank));
    return absl::OkStatus();
  }
  if (batch_dims != 1 || axis != 1) {
    return c.Error(absl::StrCat("needs known shapes, or batch_dims of 0, or batch_dims and axis of 1: params are ", params.type().ToString(),
                                ", batch_dims ", batch_dims, ", axis ", axis));
  }
  const Output batch = DimOf(params, 0);
  const Output first = ops::Cast(ops::Range(b.Int(0), batch, b.Int(1)) * rows, ids.dtype());
  const Output places = ids + WithOnesBehind(first, ids.rank() - 1);
  c.Set(0, ReshapeAs(SumOfRows(g, places, batch * rows), params));
  return absl::OkStatus();
}

absl::Status GatherV2Gradient(Context& c) {
  MR_RETURN_IF_ERROR(ExpectRanks(c));
  if (!c.wants(0)) return absl::OkStatus();
  const Shape& params = c.input(0).shape();
  int64_t axis = 0;
  if (c.num_inputs() > 2) {
    MR_ASSIGN_OR_RETURN(const IntList value, c.ConstantInts(2));
    axis = value[0] < 0 ? value[0] + params.rank() : value[0];
  }
  int64_t batch_dims = c.attrs().GetOr<int64_t>("batch_dims", 0);
  if (batch_dims < 0) batch_dims += c.input(1).rank();
  if (!HasKnownShape(c.input(0)) || (batch_dims > 0 && !HasKnownShape(c.input(1)))) {
    return GatherOfUnknown(c, static_cast<int>(axis), static_cast<int>(batch_dims));
  }
  c.Set(0, GatherGradient(c.gradient(), c.input(1), params, static_cast<int>(axis), static_cast<int>(batch_dims)));
  return absl::OkStatus();
}

absl::Status GatherNdGradient(Context& c) {
  MR_RETURN_IF_ERROR(ExpectRanks(c));
  if (c.wants(0)) c.Set(0, ScatterNd(c, c.input(1), c.gradient(), ShapeOf(c.input(0), c.input(1).dtype())));
  return absl::OkStatus();
}

absl::Status ScatterNdGradient(Context& c) {
  if (c.wants(1)) c.Set(1, GatherNd(c, c.gradient(), c.input(0)));
  return absl::OkStatus();
}

absl::Status TensorScatterGradient(Context& c) {
  MR_RETURN_IF_ERROR(ExpectRanks(c));
  const Output g = c.gradient(), indices = c.input(1);
  const double sign = c.op() == "TensorScatterSub" ? -1 : 1;
  if (c.wants(0)) {
    c.Set(0, c.op() != "TensorScatterUpdate"
                 ? g
                 : SameAttrs(c, "TensorScatterUpdate", {g, indices, ZerosOf(c.input(2))}));
  }
  if (c.wants(2)) {
    const Output part = GatherNd(c, g, indices);
    c.Set(2, sign < 0 ? -part : part);
  }
  return absl::OkStatus();
}

// Rows with a negative id belong to no segment.
absl::Status UnsortedSegmentSumGradient(Context& c) {
  const Output ids = c.input(1);
  MR_RETURN_IF_ERROR(ExpectRanks(c));
  if (!c.wants(0)) return absl::OkStatus();
  const Output zero = c.builder().Scalar(ids.dtype(), 0);
  const Output rows = ops::Gather(c.gradient(), ops::Maximum(ids, zero));
  Output owned = ops::Binary("GreaterEqual", ids, zero);
  if (HasKnownShape(ids) || ids.rank() == 1) {
    IntList dims = HasKnownShape(ids) ? Dims(ids) : IntList{-1};
    dims.resize(rows.rank(), 1);
    owned = ops::Reshape(owned, dims);
  } else {
    owned = WithOnesBehind(owned, rows.rank() - ids.rank());
  }
  c.Set(0, ops::Select(owned, rows, c.builder().Scalar(rows.dtype(), 0)));
  return absl::OkStatus();
}

absl::Status SegmentSumGradient(Context& c) {
  if (c.wants(0)) c.Set(0, ops::Gather(c.gradient(), c.input(1)));
  return absl::OkStatus();
}

absl::Status TopKGradient(Context& c) {
  MR_RETURN_IF_ERROR(ExpectRanks(c));
  const Output& x = c.input(0);
  const Output indices = AsPlaces(c.output(1));
  if (!HasKnownShape(x)) {
    GraphBuilder& b = c.builder();
    const Output columns = DimOf(x, -1), picked = LastFlat(indices, DimOf(indices, -1)), rows = DimOf(picked, 0);
    const Output places = picked + ops::Cast(ops::ExpandDims(ops::Range(b.Int(0), rows, b.Int(1)) * columns, -1), picked.dtype());
    c.Set(0, ReshapeAs(SumOfRows(LastFlat(c.gradient(0), DimOf(indices, -1)), places, rows * columns), x));
    return absl::OkStatus();
  }
  const int64_t columns = x.dim(-1), k = indices.dim(-1);
  const int64_t rows = columns == 0 ? 0 : x.shape().num_elements() / columns;
  const Output flat_indices =
      ops::Reshape(indices, {rows, k}) + RowOffsets(c.builder(), indices.dtype(), rows, columns);
  const Output flat = ScatterNd(c, ops::Reshape(flat_indices, {rows * k, 1}), ops::Reshape(c.gradient(0), {rows * k}),
                                DimsConstant(c.builder(), Shape({rows * columns}), flat_indices.dtype()));
  c.Set(0, ops::Reshape(flat, Dims(x)));
  return absl::OkStatus();
}

// (x, rows, v): v is added to, subtracted from or put in the place of rows of x.
absl::Status InplaceGradient(Context& c) {
  MR_RETURN_IF_ERROR(ExpectRanks(c));
  const Output g = c.gradient(), rows = c.input(1);
  if (c.wants(0)) {
    c.Set(0, c.op() != "InplaceUpdate"
                 ? g
                 : SameAttrs(c, c.op(), {g, rows, ZerosOf(c.input(2))}));
  }
  if (c.wants(2)) {
    const Output part = ops::Gather(g, rows);
    c.Set(2, c.op() == "InplaceSub" ? -part : part);
  }
  return absl::OkStatus();
}

// The parts are put back where they were taken from.
absl::Status DynamicPartitionGradient(Context& c) {
  MR_RETURN_IF_ERROR(ExpectRanks(c));
  if (!c.wants(0)) return absl::OkStatus();
  GraphBuilder& b = c.builder();
  const Output partitions = c.input(1);
  const Output count = HasKnownShape(partitions) ? b.Int(partitions.shape().num_elements())
                                                 : Output(Emit("Size", {partitions}, {{"T", partitions.dtype()}, {"out_type", DataType::kInt32}}));
  const Output positions = ReshapeAs(ops::Range(b.Int(0), count, b.Int(1)), partitions);
  AttrMap attrs = c.attrs();
  attrs.Set("T", positions.dtype());
  std::vector<Output> inputs = Emit(c.op(), {positions, partitions}, attrs).outputs();
  const int64_t parts = inputs.size();
  for (int i = 0; i < parts; ++i) inputs.push_back(c.gradient(i));
  const Output together = Emit("ParallelDynamicStitch", absl::MakeConstSpan(inputs), {{"T", c.dtype()}, {"N", parts}}, {});
  c.Set(0, ReshapeAs(together, c.input(0)));
  return absl::OkStatus();
}

absl::Status DynamicStitchGradient(Context& c) {
  const int count = c.num_inputs() / 2;
  for (int i = 0; i < count; ++i) {
    if (c.wants(count + i)) c.Set(count + i, ops::Gather(c.gradient(), c.input(i)));
  }
  return absl::OkStatus();
}

}  // namespace

void AddGatherGradients(GradientTable& table) {
  table.Add({"Gather", "GatherV2", "ResourceGather"}, GatherV2Gradient);
  table.Add({"GatherNd", "ResourceGatherNd"}, GatherNdGradient);
  table.Add("ScatterNd", ScatterNdGradient);
  table.Add({"TensorScatterUpdate", "TensorScatterAdd", "TensorScatterSub"}, TensorScatterGradient);
  table.Add("UnsortedSegmentSum", UnsortedSegmentSumGradient);
  table.Add("SegmentSum", SegmentSumGradient);
  table.Add({"TopKV2", "TopK"}, TopKGradient);
  table.Add({"InplaceAdd", "InplaceSub", "InplaceUpdate"}, InplaceGradient);
  table.Add("DynamicPartition", DynamicPartitionGradient);
  table.Add({"DynamicStitch", "ParallelDynamicStitch"}, DynamicStitchGradient);
}

}  // namespace millrace
