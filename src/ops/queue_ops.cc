// Queues of numbers. Input 0 is a variable of bytes that passes declare in place of the queue (graph/hidden_state.h); what TensorFlow says
// of the queue is in the attributes (QueueLayout).
#include <string>

#include "absl/strings/str_cat.h"
#include "graph/queue_layout.h"
#include "millrace/status.h"
#include "ops/rare.h"
#include "ops/rules.h"

namespace millrace {
namespace {

absl::Status CheckVersion(const InferenceContext& context) {
  if (context.attrs().Has("component_types")) return absl::OkStatus();
  return context.Error("has no component_types: the plan is of an older version, make it again");
}

absl::StatusOr<QueueLayout> LayoutOf(const InferenceContext& context) {
  QueueLayout layout = QueueLayout::Of(context.attrs());
  const int64_t bytes = context.shape(0).rank() == 1 ? context.shape(0).dim(0) : 0;
  MR_RETURN_IF_ERROR(CheckVersion(context));
  const bool has_header = context.dtype(0) == DataType::kUint8 && bytes >= static_cast<int64_t>(sizeof(QueueHeader));
  const bool is_whole = layout.sized() && layout.stay >= 0 && (!layout.by_priority || layout.has_priorities());
  if (is_whole && has_header) return layout;
  return context.Error(absl::StrCat("the queue is ", context.input(0).ToString(), " for elements of ", layout.dtypes.size(), " components"));
}

Shape InRows(int64_t rows, const Shape& element) {
  Shape shape({rows});
  for (const int64_t dim : element.dims()) shape.AddDim(dim);
  return shape;
}

// (queue, components of one element, or rows of many)
absl::Status EnqueueShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(CheckVersion(context));
  const int components = static_cast<int>(QueueLayout::Of(context.attrs()).dtypes.size());
  MR_RETURN_IF_ERROR(context.ExpectInputs(components + 1));
  MR_ASSIGN_OR_RETURN(const QueueLayout layout, LayoutOf(context));
  const bool many = context.attrs().GetOr<bool>("many", false);
  int64_t rows = -1;
  for (int i = 0; i < components; ++i) {
    const TensorType& input = context.input(i + 1);
    const int64_t own_rows = input.shape.rank() > 0 ? input.shape.dim(0) : -1;
    if (rows < 0) rows = own_rows;
    const Shape expected = many ? InRows(rows, layout.shapes[i]) : layout.shapes[i];
    if (input.dtype == layout.dtypes[i] && MayBeEqual(input.shape, expected)) continue;
    return context.Error(absl::StrCat("puts ", input.ToString(), " into a queue as component ", i, ", expected ",
                                      TensorType{layout.dtypes[i], expected}.ToString()));
  }
  return absl::OkStatus();
}

// (queue), or (queue, how many elements)
absl::Status DequeueShape(InferenceContext& context) {
  const bool many = context.attrs().GetOr<bool>("many", false);
  MR_RETURN_IF_ERROR(context.ExpectInputs(many ? 2 : 1));
  MR_ASSIGN_OR_RETURN(const QueueLayout layout, LayoutOf(context));
  int64_t rows = 1;
  if (many) {
    MR_ASSIGN_OR_RETURN(rows, KnownSize(context, 1));
  }
  for (size_t i = 0; i < layout.dtypes.size(); ++i) {
    context.AddOutput(layout.dtypes[i], many ? InRows(rows, layout.shapes[i]) : layout.shapes[i]);
    if (context.attrs().GetOr<bool>("up_to", false)) context.MarkBound(static_cast<int>(i));
  }
  return absl::OkStatus();
}

// (queue, which element)
absl::Status PeekShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(2));
  MR_RETURN_IF_ERROR(ExpectScalar(context, 1, "index"));
  MR_ASSIGN_OR_RETURN(const QueueLayout layout, LayoutOf(context));
  for (size_t i = 0; i < layout.dtypes.size(); ++i) context.AddOutput(layout.dtypes[i], layout.shapes[i]);
  return absl::OkStatus();
}

absl::Status CountShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(1));
  MR_RETURN_IF_ERROR(LayoutOf(context).status());
  context.AddOutput(DataType::kInt32, Shape({}));
  return absl::OkStatus();
}

absl::Status IsClosedShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(1));
  MR_RETURN_IF_ERROR(LayoutOf(context).status());
  context.AddOutput(DataType::kBool, Shape({}));
  return absl::OkStatus();
}

// Closes it, or takes all that there is away.
absl::Status CloseShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(1));
  return LayoutOf(context).status();
}

}  // namespace

void RegisterQueueOps(OpRegistry& registry) {
  const auto add = [&](const char* name, OpDef::ShapeRule shape, VariableAccess access) {
    AddOp(registry, {.name = name, .shape = std::move(shape), .variables = {{0, access}}, .stateful = true});
  };
  add("_QueueEnqueue", EnqueueShape, VariableAccess::kReadWrite);
  add("_QueueDequeue", DequeueShape, VariableAccess::kReadWrite);
  add("_QueueClose", CloseShape, VariableAccess::kReadWrite);
  add("_QueueClear", CloseShape, VariableAccess::kReadWrite);
  add("_QueuePeek", PeekShape, VariableAccess::kRead);
  add("_QueueIsClosed", IsClosedShape, VariableAccess::kRead);
  add("_QueueCount", CountShape, VariableAccess::kRead);
}

}  // namespace millrace
