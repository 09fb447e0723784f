// Gradients of segment reductions other than sums, and of scatters that choose.
#include "builder/emit.h"
#include "builder/gradient_rules.h"

namespace millrace {
namespace {

using Context = GradientContext;
using ops::Binary;

Output SumInSegments(const Output& data, const Output& ids, const Output& segments) {
  return Emit("UnsortedSegmentSum", {data, ids, segments}, {{"T", data.dtype()}, {"Tindices", ids.dtype()}, {"Tnumsegments", DataType::kInt32}});
}

// Rows of `segments` by id, and whether a row belongs to any segment (a negative id belongs to none).
struct Rows {
  Output values, owned;
};
Rows OfSegments(const Output& segments, const Output& ids) {
  GraphBuilder& b = *segments.builder();
  const Output zero = b.Scalar(ids.dtype(), 0);
  Rows rows{.values = ops::Gather(segments, ops::Maximum(ids, zero))};
  const Output owned = Binary("GreaterEqual", ids, zero);
  if (HasKnownShape(ids)) {
    std::vector<int64_t> dims = Dims(ids);
    dims.resize(rows.values.rank(), 1);
    rows.owned = ops::Reshape(owned, dims);
  } else {
    rows.owned = WithOnesBehind(owned, rows.values.rank() - ids.rank());
  }
  return rows;
}

Output ZeroUnlessOwned(const Rows& rows, const Output& values) {
  return ops::Select(rows.owned, values, values.builder()->Scalar(values.dtype(), 0));
}

// Elements equal to their segment's extremum share its gradient.
absl::Status ExtremumGradient(Context& c) {
  MR_RETURN_IF_ERROR(ExpectRanks(c));
  if (!c.wants(0)) return absl::OkStatus();
  const Output &x = c.input(0), &ids = c.input(1);
  const Output segments = DimOf(c.output(0), 0);
  const Rows extremum = OfSegments(c.output(0), ids);
  const Output equal = ops::Cast(Binary("Equal", extremum.values, x), x.dtype());
  const Output chosen = ZeroUnlessOwned(extremum, equal);
  const Output share = Binary("DivNoNan", c.gradient(), SumInSegments(chosen, ids, segments));
  c.Set(0, chosen * OfSegments(share, ids).values);
  return absl::OkStatus();
}

absl::Status SegmentMeanGradient(Context& c) {
  MR_RETURN_IF_ERROR(ExpectRanks(c));
  if (!c.wants(0)) return absl::OkStatus();
  const Output &x = c.input(0), &ids = c.input(1), segments = DimOf(c.output(0), 0);
  if (!HasKnownShape(x)) {
    const Output counts = WithOnesBehind(SumInSegments(ops::Cast(ops::OnesLike(ids), x.dtype()), ids, segments), x.rank() - 1);
    c.Set(0, ops::Gather(Binary("DivNoNan", c.gradient(), counts), ids));
    return absl::OkStatus();
  }
  std::vector<int64_t> ones(x.rank(), 1);
  ones[0] = x.dim(0);
  const Output counts =
      SumInSegments(ops::Full(c.builder(), TensorType{x.dtype(), Shape(absl::MakeConstSpan(ones))}, 1), ids, segments);
  c.Set(0, ops::Gather(Binary("DivNoNan", c.gradient(), counts), ids));
  return absl::OkStatus();
}

// The product of the others: the segment's product over the element, or the product of the non-zero ones where the
// element is the only zero.
absl::Status ProductGradient(Context& c) {
  MR_RETURN_IF_ERROR(ExpectRanks(c));
  if (!c.wants(0)) return absl::OkStatus();
  const Output &x = c.input(0), &ids = c.input(1);
  const Output segments = DimOf(c.output(0), 0);
  GraphBuilder& b = c.builder();
  const Output zero = b.Scalar(x.dtype(), 0), is_zero = Binary("Equal", x, zero);
  const Output zeros = SumInSegments(ops::Cast(is_zero, x.dtype()), ids, segments);
  const Output g = ops::Select(Binary("Greater", zeros, b.Scalar(x.dtype(), 1)), zero, c.gradient());
  const Output nonzero = ops::Select(is_zero, b.Scalar(x.dtype(), 1), x);
  const Output nonzero_product =
      b.Op("UnsortedSegmentProd", {nonzero, ids, segments},
           {{"T", x.dtype()}, {"Tindices", ids.dtype()}, {"Tnumsegments", DataType::kInt32}});
  const Output others =
      ops::Select(is_zero, OfSegments(nonzero_product, ids).values, OfSegments(c.output(0), ids).values / nonzero);
  const Rows rows = OfSegments(g, ids);
  c.Set(0, ZeroUnlessOwned(rows, rows.values * others));
  return absl::OkStatus();
}

// SparseSegmentSum, Mean and SqrtN of (data, indices, ids) have an op as gradient; the two are each other's derivatives.
absl::Status SparseSegmentGradient(Context& c) {
  MR_RETURN_IF_ERROR(ExpectRanks(c));
  if (!c.wants(0)) return absl::OkStatus();
  const std::string name = c.op().substr(0, c.op().find("WithNumSegments"));
  const Output& ids = c.input(2);
  c.Set(0, Emit(name + "Grad", {c.gradient(), c.input(1), ids, DimOf(c.input(0), 0)},
                {{"T", c.dtype()}, {"Tidx", c.input(1).dtype()}, {"Tsegmentids", ids.dtype()}}));
  return absl::OkStatus();
}

absl::Status SparseSegmentGradGradient(Context& c) {
  MR_RETURN_IF_ERROR(ExpectRanks(c));
  if (!c.wants(0)) return absl::OkStatus();
  const std::string name = c.op().substr(0, c.op().size() - 4) + "WithNumSegments";
  const Output& ids = c.input(2);
  c.Set(0, Emit(name, {c.gradient(), c.input(1), ids, DimOf(c.input(0), 0)},
                {{"T", c.dtype()}, {"Tidx", c.input(1).dtype()}, {"Tnumsegments", DataType::kInt32}, {"Tsegmentids", ids.dtype()}}));
  return absl::OkStatus();
}

// TensorScatterMax and Min: whoever equals the result shares its gradient.
absl::Status TensorScatterExtremumGradient(Context& c) {
  MR_RETURN_IF_ERROR(ExpectRanks(c));
  const Output &x = c.input(0), &indices = c.input(1), &updates = c.input(2), &z = c.output(0);
  const Output kept = ops::Cast(Binary("Equal", x, z), x.dtype());
  const Output taken = ops::Cast(Binary("Equal", updates, GatherNd(c, z, indices)), x.dtype());
  const Output count = SameAttrs(c, "TensorScatterAdd", {kept, indices, taken});
  const Output share = Binary("DivNoNan", c.gradient(), count);
  if (c.wants(0)) c.Set(0, kept * share);
  if (c.wants(2)) c.Set(2, taken * GatherNd(c, share, indices));
  return absl::OkStatus();
}

absl::Status ScatterAddGradient(Context& c) {
  if (c.wants(0)) c.Set(0, c.gradient());
  if (c.wants(2)) c.Set(2, GatherNd(c, c.gradient(), c.input(1)));
  return absl::OkStatus();
}

// dense = default_value everywhere but values at indices.
absl::Status SparseToDenseGradient(Context& c) {
  MR_RETURN_IF_ERROR(ExpectKnownShapes(c));
  Output indices = c.input(0);
  if (indices.rank() < 2) indices = ops::Reshape(indices, {indices.shape().num_elements(), 1});
  const Output given = GatherNd(c, c.gradient(), indices);
  if (c.wants(2)) {
    const Output values = c.input(2).rank() == 0 ? ops::Sum(given, {}) : given;
    c.Set(2, ops::Reshape(values, Dims(c.input(2))));
  }
  if (c.wants(3)) c.Set(3, ops::Sum(c.gradient(), {}) - ops::Sum(given, {}));
  return absl::OkStatus();
}

}  // namespace

void AddSegmentGradients(GradientTable& table) {
  table.Add({"SegmentMax", "SegmentMin", "UnsortedSegmentMax", "UnsortedSegmentMin"}, ExtremumGradient);
  table.Add({"SegmentProd", "UnsortedSegmentProd"}, ProductGradient);
  table.Add("SegmentMean", SegmentMeanGradient);
  for (const char* name : {"SparseSegmentSum", "SparseSegmentMean", "SparseSegmentSqrtN"}) {
    table.Add(name, SparseSegmentGradient);
    table.Add(std::string(name) + "WithNumSegments", SparseSegmentGradient);
    table.Add(std::string(name) + "Grad", SparseSegmentGradGradient);
  }
  table.Add({"TensorScatterMax", "TensorScatterMin"}, TensorScatterExtremumGradient);
  table.Add("ScatterNdNonAliasingAdd", ScatterAddGradient);
  table.Add("SparseToDense", SparseToDenseGradient);
}

}  // namespace millrace
