// Assert, Print, string formatting and summaries: what hangs around in real graphs beside the computation. Strings
// have no memory on a device, so these ops' string outputs carry a type and a shape but no bytes.
#include "absl/strings/str_cat.h"
#include "millrace/status.h"
#include "ops/register.h"
#include "ops/rules.h"

namespace millrace {
namespace {

absl::Status AssertShape(InferenceContext& context) {
  if (context.num_inputs() < 1) return context.Error("has no condition");
  if (context.dtype(0) != DataType::kBool || context.shape(0).rank() > 0) {
    return context.Error(absl::StrCat("the condition is ", context.input(0).ToString(), ", expected a scalar bool"));
  }
  return absl::OkStatus();
}

absl::Status StringScalar(InferenceContext& context) {
  static const Shape& scalar = *new Shape();  // a temporary makes g++ 12 warn of Abseil's uninitialised bytes
  context.AddOutput(DataType::kString, scalar);
  return absl::OkStatus();
}

absl::Status StringsLikeFirstInput(InferenceContext& context) {
  if (context.num_inputs() < 1) return context.Error("has no inputs, expected at least 1");
  context.AddOutput(DataType::kString, context.shape(0));
  return absl::OkStatus();
}

// All inputs have one shape, or are scalars.
absl::Status StringJoinShape(InferenceContext& context) {
  if (context.num_inputs() < 1) return context.Error("has no inputs, expected at least 1");
  const Shape* joined = nullptr;
  for (int i = 0; i < context.num_inputs(); ++i) {
    const Shape& shape = context.shape(i);
    if (shape.rank() == 0) continue;
    if (joined != nullptr && *joined != shape) {
      return context.Error(absl::StrCat("inputs have shapes ", joined->ToString(), " and ", shape.ToString(),
                                        ", expected equal ones or scalars"));
    }
    joined = &shape;
  }
  context.AddOutput(DataType::kString, joined == nullptr ? context.shape(0) : *joined);
  return absl::OkStatus();
}

}  // namespace

void RegisterStringOps(OpRegistry& registry) {
  AddOp(registry, {.name = "Assert", .shape = AssertShape, .cost = NoCost, .stateful = true});
  AddOp(registry, {.name = "Print",
                   .shape = SameAsFirstInput,
                   .cost = MoveCost,
                   .in_place = {{0, 0}},
                   .stateful = true,
                   .state_bytes = sizeof(int64_t)});
  AddOp(registry, {.name = "PrintV2", .shape = NoOutputs, .cost = NoCost, .stateful = true});
  for (const char* name : {"StringFormat", "ScalarSummary", "HistogramSummary", "ImageSummary", "AudioSummaryV2",
                           "TensorSummary", "TensorSummaryV2", "MergeSummary"}) {
    AddOp(registry, {.name = name, .shape = StringScalar, .cost = NoCost});
  }
  AddOp(registry, {.name = "AsString", .shape = StringsLikeFirstInput, .cost = NoCost});
  AddOp(registry, {.name = "StringJoin", .shape = StringJoinShape, .cost = NoCost});
}

}  // namespace millrace
