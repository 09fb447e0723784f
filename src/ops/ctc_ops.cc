// Connectionist temporal classification.
#include <string>

#include "absl/strings/str_cat.h"
#include "millrace/status.h"
#include "ops/register.h"
#include "ops/rules.h"

namespace millrace {
namespace {

absl::Status ExpectInput(const InferenceContext& context, int input, const char* name, DataType dtype, int rank) {
  const TensorType& type = context.input(input);
  if (type.dtype == dtype && (type.shape.unknown_rank() || type.shape.rank() == rank)) return absl::OkStatus();
  return context.Error(absl::StrCat(name, " is ", type.ToString(), ", expected ", std::string(DataTypeName(dtype)),
                                    " of ", rank, " dimensions"));
}

// CTCLoss(inputs [time, batch, classes], labels_indices [n, 2], labels_values [n], sequence_length [batch]) ->
// loss [batch], gradient like inputs.
absl::Status CtcLossShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(4));
  const Shape& inputs = context.shape(0);
  MR_RETURN_IF_ERROR(ExpectInput(context, 0, "inputs", context.dtype(0), 3));
  MR_RETURN_IF_ERROR(ExpectInput(context, 1, "labels_indices", DataType::kInt64, 2));
  MR_RETURN_IF_ERROR(ExpectInput(context, 2, "labels_values", DataType::kInt32, 1));
  MR_RETURN_IF_ERROR(ExpectInput(context, 3, "sequence_length", DataType::kInt32, 1));
  const Shape &indices = context.shape(1), &values = context.shape(2), &lengths = context.shape(3);
  if (indices.fully_known() && values.fully_known() && (indices.dim(0) != values.dim(0) || indices.dim(1) != 2)) {
    return context.Error(absl::StrCat("labels_indices are ", indices.ToString(), " and labels_values ",
                                      values.ToString(), ", expected [n,2] and [n]"));
  }
  if (inputs.fully_known() && lengths.fully_known() && (inputs.dim(1) != lengths.dim(0) || inputs.dim(1) == 0 || inputs.dim(2) == 0)) {
    return context.Error(absl::StrCat("inputs are ", inputs.ToString(), " and sequence_length ", lengths.ToString(),
                                      ", expected [time,batch,classes] and [batch], some batch and classes"));
  }
  context.AddOutput(context.dtype(0), Shape({inputs.unknown_rank() ? -1 : inputs.dim(1)}));
  context.AddOutput(context.dtype(0), inputs);
  return absl::OkStatus();
}

Cost CtcLossCost(const OpInstance& node) {
  Cost cost;
  // Every time of every label and the blanks between takes some logarithms and exponentials, both ways.
  const double labels = node.inputs[2].shape.num_elements();
  cost.flops = 30.0 * node.inputs[0].shape.num_elements() + 200.0 * 2 * labels * node.inputs[0].shape.dim(0);
  cost.bytes = 2.0 * node.inputs[0].size_bytes() + 16.0 * 2 * labels * node.inputs[0].shape.dim(0);
  return cost;
}

}  // namespace

void RegisterCtcOps(OpRegistry& registry) {
  AddOp(registry, {.name = "CTCLoss", .shape = CtcLossShape, .cost = CtcLossCost});
  AddOp(registry, {.name = "CTCLossV2", .shape = CtcLossShape, .cost = CtcLossCost});
}

}  // namespace millrace
