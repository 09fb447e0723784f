// Elementwise ops: unary, binary with broadcasting, gradients of unary ops, Cast, AddN, BiasAdd.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "graph/of_sides.h"
#include "millrace/guard.h"
#include "millrace/status.h"
#include "ops/register.h"
#include "ops/rules.h"

namespace millrace {
namespace {

// Rough operations per element of something like lgamma.
constexpr double kSpecialFlops = 100;

Cost CostPerElement(const OpInstance& instance, double flops) {
  Cost cost;
  for (const TensorType& type : instance.inputs) cost.bytes += type.size_bytes();
  for (const TensorType& type : instance.outputs) {
    cost.bytes += type.size_bytes();
    cost.flops += flops * type.shape.num_elements();
  }
  return cost;
}
Cost MathCost(const OpInstance& instance) { return CostPerElement(instance, kMathFlops); }
Cost SpecialCost(const OpInstance& instance) { return CostPerElement(instance, kSpecialFlops); }
Cost AddNCost(const OpInstance& instance) { return CostPerElement(instance, instance.inputs.size() - 1.0); }
Cost FillCost(const OpInstance& instance) { return {.bytes = static_cast<double>(instance.outputs[0].size_bytes())}; }

// Inputs 0 and 1 broadcast, of type bool.
absl::Status Comparison(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(2));
  if (context.dtype(0) != context.dtype(1)) {
    return context.Error(absl::StrCat("inputs have types ", context.input(0).ToString(), " and ",
                                      context.input(1).ToString(), ", expected equal element types"));
  }
  absl::StatusOr<Shape> shape = BroadcastShapes(context.shape(0), context.shape(1));
  if (!shape.ok()) {
    // Equal and NotEqual may be told to answer for shapes that cannot be equal.
    if (context.attrs().GetOr<bool>("incompatible_shape_error", true)) {
      return ErrorAtNode(context, shape.status());
    }
    shape = Shape();
  }
  context.AddOutput(DataType::kBool, *std::move(shape));
  return absl::OkStatus();
}

// Output 0 is of input 0's shape and of type bool.
absl::Status UnaryTest(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(1));
  context.AddOutput(DataType::kBool, context.shape(0));
  return absl::OkStatus();
}

absl::Status Unary(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(1));
  return SameAsFirstInput(context);
}

// The shape that two shapes of one tensor agree on, or an error that names both.
absl::StatusOr<Shape> SameShapes(InferenceContext& context, const Shape& a, const Shape& b) {
  if (a.unknown_rank()) return b;
  if (b.unknown_rank()) return a;
  bool same = a.rank() == b.rank();
  Shape merged = a;
  for (int d = 0; same && d < a.rank(); ++d) {
    same = a.dim(d) < 0 || b.dim(d) < 0 || a.dim(d) == b.dim(d);
    if (a.dim(d) < 0) merged.set_dim(d, b.dim(d));
  }
  if (!same) return context.Error(absl::StrCat("shapes ", a.ToString(), " and ", b.ToString(), " differ"));
  return merged;
}

// All inputs of one type; so is the output.
absl::Status AllSame(InferenceContext& context) {
  if (context.num_inputs() < 1) return context.Error("has no inputs, expected at least 1");
  Shape shape = context.shape(0);
  for (int i = 1; i < context.num_inputs(); ++i) {
    if (context.dtype(i) != context.dtype(0)) {
      return context.Error(absl::StrCat("inputs 0 and ", i, " are ", context.input(0).ToString(), " and ",
                                        context.input(i).ToString(), ", expected equal element types"));
    }
    MR_ASSIGN_OR_RETURN(shape, SameShapes(context, shape, context.shape(i)));
  }
  context.AddOutput(context.dtype(0), shape);
  return absl::OkStatus();
}

absl::Status GradientPair(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(2));
  return AllSame(context);
}

absl::Status CastShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(1));
  absl::StatusOr<DataType> to = context.attrs().Get<DataType>("DstT");
  if (!to.ok()) return ErrorAtNode(context, to.status());
  context.AddOutput(*to, context.shape(0));
  return absl::OkStatus();
}

absl::Status BiasAddShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(2));
  const Shape& value = context.shape(0);
  const Shape& bias = context.shape(1);
  if (context.dtype(0) != context.dtype(1)) {
    return context.Error(absl::StrCat("value is ", context.input(0).ToString(), " and bias ",
                                      context.input(1).ToString(), ", expected equal element types"));
  }
  MR_ASSIGN_OR_RETURN(const bool nchw, ChannelsAreSecond(context));
  if (!value.unknown_rank() && !bias.unknown_rank()) {
    if (value.rank() < 2 || bias.rank() != 1) {
      return context.Error(absl::StrCat("value ", value.ToString(), " and bias ", bias.ToString(),
                                        ", expected a rank of at least 2 and a vector"));
    }
    const int64_t channels = value.dim(nchw ? 1 : value.rank() - 1);
    if (channels >= 0 && bias.dim(0) >= 0 && channels != bias.dim(0)) {
      return context.Error(absl::StrCat("value ", value.ToString(), " has ", channels, " channels and bias ",
                                        bias.ToString(), ", expected as many elements"));
    }
  }
  context.AddOutput(context.dtype(0), value);
  return absl::OkStatus();
}

absl::Status ApproximateEqualShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(2));
  MR_ASSIGN_OR_RETURN(Shape shape, SameShapes(context, context.shape(0), context.shape(1)));
  context.AddOutput(DataType::kBool, std::move(shape));
  return absl::OkStatus();
}

absl::Status CheckSelect(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(3));
  if (context.dtype(0) == DataType::kBool && context.dtype(1) == context.dtype(2)) return absl::OkStatus();
  return context.Error(absl::StrCat("selects by ", context.input(0).ToString(), " from ", context.input(1).ToString(),
                                    " and ", context.input(2).ToString(), ", expected bool and equal element types"));
}

// As large as the larger one, dimension by dimension.
absl::Status EitherShape(InferenceContext& context) {
  const Shape &a = context.shape(1), &b = context.shape(2);
  if (a.unknown_rank() || b.unknown_rank()) {
    context.AddOutput(context.dtype(1), Shape::UnknownRank());
    return absl::OkStatus();
  }
  if (a.rank() != b.rank()) {
    return context.Error(absl::StrCat("selects between ", a.ToString(), " and ", b.ToString(), ", expected equal ranks"));
  }
  Shape larger = a;
  for (int d = 0; d < a.rank(); ++d) larger.set_dim(d, a.dim(d) < 0 || b.dim(d) < 0 ? -1 : std::max(a.dim(d), b.dim(d)));
  context.AddOutput(context.dtype(1), std::move(larger));
  if (a != b) context.MarkBound(0);
  return absl::OkStatus();
}

// The condition is a scalar, of the branches' shape, or a vector that chooses rows.
absl::Status SelectShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(CheckSelect(context));
  const bool of_sides = context.attrs().GetOr(kOfSides, false) || context.attrs().GetOr(kEitherShape, false);
  if (of_sides && context.shape(0).rank() > 0 && context.shape(0).fully_known() && context.shape(0).num_elements() != 1) {
    return context.Error(absl::StrCat("the predicate of a conditional is ", context.input(0).ToString(), ", expected a scalar"));
  }
  if (context.shape(0).rank() == 0 && context.attrs().GetOr(kEitherShape, false)) return EitherShape(context);
  MR_ASSIGN_OR_RETURN(Shape shape, SameShapes(context, context.shape(1), context.shape(2)));
  const Shape& condition = context.shape(0);
  if (condition.rank() > 0 && !shape.unknown_rank()) {
    const bool rows = condition.rank() == 1 && shape.rank() > 1;
    const Shape chosen = rows ? Shape({shape.dim(0)}) : shape;
    MR_RETURN_IF_ERROR(SameShapes(context, condition, chosen).status());
  }
  context.AddOutput(context.dtype(1), std::move(shape));
  return absl::OkStatus();
}

absl::Status SelectV2Shape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(CheckSelect(context));
  absl::StatusOr<Shape> shape = BroadcastShapes(context.shape(1), context.shape(2));
  if (shape.ok()) shape = BroadcastShapes(context.shape(0), *shape);
  if (!shape.ok()) return ErrorAtNode(context, shape.status());
  context.AddOutput(context.dtype(1), *std::move(shape));
  return absl::OkStatus();
}

// The bounds broadcast to the value.
absl::Status ClipShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(3));
  const Shape& shape = context.shape(0);
  for (int i : {1, 2}) {
    const absl::StatusOr<Shape> joined = BroadcastShapes(shape, context.shape(i));
    if (context.dtype(i) != context.dtype(0) || !joined.ok() || (shape.fully_known() && *joined != shape)) {
      return context.Error(
          absl::StrCat("bound ", context.input(i).ToString(), " does not broadcast to ", context.input(0).ToString()));
    }
  }
  context.AddOutput(context.dtype(0), shape);
  return absl::OkStatus();
}

}  // namespace

void RegisterElementwiseOps(OpRegistry& registry) {
  for (const char* name :
       {"Add",         "AddV2",      "Sub",      "Mul",         "RealDiv",   "Div",        "FloorDiv",
        "TruncateDiv", "FloorMod",   "Mod",      "TruncateMod", "Maximum",   "Minimum",    "SquaredDifference",
        "DivNoNan",    "MulNoNan",   "Xdivy",    "BitwiseAnd",  "BitwiseOr", "BitwiseXor", "LeftShift",
        "RightShift",  "LogicalAnd", "LogicalOr"}) {
    AddOp(registry, {.name = name, .shape = BroadcastBinary, .in_place = {{0, 0}, {0, 1}}});
  }
  for (const char* name : {"Abs", "Neg", "Sign", "Square", "Sqrt", "Rsqrt", "Reciprocal", "Inv", "Floor", "Ceil",
                           "Round", "Rint", "Invert", "LogicalNot", "Relu", "Relu6", "LeakyRelu", "Softsign"}) {
    AddOp(registry, {.name = name, .shape = Unary, .in_place = {{0, 0}}});
  }
  for (const char* name : {"Exp",  "Expm1", "Log",  "Log1p", "Sigmoid", "Softplus", "Sin",   "Cos",   "Tan", "Asin",
                           "Acos", "Atan",  "Sinh", "Cosh",  "Tanh",    "Asinh",    "Acosh", "Atanh", "Elu", "Selu"}) {
    AddOp(registry, {.name = name, .shape = Unary, .cost = MathCost, .in_place = {{0, 0}}});
  }
  for (const char* name :
       {"Erf", "Erfc", "Erfinv", "Ndtri", "Lgamma", "Digamma", "BesselI0", "BesselI1", "BesselI0e", "BesselI1e"}) {
    AddOp(registry, {.name = name, .shape = Unary, .cost = SpecialCost, .in_place = {{0, 0}}});
  }
  for (const char* name : {"Pow", "Xlogy", "Xlog1py", "Atan2", "NextAfter"}) {
    AddOp(registry, {.name = name, .shape = BroadcastBinary, .cost = MathCost, .in_place = {{0, 0}, {0, 1}}});
  }
  for (const char* name : {"Igamma", "Igammac", "IgammaGradA", "RandomGammaGrad", "Zeta", "Polygamma"}) {
    AddOp(registry, {.name = name, .shape = BroadcastBinary, .cost = SpecialCost, .in_place = {{0, 0}, {0, 1}}});
  }
  for (const char* name : {"Less", "LessEqual", "Greater", "GreaterEqual", "Equal", "NotEqual"}) {
    AddOp(registry, {.name = name, .shape = Comparison});
  }
  AddOp(registry, {.name = "ApproximateEqual", .shape = ApproximateEqualShape});
  for (const char* name : {"IsNan", "IsInf", "IsFinite"}) AddOp(registry, {.name = name, .shape = UnaryTest});
  for (const char* name :
       {"ReluGrad", "Relu6Grad", "LeakyReluGrad", "SoftsignGrad", "SoftplusGrad", "EluGrad", "SeluGrad", "TanhGrad",
        "SigmoidGrad", "ReciprocalGrad", "InvGrad", "SqrtGrad", "RsqrtGrad"}) {
    AddOp(registry, {.name = name, .shape = GradientPair, .in_place = {{0, 0}, {0, 1}}});
  }
  AddOp(registry, {.name = "Cast", .shape = CastShape, .in_place = {{0, 0}}});
  for (const char* name : {"AddN", "AccumulateNV2"}) {
    AddOp(registry, {.name = name,
                     .shape = AllSame,
                     .cost = AddNCost,
                     .in_place = {{0, 0}, {0, 1}, {0, 2}, {0, 3}, {0, 4}, {0, 5}, {0, 6}, {0, 7}}});
  }
  for (const char* name : {"BiasAdd", "BiasAddV1"}) {
    AddOp(registry, {.name = name, .shape = BiasAddShape, .in_place = {{0, 0}}});
  }
  AddOp(registry, {.name = "Select", .shape = SelectShape, .in_place = {{0, 1}, {0, 2}}});
  AddOp(registry, {.name = "SelectV2", .shape = SelectV2Shape, .in_place = {{0, 1}, {0, 2}}});
  AddOp(registry, {.name = "ClipByValue", .shape = ClipShape, .in_place = {{0, 0}}});
  for (const char* name : {"CheckNumerics", "CheckNumericsV2"}) {
    AddOp(registry, {.name = name, .shape = Unary, .in_place = {{0, 0}}});
  }
  for (const char* name : {"ZerosLike", "OnesLike"}) {
    AddOp(registry, {.name = name, .shape = Unary, .cost = FillCost, .in_place = {{0, 0}}});
  }
}

}  // namespace millrace
