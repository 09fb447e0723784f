// Gathers and scatters, OneHot, TopK. Indices may be negative in ONNX: they count from the end.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "onnx/lowering.h"

namespace millrace::onnx {
namespace {

// Indices into `size` elements, counted from the front. Constants are turned here, others in the graph.
Output FromFront(const Output& indices, int64_t size) {
  if (!indices.valid()) return indices;
  GraphBuilder& b = *indices.builder();
  if (const Tensor* value = b.ConstantValue(indices); value != nullptr) {
    Tensor turned(DataType::kInt64, value->shape());
    for (int64_t i = 0; i < value->num_elements(); ++i) {
      const int64_t index = value->IntAt(i);
      turned.mutable_as<int64_t>()[i] = index < 0 ? index + size : index;
    }
    return b.SharedConst(std::move(turned));
  }
  const Output wide = ops::Cast(indices, DataType::kInt64);
  return ops::Select(ops::Binary("Less", wide, 0), ops::Binary("AddV2", wide, static_cast<double>(size)), wide);
}

absl::Status ExpectIndices(const NodeContext& c, const Output& indices) {
  if (!indices.valid() || indices.dtype() == DataType::kInt32 || indices.dtype() == DataType::kInt64) {
    return absl::OkStatus();
  }
  return c.Error(absl::StrCat("indices are ", indices.type().ToString(), ", expected int32 or int64"));
}

absl::Status Gather(NodeContext& c) {
  MR_RETURN_IF_ERROR(c.ExpectInputs(2, 2));
  const Output x = c.in(0), indices = c.in(1);
  MR_RETURN_IF_ERROR(ExpectIndices(c, indices));
  if (!x.valid() || !indices.valid()) return absl::OkStatus();
  MR_ASSIGN_OR_RETURN(const int64_t axis, c.Axis(c.Int("axis", 0), x.rank()));
  c.Set(0, ops::Gather(x, FromFront(indices, x.dim(static_cast<int>(axis))), axis));
  return absl::OkStatus();
}

IntList Strides(const IntList& dims) {
  IntList strides(dims.size(), 1);
  for (size_t i = dims.size(); i-- > 1;) strides[i - 1] = strides[i] * dims[i];
  return strides;
}

Output RangeOf(GraphBuilder& b, int64_t count) {
  return ops::Cast(ops::Range(b.Int(0), b.Int(count), b.Int(1)), DataType::kInt64);
}

// Where indices counted from the front lie outside a dimension; not valid() where they are known and none does. A position in
// the flattened data would be somebody else's.
absl::StatusOr<Output> Outside(const NodeContext& c, const Output& indices, int64_t size) {
  const Tensor* value = indices.valid() ? c.b.ConstantValue(indices) : nullptr;
  for (int64_t i = 0; value != nullptr && i < value->num_elements(); ++i) {
    const int64_t index = value->IntAt(i);
    if (index < 0 || index >= size) {
      return c.Error(absl::StrCat("an index of ", index < 0 ? index - size : index, " along a dimension of ", size));
    }
  }
  if (value != nullptr) return Output();
  return c.b.Op("LogicalOr", {ops::Binary("Less", indices, 0), ops::Binary("GreaterEqual", indices, static_cast<double>(size))})
      .output(0);
}

// Positions among `count`, one that the kernels refuse where an index lies outside.
Output RefusedOutside(const Output& positions, const Output& outside, int64_t count) {
  if (!outside.valid()) return positions;
  return ops::Select(outside, positions.builder()->Scalar(DataType::kInt64, static_cast<double>(count)), positions);
}

// Positions in the flattened data [dims] of elements that lie at `indices` along `axis` and at their own place along the
// other axes.
absl::StatusOr<Output> FlatPositions(const NodeContext& c, const Output& indices, const IntList& dims, int64_t axis) {
  GraphBuilder& b = *indices.builder();
  const IntList strides = Strides(dims);
  const Output places = FromFront(indices, dims[axis]);
  MR_ASSIGN_OR_RETURN(const Output outside, Outside(c, places, dims[axis]));
  Output flat = ops::Binary("Mul", places, static_cast<double>(strides[axis]));
  for (size_t i = 0; i < dims.size(); ++i) {
    if (static_cast<int64_t>(i) == axis || indices.dim(static_cast<int>(i)) <= 1) continue;
    IntList shape(dims.size(), 1);
    shape[i] = indices.dim(static_cast<int>(i));
    const Output place = ops::Binary("Mul", RangeOf(b, shape[i]), static_cast<double>(strides[i]));
    flat = ops::Add(flat, ops::Reshape(place, shape));
  }
  return RefusedOutside(flat, outside, Product(dims));
}

// One rank, and indices for no more elements than there are along the other axes.
absl::StatusOr<int64_t> ElementsAxis(const NodeContext& c, const Output& x, const Output& indices) {
  if (x.rank() != indices.rank() || x.rank() == 0) {
    return c.Error(absl::StrCat("data ", x.type().ToString(), " and indices ", indices.type().ToString(),
                                ": expected the same rank, at least 1"));
  }
  MR_ASSIGN_OR_RETURN(const int64_t axis, c.Axis(c.Int("axis", 0), x.rank()));
  for (int i = 0; i < x.rank(); ++i) {
    if (i == axis || indices.dim(i) <= x.dim(i)) continue;
    return c.Error(absl::StrCat("data ", x.type().ToString(), " has fewer elements than indices ", indices.type().ToString(),
                                " along axis ", i));
  }
  return axis;
}

absl::Status GatherElements(NodeContext& c) {
  MR_RETURN_IF_ERROR(c.ExpectInputs(2, 2));
  const Output x = c.in(0), indices = c.in(1);
  MR_RETURN_IF_ERROR(ExpectIndices(c, indices));
  if (!x.valid() || !indices.valid()) return absl::OkStatus();
  MR_ASSIGN_OR_RETURN(const int64_t axis, ElementsAxis(c, x, indices));
  MR_ASSIGN_OR_RETURN(const Output positions, FlatPositions(c, indices, Dims(x), axis));
  c.Set(0, ops::Gather(ops::Reshape(x, {-1}), positions));
  return absl::OkStatus();
}

struct FlatTuples {
  Output positions, outside;
};

// Index tuples [..., depth] into the first `depth` dimensions -> positions [...] in the data flattened over them.
absl::StatusOr<FlatTuples> Flattened(const NodeContext& c, const Output& indices, const IntList& dims) {
  const int64_t depth = indices.dim(-1);
  const IntList strides = Strides(IntList(dims.begin(), dims.begin() + depth));
  FlatTuples flat;
  for (int64_t i = 0; i < depth; ++i) {
    const Output places = FromFront(ops::Index(indices, i, -1), dims[i]);
    MR_ASSIGN_OR_RETURN(const Output outside, Outside(c, places, dims[i]));
    if (outside.valid()) flat.outside = flat.outside.valid() ? c.b.Op("LogicalOr", {flat.outside, outside}).output(0) : outside;
    const Output part = ops::Binary("Mul", places, static_cast<double>(strides[i]));
    flat.positions = i == 0 ? part : ops::Add(flat.positions, part);
  }
  return flat;
}

absl::Status ExpectTuples(const NodeContext& c, const Output& x, const Output& indices, int64_t batch) {
  if (indices.rank() < 1 || indices.dim(-1) < 1 || indices.dim(-1) > x.rank() - batch) {
    return c.Error(absl::StrCat("data ", x.type().ToString(), ", indices ", indices.type().ToString(),
                                ": expected tuples of at most ", x.rank() - batch));
  }
  return absl::OkStatus();
}

absl::Status GatherNd(NodeContext& c) {
  MR_RETURN_IF_ERROR(c.ExpectInputs(2, 2));
  Output x = c.in(0), indices = c.in(1);
  MR_RETURN_IF_ERROR(ExpectIndices(c, indices));
  if (!x.valid() || !indices.valid()) return absl::OkStatus();
  const int64_t batch = c.Int("batch_dims", 0);
  if (batch < 0 || batch >= x.rank() || batch >= indices.rank()) return c.Error(absl::StrCat("batch_dims is ", batch));
  MR_RETURN_IF_ERROR(ExpectTuples(c, x, indices, batch));
  const IntList dims = Dims(x), index_dims = Dims(indices);
  const int64_t depth = index_dims.back(), batches = Product(IntList(dims.begin(), dims.begin() + batch));
  if (!std::equal(dims.begin(), dims.begin() + batch, index_dims.begin())) {
    return c.Error(absl::StrCat("data ", x.type().ToString(), " and indices ", indices.type().ToString(),
                                " differ in the first ", batch, " dimensions"));
  }
  const IntList indexed(dims.begin() + batch, dims.begin() + batch + depth);
  MR_ASSIGN_OR_RETURN(const FlatTuples tuples, Flattened(c, indices, indexed));
  Output flat = tuples.positions;
  if (batch > 0) {
    IntList shape(flat.rank(), 1);
    std::copy(dims.begin(), dims.begin() + batch, shape.begin());
    const Output first = ops::Binary("Mul", RangeOf(c.b, batches), static_cast<double>(Product(indexed)));
    flat = ops::Add(flat, ops::Reshape(first, shape));
  }
  IntList merged = {batches * Product(indexed)};
  merged.insert(merged.end(), dims.begin() + batch + depth, dims.end());
  c.Set(0, ops::Gather(ops::Reshape(x, merged), RefusedOutside(flat, tuples.outside, merged[0])));
  return absl::OkStatus();
}

// data (flattened over its leading dimensions to rows) with `updates` at rows `positions` (rank 1).
absl::StatusOr<Output> Scattered(const NodeContext& c, const Output& rows, const Output& positions,
                                 const Output& updates) {
  GraphBuilder& b = *rows.builder();
  const std::string reduction = c.String("reduction", "none");
  if (reduction == "mul") {
    // Rows that get nothing are multiplied by the empty product.
    const Output factor = b.Op("UnsortedSegmentProd", {updates, positions, b.Int(rows.dim(0))},
                               {{"T", rows.dtype()}, {"Tindices", DataType::kInt64}, {"Tnumsegments", DataType::kInt32}});
    return ops::Mul(rows, factor);
  }
  const char* op = reduction == "none"  ? "TensorScatterUpdate"
                   : reduction == "add" ? "TensorScatterAdd"
                   : reduction == "max" ? "TensorScatterMax"
                   : reduction == "min" ? "TensorScatterMin"
                                        : nullptr;
  if (op == nullptr) return c.Error(absl::StrCat("reduction is '", reduction, "'"));
  return b.Op(op, {rows, ops::ExpandDims(positions, 1), updates}, {{"T", rows.dtype()}, {"Tindices", DataType::kInt64}})
      .output(0);
}

absl::Status ScatterElements(NodeContext& c) {
  MR_RETURN_IF_ERROR(c.ExpectInputs(3, 3));
  const Output x = c.in(0), indices = c.in(1), updates = c.in(2);
  MR_RETURN_IF_ERROR(ExpectIndices(c, indices));
  if (!x.valid() || !indices.valid() || !updates.valid()) return absl::OkStatus();
  MR_ASSIGN_OR_RETURN(const int64_t axis, ElementsAxis(c, x, indices));
  if (updates.shape() != indices.shape() || updates.dtype() != x.dtype()) {
    return c.Error(absl::StrCat("updates are ", updates.type().ToString(), ", expected the indices' shape ",
                                indices.shape().ToString()));
  }
  MR_ASSIGN_OR_RETURN(const Output positions, FlatPositions(c, indices, Dims(x), axis));
  MR_ASSIGN_OR_RETURN(const Output flat,
                      Scattered(c, ops::Reshape(x, {-1}), ops::Reshape(positions, {-1}), ops::Reshape(updates, {-1})));
  c.Set(0, ops::Reshape(flat, Dims(x)));
  return absl::OkStatus();
}

absl::Status ScatterNd(NodeContext& c) {
  MR_RETURN_IF_ERROR(c.ExpectInputs(3, 3));
  const Output x = c.in(0), indices = c.in(1), updates = c.in(2);
  MR_RETURN_IF_ERROR(ExpectIndices(c, indices));
  if (!x.valid() || !indices.valid() || !updates.valid()) return absl::OkStatus();
  MR_RETURN_IF_ERROR(ExpectTuples(c, x, indices, 0));
  const IntList dims = Dims(x);
  const int64_t depth = indices.dim(-1);
  IntList rows = {Product(IntList(dims.begin(), dims.begin() + depth))};
  rows.insert(rows.end(), dims.begin() + depth, dims.end());
  MR_ASSIGN_OR_RETURN(const FlatTuples tuples, Flattened(c, indices, dims));
  const Output positions = ops::Reshape(RefusedOutside(tuples.positions, tuples.outside, rows[0]), {-1});
  if (!positions.valid()) return absl::OkStatus();
  IntList update_rows = rows;
  update_rows[0] = positions.dim(0);
  MR_ASSIGN_OR_RETURN(const Output flat,
                      Scattered(c, ops::Reshape(x, rows), positions, ops::Reshape(updates, update_rows)));
  c.Set(0, ops::Reshape(flat, dims));
  return absl::OkStatus();
}

absl::Status OneHot(NodeContext& c) {
  MR_RETURN_IF_ERROR(c.ExpectInputs(3, 3));
  const Output indices = c.in(0);
  MR_ASSIGN_OR_RETURN(const std::vector<double> depth, c.ConstantFloats(1));
  Output values;
  if (absl::StatusOr<Tensor> known = c.Constant(2); known.ok()) {
    values = c.b.SharedConst(*std::move(known));
  } else {
    values = c.in(2);
  }
  if (!indices.valid() || !values.valid()) return absl::OkStatus();
  constexpr double kMost = 1 << 30;
  if (depth.size() != 1 || !(depth[0] >= 1 && depth[0] <= kMost)) return c.Error("depth is not one positive number");
  if (values.shape() != Shape({2})) return c.Error(absl::StrCat("values are ", values.type().ToString(), ", expected two"));
  const int64_t classes = static_cast<int64_t>(depth[0]);
  MR_ASSIGN_OR_RETURN(const int64_t axis, c.Axis(c.Int("axis", -1), indices.rank() + 1));
  const Output off = ops::Index(values, 0, 0), on = ops::Index(values, 1, 0);
  c.Set(0, c.b.Op("OneHot", {FromFront(ops::Cast(indices, DataType::kInt64), classes), c.b.Int(classes), on, off},
                  {{"T", values.dtype()}, {"TI", DataType::kInt64}, {"axis", axis == indices.rank() ? -1 : axis}}));
  return absl::OkStatus();
}

absl::Status TopK(NodeContext& c) {
  MR_RETURN_IF_ERROR(c.ExpectInputs(1, 2));
  IntList k = {c.Int("k", 0)};
  if (c.has(1)) {
    MR_ASSIGN_OR_RETURN(k, c.ConstantInts(1));
  }
  Output x = c.in(0);
  if (!x.valid()) return absl::OkStatus();
  if (k.size() != 1) return c.Error("k is not one number");
  MR_ASSIGN_OR_RETURN(const int64_t axis, c.Axis(c.Int("axis", -1), x.rank()));
  if (k[0] < 0 || k[0] > x.dim(static_cast<int>(axis))) {
    return c.Error(absl::StrCat("the first ", k[0], " along axis ", axis, " of ", x.type().ToString()));
  }
  IntList swap = Iota(x.rank());
  std::swap(swap[axis], swap.back());
  const bool moved = axis != x.rank() - 1, largest = c.Int("largest", 1) != 0;
  if (moved) x = ops::Transpose(x, swap);
  // The smallest are the largest of what is turned around: -x, or ~x of integers (which has no overflow).
  const char* turn = IsFloating(x.dtype()) ? "Neg" : "Invert";
  if (!largest) x = ops::Unary(turn, x);
  const ops::TopKResult top = ops::TopK(x, k[0]);
  Output values = largest ? top.values : ops::Unary(turn, top.values), indices = ops::Cast(top.indices, DataType::kInt64);
  if (moved) {
    values = ops::Transpose(values, swap);
    indices = ops::Transpose(indices, swap);
  }
  c.Set(0, values);
  c.Set(1, indices);
  return absl::OkStatus();
}

}  // namespace

void AddGatherLowerings(LoweringTable& table) {
  for (const auto& [op, lowering] : std::initializer_list<std::pair<const char*, Lowering>>{
           {"Gather", Gather},
           {"GatherElements", GatherElements},
           {"GatherND", GatherNd},
           {"ScatterElements", ScatterElements},
           {"Scatter", ScatterElements},
           {"ScatterND", ScatterNd},
           {"OneHot", OneHot},
           {"TopK", TopK}}) {
    table.Add(op, lowering);
  }
}

}  // namespace millrace::onnx
