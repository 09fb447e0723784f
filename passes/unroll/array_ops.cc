// The ops of TensorFlow 1's TensorArrays and stacks. They are resources that change: nodes are taken in an order that their
// flows allow, so every read sees what was written before. A flow itself is a zero that nobody needs.
#include <iterator>

#include "absl/strings/str_cat.h"
#include "millrace/status.h"
#include "passes/unroll/alternatives.h"
#include "passes/unroll/lists.h"

namespace millrace {

absl::StatusOr<ArrayStore::Array*> ArrayStore::ArrayOf(const NodeCall& call) {
  if (call.inputs.empty() || call.inputs[0].kind != Value::Kind::kObject) {
    return CallError(call, "takes something that is no array or stack");
  }
  return &arrays_[call.inputs[0].index];
}

absl::StatusOr<Value> ArrayStore::Flow() {
  MR_ASSIGN_OR_RETURN(const OutputRef zero, out_.Constant(Tensor::Scalar<float>(0)));
  return Value::Of(zero);
}

absl::StatusOr<std::vector<Value>> ArrayStore::Run(const NodeCall& call) {
  const std::string& op = call.node.op;
  if (op == "TensorArrayV3" || op == "StackV2") {
    Array array;
    array.dtype = call.node.attrs.GetOr<DataType>(op == "StackV2" ? "elem_type" : "dtype", DataType::kInvalid);
    array.element_shape = call.node.attrs.GetOr<Shape>("element_shape", Shape::UnknownRank());
    array.grows = call.node.attrs.GetOr<bool>("dynamic_size", false);
    if (op == "TensorArrayV3") {
      MR_ASSIGN_OR_RETURN(const std::vector<int64_t> size, KnownNumbers(out_, call, 0, "the size of the array"));
      if (size.size() != 1 || size[0] < 0) return CallError(call, "has a size that is no number");
      MR_RETURN_IF_ERROR(CheckMostItems(call, size[0]));
      array.items.Resize(size[0]);
    }
    array.guard = guards_.Of(call.inputs, call.origin.waits);
    arrays_.push_back(std::move(array));
    MR_ASSIGN_OR_RETURN(Value flow, Flow());
    return std::vector<Value>{Value::Object(static_cast<int64_t>(arrays_.size()) - 1), std::move(flow)};
  }
  if (op == "TensorArrayGradV3") return RunGradient(call);
  MR_ASSIGN_OR_RETURN(Array* const array, ArrayOf(call));
  if (op == "StackPushV2") {
    array->items.PushBack(call.inputs[1]);
    return std::vector<Value>{call.inputs[1]};
  }
  if (op == "StackPopV2") {
    if (array->items.size() == 0) return CallError(call, "takes the last item of a stack that has none");
    Value last = array->items.at(array->items.size() - 1);
    array->items.Resize(array->items.size() - 1);
    MR_ASSIGN_OR_RETURN(last, KnownOnSide(out_, call, std::move(last)));
    return std::vector<Value>{std::move(last)};
  }
  if (op == "StackCloseV2" || op == "TensorArrayCloseV3") return std::vector<Value>{};
  if (op == "TensorArraySizeV3") {
    MR_ASSIGN_OR_RETURN(const OutputRef size,
                        out_.Constant(Tensor::Scalar<int32_t>(static_cast<int32_t>(array->items.size()))));
    return std::vector<Value>{Value::Of(size)};
  }
  if (op == "TensorArrayReadV3" || op == "TensorArrayGatherV3" || op == "TensorArrayConcatV3") return RunRead(call, *array);
  if (op == "TensorArrayWriteV3" || op == "TensorArrayScatterV3" || op == "TensorArraySplitV3") {
    MR_ASSIGN_OR_RETURN(Value flow, RunWrite(call, *array));
    return std::vector<Value>{std::move(flow)};
  }
  return absl::UnimplementedError(absl::StrCat("node '", call.node.name, "' (", op, "): this op of arrays is not supported"));
}

// One array per array and source, whoever asks for it.
absl::StatusOr<std::vector<Value>> ArrayStore::RunGradient(const NodeCall& call) {
  MR_ASSIGN_OR_RETURN(const Array* const array, ArrayOf(call));
  const std::string source = call.node.attrs.GetOr<std::string>("source", "");
  MR_ASSIGN_OR_RETURN(Value flow, Flow());
  const auto found = array->gradients.find(source);
  if (found != array->gradients.end()) return std::vector<Value>{Value::Object(found->second), std::move(flow)};
  Array gradient;
  gradient.dtype = array->dtype;
  gradient.element_shape = array->element_shape;
  gradient.gradient_of = call.inputs[0].index;
  gradient.guard = array->guard;  // not of who asks first
  gradient.items.Resize(array->items.size());
  const int64_t number = static_cast<int64_t>(arrays_.size());
  arrays_.push_back(std::move(gradient));
  arrays_[call.inputs[0].index].gradients[source] = number;
  return std::vector<Value>{Value::Object(number), std::move(flow)};
}

absl::StatusOr<Value> ArrayStore::Read(const NodeCall& call, const Array& array, int64_t index) {
  if (index < 0 || index >= array.items.size()) {
    return CallError(call, absl::StrCat("index ", index, " is not in an array of ", array.items.size()));
  }
  const Value& item = array.items.at(index);
  if (!item.missing()) return item;
  // Nothing was added to this gradient: it is zero, and shaped like what it is the gradient of.
  Shape shape = array.element_shape;
  if (array.gradient_of >= 0 && index < arrays_[array.gradient_of].items.size()) {
    const Value& forward = arrays_[array.gradient_of].items.at(index);
    if (!forward.missing()) {
      MR_ASSIGN_OR_RETURN(const OutputRef ref, TensorOf(out_, call, forward));
      if (const auto type = out_.Type(ref); type.has_value()) return MissingItem(out_, call, type->dtype, type->shape);
    }
  }
  return MissingItem(out_, call, array.dtype, shape);
}

absl::StatusOr<std::vector<Value>> ArrayStore::RunRead(const NodeCall& call, Array& array) {
  const std::string& op = call.node.op;
  if (op == "TensorArrayReadV3") {
    MR_ASSIGN_OR_RETURN(const std::vector<int64_t> index, KnownNumbers(out_, call, 1, "the index"));
    if (index.size() != 1) return CallError(call, "has an index that is no number");
    MR_ASSIGN_OR_RETURN(Value item, Read(call, array, index[0]));
    return std::vector<Value>{std::move(item)};
  }
  std::vector<int64_t> indices;
  if (op == "TensorArrayGatherV3") {
    MR_ASSIGN_OR_RETURN(indices, KnownNumbers(out_, call, 1, "indices"));
  } else {
    MR_RETURN_IF_ERROR(CheckNumber(out_, call, array.items));
    for (int64_t i = 0; i < array.items.size(); ++i) indices.push_back(i);
  }
  std::vector<Value> items;
  Shape shape = array.element_shape;
  for (int64_t index : indices) {
    if (index >= 0 && index < array.items.size() && array.items.at(index).missing() && !shape.fully_known() &&
        array.gradient_of < 0) {
      items.push_back(Value());
      continue;
    }
    MR_ASSIGN_OR_RETURN(Value item, Read(call, array, index));
    items.push_back(std::move(item));
  }
  const Shape asked = call.node.attrs.GetOr<Shape>("element_shape", Shape::UnknownRank());
  if (!shape.fully_known()) shape = asked;
  if (op == "TensorArrayGatherV3" && array.dtype == DataType::kVariant) {
    ListValue list;
    list.dtype = array.dtype;
    list.element_shape = shape;
    for (Value& item : items) list.items.PushBack(std::move(item));
    list.ragged_batch = HoldsRaggedRows(list.items);
    return std::vector<Value>{ListOf(std::move(list))};
  }
  if (op == "TensorArrayGatherV3") {
    MR_ASSIGN_OR_RETURN(const OutputRef stacked, PackItems(out_, call, std::move(items), array.dtype, shape));
    return std::vector<Value>{Value::Of(stacked)};
  }
  MR_ASSIGN_OR_RETURN(const auto joined, ConcatItems(out_, call, items, array.dtype, shape));
  MR_ASSIGN_OR_RETURN(const OutputRef lengths, out_.Constant(joined.second));
  return std::vector<Value>{Value::Of(joined.first), Value::Of(lengths)};
}

// What decides whether the write happens, beyond what the array itself depends on: any of its inputs may not come.
Guard ArrayStore::BranchOf(const NodeCall& call, const Array& array) {
  Guard branch = guards_.Of(call.inputs, call.origin.waits);
  for (const Literal& literal : array.guard) branch.erase(literal);
  return branch;
}

// One side's item is the new one, the other's what was there; on the sides of all literals from `branch` on.
absl::StatusOr<Value> ArrayStore::WrittenOnSides(const NodeCall& call, const Array& array, const Value& there, Value value,
                                                 Guard::const_iterator at, const Guard& branches) {
  if (at == branches.end()) return array.gradient_of >= 0 ? AddItems(out_, call, there, value) : std::move(value);
  const Literal branch = *at;
  const bool decided = there.kind == Value::Kind::kEither && there.either->predicate == branch.predicate;
  Value other = decided ? there.either->other : there, taken = decided ? there.either->taken : there;
  Value& changed = branch.value ? taken : other;
  MR_ASSIGN_OR_RETURN(changed, WrittenOnSides(call, array, Value(changed), std::move(value), std::next(at), branches));
  Value& kept = branch.value ? other : taken;
  if (kept.missing()) {
    MR_ASSIGN_OR_RETURN(const OutputRef ref, TensorOf(out_, call, changed));
    const std::optional<TensorType> type = out_.Type(ref);
    MR_ASSIGN_OR_RETURN(kept, MissingItem(out_, call, array.dtype, type ? type->shape : array.element_shape));
  }
  return EitherOf(branch.predicate, std::move(other), std::move(taken));
}

absl::Status ArrayStore::Write(const NodeCall& call, Array& array, int64_t index, Value value, const Guard& branch) {
  if (index >= array.items.size() && index >= 0 && array.grows && branch.empty()) {
    MR_RETURN_IF_ERROR(CheckMostItems(call, index));
    array.items.Resize(index + 1);
  }
  if (index < 0 || index >= array.items.size()) {
    return CallError(call, absl::StrCat("index ", index, " is not in an array of ", array.items.size()));
  }
  MR_ASSIGN_OR_RETURN(value, WrittenOnSides(call, array, array.items.at(index), std::move(value), branch.begin(), branch));
  array.items.Set(index, std::move(value));
  return absl::OkStatus();
}

absl::Status ArrayStore::CheckWritten(const NodeCall& call, const Array& array, const Value& value) const {
  const bool tensor = (value.kind == Value::Kind::kTensor || value.kind == Value::Kind::kRow) && array.dtype != DataType::kVariant;
  const std::optional<TensorType> type = tensor ? out_.Type(value.ref) : std::nullopt;
  const DataType dtype = type ? type->dtype : call.node.attrs.GetOr<DataType>("T", array.dtype);
  if (dtype == array.dtype || array.dtype == DataType::kInvalid) return absl::OkStatus();
  return CallError(call, absl::StrCat("writes ", std::string(DataTypeName(dtype)), " to an array of ", std::string(DataTypeName(array.dtype))));
}

// Whether there are as many numbers (lengths of items, or indices) as they need to be for the rows and the array.
absl::Status ArrayStore::CheckRows(const NodeCall& call, const Array& array, OutputRef rows, absl::Span<const int64_t> numbers) const {
  const bool splits = call.node.op == "TensorArraySplitV3";
  const auto count = static_cast<int64_t>(numbers.size());
  if (splits && count != array.items.size() && !array.grows) {
    return CallError(call, absl::StrCat("splits into ", count, " items, the array has ", array.items.size()));
  }
  const std::optional<TensorType> type = out_.Type(rows);
  if (type && type->shape.rank() < 1) return CallError(call, "takes a tensor without rows");
  const std::optional<int64_t> there = type ? std::optional<int64_t>(type->shape.dim(0)) : std::nullopt;
  if (splits) return CheckLengths(call, numbers, there);
  return !there || count == *there ? absl::OkStatus() : CallError(call, absl::StrCat(count, " indices for ", *there, " rows"));
}

// Variants, such as ragged rows.
absl::Status ArrayStore::ScatterList(const NodeCall& call, Array& array, const ListValue& list, const Guard& branch) {
  MR_ASSIGN_OR_RETURN(const std::vector<int64_t> indices, KnownNumbers(out_, call, 1, "indices"));
  MR_RETURN_IF_ERROR(CheckWritten(call, array, call.inputs[2]));
  const auto count = static_cast<int64_t>(indices.size());
  if (count != list.items.size()) return CallError(call, absl::StrCat(count, " indices for ", list.items.size(), " rows"));
  for (int64_t i = 0; i < count; ++i) MR_RETURN_IF_ERROR(Write(call, array, indices[i], list.items.at(i), branch));
  return absl::OkStatus();
}

absl::StatusOr<Value> ArrayStore::RunWrite(const NodeCall& call, Array& array) {
  const std::string& op = call.node.op;
  const Guard branch = BranchOf(call, array);
  if (op == "TensorArrayWriteV3") {
    MR_ASSIGN_OR_RETURN(const std::vector<int64_t> index, KnownNumbers(out_, call, 1, "the index"));
    if (index.size() != 1) return CallError(call, "has an index that is no number");
    MR_RETURN_IF_ERROR(CheckWritten(call, array, call.inputs[2]));
    MR_RETURN_IF_ERROR(Write(call, array, index[0], call.inputs[2], branch));
    return Flow();
  }
  const bool splits = op == "TensorArraySplitV3";
  if (!splits && call.inputs[2].kind == Value::Kind::kList) {
    MR_RETURN_IF_ERROR(ScatterList(call, array, *call.inputs[2].list, branch));
    return Flow();
  }
  MR_ASSIGN_OR_RETURN(const OutputRef rows, TensorOf(out_, call, call.inputs[splits ? 1 : 2]));
  MR_ASSIGN_OR_RETURN(const std::vector<int64_t> numbers,
                      KnownNumbers(out_, call, splits ? 2 : 1, splits ? "lengths of the items" : "indices"));
  MR_RETURN_IF_ERROR(CheckWritten(call, array, Value::Of(rows)));
  MR_RETURN_IF_ERROR(CheckRows(call, array, rows, numbers));
  int64_t begin = 0;
  for (size_t i = 0; i < numbers.size(); ++i) {
    if (!splits) {
      MR_RETURN_IF_ERROR(Write(call, array, numbers[i], Value::Row(rows, static_cast<int64_t>(i)), branch));
      continue;
    }
    MR_ASSIGN_OR_RETURN(const OutputRef part, out_.Rows(call.origin, rows, begin, begin + numbers[i]));
    MR_RETURN_IF_ERROR(Write(call, array, static_cast<int64_t>(i), Value::Of(part), branch));
    begin += numbers[i];
  }
  return Flow();
}

}  // namespace millrace
