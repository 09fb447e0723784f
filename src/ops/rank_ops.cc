// Questions about the order of values in a row: is a class among the first k, which value is the n-th.
#include <string>

#include "absl/strings/str_cat.h"
#include "millrace/status.h"
#include "ops/register.h"
#include "ops/rules.h"

namespace millrace {
namespace {

// InTopK(predictions [batch, classes], targets [batch]), V2 with k as input 2.
absl::Status InTopKShape(InferenceContext& context) {
  const bool k_is_input = context.op() == "InTopKV2";
  MR_RETURN_IF_ERROR(context.ExpectInputs(k_is_input ? 3 : 2));
  const Shape &predictions = context.shape(0), &targets = context.shape(1);
  if (context.dtype(0) != DataType::kFloat || (!predictions.unknown_rank() && predictions.rank() != 2)) {
    return context.Error(absl::StrCat("predictions are ", context.input(0).ToString(), ", expected float[batch,classes]"));
  }
  if ((!targets.unknown_rank() && targets.rank() != 1) ||
      (targets.fully_known() && predictions.fully_known() && targets.dim(0) != predictions.dim(0))) {
    return context.Error(absl::StrCat("targets are ", targets.ToString(), " for predictions ", predictions.ToString(),
                                      ", expected [batch]"));
  }
  if (k_is_input) MR_RETURN_IF_ERROR(ExpectEqualTypes(context, {1, 2}));
  if (k_is_input) MR_RETURN_IF_ERROR(ExpectScalar(context, 2, "k"));
  context.AddOutput(DataType::kBool, Shape({targets.unknown_rank() ? -1 : targets.dim(0)}));
  return absl::OkStatus();
}

// NthElement(input [..., columns], n) -> [...].
absl::Status NthElementShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(2));
  const Shape& input = context.shape(0);
  if (context.dtype(1) != DataType::kInt32) return context.Error(absl::StrCat("n is ", context.input(1).ToString(), ", expected int32"));
  MR_RETURN_IF_ERROR(ExpectScalar(context, 1, "n"));
  if (input.unknown_rank()) {
    context.AddOutput(context.dtype(0), Shape::UnknownRank());
    return absl::OkStatus();
  }
  if (input.rank() < 1) return context.Error("input is a scalar, expected at least 1 dimension");
  context.AddOutput(context.dtype(0), Shape(input.dims().subspan(0, input.rank() - 1)));
  return absl::OkStatus();
}

// IsotonicRegression(input [..., columns] or a number) -> the nearest rows that never rise, which stretch of equal numbers each is in.
absl::Status IsotonicShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(1));
  const DataType type = context.attrs().GetOr<DataType>("output_dtype", DataType::kFloat);
  if (!IsFloating(type)) return context.Error(absl::StrCat("output_dtype is ", std::string(DataTypeName(type)), ", expected a float type"));
  context.AddOutput(type, context.shape(0));
  context.AddOutput(DataType::kInt32, context.shape(0));
  return absl::OkStatus();
}

}  // namespace

void RegisterRankOps(OpRegistry& registry) {
  for (const char* name : {"InTopK", "InTopKV2"}) AddOp(registry, {.name = name, .shape = InTopKShape});
  AddOp(registry, {.name = "NthElement", .shape = NthElementShape});
  AddOp(registry, {.name = "IsotonicRegression", .shape = IsotonicShape});
}

}  // namespace millrace
