// The ops of TensorLists.
#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "millrace/status.h"
#include "passes/control_flow/loop_ops.h"
#include "passes/unroll/alternatives.h"
#include "passes/unroll/exact_sizes.h"
#include "passes/unroll/lists.h"

namespace millrace {
namespace {

// Of an item that is a tensor; nullopt where it is none, or its type is not known. A row has the type of all others; it need not be made.
std::optional<TensorType> TypeOfItem(const StraightGraph& out, const Value& item) {
  if (item.kind != Value::Kind::kTensor && item.kind != Value::Kind::kRow) return std::nullopt;
  std::optional<TensorType> type = out.Type(item.ref);
  if (type && item.kind == Value::Kind::kRow) type->shape = Shape(type->shape.dims().subspan(1));
  return type;
}

class ListCall {
 public:
  ListCall(StraightGraph& out, const NodeCall& call) : out_(out), call_(call), op_(call.node.op) {}

  absl::StatusOr<std::vector<Value>> Run() {
    if (op_ == "EmptyTensorList" || op_ == "TensorListReserve") return Make();
    if (op_ == "TensorListFromTensor" || op_ == "TensorListScatter" || op_ == "TensorListScatterV2") return FromRows();
    if (op_ == "TensorListSplit") return Split();
    MR_RETURN_IF_ERROR(TakeList());
    if (op_ == "TensorListLength") return Number(Tensor::Scalar<int32_t>(static_cast<int32_t>(list_.items.size())));
    if (op_ == "TensorListElementShape") return ElementShape();
    if (op_ == "TensorListSetItem") return SetItem();
    if (op_ == "TensorListGetItem") return GetItem();
    if (op_ == "TensorListPushBack") return PushBack();
    if (op_ == "TensorListPopBack") return PopBack();
    if (op_ == "TensorListResize") return Resize();
    if (op_ == "TensorListStack" || op_ == "TensorListGather") return Stack();
    if (op_ == "TensorListConcat" || op_ == "TensorListConcatV2") return Concat();
    if (op_ == "TensorListScatterIntoExistingList") return ScatterInto();
    if (op_ == "TensorListConcatLists") return JoinLists();
    return absl::UnimplementedError(absl::StrCat("node '", call_.node.name, "' (", op_, "): this op of lists is not supported"));
  }

 private:
  absl::Status TakeList() {
    if (call_.inputs.empty() || call_.inputs[0].kind != Value::Kind::kList || call_.inputs[0].list->is_map) {
      return CallError(call_, "takes something that is no list");
    }
    list_ = *call_.inputs[0].list;
    return absl::OkStatus();
  }

  absl::StatusOr<std::vector<Value>> Number(const Tensor& value) {
    MR_ASSIGN_OR_RETURN(const OutputRef ref, out_.Constant(value));
    return std::vector<Value>{Value::Of(ref)};
  }

  absl::StatusOr<std::vector<Value>> Done() { return std::vector<Value>{ListOf(std::move(list_))}; }

  // Of input `input`: -1, or dimensions of which some may be -1. What is not known says nothing.
  Shape ShapeAt(size_t input) {
    if (input >= call_.inputs.size() || call_.inputs[input].kind != Value::Kind::kTensor) return Shape::UnknownRank();
    const Tensor* value = out_.Known(call_.inputs[input].ref);
    if (value == nullptr || value->shape().rank() != 1) return Shape::UnknownRank();
    Shape shape;
    for (int64_t i = 0; i < value->num_elements(); ++i) shape.AddDim(value->IntAt(i));
    return shape;
  }

  // What both say.
  static Shape Merged(const Shape& a, const Shape& b) {
    if (a.unknown_rank()) return b;
    if (b.unknown_rank() || a.rank() != b.rank()) return a;
    Shape merged = a;
    for (int i = 0; i < a.rank(); ++i) {
      if (a.dim(i) < 0) merged.set_dim(i, b.dim(i));
    }
    return merged;
  }

  absl::StatusOr<int64_t> NumberAt(size_t input, const char* what) {
    MR_ASSIGN_OR_RETURN(const std::vector<int64_t> numbers, KnownNumbers(out_, call_, input, what));
    if (numbers.size() != 1) return CallError(call_, absl::StrCat(what, " has ", numbers.size(), " elements, expected one"));
    return numbers[0];
  }

  absl::Status CheckIndex(int64_t index) const {
    if (index >= 0 && index < list_.items.size()) return absl::OkStatus();
    return CallError(call_, absl::StrCat("index ", index, " is not in a list of ", list_.items.size()));
  }

  absl::Status GrowTo(int64_t index) {
    if (index < list_.items.size()) return absl::OkStatus();
    MR_RETURN_IF_ERROR(CheckMostItems(call_, index));
    list_.items.Resize(index + 1);
    return absl::OkStatus();
  }

  absl::StatusOr<std::vector<Value>> Make() {
    list_.dtype = call_.node.attrs.GetOr<DataType>("element_dtype", DataType::kInvalid);
    list_.element_shape = ShapeAt(0);
    return op_ == "TensorListReserve" ? Resize() : Done();
  }

  // A list's items are rows of the tensor, in order or where indices say.
  absl::StatusOr<std::vector<Value>> FromRows() {
    // Variants are a list already.
    if (op_ == "TensorListFromTensor" && call_.inputs[0].kind == Value::Kind::kList) return std::vector<Value>{call_.inputs[0]};
    MR_ASSIGN_OR_RETURN(const int64_t rows, RowsOf(0));
    list_.dtype = call_.node.attrs.GetOr<DataType>("element_dtype", DataType::kInvalid);
    const bool scatters = op_ != "TensorListFromTensor";
    list_.element_shape = ShapeAt(scatters ? 2 : 1);
    if (!scatters) {
      MR_RETURN_IF_ERROR(CheckMostItems(call_, rows));
      list_.items.Resize(rows);
      for (int64_t i = 0; i < rows; ++i) list_.items.Set(i, Value::Row(tensor_, i));
      return Done();
    }
    if (op_ == "TensorListScatterV2") {
      MR_ASSIGN_OR_RETURN(const int64_t size, NumberAt(3, "the length of the list"));
      MR_RETURN_IF_ERROR(CheckMostItems(call_, size));
      if (size > 0) list_.items.Resize(size);
    }
    return Scatter(1, rows, true);
  }

  absl::StatusOr<int64_t> RowsOf(size_t input) {
    MR_ASSIGN_OR_RETURN(tensor_, TensorOf(out_, call_, call_.inputs[input]));
    const std::optional<TensorType> type = out_.Type(tensor_);
    if (!type || type->shape.rank() < 1) {
      return NotKnown(out_, call_.node, tensor_, absl::StrCat("the shape of input ", input));
    }
    return type->shape.dim(0);
  }

  absl::StatusOr<std::vector<Value>> Scatter(size_t input, int64_t rows, bool grows) {
    MR_ASSIGN_OR_RETURN(const std::vector<int64_t> indices, KnownNumbers(out_, call_, input, "indices"));
    if (static_cast<int64_t>(indices.size()) != rows) {
      return CallError(call_, absl::StrCat(indices.size(), " indices for ", rows, " rows"));
    }
    for (int64_t i = 0; i < rows; ++i) {
      if (grows) MR_RETURN_IF_ERROR(GrowTo(indices[i]));
      MR_RETURN_IF_ERROR(CheckIndex(indices[i]));
      list_.items.Set(indices[i], Value::Row(tensor_, i));
    }
    return Done();
  }

  absl::StatusOr<std::vector<Value>> ScatterInto() {
    MR_ASSIGN_OR_RETURN(const int64_t rows, RowsOf(1));
    return Scatter(2, rows, true);
  }

  absl::StatusOr<std::vector<Value>> Split() {
    MR_ASSIGN_OR_RETURN(const int64_t rows, RowsOf(0));
    MR_ASSIGN_OR_RETURN(const std::vector<int64_t> lengths, KnownNumbers(out_, call_, 2, "lengths of the items"));
    list_.dtype = call_.node.attrs.GetOr<DataType>("element_dtype", DataType::kInvalid);
    list_.element_shape = ShapeAt(1);
    MR_RETURN_IF_ERROR(CheckLengths(call_, lengths, rows));
    int64_t begin = 0;
    for (int64_t length : lengths) {
      MR_ASSIGN_OR_RETURN(const OutputRef part, out_.Rows(call_.origin, tensor_, begin, begin + length));
      list_.items.PushBack(Value::Of(part));
      begin += length;
    }
    return Done();
  }

  absl::StatusOr<std::vector<Value>> ElementShape() {
    const bool wide = call_.node.attrs.GetOr<DataType>("shape_type", DataType::kInt32) == DataType::kInt64;
    const Shape& shape = list_.element_shape;
    if (shape.unknown_rank()) return Number(wide ? Tensor::Scalar<int64_t>(-1) : Tensor::Scalar<int32_t>(-1));
    if (wide) return Number(Tensor::Vector<int64_t>(shape.dims()));
    const std::vector<int32_t> dims(shape.dims().begin(), shape.dims().end());
    return Number(Tensor::Vector<int32_t>(absl::MakeConstSpan(dims)));
  }

  absl::StatusOr<std::vector<Value>> SetItem() {
    MR_ASSIGN_OR_RETURN(const int64_t index, NumberAt(1, "the index"));
    const bool grows = call_.node.attrs.GetOr<bool>("resize_if_index_out_of_bounds", false);
    if (grows) MR_RETURN_IF_ERROR(GrowTo(index));
    MR_RETURN_IF_ERROR(CheckIndex(index));
    list_.items.Set(index, call_.inputs[2]);
    return Done();
  }

  absl::StatusOr<Value> Item(int64_t index, size_t shape_input) {
    const Value& item = list_.items.at(index);
    if (!item.missing()) return item;
    Shape shape = Merged(ShapeAt(shape_input), list_.element_shape);
    for (int64_t i = 0; i < list_.items.size() && !shape.fully_known(); ++i) {
      if (list_.items.at(i).kind != Value::Kind::kTensor && list_.items.at(i).kind != Value::Kind::kRow) continue;
      MR_ASSIGN_OR_RETURN(const OutputRef ref, TensorOf(out_, call_, list_.items.at(i)));
      if (const auto type = out_.Type(ref); type.has_value()) shape = type->shape;
    }
    return MissingItem(out_, call_, list_.dtype, shape);
  }

  absl::StatusOr<std::vector<Value>> GetItem() {
    MR_ASSIGN_OR_RETURN(const OutputRef index_ref, TensorOf(out_, call_, call_.inputs[1]));
    if (out_.Known(index_ref) == nullptr && list_.items.size() > 0) {
      MR_ASSIGN_OR_RETURN(const bool alike, ItemsAreAlike());
      if (alike) return GetItemWhenRunning(index_ref);
    }
    MR_ASSIGN_OR_RETURN(const int64_t index, NumberAt(1, "the index"));
    MR_RETURN_IF_ERROR(CheckIndex(index));
    MR_ASSIGN_OR_RETURN(Value item, Item(index, 2));
    return std::vector<Value>{std::move(item)};
  }

  // Whether all items that were set are tensors, of one type as far as types are known: only then they make one tensor.
  absl::StatusOr<bool> ItemsAreAlike() {
    MR_ASSIGN_OR_RETURN(const std::vector<Value> items, AllItems(out_, call_, list_.items));
    std::optional<TensorType> first;
    return std::all_of(items.begin(), items.end(), [&](const Value& item) { return item.missing() || IsTensorOf(item, first); });
  }

  // Of an item that is one of two, both sides: it is not made one for this. `first`: the first type that is known.
  bool IsTensorOf(const Value& item, std::optional<TensorType>& first) const {
    if (item.kind == Value::Kind::kEither) return IsTensorOf(item.either->other, first) && IsTensorOf(item.either->taken, first);
    if (item.kind != Value::Kind::kTensor && item.kind != Value::Kind::kRow) return false;
    const std::optional<TensorType> type = TypeOfItem(out_, item);
    if (!first) first = type;
    return !type || *type == *first;
  }

  absl::StatusOr<std::vector<Value>> GetItemWhenRunning(OutputRef index) {
    StraightGraph::Origin origin = call_.origin;
    NodeCall stacked{call_.node, {}, origin};
    stacked.origin.name = absl::StrCat(origin.name, "/stack");
    MR_ASSIGN_OR_RETURN(std::vector<Value> items, AllItems(out_, call_, list_.items));
    MR_ASSIGN_OR_RETURN(const OutputRef all, PackItems(out_, stacked, std::move(items), list_.dtype, Merged(ShapeAt(2), list_.element_shape)));
    MR_ASSIGN_OR_RETURN(const OutputRef axis, out_.Constant(Tensor::Scalar<int32_t>(0)));
    MR_ASSIGN_OR_RETURN(const OutputRef item, out_.Op(origin, "GatherV2", {all, index, axis},
                                                      {{"Tparams", list_.dtype},
                                                       {"Tindices", DataType::kInt32},
                                                       {"Taxis", DataType::kInt32},
                                                       {"batch_dims", int64_t{0}}}));
    return std::vector<Value>{Value::Of(item)};
  }

  absl::StatusOr<std::vector<Value>> PushBack() {
    list_.items.PushBack(call_.inputs[1]);
    return Done();
  }

  absl::StatusOr<std::vector<Value>> PopBack() {
    if (list_.items.size() == 0) return CallError(call_, "takes the last item of a list that has none");
    MR_ASSIGN_OR_RETURN(Value item, Item(list_.items.size() - 1, 1));
    list_.items.Resize(list_.items.size() - 1);
    return std::vector<Value>{ListOf(std::move(list_)), std::move(item)};
  }

  absl::StatusOr<std::vector<Value>> Resize() {
    MR_ASSIGN_OR_RETURN(const int64_t size, NumberAt(1, "the length of the list"));
    if (size < 0) return CallError(call_, absl::StrCat("the length of the list is ", size));
    MR_RETURN_IF_ERROR(CheckMostItems(call_, size));
    list_.items.Resize(size);
    return Done();
  }

  absl::StatusOr<std::vector<Value>> Stack() {
    std::vector<Value> items;
    const bool gathers = op_ == "TensorListGather";
    if (gathers) {
      MR_ASSIGN_OR_RETURN(const std::vector<int64_t> indices, KnownNumbers(out_, call_, 1, "indices"));
      for (int64_t index : indices) {
        MR_RETURN_IF_ERROR(CheckIndex(index));
        items.push_back(list_.items.at(index));
      }
    } else {
      MR_ASSIGN_OR_RETURN(items, AllItems(out_, call_, list_.items));
      const int64_t expected = call_.node.attrs.GetOr<int64_t>("num_elements", -1);
      if (expected >= 0 && expected != list_.items.size()) {
        return CallError(call_, absl::StrCat("stacks ", expected, " items, the list has ", list_.items.size()));
      }
    }
    if (list_.dtype == DataType::kVariant) {
      ListValue rows = list_;
      rows.items = Items();
      for (Value& item : items) rows.items.PushBack(std::move(item));
      rows.ragged_batch = rows.ragged_batch || HoldsRaggedRows(rows.items);
      return std::vector<Value>{ListOf(std::move(rows))};
    }
    const Shape shape = Merged(ShapeAt(gathers ? 2 : 1), list_.element_shape);
    MR_ASSIGN_OR_RETURN(const OutputRef stacked, PackItems(out_, call_, std::move(items), list_.dtype, shape));
    return std::vector<Value>{Value::Of(stacked)};
  }

  absl::StatusOr<std::vector<Value>> Concat() {
    Shape shape = list_.element_shape;
    MR_ASSIGN_OR_RETURN(std::vector<Value> items, AllItems(out_, call_, list_.items));
    if (op_ == "TensorListConcatV2") {
      shape = Merged(ShapeAt(1), shape);
      MR_RETURN_IF_ERROR(FillByLengths(shape, items));
    }
    MR_ASSIGN_OR_RETURN(const auto joined, ConcatItems(out_, call_, items, list_.dtype, shape));
    MR_ASSIGN_OR_RETURN(const OutputRef lengths, out_.Constant(joined.second));
    return std::vector<Value>{Value::Of(joined.first), Value::Of(lengths)};
  }

  // Missing items are zeros, each as long as its number in input 2 says.
  absl::Status FillByLengths(Shape shape, std::vector<Value>& items) {
    if (std::none_of(items.begin(), items.end(), [](const Value& item) { return item.missing(); })) return absl::OkStatus();
    MR_ASSIGN_OR_RETURN(const std::vector<int64_t> lengths, KnownNumbers(out_, call_, 2, "lengths of the items"));
    if (lengths.size() != items.size()) return absl::OkStatus();
    for (size_t i = 0; i < items.size() && (shape.unknown_rank() || !shape.fully_known()); ++i) {
      if (items[i].missing()) continue;
      MR_ASSIGN_OR_RETURN(const OutputRef ref, TensorOf(out_, call_, items[i]));
      if (const auto type = out_.Type(ref); type.has_value()) shape = type->shape;
    }
    if (shape.unknown_rank() || shape.rank() < 1) return absl::OkStatus();
    for (size_t i = 0; i < items.size(); ++i) {
      if (!items[i].missing()) continue;
      shape.set_dim(0, lengths[i]);
      MR_ASSIGN_OR_RETURN(items[i], MissingItem(out_, call_, list_.dtype, shape));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<std::vector<Value>> JoinLists() {
    if (call_.inputs.size() != 2 || call_.inputs[1].kind != Value::Kind::kList || call_.inputs[1].list->is_map) {
      return CallError(call_, "takes no two lists");
    }
    const Items& more = call_.inputs[1].list->items;
    for (int64_t i = 0; i < more.size(); ++i) list_.items.PushBack(more.at(i));
    return Done();
  }

  StraightGraph& out_;
  const NodeCall& call_;
  const std::string& op_;
  ListValue list_;
  OutputRef tensor_;
};

absl::StatusOr<ListValue> AddLists(StraightGraph& out, const NodeCall& call, const ListValue& a, const ListValue& b) {
  if (a.is_map || b.is_map) return AddMaps(out, call, a, b);
  if (a.items.size() != b.items.size()) {
    return CallError(call, absl::StrCat("adds lists of ", a.items.size(), " and ", b.items.size(), " items"));
  }
  ListValue sum = a;
  if (sum.element_shape.unknown_rank()) sum.element_shape = b.element_shape;
  for (int64_t i = 0; i < a.items.size(); ++i) {
    if (i % Items::kChunk == 0 && b.items.LacksChunk(i)) {
      i += Items::kChunk - 1;
      continue;
    }
    MR_ASSIGN_OR_RETURN(Value item, AddItems(out, call, a.items.at(i), b.items.at(i)));
    if (!SameValue(item, a.items.at(i))) sum.items.Set(i, std::move(item));
  }
  return sum;
}

absl::StatusOr<ListValue> ZerosLikeList(StraightGraph& out, const NodeCall& call, const ListValue& list);

// Of an Optional: one that holds zeros, or nothing. `dtype`: of tensors that say nothing of theirs.
absl::StatusOr<Value> ZerosLikeItem(StraightGraph& out, const NodeCall& call, DataType dtype, const Value& item) {
  if (item.kind == Value::Kind::kEither) {
    MR_ASSIGN_OR_RETURN(Value other, ZerosLikeItem(out, call, dtype, item.either->other));
    MR_ASSIGN_OR_RETURN(Value taken, ZerosLikeItem(out, call, dtype, item.either->taken));
    return EitherOf(item.either->predicate, std::move(other), std::move(taken));
  }
  if (item.kind == Value::Kind::kTensor || item.kind == Value::Kind::kRow) {
    const std::optional<TensorType> type = TypeOfItem(out, item);
    if (!type) {
      MR_ASSIGN_OR_RETURN(const OutputRef ref, TensorOf(out, call, item));
      MR_ASSIGN_OR_RETURN(const OutputRef zero, out.Op(call.origin, "ZerosLike", {ref}, {{"T", dtype}}));
      return Value::Of(zero);
    }
    MR_ASSIGN_OR_RETURN(const OutputRef zero, out.Zeros(*type));
    return Value::Of(zero);
  }
  if (item.list == nullptr) return item;
  Value zeros = item;
  MR_ASSIGN_OR_RETURN(ListValue held, ZerosLikeList(out, call, *item.list));
  zeros.list = std::make_shared<const ListValue>(std::move(held));
  return zeros;
}

absl::StatusOr<ListValue> ZerosLikeList(StraightGraph& out, const NodeCall& call, const ListValue& list) {
  ListValue zeros = list;
  for (int64_t i = 0; i < list.items.size(); ++i) {
    if (list.items.at(i).missing() || IsKey(list, i)) continue;
    MR_ASSIGN_OR_RETURN(Value item, ZerosLikeItem(out, call, list.dtype, list.items.at(i)));
    zeros.items.Set(i, std::move(item));
  }
  return zeros;
}

}  // namespace

absl::StatusOr<Value> AddOptionals(StraightGraph& out, const NodeCall& call, const Value& a, const Value& b) {
  for (const bool first : {true, false}) {
    const Value &both = first ? a : b, &added = first ? b : a;
    if (both.kind != Value::Kind::kEither) continue;
    // One predicate decides for both as long as their sides do.
    const bool together = added.kind == Value::Kind::kEither && added.either->predicate == both.either->predicate;
    MR_ASSIGN_OR_RETURN(Value other, AddOptionals(out, call, both.either->other, together ? added.either->other : added));
    MR_ASSIGN_OR_RETURN(Value taken, AddOptionals(out, call, both.either->taken, together ? added.either->taken : added));
    return EitherOf(both.either->predicate, std::move(other), std::move(taken));
  }
  if (a.kind != Value::Kind::kOptional || b.kind != Value::Kind::kOptional) return CallError(call, "adds an Optional to something that is none");
  if (a.list == nullptr || b.list == nullptr) return a.list == nullptr ? b : a;
  MR_ASSIGN_OR_RETURN(ListValue held, AddLists(out, call, *a.list, *b.list));
  Value sum = a;
  sum.list = std::make_shared<const ListValue>(std::move(held));
  sum.waits = Together(a.waits, b.waits);
  return sum;
}

bool IsKeptItem(const Node& node, size_t input) {
  return (node.op == "TensorListPushBack" && input == 1) || (node.op == "TensorListSetItem" && input == 2) ||
         (node.op == "TensorMapInsert" && input == 2);
}

absl::StatusOr<std::vector<Value>> RunListOp(StraightGraph& out, const NodeCall& call) {
  if (IsMapOp(call.node)) return RunMapOp(out, call);
  if (IsSparseVariantOp(call.node)) return RunSparseVariantOp(out, call);
  return IsRaggedVariantOp(call.node) ? RunRaggedVariantOp(out, call) : ListCall(out, call).Run();
}

absl::StatusOr<std::vector<Value>> RunOnLists(StraightGraph& out, const NodeCall& call) {
  const std::string& op = call.node.op;
  const bool optional = !call.inputs.empty() && (call.inputs[0].kind == Value::Kind::kOptional || call.inputs[0].kind == Value::Kind::kEither);
  if (optional && op == "ZerosLike") {
    MR_ASSIGN_OR_RETURN(Value zeros, ZerosLikeItem(out, call, DataType::kInvalid, call.inputs[0]));
    return std::vector<Value>{std::move(zeros)};
  }
  if (optional && op == "AddN") {
    Value sum = call.inputs[0];
    for (size_t i = 1; i < call.inputs.size(); ++i) {
      MR_ASSIGN_OR_RETURN(sum, AddOptionals(out, call, sum, call.inputs[i]));
    }
    return std::vector<Value>{std::move(sum)};
  }
  const bool all = std::all_of(call.inputs.begin(), call.inputs.end(),
                               [](const Value& input) { return input.kind == Value::Kind::kList; });
  if (all && op == "Shape" && (call.inputs[0].list->ragged_batch || IsSparseBatch(*call.inputs[0].list))) {
    std::vector<int64_t> dims = {call.inputs[0].list->items.size()};
    if (!call.inputs[0].list->ragged_batch) dims.push_back(3);
    const std::vector<int32_t> small(dims.begin(), dims.end());
    const bool wide = call.node.attrs.GetOr<DataType>("out_type", DataType::kInt32) == DataType::kInt64;
    MR_ASSIGN_OR_RETURN(const OutputRef shape, out.Constant(wide ? Tensor::Vector<int64_t>(absl::MakeConstSpan(dims))
                                                                 : Tensor::Vector<int32_t>(absl::MakeConstSpan(small))));
    return std::vector<Value>{Value::Of(shape)};
  }
  const bool adds = op == "AddN" || op == "AddV2" || op == "Add" || IsListOp(call.node);
  if (!all || !(adds || op == "ZerosLike")) {
    return absl::UnimplementedError(absl::StrCat("node '", call.node.name, "' (", op, ") takes a list (TensorList, TensorArray or ",
                                                 "stack), which this op cannot do here"));
  }
  ListValue result = *call.inputs[0].list;
  if (op == "ZerosLike") {
    MR_ASSIGN_OR_RETURN(result, ZerosLikeList(out, call, result));
  } else {
    for (size_t i = 1; i < call.inputs.size(); ++i) {
      MR_ASSIGN_OR_RETURN(result, AddLists(out, call, result, *call.inputs[i].list));
    }
  }
  return std::vector<Value>{ListOf(std::move(result))};
}

namespace {

// Of lists of different lengths, which no list is as good as: the one whose side is taken, which a run is asked for.
absl::StatusOr<Value> ListOfSide(StraightGraph& out, const NodeCall& call, const Literal& literal, const Value& other, const Value& taken) {
  const auto length = [](const Value& value) { return value.list->items.size(); };
  const std::string what = absl::StrCat("which of two lists, of ", length(other), " and ", length(taken), " items, it goes on with");
  MR_ASSIGN_OR_RETURN(const Tensor side, AskFor(out, call.node, SideQuestion(out, literal.predicate), literal.predicate, Tensor(), what));
  if (side.dtype() != DataType::kBool || side.num_elements() != 1) return CallError(call, "the predicate is no bool scalar");
  return side.as<bool>()[0] == literal.value ? taken : other;
}

// What an item is that one branch has not set, where the other one has set `present`: zeros of its shape, on each side of its own, or
// an Optional of nothing. Where an array is, nobody takes.
absl::StatusOr<Value> ItemNotSet(StraightGraph& out, const NodeCall& call, const ListValue& list, const Value& present) {
  if (present.kind == Value::Kind::kTensor || present.kind == Value::Kind::kRow) {
    MR_ASSIGN_OR_RETURN(const OutputRef ref, TensorOf(out, call, present));
    const std::optional<TensorType> type = out.Type(ref);
    return MissingItem(out, call, list.dtype, type ? type->shape : list.element_shape);
  }
  if (present.kind == Value::Kind::kEither) {
    MR_ASSIGN_OR_RETURN(Value other, ItemNotSet(out, call, list, present.either->other));
    MR_ASSIGN_OR_RETURN(Value taken, ItemNotSet(out, call, list, present.either->taken));
    return MergedByName({present.either->predicate, true}, std::move(other), std::move(taken));
  }
  if (present.kind == Value::Kind::kOptional) {
    Value none;
    none.kind = Value::Kind::kOptional;
    return none;
  }
  if (present.kind != Value::Kind::kList) return present;
  ListValue none = *present.list;
  none.items = Items();
  none.items.Resize(present.list->items.size());
  return ListOf(std::move(none));
}

}  // namespace

absl::StatusOr<Value> MergeLists(StraightGraph& out, const NodeCall& call, const Literal& literal, const Value& other,
                                 const Value& taken) {
  const ListValue &a = *other.list, &b = *taken.list;
  if (a.dtype != b.dtype) {
    return CallError(call, absl::StrCat("joins lists of ", std::string(DataTypeName(a.dtype)), " and ", std::string(DataTypeName(b.dtype))));
  }
  const bool alike = a.items.size() == b.items.size() && a.is_map == b.is_map && (!a.is_map || HaveSameKeys(out, a, b));
  if (!alike) return ListOfSide(out, call, literal, other, taken);
  ListValue merged = a;
  merged.guard = Guards::OfBoth(a.guard, b.guard);
  for (int64_t i = 0; i < a.items.size(); ++i) {
    if (a.items.SharesChunk(i, b.items)) {
      i += Items::kChunk - 1 - i % Items::kChunk;
      continue;
    }
    Value first = a.items.at(i), second = b.items.at(i);
    if (SameValue(first, second) || IsKey(a, i)) continue;
    for (auto [missing, present] : {std::make_pair(&first, &second), std::make_pair(&second, &first)}) {
      if (!missing->missing()) continue;
      MR_ASSIGN_OR_RETURN(*missing, ItemNotSet(out, call, a, *present));
    }
    merged.items.Set(i, MergedByName(literal, first, second));
  }
  return ListOf(std::move(merged));
}

}  // namespace millrace
