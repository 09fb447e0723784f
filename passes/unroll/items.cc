// Single items of lists and arrays: what they stand for, sums, stacks of them.
#include <algorithm>
#include <optional>
#include <set>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "millrace/status.h"
#include "passes/control_flow/control_flow_ops.h"
#include "passes/control_flow/loop_ops.h"
#include "passes/shapes/needed_feeds.h"
#include "passes/unroll/alternatives.h"
#include "passes/unroll/lists.h"

namespace millrace {

absl::Status CallError(const NodeCall& call, const std::string& message) {
  return absl::InvalidArgumentError(absl::StrCat("node '", call.node.name, "' (", call.node.op, "): ", message));
}

absl::Status CheckWhile(const NodeCall& call, size_t arguments, size_t conditions, size_t results) {
  if (arguments > call.inputs.size()) {
    return CallError(call, absl::StrCat("has ", call.inputs.size(), " variables, and functions that take ", arguments));
  }
  if (conditions == 1 && results == call.inputs.size()) return absl::OkStatus();
  return CallError(call, absl::StrCat("has ", call.inputs.size(), " variables, a condition with ", conditions, " results and a body with ", results));
}

absl::Status CheckTurn(const StraightGraph& out, const NodeCall& call, absl::Span<const Value> before, absl::Span<const Value> after) {
  const auto type_of = [&](const Value& value) {
    const auto type = value.kind == Value::Kind::kTensor ? out.Type(value.ref) : std::nullopt;
    const bool says = type && type->dtype != DataType::kVariant && type->dtype != DataType::kResource;
    return says ? type->dtype : DataType::kInvalid;
  };
  for (size_t i = 0; i < after.size(); ++i) {
    const DataType was = type_of(before[i]), is = type_of(after[i]);
    if (was == is || was == DataType::kInvalid || is == DataType::kInvalid) continue;
    return CallError(call, absl::StrCat("variable ", i, " is ", std::string(DataTypeName(was)), ", and ", std::string(DataTypeName(is)), " after a turn"));
  }
  return absl::OkStatus();
}

absl::Status NothingToFetch(const std::string& tensor) {
  return absl::InvalidArgumentError(absl::StrCat("fetch '", tensor, "' is of a branch that is not taken, or an output that its node does not have"));
}

namespace {

void WaitedFor(const Node& node, std::vector<OutputRef>& nodes) {
  for (NodeId control : node.control_inputs) nodes.push_back({control, 0});
}

}  // namespace

absl::Status NotKnown(const StraightGraph& out, const Node& node, OutputRef ref, const std::string& what) {
  std::set<std::string> feeds, others, unsupported;
  std::set<int32_t> seen;
  std::vector<OutputRef> pending = {ref};
  while (!pending.empty()) {
    const OutputRef at = pending.back();
    pending.pop_back();
    if (out.Known(at) != nullptr || !seen.insert(at.node.value).second) continue;
    const Node& from = out.graph().node(at.node);
    const OpDef* def = out.ops().Find(from.op);
    const std::vector<OutputRef> untyped = IsMerge(from) || def == nullptr ? std::vector<OutputRef>() : out.UntypedInputs(at.node);
    if (from.op == "_Feed") {
      feeds.insert(from.attrs.GetOr<std::string>("tensor", from.name));
    } else if (!untyped.empty()) {
      pending.insert(pending.end(), untyped.begin(), untyped.end());  // with their types it would have its own
    } else if (IsTable(from) || IsChangingTable(from)) {
      others.insert(absl::StrCat("table '", from.name, "'"));
    } else if (from.inputs.empty() || (def != nullptr && !def->variables.empty())) {
      const Node& holder = from.inputs.empty() ? from : out.graph().node(from.inputs[0].node);
      others.insert(absl::StrCat(def != nullptr && !def->variables.empty() ? "variable '" : "node '", holder.name, "'"));
    } else if (def != nullptr && def->state_bytes > 0) {
      others.insert(absl::StrCat("random numbers of node '", from.name, "'"));
    } else {
      if (def == nullptr && !IsPlannedAway(from.op)) {
        unsupported.insert(absl::StrCat("node '", from.name, "' of op ", from.op, ", which is not supported"));
      }
      const absl::Span<const OutputRef> inputs = StraightGraph::InputsOfUnknown(from);
      pending.insert(pending.end(), inputs.begin(), inputs.end());
      // Which of a Merge's constants comes is told by what they wait for.
      for (const OutputRef& input : from.inputs) {
        if (IsMerge(from)) WaitedFor(out.graph().node(input.node), pending);
      }
      if (from.op == "NoOp") WaitedFor(from, pending);
    }
  }
  std::vector<std::string> roots(unsupported.begin(), unsupported.end());
  for (const std::string& feed : feeds) roots.push_back(absl::StrCat("feed '", feed, "'"));
  roots.insert(roots.end(), others.begin(), others.end());
  if (roots.size() > 4) roots.resize(4);
  absl::Status status = absl::UnimplementedError(absl::StrCat(
      "node '", node.name, "' (", node.op, "): ", what, " depends on what is known only when running (",
      absl::StrJoin(roots, ", "), "); loops are planned turn by turn, so it must follow from constants, shapes or feeds, or be found by running the step"));
  if (others.empty() && !feeds.empty()) status.SetPayload(kNeededFeeds, absl::Cord(absl::StrJoin(feeds, "\n")));
  return status;
}

absl::Status NotKnownUnlessAsked(StraightGraph& out, const Node& node, const std::string& question, OutputRef ref, const std::string& what) {
  if (out.beyond_feeds(ref.node) && !out.questions().Refuses(question)) return absl::OkStatus();
  out.questions().CountSearch();
  return NotKnown(out, node, ref, what);
}

absl::StatusOr<Tensor> AskFor(StraightGraph& out, const Node& node, const std::string& name, OutputRef ref, const Tensor& guess,
                              const std::string& what) {
  absl::Status refusal = NotKnownUnlessAsked(out, node, name, ref, what);
  if (!NeededFeeds(refusal).empty()) return refusal;
  return out.questions().Answer(name, ref, guess, std::move(refusal));
}

absl::StatusOr<Tensor> KnownTensor(StraightGraph& out, const NodeCall& call, size_t input, const char* what) {
  if (input >= call.inputs.size() || call.inputs[input].kind == Value::Kind::kList) {
    return CallError(call, absl::StrCat("has no input ", input, " that is ", what));
  }
  MR_ASSIGN_OR_RETURN(const OutputRef ref, TensorOf(out, call, call.inputs[input]));
  if (const Tensor* const known = out.Known(ref); known != nullptr) return *known;
  return AskFor(out, call.node, absl::StrCat(call.origin.name, " input ", input), ref, Tensor(), what);
}

absl::StatusOr<std::vector<int64_t>> KnownNumbers(StraightGraph& out, const NodeCall& call, size_t input, const char* what) {
  MR_ASSIGN_OR_RETURN(const Tensor value, KnownTensor(out, call, input, what));
  std::vector<int64_t> numbers;
  for (int64_t i = 0; i < value.num_elements(); ++i) numbers.push_back(value.IntAt(i));
  return numbers;
}

absl::StatusOr<OutputRef> TensorOf(StraightGraph& out, const NodeCall& call, const Value& value) {
  if (value.kind == Value::Kind::kTensor) return value.ref;
  if (value.kind == Value::Kind::kRow) return out.Row(value.ref, value.index);
  if (value.kind == Value::Kind::kEither) {
    MR_ASSIGN_OR_RETURN(const Value one, AsOne(out, call, value));
    if (one.kind != Value::Kind::kEither) return TensorOf(out, call, one);
  }
  return CallError(call, value.missing() ? "takes a tensor that was never made"
                                         : "takes a list, array or stack, which has no tensor of its own");
}

absl::StatusOr<Value> AddItems(StraightGraph& out, const NodeCall& call, const Value& a, const Value& b) {
  if (a.missing()) return b;
  if (b.missing()) return a;
  if (a.kind == Value::Kind::kEither || b.kind == Value::Kind::kEither) {
    MR_ASSIGN_OR_RETURN(const Value first, AsOne(out, call, a));
    MR_ASSIGN_OR_RETURN(const Value second, AsOne(out, call, b));
    const bool optionals = first.kind == Value::Kind::kEither || second.kind == Value::Kind::kEither;
    return optionals ? AddOptionals(out, call, first, second) : AddItems(out, call, first, second);
  }
  if (a.kind == Value::Kind::kOptional && b.kind == Value::Kind::kOptional) return AddOptionals(out, call, a, b);
  if (a.kind == Value::Kind::kList && b.kind == Value::Kind::kList) {
    NodeCall sum{call.node, {a, b}, call.origin};
    MR_ASSIGN_OR_RETURN(std::vector<Value> result, RunOnLists(out, sum));
    return result[0];
  }
  MR_ASSIGN_OR_RETURN(const OutputRef first, TensorOf(out, call, a));
  MR_ASSIGN_OR_RETURN(const OutputRef second, TensorOf(out, call, b));
  if (out.IsZeros(first)) return Value::Of(second);
  if (out.IsZeros(second)) return Value::Of(first);
  const std::optional<TensorType> type = out.Type(first);
  StraightGraph::Origin origin = call.origin;
  origin.name = absl::StrCat(origin.name, "/sum");
  MR_ASSIGN_OR_RETURN(const OutputRef sum,
                      out.Op(origin, "AddV2", {first, second}, {{"T", type ? type->dtype : DataType::kFloat}}));
  return Value::Of(sum);
}

absl::StatusOr<Value> MissingItem(StraightGraph& out, const NodeCall& call, DataType dtype, const Shape& shape) {
  if (!shape.fully_known() || DataTypeSize(dtype) == 0) {
    return CallError(call, absl::StrCat("takes an item that was never set, of type ", TensorType{dtype, shape}.ToString(),
                                        ", expected a shape that is known"));
  }
  MR_ASSIGN_OR_RETURN(const OutputRef zeros, out.Zeros({dtype, shape}));
  return Value::Of(zeros);
}

namespace {

// TensorFlow takes the shape of items that were never set from those that were.
absl::Status FillMissing(StraightGraph& out, const NodeCall& call, std::vector<Value>& items, DataType dtype, Shape shape) {
  if (std::none_of(items.begin(), items.end(), [](const Value& item) { return item.missing(); })) return absl::OkStatus();
  for (size_t i = 0; i < items.size() && !shape.fully_known(); ++i) {
    if (items[i].missing()) continue;
    MR_ASSIGN_OR_RETURN(const OutputRef ref, TensorOf(out, call, items[i]));
    if (const auto type = out.Type(ref); type.has_value()) shape = type->shape;
  }
  for (Value& item : items) {
    if (!item.missing()) continue;
    MR_ASSIGN_OR_RETURN(item, MissingItem(out, call, dtype, shape));
  }
  return absl::OkStatus();
}

// The tensor whose rows, all of them and in order, the items are; invalid if they are not.
OutputRef TensorOfAllRows(StraightGraph& out, const std::vector<Value>& items) {
  for (size_t i = 0; i < items.size(); ++i) {
    if (items[i].kind != Value::Kind::kRow || !(items[i].ref == items[0].ref) || items[i].index != static_cast<int64_t>(i)) {
      return OutputRef();
    }
  }
  const std::optional<TensorType> type = out.Type(items[0].ref);
  const bool all = type && type->shape.rank() > 0 && type->shape.dim(0) == static_cast<int64_t>(items.size());
  return all ? items[0].ref : OutputRef();
}

}  // namespace

absl::Status CheckNumber(const StraightGraph& out, const NodeCall& call, const Items& items) {
  for (int64_t i = 0; i < items.size() && items.size() > out.max_nodes(); i += Items::kChunk) {
    if (!items.LacksChunk(i)) continue;
    return absl::OutOfRangeError(absl::StrCat("node '", call.node.name, "' (", call.node.op, ") takes ", items.size(), " items, more than ",
                                              out.max_nodes(), " nodes (--max_unrolled_nodes)"));
  }
  return absl::OkStatus();
}

absl::Status CheckMostItems(const NodeCall& call, int64_t size) {
  constexpr int64_t kMost = int64_t{1} << 31;
  if (size <= kMost) return absl::OkStatus();
  return CallError(call, absl::StrCat("takes room for ", size, " items, expected at most ", kMost));
}

absl::StatusOr<std::vector<Value>> AllItems(const StraightGraph& out, const NodeCall& call, const Items& items) {
  MR_RETURN_IF_ERROR(CheckNumber(out, call, items));
  std::vector<Value> all;
  for (int64_t i = 0; i < items.size(); ++i) all.push_back(items.at(i));
  return all;
}

absl::Status CheckLengths(const NodeCall& call, absl::Span<const int64_t> lengths, std::optional<int64_t> rows) {
  int64_t begin = 0;
  for (int64_t length : lengths) {
    if (length < 0) return CallError(call, absl::StrCat("splits rows into items, one of which has ", length));
    if (rows && length > *rows - begin) return CallError(call, absl::StrCat("splits ", *rows, " rows into more"));
    if (rows) begin += length;
  }
  return !rows || begin == *rows ? absl::OkStatus() : CallError(call, absl::StrCat("splits ", *rows, " rows into ", begin));
}

absl::StatusOr<OutputRef> PackItems(StraightGraph& out, const NodeCall& call, std::vector<Value> items, DataType dtype,
                                    Shape element_shape) {
  if (items.empty()) {
    if (!element_shape.fully_known()) return CallError(call, "stacks no items, and their shape is not known");
    Shape shape({0});
    for (int64_t dim : element_shape.dims()) shape.AddDim(dim);
    return out.Constant(Tensor(dtype, shape));
  }
  if (const OutputRef whole = TensorOfAllRows(out, items); whole.node.valid()) return whole;
  MR_RETURN_IF_ERROR(FillMissing(out, call, items, dtype, std::move(element_shape)));
  std::vector<OutputRef> rows;
  for (const Value& item : items) {
    MR_ASSIGN_OR_RETURN(const OutputRef row, TensorOf(out, call, item));
    rows.push_back(row);
  }
  return out.Pack(call.origin, rows, dtype);
}

absl::StatusOr<std::pair<OutputRef, Tensor>> ConcatItems(StraightGraph& out, const NodeCall& call,
                                                         const std::vector<Value>& items, DataType dtype, Shape element_shape) {
  std::vector<Value> filled = items;
  MR_RETURN_IF_ERROR(FillMissing(out, call, filled, dtype, element_shape));
  std::vector<OutputRef> parts;
  std::vector<int64_t> lengths;
  for (const Value& item : filled) {
    MR_ASSIGN_OR_RETURN(const OutputRef part, TensorOf(out, call, item));
    const std::optional<TensorType> type = out.Type(part);
    if (!type || type->shape.rank() < 1) return CallError(call, "concatenates items whose shapes are not known");
    parts.push_back(part);
    lengths.push_back(type->shape.dim(0));
  }
  const Tensor rows = Tensor::Vector<int64_t>(absl::MakeConstSpan(lengths));
  if (parts.empty()) {
    if (element_shape.unknown_rank() || element_shape.rank() < 1) return CallError(call, "concatenates no items of unknown shape");
    element_shape.set_dim(0, 0);
    if (!element_shape.fully_known()) return CallError(call, "concatenates no items of unknown shape");
    MR_ASSIGN_OR_RETURN(const OutputRef none, out.Constant(Tensor(dtype, element_shape)));
    return std::make_pair(none, rows);
  }
  if (parts.size() == 1) return std::make_pair(parts[0], rows);
  const int64_t count = static_cast<int64_t>(parts.size());
  MR_ASSIGN_OR_RETURN(const OutputRef axis, out.Constant(Tensor::Scalar<int32_t>(0)));
  parts.push_back(axis);
  MR_ASSIGN_OR_RETURN(const OutputRef joined,
                      out.Op(call.origin, "ConcatV2", parts, {{"T", dtype}, {"N", count}, {"Tidx", DataType::kInt32}}));
  return std::make_pair(joined, rows);
}

}  // namespace millrace
