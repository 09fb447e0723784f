#include "builder/gradient_rules.h"

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

}  // namespace

DataType PartType(DataType dtype) {
  return dtype == DataType::kComplex64 ? DataType::kFloat : dtype == DataType::kComplex128 ? DataType::kDouble : dtype;
}

Output Conj(const Output& x) { return IsComplex(x.dtype()) ? ops::Unary("Conj", x) : x; }

void SetReduced(GradientContext& context, int i, const Output& gradient) {
  context.Set(i, SumTo(gradient, context.input(i).shape()));
}

absl::StatusOr<Output> ShapeConstant(const GradientContext& context, const Output& x) {
  if (!HasKnownShape(x)) {
    return context.Error(absl::StrCat("needs a known shape, '", context.builder().TensorName(x), "' has ",
                                      x.type().ToString()));
  }
  return context.builder().Ints(x.shape().dims());
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

absl::Status ExpectBoundShapes(const GradientContext& context) {
  for (int i = 0; i < context.num_inputs(); ++i) {
    if (context.input(i).shape().fully_known()) continue;
    return context.Error(absl::StrCat("needs known shapes, input ", i, " is ", context.input(i).type().ToString()));
  }
  return absl::OkStatus();
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

Output ScatterNd(const GradientContext& context, const Output& indices, const Output& updates, const Shape& shape) {
  const Output dims = DimsConstant(*indices.builder(), shape, indices.dtype());
  return Emit("ScatterNd", {indices, updates, dims}, WithPolicy(context, {{"T", updates.dtype()}, {"Tindices", indices.dtype()}}));
}

}  // namespace millrace
