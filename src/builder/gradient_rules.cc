#include "builder/gradient_rules.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "builder/emit.h"

namespace millrace {
namespace {

// Dimensions that are known only when running are summed where they are 1, else taken to be the same on both sides.
Output SumTo(const Output& x, const Shape& shape) {
  if (!x.valid() || x.shape() == shape) return x;
  const int extra = x.rank() - shape.rank();
  std::vector<int64_t> axes;
  for (int i = 0; i < x.rank(); ++i) {
    if (i < extra || (shape.dim(i - extra) == 1 && x.dim(i) != 1)) axes.push_back(i);
  }
  if (!HasKnownShape(x)) {
    std::vector<int64_t> leading, kept;
    for (int64_t axis : axes) (axis < extra ? leading : kept).push_back(axis < extra ? axis : axis - extra);
    const Output part = leading.empty() ? x : ops::Sum(x, leading);
    return kept.empty() ? part : ops::Sum(part, kept, true);
  }
  const Output sum = axes.empty() ? x : ops::Sum(x, axes);
  return sum.shape() == shape ? sum : ops::Reshape(sum, {shape.dims().begin(), shape.dims().end()});
}

// Whether a dimension of input i that is not known, but for the last `own`, may be 1 where another input has more.
bool MayBeBroadcast(const GradientContext& context, int i, int own) {
  const Output& x = context.input(i);
  if (x.shape().unknown_rank()) return true;
  for (int d = own + 1; d <= x.rank(); ++d) {
    if (x.dim(-d) != -1) continue;
    for (int k = 0; k < context.num_inputs(); ++k) {
      const Output& other = context.input(k);
      if (other.ref() != x.ref() && (other.shape().unknown_rank() || (other.rank() >= d && other.dim(-d) != 1))) return true;
    }
  }
  return false;
}

}  // namespace

DataType PartType(DataType dtype) {
  return dtype == DataType::kComplex64 ? DataType::kFloat : dtype == DataType::kComplex128 ? DataType::kDouble : dtype;
}

Output Conj(const Output& x) { return IsComplex(x.dtype()) ? ops::Unary("Conj", x) : x; }

Output SumAs(const Output& gradient, const Output& x) {
  if (HasKnownShape(x) && !gradient.shape().unknown_rank()) return SumTo(gradient, x.shape());
  const Output axes = Emit("BroadcastGradientArgs", {ShapeOf(x), ShapeOf(gradient)}, {{"T", DataType::kInt32}});
  return ReshapeAs(Emit("Sum", {gradient, axes}, {{"T", gradient.dtype()}, {"Tidx", DataType::kInt32}, {"keep_dims", false}}), x);
}

void SetReduced(GradientContext& context, int i, const Output& gradient, int own) {
  const bool as_known = !gradient.valid() || (!gradient.shape().unknown_rank() && !MayBeBroadcast(context, i, own));
  context.Set(i, as_known ? SumTo(gradient, context.input(i).shape()) : SumAs(gradient, context.input(i)));
}

Output DimsConstant(GraphBuilder& builder, const Shape& shape, DataType dtype) {
  if (dtype != DataType::kInt64) return builder.Ints(shape.dims());
  Tensor dims(dtype, Shape({shape.rank()}));
  for (int i = 0; i < shape.rank(); ++i) dims.mutable_as<int64_t>()[i] = shape.dim(i);
  return builder.SharedConst(std::move(dims));
}

absl::Status ExpectKnownShapes(const GradientContext& context) {
  for (int i = 0; i < context.num_inputs(); ++i) {
    if (HasKnownShape(context.input(i))) continue;
    return context.Error(absl::StrCat("needs known shapes, input ", i, " is ", context.input(i).type().ToString(),
                                      context.input(i).shape().fully_known() ? " or smaller" : ""));
  }
  return absl::OkStatus();
}

absl::Status ExpectRanks(const GradientContext& context) {
  for (int i = 0; i < context.num_inputs(); ++i) {
    if (!context.input(i).shape().unknown_rank()) continue;
    return context.Error(absl::StrCat("needs known ranks, input ", i, " is ", context.input(i).type().ToString()));
  }
  return absl::OkStatus();
}

Output ShapeOf(const Output& x, DataType dtype) {
  if (HasKnownShape(x)) return DimsConstant(*x.builder(), x.shape(), dtype);
  return Emit("Shape", {x}, {{"T", x.dtype()}, {"out_type", dtype}});
}

Output DimOf(const Output& x, int i) {
  if (i < 0) i += x.rank();
  if (x.dim(i) >= 0 && !x.builder()->HasBoundShape(x)) return x.builder()->Int(x.dim(i));
  return ops::Index(ShapeOf(x), i, 0);
}

Output CountOver(const Output& x, const std::vector<int64_t>& axes, DataType dtype) {
  if (HasKnownShape(x)) {
    double count = 1;
    for (int64_t axis : axes) count *= static_cast<double>(x.dim(static_cast<int>(axis)));
    return x.builder()->Scalar(dtype, std::max(count, 1.0));
  }
  const Output dims = ops::Gather(ShapeOf(x), x.builder()->Ints(axes));
  return ops::Cast(ops::Maximum(ops::Reduce("Prod", dims, {0}), x.builder()->Int(1)), dtype);
}

Output Alike(const Output& output, const Output& like) {
  if (!output.valid()) return output;
  output.builder()->MakeAlike(output.ref(), like.ref());
  return output.builder()->OutputOf(output.ref());
}

Output ReshapeAs(const Output& y, const Output& x) {
  if (HasKnownShape(x)) return ops::Reshape(y, Dims(x));
  return Alike(Emit("Reshape", {y, ShapeOf(x)}, {{"T", y.dtype()}, {"Tshape", DataType::kInt32}}), x);
}

Output BroadcastAs(const Output& y, const Output& x) {
  if (HasKnownShape(x)) return ops::BroadcastTo(y, Dims(x));
  return Alike(Emit("BroadcastTo", {y, ShapeOf(x)}, {{"T", y.dtype()}, {"Tidx", DataType::kInt32}}), x);
}

Output WithOnesBehind(Output y, int count) {
  for (int i = 0; i < count; ++i) y = ops::ExpandDims(y, -1);
  return y;
}

Operation SameAttrs(const GradientContext& context, std::string_view op, std::initializer_list<Output> inputs) {
  return Emit(op, inputs, context.attrs());
}

namespace {

AttrMap WithPolicy(const GradientContext& context, AttrMap attrs) {
  if (const AttrValue* policy = context.attrs().Find("bad_indices_policy"); policy != nullptr) attrs.Set("bad_indices_policy", *policy);
  return attrs;
}

}  // namespace

Output GatherNd(const GradientContext& context, const Output& params, const Output& indices) {
  return Emit("GatherNd", {params, indices}, WithPolicy(context, {{"Tparams", params.dtype()}, {"Tindices", indices.dtype()}}));
}

Output ScatterNd(const GradientContext& context, const Output& indices, const Output& updates, const Output& shape) {
  return Emit("ScatterNd", {indices, updates, shape}, WithPolicy(context, {{"T", updates.dtype()}, {"Tindices", indices.dtype()}}));
}

}  // namespace millrace
