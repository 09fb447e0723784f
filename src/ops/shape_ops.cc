// Ops on shapes (Shape, BroadcastGradientArgs), ops that only rename a shape (Reshape, Squeeze), and ops that make
// tensors from a shape (Fill, Range, BroadcastTo).
#include "absl/strings/str_cat.h"
#include "graph/shape_math.h"
#include "millrace/status.h"
#include "ops/register.h"
#include "ops/rules.h"

namespace millrace {
namespace {

absl::StatusOr<DataType> OutType(const InferenceContext& context) {
  return IndexTypeAttr(context, "out_type", DataType::kInt32);
}

absl::Status ShapeShape(InferenceContext& context) {
  if (context.num_inputs() < 1) return context.Error("has no inputs, expected at least 1");
  MR_ASSIGN_OR_RETURN(const DataType type, OutType(context));
  for (int i = 0; i < context.num_inputs(); ++i) {
    context.AddOutput(type, Shape({context.shape(i).rank()}));
  }
  return absl::OkStatus();
}

absl::Status SizeShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(1));
  MR_ASSIGN_OR_RETURN(const DataType type, OutType(context));
  context.AddOutput(type, Shape());
  return absl::OkStatus();
}

absl::Status ReshapeShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(2));
  MR_ASSIGN_OR_RETURN(const std::vector<int64_t> target, KnownInts(context, 1));
  absl::StatusOr<Shape> shape = ResolveReshape(context.shape(0), target);
  if (!shape.ok()) return ErrorAtNode(context, shape.status());
  context.AddOutput(context.dtype(0), *std::move(shape));
  return absl::OkStatus();
}

absl::Status SqueezeShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(1));
  const Shape& in = context.shape(0);
  if (in.unknown_rank()) {
    context.AddOutput(context.dtype(0), in);
    return absl::OkStatus();
  }
  const auto axes = context.attrs().GetOr<std::vector<int64_t>>("squeeze_dims", {});
  std::vector<bool> squeezed(in.rank(), false);
  for (int64_t axis : axes) {
    MR_ASSIGN_OR_RETURN(const int d, NormalizeAxis(context, axis, in.rank()));
    squeezed[d] = true;
  }
  Shape out;
  bool known = true;
  for (int d = 0; d < in.rank(); ++d) {
    const int64_t dim = in.dim(d);
    if (axes.empty() && dim < 0) known = false;
    if (squeezed[d] && dim >= 0 && dim != 1) {
      return context.Error(absl::StrCat("Can not squeeze dim[", d, "], expected a dimension of 1, got ", dim));
    }
    if (axes.empty() ? dim != 1 : !squeezed[d]) out.AddDim(dim);
  }
  context.AddOutput(context.dtype(0), known ? out : Shape::UnknownRank());
  return absl::OkStatus();
}

absl::Status ExpandDimsShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(2));
  MR_ASSIGN_OR_RETURN(const int64_t axis, KnownInt(context, 1));
  const Shape& in = context.shape(0);
  if (in.unknown_rank()) {
    context.AddOutput(context.dtype(0), in);
    return absl::OkStatus();
  }
  MR_ASSIGN_OR_RETURN(const int d, NormalizeAxis(context, axis, in.rank() + 1));
  Shape out;
  for (int i = 0; i <= in.rank(); ++i) {
    if (i == d) out.AddDim(1);
    if (i < in.rank()) out.AddDim(in.dim(i));
  }
  context.AddOutput(context.dtype(0), std::move(out));
  return absl::OkStatus();
}

absl::Status EnsureShapeShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(1));
  const Shape expected = context.attrs().GetOr<Shape>("shape", Shape::UnknownRank());
  Shape out = context.shape(0);
  if (out.unknown_rank()) {
    out = expected;
  } else if (!expected.unknown_rank()) {
    bool compatible = expected.rank() == out.rank();
    for (int i = 0; compatible && i < out.rank(); ++i) {
      if (out.dim(i) < 0) out.set_dim(i, expected.dim(i));
      compatible = expected.dim(i) < 0 || out.dim(i) == expected.dim(i);
    }
    if (!compatible) {
      return context.Error(absl::StrCat("Shape of tensor ", context.shape(0).ToString(),
                                        " is not compatible with expected shape ", expected.ToString()));
    }
  }
  context.AddOutput(context.dtype(0), std::move(out));
  return absl::OkStatus();
}

absl::Status BitcastShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(1));
  MR_ASSIGN_OR_RETURN(const DataType type, RequiredAttr<DataType>(context, "type"));
  Shape shape = context.shape(0);
  const int64_t from = DataTypeSize(context.dtype(0)), to = DataTypeSize(type);
  if (from == 0 || to == 0) return context.Error("element types without a size cannot be bitcast");
  if (!shape.unknown_rank() && from > to) shape.AddDim(from / to);
  if (!shape.unknown_rank() && from < to) {
    if (shape.rank() == 0 || (shape.dim(shape.rank() - 1) >= 0 && shape.dim(shape.rank() - 1) != to / from)) {
      return context.Error(absl::StrCat("Cannot bitcast from ", context.input(0).ToString(), " to ",
                                        std::string(DataTypeName(type)), ": the last dimension must be ", to / from));
    }
    shape = Shape(shape.dims().subspan(0, shape.rank() - 1));
  }
  context.AddOutput(type, std::move(shape));
  return absl::OkStatus();
}

absl::StatusOr<Shape> KnownShape(const InferenceContext& context, int input) {
  MR_ASSIGN_OR_RETURN(const std::vector<int64_t> dims, KnownInts(context, input));
  for (int64_t dim : dims) {
    if (dim < 0) return context.Error(absl::StrCat("Dimension ", dim, " must be >= 0"));
  }
  return Shape(dims);
}

absl::Status FillShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(2));
  MR_ASSIGN_OR_RETURN(Shape shape, KnownShape(context, 0));
  if (context.shape(1).rank() > 0) {
    return context.Error(absl::StrCat("value must be a scalar, got ", context.input(1).ToString()));
  }
  context.AddOutput(context.dtype(1), std::move(shape));
  return absl::OkStatus();
}

absl::Status RangeShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(3));
  // All are asked for before one is found missing: each that is known only when running needs a bound.
  const Tensor* const values[3] = {context.value(0), context.value(1), context.value(2)};
  for (int i = 0; i < 3; ++i) {
    if (values[i] == nullptr) {
      return context.Error(absl::StrCat("input ", i, " must be known when the graph is planned"));
    }
    if (values[i]->num_elements() != 1 || values[i]->dtype() != context.dtype(0)) {
      return context.Error(absl::StrCat("input ", i, " is ", values[i]->type().ToString(), ", expected a scalar of ",
                                        std::string(DataTypeName(context.dtype(0)))));
    }
  }
  const absl::StatusOr<int64_t> size =
      IsInteger(context.dtype(0))
          ? RangeSize(values[0]->IntAt(0), values[1]->IntAt(0), values[2]->IntAt(0))
          : RangeSize(context.dtype(0), values[0]->DoubleAt(0), values[1]->DoubleAt(0), values[2]->DoubleAt(0));
  if (!size.ok()) return ErrorAtNode(context, size.status());
  context.AddOutput(context.dtype(0), Shape({*size}));
  return absl::OkStatus();
}

absl::Status LinSpaceShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(3));
  MR_ASSIGN_OR_RETURN(const int64_t num, KnownInt(context, 2));
  if (num <= 0) return context.Error(absl::StrCat("Requires num > 0: ", num));
  MR_RETURN_IF_ERROR(ExpectScalar(context, 0, "start"));
  MR_RETURN_IF_ERROR(ExpectScalar(context, 1, "stop"));
  context.AddOutput(context.dtype(0), Shape({num}));
  return absl::OkStatus();
}

absl::Status BroadcastToShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(2));
  MR_ASSIGN_OR_RETURN(Shape shape, KnownShape(context, 1));
  const Shape& in = context.shape(0);
  if (!in.unknown_rank()) {
    bool compatible = in.rank() <= shape.rank();
    for (int i = 0; compatible && i < in.rank(); ++i) {
      const int64_t from = in.dim(i), to = shape.dim(shape.rank() - in.rank() + i);
      compatible = from < 0 || from == 1 || from == to;
    }
    if (!compatible) {
      return context.Error(absl::StrCat("Incompatible shapes: ", in.ToString(), " vs. ", shape.ToString()));
    }
  }
  context.AddOutput(context.dtype(0), std::move(shape));
  return absl::OkStatus();
}

absl::Status BroadcastGradientArgsShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(2));
  const Tensor *a = context.value(0), *b = context.value(1);
  if (a != nullptr && b != nullptr) {
    MR_ASSIGN_OR_RETURN(const std::vector<int64_t> dims_a, KnownInts(context, 0));
    MR_ASSIGN_OR_RETURN(const std::vector<int64_t> dims_b, KnownInts(context, 1));
    const auto axes = BroadcastGradientAxes(dims_a, dims_b);
    if (!axes.ok()) return ErrorAtNode(context, axes.status());
    context.AddOutput(context.dtype(0), Shape({static_cast<int64_t>(axes->first.size())}));
    context.AddOutput(context.dtype(0), Shape({static_cast<int64_t>(axes->second.size())}));
    return absl::OkStatus();
  }
  Shape bound({-1});
  if (context.shape(0).fully_known() && context.shape(1).fully_known()) {
    bound.set_dim(0, std::max(context.shape(0).num_elements(), context.shape(1).num_elements()));
  }
  for (int i = 0; i < 2; ++i) {
    context.AddOutput(context.dtype(0), bound);
    context.MarkBound(i);
  }
  return absl::OkStatus();
}

absl::Status BroadcastArgsShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(2));
  Shape shape({-1});
  if (context.shape(0).fully_known() && context.shape(1).fully_known()) {
    shape.set_dim(0, std::max(context.shape(0).num_elements(), context.shape(1).num_elements()));
  }
  context.AddOutput(context.dtype(0), std::move(shape));
  return absl::OkStatus();
}

absl::Status IdentityNShape(InferenceContext& context) {
  for (int i = 0; i < context.num_inputs(); ++i) context.AddOutput(context.dtype(i), context.shape(i));
  return absl::OkStatus();
}

absl::Status InvertPermutationShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(1));
  if (!context.shape(0).unknown_rank() && context.shape(0).rank() != 1) {
    return context.Error(absl::StrCat("invert_permutation expects a 1D vector, got ", context.input(0).ToString()));
  }
  return SameAsFirstInput(context);
}

}  // namespace

void RegisterShapeOps(OpRegistry& registry) {
  for (const char* name : {"Shape", "ShapeN"}) {
    AddOp(registry, {.name = name, .shape = ShapeShape, .cost = NoCost, .from_types = true});
  }
  for (const char* name : {"Size", "Rank"}) {
    AddOp(registry, {.name = name, .shape = SizeShape, .cost = NoCost, .from_types = true});
  }
  AddOp(registry, {.name = "Reshape", .shape = ReshapeShape, .is_view = true});
  AddOp(registry, {.name = "Squeeze", .shape = SqueezeShape, .is_view = true});
  AddOp(registry, {.name = "ExpandDims", .shape = ExpandDimsShape, .is_view = true});
  AddOp(registry, {.name = "EnsureShape", .shape = EnsureShapeShape, .is_view = true});
  AddOp(registry, {.name = "Bitcast", .shape = BitcastShape, .is_view = true});
  AddOp(registry, {.name = "Fill", .shape = FillShape, .cost = MoveCost});
  AddOp(registry, {.name = "Range", .shape = RangeShape});
  AddOp(registry, {.name = "LinSpace", .shape = LinSpaceShape});
  AddOp(registry, {.name = "BroadcastTo", .shape = BroadcastToShape, .cost = MoveCost});
  AddOp(registry, {.name = "BroadcastGradientArgs", .shape = BroadcastGradientArgsShape, .cost = NoCost});
  AddOp(registry, {.name = "BroadcastArgs", .shape = BroadcastArgsShape, .cost = NoCost});
  AddOp(registry, {.name = "InvertPermutation", .shape = InvertPermutationShape});
  std::vector<std::pair<int, int>> each;  // of as many as any graph has had; further ones are copied
  for (int i = 0; i < 256; ++i) each.push_back({i, i});
  AddOp(registry, {.name = "IdentityN", .shape = IdentityNShape, .cost = MoveCost, .in_place = each});
}

}  // namespace millrace
