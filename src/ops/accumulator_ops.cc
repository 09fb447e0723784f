// Conditional accumulators of gradients, as tf.train.SyncReplicasOptimizer has them. Input 0 is a variable of bytes that passes declare in
// place of the resource (graph/hidden_state.h).
#include <string>

#include "absl/strings/str_cat.h"
#include "graph/accumulator.h"
#include "millrace/status.h"
#include "ops/rare.h"
#include "ops/rules.h"

namespace millrace {
namespace {

absl::StatusOr<AccumulatorLayout> LayoutOf(const InferenceContext& context) {
  const AccumulatorLayout layout = AccumulatorLayout::Of(context.attrs());
  if (layout.shape.fully_known() && (!layout.sparse || layout.shape.rank() > 0) && context.dtype(0) == DataType::kUint8 &&
      context.shape(0) == Shape({layout.bytes()})) {
    return layout;
  }
  return context.Error(absl::StrCat("the accumulator is ", context.input(0).ToString(), " for gradients of shape ", layout.shape.ToString()));
}

absl::Status ExpectScalar(const InferenceContext& context, int input, DataType dtype, const char* what) {
  if (context.dtype(input) == dtype && context.shape(input).rank() <= 0) return absl::OkStatus();
  return context.Error(absl::StrCat(what, " is ", context.input(input).ToString(), ", expected a scalar ", std::string(DataTypeName(dtype))));
}

// (accumulator, local step, gradient)
absl::Status ApplyShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(3));
  MR_ASSIGN_OR_RETURN(const AccumulatorLayout layout, LayoutOf(context));
  MR_RETURN_IF_ERROR(ExpectScalar(context, 1, DataType::kInt64, "the local step"));
  if (context.dtype(2) == layout.dtype && (!context.shape(2).fully_known() || context.shape(2) == layout.shape)) return absl::OkStatus();
  return context.Error(absl::StrCat("the gradient is ", context.input(2).ToString(), ", expected ",
                                    TensorType{layout.dtype, layout.shape}.ToString()));
}

// (accumulator, local step, rows, their gradients, shape of the whole)
absl::Status SparseApplyShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(5));
  MR_ASSIGN_OR_RETURN(const AccumulatorLayout layout, LayoutOf(context));
  MR_RETURN_IF_ERROR(ExpectScalar(context, 1, DataType::kInt64, "the local step"));
  const Shape &rows = context.shape(2), &values = context.shape(3);
  if (context.dtype(2) != DataType::kInt64 || context.dtype(3) != layout.dtype || rows.rank() > 1) {
    return context.Error(absl::StrCat("gradients are ", context.input(3).ToString(), " of rows ", context.input(2).ToString()));
  }
  if (!rows.fully_known() || !values.fully_known()) return absl::OkStatus();
  Shape expected = layout.shape;
  expected.set_dim(0, rows.num_elements());
  if (values == expected) return absl::OkStatus();
  return context.Error(absl::StrCat("gradients of ", rows.num_elements(), " rows have shape ", values.ToString(), ", expected ", expected.ToString()));
}

// (accumulator, how many gradients there must be)
absl::StatusOr<AccumulatorLayout> CheckTake(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(2));
  MR_RETURN_IF_ERROR(ExpectScalar(context, 1, DataType::kInt32, "num_required"));
  return LayoutOf(context);
}

absl::Status TakeShape(InferenceContext& context) {
  MR_ASSIGN_OR_RETURN(const AccumulatorLayout layout, CheckTake(context));
  context.AddOutput(layout.dtype, layout.shape);
  return absl::OkStatus();
}

absl::Status SparseTakeShape(InferenceContext& context) {
  MR_ASSIGN_OR_RETURN(const AccumulatorLayout layout, CheckTake(context));
  context.AddOutput(DataType::kInt64, Shape({layout.rows()}));
  context.AddOutput(layout.dtype, layout.shape);
  context.AddOutput(DataType::kInt64, Shape({layout.shape.rank()}));
  context.MarkBound(0);
  context.MarkBound(1);
  return absl::OkStatus();
}

absl::Status CountShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(1));
  context.AddOutput(DataType::kInt32, Shape({}));
  return absl::OkStatus();
}

// (accumulator, global step)
absl::Status SetStepShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(2));
  return ExpectScalar(context, 1, DataType::kInt64, "the global step");
}

}  // namespace

void RegisterAccumulatorOps(OpRegistry& registry) {
  const auto add = [&](const char* name, OpDef::ShapeRule shape, VariableAccess access) {
    AddOp(registry, {.name = name, .shape = std::move(shape), .variables = {{0, access}}, .stateful = true});
  };
  add("_AccumulatorApply", ApplyShape, VariableAccess::kReadWrite);
  add("_AccumulatorTake", TakeShape, VariableAccess::kReadWrite);
  add("_SparseAccumulatorApply", SparseApplyShape, VariableAccess::kReadWrite);
  add("_SparseAccumulatorTake", SparseTakeShape, VariableAccess::kReadWrite);
  add("_AccumulatorCount", CountShape, VariableAccess::kRead);
  add("_AccumulatorSetStep", SetStepShape, VariableAccess::kReadWrite);
}

}  // namespace millrace
