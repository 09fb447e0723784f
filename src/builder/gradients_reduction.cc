// Gradients of reductions and scans.
#include <limits>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "builder/emit.h"
#include "builder/gradient_rules.h"

namespace millrace {
namespace {

using Context = GradientContext;
using ops::Binary;

// The reduced axes, each in [0, rank), ascending.
absl::StatusOr<std::vector<int64_t>> ReducedAxes(const Context& c) {
  MR_RETURN_IF_ERROR(ExpectRanks(c));
  MR_ASSIGN_OR_RETURN(std::vector<int64_t> axes, c.ConstantInts(1));
  for (int64_t& axis : axes) axis += axis < 0 ? c.input(0).rank() : 0;
  std::sort(axes.begin(), axes.end());
  axes.erase(std::unique(axes.begin(), axes.end()), axes.end());
  return axes;
}

// x's shape with 1 on the axes.
std::vector<int64_t> KeptShape(const Output& x, const std::vector<int64_t>& axes) {
  std::vector<int64_t> dims = Dims(x);
  for (int64_t axis : axes) dims[axis] = 1;
  return dims;
}

Output WithShape(const Output& x, const std::vector<int64_t>& dims) {
  return Dims(x) == dims ? x : ops::Reshape(x, dims);
}

// `g`, a number or of KeptShape, for every element of x.
Output Spread(const Output& g, const Output& x) {
  if (!x.shape().fully_known()) return BroadcastAs(g, x);
  if (!HasKnownShape(x)) return ops::OnesLike(x) * g;
  return g.shape() == x.shape() ? g : ops::BroadcastTo(g, Dims(x));
}

// `reduced`, of x over these axes, with 1 in place of them; a number may stay one.
Output Kept(Output reduced, const Output& x, const std::vector<int64_t>& axes) {
  if (HasKnownShape(x)) return WithShape(reduced, KeptShape(x, axes));
  if (reduced.rank() == 0 || reduced.rank() == x.rank()) return reduced;
  for (int64_t axis : axes) reduced = ops::ExpandDims(reduced, axis);
  return reduced;
}

// Over axes that are computed.
Output SpreadComputed(Context& c, Output g) {
  const Output& x = c.input(0);
  if (c.attrs().GetOr<bool>("keep_dims", false)) return BroadcastAs(g, x);
  GraphBuilder& b = c.builder();
  const Output rank = b.Int(std::max(x.rank(), 1)), axes = ops::Cast(c.input(1), DataType::kInt32);
  const Output places = ops::Reshape(ops::Binary("FloorMod", axes, rank), {-1, 1}), ones = ops::Reshape(ops::OnesLike(axes), {-1});
  const Output kept = Emit("TensorScatterUpdate", {ShapeOf(x), places, ones}, {{"T", DataType::kInt32}, {"Tindices", DataType::kInt32}});
  g = Emit("Reshape", {g, kept}, {{"T", g.dtype()}, {"Tshape", DataType::kInt32}});
  return BroadcastAs(g, x);
}

absl::Status SumGradient(Context& c) {
  MR_RETURN_IF_ERROR(ExpectRanks(c));
  if (c.builder().ConstantValue(c.input(1)) == nullptr) {
    c.Set(0, SpreadComputed(c, c.gradient()));
    return absl::OkStatus();
  }
  MR_ASSIGN_OR_RETURN(const std::vector<int64_t> axes, ReducedAxes(c));
  c.Set(0, Spread(Kept(c.gradient(), c.input(0), axes), c.input(0)));
  return absl::OkStatus();
}

absl::Status MeanGradient(Context& c) {
  MR_ASSIGN_OR_RETURN(const std::vector<int64_t> axes, ReducedAxes(c));
  const Output& x = c.input(0);
  if (axes.empty()) {
    c.Set(0, c.gradient());
    return absl::OkStatus();
  }
  if (!HasKnownShape(x)) {
    const Output g = c.gradient();
    const Output count = x.shape().fully_known() ? ops::Sum(ops::OnesLike(x), axes, g.rank() == x.rank()) : CountOver(x, axes, x.dtype());
    c.Set(0, Spread(Kept(g / count, x, axes), x));
    return absl::OkStatus();
  }
  double count = 1;
  for (int64_t axis : axes) count *= static_cast<double>(x.dim(static_cast<int>(axis)));
  c.Set(0, Spread(WithShape(c.gradient() / std::max(count, 1.0), KeptShape(x, axes)), x));
  return absl::OkStatus();
}

// Elements equal to the extremum share the gradient.
absl::Status ExtremumGradient(Context& c) {
  MR_ASSIGN_OR_RETURN(const std::vector<int64_t> axes, ReducedAxes(c));
  const Output& x = c.input(0);
  const Output chosen = ops::Cast(Binary("Equal", Kept(c.output(0), x, axes), x), x.dtype());
  const Output count = axes.empty() ? chosen : ops::Sum(chosen, axes, true);
  c.Set(0, chosen / count * Kept(c.gradient(), x, axes));
  return absl::OkStatus();
}

// x as a matrix: the product of its first `count` dimensions by that of the others.
Output FlatOverFirst(const Output& x, int count) {
  const auto size = [&](int begin, int end) {
    return ops::Reduce("Prod", ops::Slice(ShapeOf(x), {begin}, {end - begin}), {0}, true);
  };
  return Emit("Reshape", {x, ops::Concat({size(0, count), size(count, x.rank())}, 0)}, {{"T", x.dtype()}, {"Tshape", DataType::kInt32}});
}

// The product of the others is the product of those before times the product of those after.
absl::Status ProdGradient(Context& c) {
  MR_ASSIGN_OR_RETURN(const std::vector<int64_t> axes, ReducedAxes(c));
  const Output& x = c.input(0);
  std::vector<int64_t> order = axes, inverse(x.rank());
  for (int64_t i = 0; i < x.rank(); ++i) {
    if (!std::binary_search(axes.begin(), axes.end(), i)) order.push_back(i);
  }
  int64_t reduced = 1, rest = 1;
  std::vector<int64_t> moved_dims;
  for (int64_t i = 0; i < x.rank(); ++i) {
    inverse[order[i]] = i;
    const int64_t dim = HasKnownShape(x) ? x.dim(static_cast<int>(order[i])) : -1;
    int64_t& product = i < static_cast<int64_t>(axes.size()) ? reduced : rest;
    product = dim < 0 || product < 0 ? -1 : product * dim;
    moved_dims.push_back(dim);
  }
  const Output moved = ops::Transpose(Conj(x), order);
  const Output flat = reduced < 0 ? FlatOverFirst(moved, static_cast<int>(axes.size())) : ops::Reshape(moved, {reduced, rest});
  const auto others = [&](bool reverse) {
    return Emit("Cumprod", {flat, c.builder().Int(0)},
                {{"T", x.dtype()}, {"Tidx", DataType::kInt32}, {"exclusive", true}, {"reverse", reverse}});
  };
  const Output product = Output(others(false)) * Output(others(true));
  const Output unflattened = ops::Transpose(HasKnownShape(x) ? ops::Reshape(product, moved_dims) : ReshapeAs(product, moved), inverse);
  c.Set(0, unflattened * Kept(c.gradient(), x, axes));
  return absl::OkStatus();
}

absl::Status EuclideanNormGradient(Context& c) {
  MR_ASSIGN_OR_RETURN(const std::vector<int64_t> axes, ReducedAxes(c));
  c.Set(0, c.input(0) * Kept(c.gradient() / c.output(0), c.input(0), axes));
  return absl::OkStatus();
}

Output ReverseScan(const Context& c, const char* op, const Output& x) {
  AttrMap attrs = c.attrs();
  attrs.Set("reverse", !attrs.GetOr<bool>("reverse", false));
  return Emit(op, {x, c.input(1)}, std::move(attrs));
}

absl::Status CumsumGradient(Context& c) {
  c.Set(0, ReverseScan(c, "Cumsum", c.gradient()));
  return absl::OkStatus();
}

// y[i] is the logarithm of the sum of exp(x[j]) up to i: dx[j] = sum of g[i] exp(x[j] - y[i]) from j on, positive and
// negative g apart, as logarithms, so that nothing overflows.
absl::Status CumulativeLogsumexpGradient(Context& c) {
  GraphBuilder& b = c.builder();
  const Output x = c.input(0), y = c.output(0), g = c.gradient();
  const Output zero = b.Scalar(g.dtype(), 0), one = b.Scalar(g.dtype(), 1);
  // The logarithm of nothing: finite, since y holds it, too, where it sums nothing.
  const double least = g.dtype() == DataType::kDouble     ? std::numeric_limits<double>::lowest()
                       : g.dtype() == DataType::kHalf     ? -65504.0
                       : g.dtype() == DataType::kBfloat16 ? -0x1.fep127
                                                          : std::numeric_limits<float>::lowest();
  const Output nothing = b.Scalar(g.dtype(), least);
  const auto share = [&](const Output& part) {
    const Output some = ops::Binary("Greater", part, zero);
    const Output logarithm = ops::Select(some, ops::Log(ops::Select(some, part, one)), nothing);
    return ops::Exp(ReverseScan(c, "CumulativeLogsumexp", logarithm - y) + x);
  };
  c.Set(0, share(g) - share(-g));
  return absl::OkStatus();
}

absl::Status CumprodGradient(Context& c) {
  // Of elements that are 0 it is 0, as TensorFlow's.
  const Output sums = ReverseScan(c, "Cumsum", Conj(c.output(0)) * c.gradient());
  c.Set(0, Binary("DivNoNan", sums, Conj(c.input(0))));
  return absl::OkStatus();
}

}  // namespace

void AddReductionGradients(GradientTable& table) {
  table.Add("Sum", SumGradient);
  table.Add("Mean", MeanGradient);
  table.Add({"Max", "Min"}, ExtremumGradient);
  table.Add("Prod", ProdGradient);
  table.Add("EuclideanNorm", EuclideanNormGradient);
  table.Add("Cumsum", CumsumGradient);
  table.Add("CumulativeLogsumexp", CumulativeLogsumexpGradient);
  table.Add("Cumprod", CumprodGradient);
}

}  // namespace millrace
