// Const, Placeholder, Identity and its kin, NoOp: the ops that hold a graph together.
#include "millrace/status.h"
#include "ops/register.h"
#include "ops/rules.h"

namespace millrace {
namespace {

absl::Status ConstShape(InferenceContext& context) {
  absl::StatusOr<Tensor> value = context.attrs().Get<Tensor>("value");
  if (!value.ok()) return ErrorAtNode(context, value.status());
  context.AddOutput(value->dtype(), value->shape());
  return absl::OkStatus();
}

absl::Status PlaceholderShape(InferenceContext& context) {
  absl::StatusOr<DataType> dtype = context.attrs().Get<DataType>("dtype");
  if (!dtype.ok()) return ErrorAtNode(context, dtype.status());
  context.AddOutput(*dtype, context.attrs().GetOr<Shape>("shape", Shape::UnknownRank()));
  return absl::OkStatus();
}

// A copy's bytes under the type that a consumer expects.
absl::Status ViewShape(InferenceContext& context) {
  context.AddOutput(context.attrs().GetOr<DataType>("T", DataType::kInvalid),
                    context.attrs().GetOr<Shape>("shape", Shape::UnknownRank()));
  return absl::OkStatus();
}

// Strings are known when the graph is planned or not at all.
absl::Status FetchShape(InferenceContext& context) {
  if (context.dtype(0) == DataType::kString && context.value(0) == nullptr) {
    return context.Error("strings that are found only when running cannot be fetched");
  }
  context.AddOutput(context.dtype(0), context.shape(0));
  return absl::OkStatus();
}

absl::Status TimestampShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(0));
  context.AddOutput(DataType::kDouble, Shape());
  return absl::OkStatus();
}

}  // namespace

void RegisterGraphOps(OpRegistry& registry) {
  AddOp(registry, {.name = "Const", .shape = ConstShape});
  AddOp(registry, {.name = "Placeholder", .shape = PlaceholderShape, .stateful = true});
  for (const char* name : {"Identity", "StopGradient", "PreventGradient", "PlaceholderWithDefault", "Snapshot", "GuaranteeConst"}) {
    AddOp(registry, {.name = name, .shape = SameAsFirstInput, .is_view = true});
  }
  for (const char* name : {"NoOp", "ControlTrigger"}) {
    AddOp(registry, {.name = name, .shape = NoOutputs, .stateful = true, .is_no_op = true});
  }
  AddOp(registry, {.name = "SwapOut", .shape = SameAsFirstInput, .stateful = true});
  AddOp(registry, {.name = "SwapIn", .shape = SameAsFirstInput, .stateful = true});
  AddOp(registry, {.name = "Send", .shape = SameAsFirstInput, .stateful = true});
  AddOp(registry, {.name = "Recv", .shape = SameAsFirstInput, .stateful = true});
  AddOp(registry, {.name = "_View", .shape = ViewShape, .is_view = true});
  AddOp(registry, {.name = "DeepCopy", .shape = SameAsFirstInput, .stateful = true});
  AddOp(registry, {.name = "Timestamp", .shape = TimestampShape, .cost = NoCost, .stateful = true});
  AddOp(registry, {.name = "_Feed", .shape = PlaceholderShape, .stateful = true});
  AddOp(registry, {.name = "_Fetch", .shape = FetchShape, .stateful = true});
}

}  // namespace millrace
