// Softmax and the losses on top of it.
#include "absl/strings/str_cat.h"
#include "millrace/status.h"
#include "ops/register.h"
#include "ops/rules.h"

namespace millrace {
namespace {

absl::Status SoftmaxShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(1));
  if (context.shape(0).rank() == 0) return context.Error("logits are a scalar, expected at least 1 dimension");
  return SameAsFirstInput(context);
}

// (features, labels) broadcast to [batch, classes] -> loss [batch], backprop [batch, classes].
absl::Status CrossEntropyShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(2));
  absl::StatusOr<Shape> both = BroadcastShapes(context.shape(0), context.shape(1));
  if (!both.ok()) return ErrorAtNode(context, both.status());
  if (!both->unknown_rank() && both->rank() != 2) {
    return context.Error(absl::StrCat("logits and labels have shape ", both->ToString(), ", expected 2 dimensions"));
  }
  MR_RETURN_IF_ERROR(ExpectEqualTypes(context, {0, 1}));
  context.AddOutput(context.dtype(0), Shape({both->unknown_rank() ? -1 : both->dim(0)}));
  context.AddOutput(context.dtype(0), *both);
  return absl::OkStatus();
}

// (features [batch, classes], labels [batch]).
absl::Status SparseCrossEntropyShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(2));
  const Shape &logits = context.shape(0), &labels = context.shape(1);
  if ((!logits.unknown_rank() && logits.rank() != 2) || (!labels.unknown_rank() && labels.rank() != 1)) {
    return context.Error(absl::StrCat("logits and labels are ", logits.ToString(), " and ", labels.ToString(),
                                      ", expected [batch,classes] and [batch]"));
  }
  const int64_t rows = logits.unknown_rank() ? -1 : logits.dim(0);
  const int64_t label_rows = labels.unknown_rank() ? -1 : labels.dim(0);
  if (rows >= 0 && label_rows >= 0 && rows != label_rows) {
    return context.Error(absl::StrCat("logits have ", rows, " rows and labels ", label_rows, ", expected as many"));
  }
  context.AddOutput(context.dtype(0), Shape({std::max(rows, label_rows)}));
  context.AddOutput(context.dtype(0), logits);
  return absl::OkStatus();
}

Cost SoftmaxCost(const OpInstance& node) {
  Cost cost;
  cost.flops = 20.0 * node.inputs[0].shape.num_elements();
  for (const TensorType& type : node.inputs) cost.bytes += type.size_bytes();
  for (const TensorType& type : node.outputs) cost.bytes += type.size_bytes();
  return cost;
}

}  // namespace

void RegisterLossOps(OpRegistry& registry) {
  for (const char* name : {"Softmax", "LogSoftmax"}) {
    AddOp(registry, {.name = name, .shape = SoftmaxShape, .cost = SoftmaxCost, .in_place = {{0, 0}}});
  }
  AddOp(registry, {.name = "SoftmaxCrossEntropyWithLogits", .shape = CrossEntropyShape, .cost = SoftmaxCost,
                   .in_place = {{1, 0}}});
  AddOp(registry, {.name = "SparseSoftmaxCrossEntropyWithLogits", .shape = SparseCrossEntropyShape,
                   .cost = SoftmaxCost, .in_place = {{1, 0}}});
}

}  // namespace millrace
