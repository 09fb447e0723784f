// Tables that steps change. Input 0 is a variable of bytes that passes declare in place of the table (graph/hidden_state.h); what
// TensorFlow's ops say of the table is in the attributes (TableLayout).
#include <string>

#include "absl/strings/str_cat.h"
#include "graph/mutable_table.h"
#include "millrace/status.h"
#include "ops/rare.h"
#include "ops/rules.h"

namespace millrace {
namespace {

absl::StatusOr<TableLayout> LayoutOf(const InferenceContext& context) {
  absl::StatusOr<TableLayout> layout = TableLayout::Of(context.attrs());
  if (!layout.ok()) return ErrorAtNode(context, layout.status());
  if (context.dtype(0) != DataType::kUint8 || context.shape(0).rank() != 1) {
    return context.Error(absl::StrCat("the table is ", context.input(0).ToString(), ", expected uint8[bytes]"));
  }
  if (context.shape(0).dim(0) >= 0 && !layout->is_size(context.shape(0).dim(0))) {
    return context.Error(absl::StrCat("the table is ", context.input(0).ToString(), ", expected ", layout->least_buckets(), " buckets of ",
                                      layout->bucket_bytes(), " bytes, or twice as many, and so on"));
  }
  return layout;
}

Shape Joined(const Shape& outer, const Shape& inner) {
  Shape shape = outer;
  for (int d = 0; d < inner.rank(); ++d) shape.AddDim(inner.dim(d));
  return shape;
}

bool EndsWith(const Shape& shape, const Shape& end) {
  if (shape.unknown_rank()) return true;
  if (shape.rank() < end.rank()) return false;
  for (int d = 0; d < end.rank(); ++d) {
    const int64_t size = shape.dim(shape.rank() - end.rank() + d);
    if (size >= 0 && size != end.dim(d)) return false;
  }
  return true;
}

// The shape in which keys come: that of input 1 without a key's own.
absl::StatusOr<Shape> ShapeOfKeys(const InferenceContext& context, const TableLayout& layout) {
  if (context.dtype(1) != layout.key_dtype) {
    return context.Error(absl::StrCat("keys are ", context.input(1).ToString(), ", expected ", std::string(DataTypeName(layout.key_dtype))));
  }
  const Shape& shape = context.shape(1);
  if (!EndsWith(shape, layout.key_shape)) {
    return context.Error(absl::StrCat("Expected key shape to end with ", layout.key_shape.ToString(), " got: ", shape.ToString()));
  }
  if (shape.unknown_rank()) return Shape::UnknownRank();
  Shape keys;
  for (int d = 0; d + layout.key_shape.rank() < shape.rank(); ++d) keys.AddDim(shape.dim(d));
  return keys;
}

absl::Status ExpectValueType(const InferenceContext& context, int input, const TableLayout& layout) {
  if (context.dtype(input) == layout.value_dtype) return absl::OkStatus();
  return context.Error(absl::StrCat("values are ", context.input(input).ToString(), ", expected ", std::string(DataTypeName(layout.value_dtype))));
}

// (table, keys, what others have: one value, or one for each key)
absl::Status FindShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(3));
  MR_ASSIGN_OR_RETURN(const TableLayout layout, LayoutOf(context));
  MR_ASSIGN_OR_RETURN(const Shape keys, ShapeOfKeys(context, layout));
  MR_RETURN_IF_ERROR(ExpectValueType(context, 2, layout));
  const Shape values = keys.unknown_rank() ? Shape::UnknownRank() : Joined(keys, layout.value_shape);
  const Shape& other = context.shape(2);
  if (other.fully_known() && values.fully_known() && other != layout.value_shape && other != values) {
    return context.Error(absl::StrCat("Expected shape ", layout.value_shape.ToString(), " or ", values.ToString(), " for default value, got ",
                                      other.ToString()));
  }
  context.AddOutput(layout.value_dtype, values);
  return absl::OkStatus();
}

// (table, keys, values)
absl::Status InsertShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(3));
  MR_ASSIGN_OR_RETURN(const TableLayout layout, LayoutOf(context));
  MR_ASSIGN_OR_RETURN(const Shape keys, ShapeOfKeys(context, layout));
  MR_RETURN_IF_ERROR(ExpectValueType(context, 2, layout));
  if (!keys.fully_known() || !context.shape(2).fully_known()) return absl::OkStatus();
  const Shape expected = Joined(keys, layout.value_shape);
  if (context.shape(2) != expected) {
    return context.Error(absl::StrCat("Expected shape ", expected.ToString(), " for value, got ", context.shape(2).ToString()));
  }
  return absl::OkStatus();
}

// (table, keys)
absl::Status RemoveShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(2));
  MR_ASSIGN_OR_RETURN(const TableLayout layout, LayoutOf(context));
  return ShapeOfKeys(context, layout).status();
}

absl::Status SizeShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(1));
  MR_RETURN_IF_ERROR(LayoutOf(context).status());
  context.AddOutput(DataType::kInt64, Shape({}));
  return absl::OkStatus();
}

// Of dense tables all buckets, each a row of numbers whatever the shape of a key and of a value; of others those that hold a key.
absl::Status ExportShape(InferenceContext& context) {
  MR_RETURN_IF_ERROR(context.ExpectInputs(1));
  MR_ASSIGN_OR_RETURN(const TableLayout layout, LayoutOf(context));
  const Shape rows({context.shape(0).dim(0) / layout.bucket_bytes()});
  const auto in_row = [&](const Shape& shape) { return layout.tensorflow_places ? Shape({shape.num_elements()}) : shape; };
  context.AddOutput(layout.key_dtype, Joined(rows, in_row(layout.key_shape)));
  context.AddOutput(layout.value_dtype, Joined(rows, in_row(layout.value_shape)));
  if (layout.tensorflow_places) return absl::OkStatus();
  context.MarkBound(0);
  context.MarkBound(1);
  return absl::OkStatus();
}

// A few buckets are looked at for a key, whatever the table's size.
Cost CostOfKeys(const OpInstance& instance) {
  Cost cost;
  for (size_t i = 1; i < instance.inputs.size(); ++i) cost.bytes += static_cast<double>(instance.inputs[i].size_bytes());
  for (const TensorType& output : instance.outputs) cost.bytes += static_cast<double>(output.size_bytes());
  constexpr double kLooks = 3;
  cost.bytes *= kLooks;
  return cost;
}

}  // namespace

void RegisterTableOps(OpRegistry& registry) {
  AddOp(registry, {.name = "_TableFind", .shape = FindShape, .cost = CostOfKeys, .variables = {{0, VariableAccess::kRead}}, .stateful = true});
  AddOp(registry, {.name = "_TableSize", .shape = SizeShape, .variables = {{0, VariableAccess::kRead}}, .stateful = true});
  AddOp(registry, {.name = "_TableExport", .shape = ExportShape, .variables = {{0, VariableAccess::kRead}}, .stateful = true});
  AddOp(registry, {.name = "_TableInsert", .shape = InsertShape, .cost = CostOfKeys, .variables = {{0, VariableAccess::kReadWrite}}, .stateful = true});
  AddOp(registry, {.name = "_TableRemove", .shape = RemoveShape, .cost = CostOfKeys, .variables = {{0, VariableAccess::kReadWrite}}, .stateful = true});
}

}  // namespace millrace
