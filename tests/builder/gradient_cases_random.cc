// Cases drawn at random: shapes with broadcasting, 1s and 0s, axes from both ends, attributes. The same seed gives the
// same cases everywhere.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "builder/random_draw.h"
#include "millrace/graph_ops.h"

namespace millrace::testing {
namespace {

using Inputs = const std::vector<Output>&;

constexpr DataType kInt32 = DataType::kInt32;

GradientCase Unary(Draw& draw) {
  const char* op =
      draw.Of({"Neg",      "Abs",      "Exp",    "Log",     "Log1p", "Sqrt", "Rsqrt", "Square", "Reciprocal",
               "Sin",      "Cos",      "Tanh",   "Sigmoid", "Erf",   "Relu", "Elu",   "Selu",   "Softplus",
               "Softsign", "Identity", "L2Loss", "Relu6",   "Expm1", "Sinh", "Atan",  "Lgamma", "Digamma"});
  return {op, {Of(draw.Shape(0, 4))}, [op](GraphBuilder&, Inputs x) { return ops::Unary(op, x[0]); }};
}

GradientCase Rows(Draw& draw) {
  const char* op = draw.Of({"Softmax", "LogSoftmax"});
  return {op, {Of(draw.Shape(1, 4, false))}, [op](GraphBuilder&, Inputs x) { return ops::Unary(op, x[0]); }};
}

GradientCase Binary(Draw& draw) {
  const char* op = draw.Of({"AddV2", "Sub", "Mul", "RealDiv", "DivNoNan", "MulNoNan", "Maximum", "Minimum",
                            "SquaredDifference", "Pow", "Atan2", "Xlogy", "Xdivy", "FloorMod"});
  const Dims whole = draw.Shape(0, 4);
  const bool first = draw.Coin(), both = draw.Int(0, 2) == 0;
  const Dims narrow = draw.Narrower(whole), other = both ? draw.Narrower(whole) : whole;
  return {op, {Of(first ? narrow : other), Of(first ? other : narrow)}, [op](GraphBuilder&, Inputs x) {
            return ops::Binary(op, x[0], x[1]);
          }};
}

GradientCase Select(Draw& draw) {
  const Dims whole = draw.Shape(0, 3);
  const Dims chosen = draw.Narrower(whole);
  const Dims bits = draw.Ints(Count(chosen), 0, 1);
  return {"SelectV2", {Of(draw.Narrower(whole)), Of(draw.Narrower(whole))}, [=](GraphBuilder& b, Inputs x) {
            return ops::Select(ops::Cast(IntsOf(b, bits, chosen), DataType::kBool), ops::Square(x[0]), x[1]);
          }};
}

// With `ties` every element is a whole number: extrema share their gradient, which no difference shows.
GradientCase Reduction(Draw& draw) {
  const std::string op = draw.Of({"Sum", "Mean", "Max", "Min", "Prod", "EuclideanNorm"});
  const Dims dims = draw.Shape(0, 4, op == "Sum" || op == "Prod"), axes = draw.Axes(static_cast<int64_t>(dims.size()));
  const bool keep = draw.Coin(), ties = (op == "Max" || op == "Min") && draw.Coin();
  GradientCase drawn{op, {Of(dims, 0.4, ties ? 3 : 2)}, [=](GraphBuilder& b, Inputs x) -> Output {
                       const Output y = ties ? ops::Unary("Round", x[0]) + (x[0] - ops::StopGradient(x[0])) : x[0];
                       return b.Op(op, {y, IntsOf(b, axes, {static_cast<int64_t>(axes.size())})},
                                   {{"T", y.dtype()}, {"Tidx", kInt32}, {"keep_dims", keep}});
                     }};
  drawn.derivative = !ties;
  return drawn;
}

GradientCase Scan(Draw& draw) {
  const char* op = draw.Of({"Cumsum", "Cumprod", "CumulativeLogsumexp"});
  const Dims dims = draw.Shape(1, 4);
  const int64_t axis = draw.Axis(static_cast<int64_t>(dims.size()));
  const bool exclusive = draw.Coin(), reverse = draw.Coin();
  return {op,
          {Of(dims)},
          [=](GraphBuilder& b, Inputs x) -> Output {
            return b.Op(op, {x[0], b.Int(axis)},
                        {{"T", x[0].dtype()}, {"Tidx", kInt32}, {"exclusive", exclusive}, {"reverse", reverse}});
          },
          std::string(op) != "CumulativeLogsumexp"};
}

GradientCase Product(Draw& draw) {
  const bool ta = draw.Coin(), tb = draw.Coin(), batched = draw.Coin();
  const Dims sizes = {draw.Int(1, 3), draw.Int(0, 7) == 0 ? 0 : draw.Int(1, 4), draw.Int(1, 3)};
  Dims a = {sizes[0], sizes[1]}, c = {sizes[1], sizes[2]};
  if (ta) std::swap(a[0], a[1]);
  if (tb) std::swap(c[0], c[1]);
  if (!batched) {
    return {"MatMul", {Of(a), Of(c)}, [=](GraphBuilder&, Inputs x) { return ops::MatMul(x[0], x[1], {ta, tb}); }};
  }
  const Dims batch = draw.Shape(0, 2), first = draw.Narrower(batch),
             second = draw.Coin() ? batch : draw.Narrower(batch);
  a.insert(a.begin(), first.begin(), first.end());
  c.insert(c.begin(), second.begin(), second.end());
  return {"BatchMatMulV2", {Of(a), Of(c)}, [=](GraphBuilder&, Inputs x) {
            return ops::BatchMatMul(x[0], x[1], {ta, tb});
          }};
}

GradientCase Einsum(Draw& draw) {
  struct Form {
    const char* equation;
    const char *first, *second;
  };
  const Form form = draw.Of<Form>({{"ij,jk->ik", "ij", "jk"},
                                   {"bij,bkj->bik", "bij", "bkj"},
                                   {"abc,cd->abd", "abc", "cd"},
                                   {"bhqd,bhkd->bhqk", "bhqd", "bhkd"},
                                   {"ij,ij->", "ij", "ij"},
                                   {"i,j->ji", "i", "j"},
                                   {"bi,bij->j", "bi", "bij"},
                                   {"ab,cb->c", "ab", "cb"}});
  Dims sizes(26);
  for (int64_t& size : sizes) size = draw.Int(1, 3);
  const auto dims = [&sizes](const char* labels) {
    Dims result;
    for (; *labels != '\0'; ++labels) result.push_back(sizes[*labels - 'a']);
    return result;
  };
  return {"Einsum",
          {Of(dims(form.first)), Of(dims(form.second))},
          [equation = std::string(form.equation)](GraphBuilder&, Inputs x) { return ops::Einsum(x, equation); }};
}

GradientCase Join(Draw& draw) {
  const Dims dims = draw.Shape(1, 4);
  const int64_t rank = static_cast<int64_t>(dims.size()), axis = draw.Axis(rank);
  if (draw.Coin()) {
    return {"Pack", {Of(dims), Of(dims)}, [axis](GraphBuilder&, Inputs x) { return ops::Pack(x, axis); }};
  }
  Dims other = dims;
  other[axis < 0 ? axis + rank : axis] = draw.Int(0, 3);
  return {
      "ConcatV2", {Of(dims), Of(other), Of(dims)}, [axis](GraphBuilder&, Inputs x) { return ops::Concat(x, axis); }};
}

GradientCase Parts(Draw& draw) {
  Dims dims = draw.Shape(1, 3, false);
  const int64_t rank = static_cast<int64_t>(dims.size()), axis = draw.Axis(rank);
  int64_t& size = dims[axis < 0 ? axis + rank : axis];
  // One of the parts is left without a use.
  if (draw.Coin()) {
    size = 2 * draw.Int(1, 2);
    return {"Split", {Of(dims)}, [=](GraphBuilder&, Inputs x) { return ops::Square(ops::Split(x[0], 2, axis)[1]); }};
  }
  if (draw.Coin()) {
    size = draw.Int(2, 4);
    return {"Unpack", {Of(dims)}, [=](GraphBuilder&, Inputs x) { return ops::Square(ops::Unpack(x[0], axis)[1]); }};
  }
  const Dims sizes = draw.Ints(3, 0, 2);
  size = sizes[0] + sizes[1] + sizes[2];
  return {"SplitV", {Of(dims)}, [=](GraphBuilder&, Inputs x) {
            const std::vector<Output> parts = ops::SplitV(x[0], sizes, axis);
            return ops::Concat({parts[2], ops::Square(parts[0])}, axis);
          }};
}

GradientCase Slice(Draw& draw) {
  const Dims dims = draw.Shape(1, 4, false);
  Dims begin, size;
  for (int64_t dim : dims) {
    begin.push_back(draw.Int(0, dim));
    size.push_back(draw.Int(0, 4) == 0 ? -1 : draw.Int(0, dim - begin.back()));
  }
  return {"Slice", {Of(dims)}, [=](GraphBuilder&, Inputs x) { return ops::Slice(x[0], begin, size); }};
}

GradientCase StridedSlice(Draw& draw) {
  const Dims dims = draw.Shape(1, 4, false);
  Dims begin, end, strides;
  int64_t masks[5] = {0, 0, 0, 0, 0};  // begin, end, ellipsis, new axis, shrink
  const int64_t spec = static_cast<int64_t>(dims.size()), ellipsis = draw.Coin() ? draw.Int(0, spec - 1) : -1;
  for (int64_t i = 0; i < spec; ++i) {
    const int64_t dim = dims[i];
    begin.push_back(draw.Int(-dim, dim - 1));
    end.push_back(draw.Int(-dim - 1, dim + 1));
    strides.push_back(draw.Of<int64_t>({1, 1, 2, -1, -2}));
    for (int mask : {0, 1}) masks[mask] |= (draw.Int(0, 2) == 0 ? int64_t{1} : 0) << i;
    if (i == ellipsis) {
      masks[2] = int64_t{1} << i;
    } else if (draw.Int(0, 5) == 0) {
      masks[4] |= int64_t{1} << i;
      strides.back() = 1;
    }
  }
  return {"StridedSlice", {Of(dims)}, [=](GraphBuilder& b, Inputs x) -> Output {
            return b.Op("StridedSlice", {x[0], b.Ints(begin), b.Ints(end), b.Ints(strides)},
                        {{"T", x[0].dtype()},
                         {"Index", kInt32},
                         {"begin_mask", masks[0]},
                         {"end_mask", masks[1]},
                         {"ellipsis_mask", masks[2]},
                         {"new_axis_mask", masks[3]},
                         {"shrink_axis_mask", masks[4]}});
          }};
}

GradientCase Pad(Draw& draw) {
  const Dims dims = draw.Shape(1, 4, false);
  const std::string mode = draw.Of({"", "REFLECT", "SYMMETRIC"});
  Dims paddings;
  for (int64_t dim : dims) {
    const int64_t most = mode.empty() ? 2 : mode == "REFLECT" ? dim - 1 : dim;
    paddings.push_back(draw.Int(0, most));
    paddings.push_back(draw.Int(0, most));
  }
  return {mode.empty() ? "Pad" : "MirrorPad", {Of(dims)}, [=](GraphBuilder& b, Inputs x) -> Output {
            const Output pairs = IntsOf(b, paddings, {static_cast<int64_t>(paddings.size()) / 2, 2});
            AttrMap attrs = {{"T", x[0].dtype()}, {"Tpaddings", kInt32}};
            if (!mode.empty()) attrs.Set("mode", mode);
            return b.Op(mode.empty() ? "Pad" : "MirrorPad", {x[0], pairs}, attrs);
          }};
}

GradientCase Move(Draw& draw) {
  const Dims dims = draw.Shape(1, 4);
  const int64_t rank = static_cast<int64_t>(dims.size());
  switch (draw.Int(0, 5)) {
    case 0: {
      const Dims order = draw.Permutation(rank);
      return {"Transpose", {Of(dims)}, [=](GraphBuilder&, Inputs x) { return ops::Transpose(x[0], order); }};
    }
    case 1: {
      const Dims axes = draw.Axes(rank);
      return {"ReverseV2", {Of(dims)}, [=](GraphBuilder& b, Inputs x) -> Output {
                return b.Op("ReverseV2", {x[0], IntsOf(b, axes, {static_cast<int64_t>(axes.size())})},
                            {{"T", x[0].dtype()}, {"Tidx", kInt32}});
              }};
    }
    case 2: {
      const Dims times = draw.Ints(rank, 0, 3);
      return {"Tile", {Of(dims)}, [=](GraphBuilder&, Inputs x) { return ops::Tile(x[0], times); }};
    }
    case 3: {
      const Dims shift = draw.Ints(2, -5, 5), axes = draw.Ints(2, -rank, rank - 1);
      return {"Roll", {Of(dims)}, [=](GraphBuilder& b, Inputs x) -> Output {
                return b.Op("Roll", {x[0], b.Ints(shift), b.Ints(axes)},
                            {{"T", x[0].dtype()}, {"Tshift", kInt32}, {"Taxis", kInt32}});
              }};
    }
    case 4:
      return {"BroadcastTo", {Of(draw.Narrower(dims))}, [=](GraphBuilder&, Inputs x) {
                return ops::BroadcastTo(x[0], dims);
              }};
    default: {
      const int64_t axis = draw.Int(-rank - 1, rank);
      return {"ExpandDims", {Of(dims)}, [=](GraphBuilder&, Inputs x) { return ops::ExpandDims(x[0], axis); }};
    }
  }
}

GradientCase Gather(Draw& draw) {
  const Dims dims = draw.Shape(1, 4, false);
  const int64_t rank = static_cast<int64_t>(dims.size()), axis = draw.Int(0, rank - 1), batch = draw.Int(0, axis);
  Dims shape(dims.begin(), dims.begin() + batch);
  const Dims rest = draw.Shape(0, 2);
  shape.insert(shape.end(), rest.begin(), rest.end());
  const Dims indices = draw.Ints(Count(shape), 0, dims[axis] - 1);
  const bool negative = draw.Coin();
  return {"GatherV2", {Of(dims)}, [=](GraphBuilder& b, Inputs x) -> Output {
            return b.Op("GatherV2", {x[0], IntsOf(b, indices, shape), b.Int(negative ? axis - rank : axis)},
                        {{"Tparams", x[0].dtype()}, {"Tindices", kInt32}, {"Taxis", kInt32}, {"batch_dims", batch}});
          }};
}

// Indices [rows, depth] of the first `depth` dimensions.
Dims Points(Draw& draw, const Dims& dims, int64_t rows, int64_t depth) {
  Dims points;
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t d = 0; d < depth; ++d) points.push_back(draw.Int(0, dims[d] - 1));
  }
  return points;
}

GradientCase NdPoints(Draw& draw) {
  const Dims dims = draw.Shape(1, 4, false);
  const int64_t rank = static_cast<int64_t>(dims.size()), depth = draw.Int(1, rank), rows = draw.Int(0, 3);
  const Dims points = Points(draw, dims, rows, depth);
  Dims updates = {rows};
  updates.insert(updates.end(), dims.begin() + depth, dims.end());
  switch (draw.Int(0, 3)) {
    case 0:
      return {"GatherNd", {Of(dims)}, [=](GraphBuilder& b, Inputs x) -> Output {
                return b.Op("GatherNd", {x[0], IntsOf(b, points, {rows, depth})},
                            {{"Tparams", x[0].dtype()}, {"Tindices", kInt32}});
              }};
    case 1:
      return {"ScatterNd", {Of(updates)}, [=](GraphBuilder& b, Inputs x) -> Output {
                return b.Op("ScatterNd", {IntsOf(b, points, {rows, depth}), x[0], b.Ints(dims)},
                            {{"T", x[0].dtype()}, {"Tindices", kInt32}});
              }};
    default: {
      const char* op = draw.Of({"TensorScatterAdd", "TensorScatterSub"});
      return {op, {Of(dims), Of(updates)}, [=](GraphBuilder& b, Inputs x) -> Output {
                return b.Op(op, {x[0], IntsOf(b, points, {rows, depth}), x[1]},
                            {{"T", x[0].dtype()}, {"Tindices", kInt32}});
              }};
    }
  }
}

GradientCase Segments(Draw& draw) {
  const Dims dims = draw.Shape(1, 3, false);
  const int64_t segments = draw.Int(1, 4);
  if (draw.Coin()) {
    const char* op = draw.Of({"UnsortedSegmentSum", "UnsortedSegmentMax", "UnsortedSegmentMin", "UnsortedSegmentProd"});
    const bool whole = std::string(op) == "UnsortedSegmentSum";
    // Every segment of the others holds a row: what an empty one holds is no number to differentiate.
    Dims ids = draw.Ints(dims[0], whole ? -1 : 0, segments - 1);
    const int64_t count = whole ? segments : *std::max_element(ids.begin(), ids.end()) + 1;
    if (!whole) {
      for (int64_t i = 0; i < dims[0]; ++i) ids[i] = ids[i] % std::min(count, dims[0]);
      for (int64_t i = 0; i < std::min(count, dims[0]); ++i) ids[i] = i;
    }
    const int64_t held = whole ? count : std::min(count, dims[0]);
    return {op, {Of(dims)}, [=](GraphBuilder& b, Inputs x) -> Output {
              return b.Op(op, {x[0], IntsOf(b, ids, {dims[0]}), b.Int(held)},
                          {{"T", x[0].dtype()}, {"Tindices", kInt32}, {"Tnumsegments", kInt32}});
            }};
  }
  const char* op = draw.Of({"SegmentSum", "SegmentMean", "SegmentMax", "SegmentMin"});
  Dims ids = {0};
  while (static_cast<int64_t>(ids.size()) < dims[0]) ids.push_back(ids.back() + draw.Int(0, 1));
  return {op, {Of(dims)}, [=](GraphBuilder& b, Inputs x) -> Output {
            return b.Op(op, {x[0], IntsOf(b, ids, {dims[0]})}, {{"T", x[0].dtype()}, {"Tindices", kInt32}});
          }};
}

}  // namespace

std::vector<GradientCase> RandomGradientCases(uint64_t first_seed, int count_per_family) {
  std::vector<GradientCase (*)(Draw&)> families = {Unary,   Rows,   Binary, Select,   Reduction, Scan,
                                                   Product, Einsum, Join,   Parts,    Slice,     StridedSlice,
                                                   Pad,     Move,   Gather, NdPoints, Segments};
  for (const auto family : RandomNetworkFamilies()) families.push_back(family);
  std::vector<GradientCase> cases;
  for (size_t family = 0; family < families.size(); ++family) {
    for (int i = 0; i < count_per_family; ++i) {
      const uint64_t seed = first_seed + i;
      Draw draw(seed * 1000 + family);
      cases.push_back(families[family](draw));
      cases.back().name = absl::StrCat("random_", seed, "_", family, "_", cases.back().name);
    }
  }
  return cases;
}

}  // namespace millrace::testing
