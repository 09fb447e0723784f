#include "passes/unroll/alternatives.h"

#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"
#include "millrace/status.h"

namespace millrace {
namespace {

// A list that no branch has changed.
bool SameList(const Value& a, const Value& b) {
  if (a.kind != Value::Kind::kList || b.kind != Value::Kind::kList || a.list->items.size() != b.list->items.size()) return false;
  if (a.list->dtype != b.list->dtype || !(a.list->element_shape == b.list->element_shape)) return false;
  for (int64_t i = 0; i < a.list->items.size(); i += Items::kChunk) {
    if (!a.list->items.SharesChunk(i, b.list->items)) return false;
  }
  return true;
}

bool IsNone(const Value& value) { return value.kind == Value::Kind::kOptional && value.list == nullptr; }

// As it is on one side of a Switch.
Value OnSide(Guards& guards, const Value& value, OutputRef predicate, bool side) {
  Value on_side = value;
  if (value.kind == Value::Kind::kList) {
    ListValue list = *value.list;
    const Guard asked = guards.Of(Value::Of(predicate));
    list.guard.insert(asked.begin(), asked.end());
    list.guard.insert(guards.Source(predicate, side));
    on_side.list = std::make_shared<const ListValue>(std::move(list));
  } else if (value.kind == Value::Kind::kEither && !value.either->merged.missing()) {
    on_side = OnSide(guards, value.either->merged, predicate, side);
  }
  return on_side;
}

// The side of a Switch's output that an alternative comes from.
absl::StatusOr<OutputRef> Side(StraightGraph& out, const NodeCall& call, const Value& value, OutputRef predicate, int32_t side) {
  MR_ASSIGN_OR_RETURN(const OutputRef ref, TensorOf(out, call, value));
  const std::optional<TensorType> type = out.Type(ref);
  StraightGraph::Origin origin = call.origin;
  origin.name = absl::StrCat(origin.name, "/side");
  origin.waits = value.waits;
  AttrMap attrs;
  if (type) attrs.Set("T", type->dtype);
  MR_ASSIGN_OR_RETURN(OutputRef sides, out.Op(origin, "Switch", {ref, predicate}, std::move(attrs)));
  sides.index = side;
  return sides;
}

absl::StatusOr<Value> AsOneTensor(StraightGraph& out, const NodeCall& call, const Either& either, const Value& other,
                                  const Value& taken) {
  MR_ASSIGN_OR_RETURN(const OutputRef left, Side(out, call, other, either.predicate, 0));
  MR_ASSIGN_OR_RETURN(const OutputRef right, Side(out, call, taken, either.predicate, 1));
  StraightGraph::Origin origin = call.origin;
  origin.name = absl::StrCat(origin.name, "/either");
  origin.waits = nullptr;  // others may take it, too, who do not run where this one does
  AttrMap attrs{{"N", int64_t{2}}};
  const AttrValue* type = out.graph().node(left.node).attrs.Find("T");
  if (type != nullptr) attrs.Set("T", *type);
  MR_ASSIGN_OR_RETURN(const OutputRef merged, out.Op(origin, "Merge", {left, right}, std::move(attrs)));
  return Value::Of(merged);
}

}  // namespace

std::pair<Value, Value> SwitchedByName(Guards& guards, const Value& value, OutputRef predicate) {
  if (value.kind == Value::Kind::kEither) {
    const Literal asked = guards.Source(predicate);
    const Either& either = *value.either;
    if (asked.predicate == either.predicate) {
      Value other = asked.value ? either.other : either.taken, taken = asked.value ? either.taken : either.other;
      other.waits = Together(other.waits, value.waits);
      taken.waits = Together(taken.waits, value.waits);
      return {OnSide(guards, other, predicate, false), OnSide(guards, taken, predicate, true)};
    }
  }
  return {OnSide(guards, value, predicate, false), OnSide(guards, value, predicate, true)};
}

Value MergedByName(Literal literal, Value other, Value taken) {
  if (SameValue(other, taken)) {
    taken.waits = nullptr;
    return taken;
  }
  if (SameList(other, taken)) {
    ListValue list = *taken.list;
    list.guard = Guards::OfBoth(other.list->guard, taken.list->guard);
    return ListOf(std::move(list));
  }
  if (!literal.value) std::swap(other, taken);
  return EitherOf(literal.predicate, std::move(other), std::move(taken));
}

std::pair<Value, Value> SwitchedObject(const Value& value, OutputRef predicate) {
  std::pair<Value, Value> sides = {value, value};
  sides.first.ref = sides.second.ref = predicate;
  sides.first.side = 0;
  sides.second.side = 1;
  return sides;
}

absl::StatusOr<Value> KnownOnSide(StraightGraph& out, const NodeCall& pop, Value value) {
  const Value& stack = pop.inputs[0];
  if (!stack.ref.node.valid() || value.kind != Value::Kind::kTensor) return value;
  const Tensor* known = out.Known(value.ref);
  if (known == nullptr || known->num_elements() != 1 || (known->dtype() != DataType::kBool && known->dtype() != DataType::kInt32)) return value;
  const AttrMap type{{"T", DataType::kBool}};
  const StraightGraph::Origin origin{absl::StrCat(pop.origin.name, "/side"), "", nullptr};
  MR_ASSIGN_OR_RETURN(const OutputRef sides, out.Op(origin, "Switch", {stack.ref, stack.ref}, type));
  MR_ASSIGN_OR_RETURN(const OutputRef runs, out.Op(origin, "Identity", {{sides.node, stack.side}}, type));
  value.waits = Together(value.waits, ToWaits({runs.node}));
  return value;
}

absl::Status TieToSides(StraightGraph& out, Guards& guards, NodeCall& merge) {
  if (merge.inputs.size() != 2) return absl::OkStatus();
  const auto of = [&](int side) { return guards.Of(Value::Of(merge.inputs[side].ref)); };
  const auto held = [](const Value& value) {
    return (value.kind == Value::Kind::kTensor || value.kind == Value::Kind::kRow) && value.waits != nullptr;
  };
  if (!(held(merge.inputs[0]) || held(merge.inputs[1])) || Guards::Between(of(0), of(1))) return absl::OkStatus();
  for (Value& input : merge.inputs) {
    if (!held(input)) continue;
    MR_ASSIGN_OR_RETURN(const OutputRef ref, TensorOf(out, merge, input));
    const StraightGraph::Origin origin{absl::StrCat(merge.origin.name, "/side"), merge.origin.device, input.waits};
    const AttrMap type{{"T", merge.node.attrs.GetOr<DataType>("T", DataType::kFloat)}};
    MR_ASSIGN_OR_RETURN(const OutputRef tied, out.Op(origin, "Identity", {ref}, type));
    input = Value::Of(tied);
  }
  return absl::OkStatus();
}

absl::StatusOr<Waits> EndOfBoth(StraightGraph& out, const NodeCall& call, const Literal& literal, const Waits& other,
                                const Waits& taken) {
  if (other == nullptr && taken == nullptr) return Waits();
  const AttrMap type{{"T", DataType::kBool}};
  const std::string name = absl::StrCat(call.origin.name, "/end");
  MR_ASSIGN_OR_RETURN(const OutputRef sides, out.Op({name, "", nullptr}, "Switch", {literal.predicate, literal.predicate}, type));
  const int32_t way = literal.value ? 1 : 0;
  MR_ASSIGN_OR_RETURN(const OutputRef first, out.Op({name, "", other}, "Identity", {{sides.node, 1 - way}}, type));
  MR_ASSIGN_OR_RETURN(const OutputRef second, out.Op({name, "", taken}, "Identity", {{sides.node, way}}, type));
  AttrMap two = type;
  two.Set("N", int64_t{2});
  MR_ASSIGN_OR_RETURN(const OutputRef end, out.Op({name, "", nullptr}, "Merge", {first, second}, two));
  return std::make_shared<const std::vector<NodeId>>(std::vector<NodeId>{end.node});
}

namespace {

bool HoldsOptional(const Value& value) {
  return value.kind == Value::Kind::kOptional ||
         (value.kind == Value::Kind::kEither && (HoldsOptional(value.either->other) || HoldsOptional(value.either->taken)));
}

}  // namespace

absl::StatusOr<Value> AsOne(StraightGraph& out, const NodeCall& call, const Value& value) {
  if (value.kind != Value::Kind::kEither || HoldsOptional(value)) return value;
  Either& either = *value.either;
  if (either.merged.missing()) {
    MR_ASSIGN_OR_RETURN(const Value other, AsOne(out, call, either.other));
    MR_ASSIGN_OR_RETURN(const Value taken, AsOne(out, call, either.taken));
    if (other.kind == Value::Kind::kList && taken.kind == Value::Kind::kList) {
      MR_ASSIGN_OR_RETURN(either.merged, MergeLists(out, call, {either.predicate, true}, other, taken));
    } else {
      MR_ASSIGN_OR_RETURN(either.merged, AsOneTensor(out, call, either, other, taken));
    }
  }
  Value merged = either.merged;
  merged.waits = Together(merged.waits, value.waits);
  return merged;
}

namespace {

// Of a list, or of lists that are all of one length; none of anything else.
std::optional<int64_t> LengthOf(const Value& value) {
  if (value.kind == Value::Kind::kList) return value.list->items.size();
  if (value.kind != Value::Kind::kEither) return std::nullopt;
  const std::optional<int64_t> other = LengthOf(value.either->other);
  return other == LengthOf(value.either->taken) ? other : std::nullopt;
}

}  // namespace

absl::StatusOr<Value> ListBeforeSwitch(StraightGraph& out, Guards& guards, const NodeCall& call, const Value& value, OutputRef predicate) {
  if (value.kind != Value::Kind::kEither || !LengthOf(value)) return value;
  if (guards.Source(predicate).predicate == value.either->predicate) return value;
  return AsOne(out, call, value);
}

namespace {

// Item `index` of what an Optional holds.
absl::StatusOr<Value> HeldBy(const NodeCall& call, const Value& value, int64_t index) {
  if (value.kind == Value::Kind::kEither) {
    MR_ASSIGN_OR_RETURN(Value other, HeldBy(call, value.either->other, index));
    MR_ASSIGN_OR_RETURN(Value taken, HeldBy(call, value.either->taken, index));
    // Nobody takes a value on the side that has none.
    Value held = IsNone(other)   ? std::move(taken)
                 : IsNone(taken) ? std::move(other)
                                 : MergedByName({value.either->predicate, true}, std::move(other), std::move(taken));
    held.waits = Together(held.waits, value.waits);
    return held;
  }
  if (value.kind != Value::Kind::kOptional) return CallError(call, "takes the value of something that is no Optional");
  if (value.list == nullptr) return value;  // nobody takes it
  if (index >= value.list->items.size()) {
    return CallError(call, absl::StrCat("takes value ", index, " of an Optional that holds ", value.list->items.size()));
  }
  Value held = value.list->items.at(index);
  held.waits = Together(held.waits, value.waits);
  return held;
}

}  // namespace

absl::StatusOr<std::vector<Value>> RunOptionalOp(StraightGraph& out, const NodeCall& call) {
  const std::string& op = call.node.op;
  Value optional;
  optional.kind = Value::Kind::kOptional;
  if (op == "OptionalNone") return std::vector<Value>{optional};
  if (op == "OptionalFromValue") {
    ListValue held;
    for (const Value& input : call.inputs) held.items.PushBack(input);
    optional.list = std::make_shared<const ListValue>(std::move(held));
    return std::vector<Value>{optional};
  }
  if (call.inputs.size() != 1) return CallError(call, "takes no Optional");
  if (op == "OptionalHasValue" && call.inputs[0].kind == Value::Kind::kOptional) {
    MR_ASSIGN_OR_RETURN(const OutputRef known, out.Constant(Tensor::Scalar<bool>(call.inputs[0].list != nullptr)));
    return std::vector<Value>{Value::Of(known)};
  }
  if (op != "OptionalGetValue") {
    return absl::UnimplementedError(absl::StrCat("node '", call.node.name, "' (", op, "): this op of Optionals is not supported here"));
  }
  const auto types = call.node.attrs.GetOr<std::vector<DataType>>("output_types", {});
  std::vector<Value> values;
  for (size_t i = 0; i < std::max<size_t>(types.size(), 1); ++i) {
    MR_ASSIGN_OR_RETURN(Value held, HeldBy(call, call.inputs[0], static_cast<int64_t>(i)));
    values.push_back(std::move(held));
  }
  return values;
}

}  // namespace millrace
