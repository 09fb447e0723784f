#include "passes/unroll/exact_sizes.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "millrace/status.h"
#include "passes/shapes/needed_feeds.h"

namespace millrace {
namespace {

// How many nodes that put sizes together are looked through for what is known of them: Pack, Cast, Mul and their like.
constexpr int kDeepestGuess = 4;

absl::Status SayThatSizesAreAskedFor(StraightGraph& out, absl::Status refusal) {
  if (out.questions().CameUp(kAsksForSizes)) return absl::OkStatus();
  const Tensor yes = Tensor::Scalar<bool>(true);
  MR_ASSIGN_OR_RETURN(const OutputRef ref, out.Constant(yes));
  return out.questions().Answer(kAsksForSizes, ref, yes, std::move(refusal)).status();
}

// Whatever feeds it follows from: one plan does for all that say the same.
absl::Status AskForSide(StraightGraph& out, const NodeCall& call, OutputRef predicate) {
  const std::string question = SideQuestion(out, predicate);
  absl::Status refusal = NotKnownUnlessAsked(out, call.node, question, predicate, "which side of a conditional is taken");
  refusal.ErasePayload(kNeededFeeds);
  MR_RETURN_IF_ERROR(SayThatSizesAreAskedFor(out, refusal));
  return out.questions().Answer(question, predicate, Tensor(), std::move(refusal)).status();
}

absl::Status AskForSides(StraightGraph& out, const NodeCall& call, const Guard& guard) {
  for (const Literal& literal : guard) {
    if (out.questions().Answered(SideQuestion(out, literal.predicate), literal.predicate) != nullptr) continue;
    MR_RETURN_IF_ERROR(AskForSide(out, call, literal.predicate));
  }
  return absl::OkStatus();
}

// What nobody takes may never have been written: before it is asked about, whether somebody does.
absl::Status AskIfTaken(StraightGraph& out, Guards& guards, const NodeCall& call, OutputRef ref) {
  return AskForSides(out, call, guards.Of(Value::Of(ref)));
}

// Of an output with so many rows at most, as most are that have a shape of the step's own: one row. Empty: no guess.
Tensor LikelyShape(const Shape& largest) {
  if (largest.unknown_rank()) return Tensor();
  std::vector<int64_t> dims(largest.dims().begin(), largest.dims().end());
  for (size_t d = 0; d < dims.size(); ++d) {
    if (d == 0 || dims[d] < 0) dims[d] = 1;
  }
  return Tensor::Vector<int64_t>(absl::MakeConstSpan(dims));
}

// Numbers that are known only when running: ones, but for what is known of them where they are put together of others.
absl::StatusOr<Tensor> LikelyValue(StraightGraph& out, OutputRef ref, int depth) {
  if (const Tensor* known = out.Known(ref)) return *known;
  Node again = out.graph().node(ref.node);
  const OpDef* def = out.ops().Find(again.op);
  const std::optional<TensorType> type = out.Type(ref);
  if (!type || (type->dtype != DataType::kInt32 && type->dtype != DataType::kInt64)) return Tensor();
  if (depth > 0 && def != nullptr && !def->stateful && def->variables.empty() && !again.inputs.empty()) {
    again.outputs.clear();
    again.control_inputs.clear();
    again.dynamic_outputs = again.run_time_values = 0;
    bool likely = true;
    for (size_t i = 0; i < again.inputs.size(); ++i) {
      MR_ASSIGN_OR_RETURN(const Tensor input, LikelyValue(out, again.inputs[i], depth - 1));
      likely = !input.empty();
      if (!likely) break;
      MR_ASSIGN_OR_RETURN(again.inputs[i], out.Constant(input));
    }
    if (likely) {
      MR_ASSIGN_OR_RETURN(const NodeId made, out.Add(std::move(again)));
      if (const Tensor* value = out.Known(out.Current({made, ref.index}))) return *value;
    }
  }
  Tensor ones(type->dtype, type->shape);
  for (int64_t i = 0; i < ones.num_elements(); ++i) {
    if (type->dtype == DataType::kInt32) ones.mutable_as<int32_t>()[i] = 1;
    if (type->dtype == DataType::kInt64) ones.mutable_as<int64_t>()[i] = 1;
  }
  return ones;
}

// The shape of the output, as an answer.
absl::StatusOr<Tensor> AskForShape(StraightGraph& out, Guards& guards, const NodeCall& call, OutputRef output, DataType dtype) {
  const StraightGraph::Origin origin{absl::StrCat(call.origin.name, "/shape_", output.index), call.origin.device, nullptr};
  MR_ASSIGN_OR_RETURN(const OutputRef shape, out.Op(origin, "Shape", {output}, {{"T", dtype}, {"out_type", DataType::kInt64}}));
  absl::Status refusal = absl::UnimplementedError(
      absl::StrCat("node '", call.node.name, "' (", call.node.op, "): the shape of output ", output.index,
                   " depends on values that are known only when running, and what takes it must know its size"));
  const auto known = [&out](OutputRef ref) { return out.Known(ref); };
  const uint64_t by_value = out.graph().node(output.node).run_time_values;
  refusal = AskForFeeds(out.graph(), out.ops(), output.node, by_value, known, std::move(refusal));
  if (!NeededFeeds(refusal).empty()) return refusal;
  MR_RETURN_IF_ERROR(AskIfTaken(out, guards, call, output));
  MR_RETURN_IF_ERROR(SayThatSizesAreAskedFor(out, refusal));
  const Tensor guess = LikelyShape(out.graph().node(output.node).outputs[output.index].shape);
  return out.questions().Answer(absl::StrCat(call.origin.name, " shape ", output.index), shape, guess, std::move(refusal));
}

// What is asked for, by which name, and what to call it where nobody can answer.
struct Wanted {
  OutputRef ref;
  std::string question;
  std::string what;
};

absl::StatusOr<OutputRef> KnownByAsking(StraightGraph& out, Guards& guards, const NodeCall& call, const Wanted& wanted);

// Strings cannot be told, but numbers that they follow from: what made them is made again, of the answers.
absl::StatusOr<OutputRef> KnownStrings(StraightGraph& out, Guards& guards, const NodeCall& call, const Wanted& wanted) {
  Node again = out.graph().node(wanted.ref.node);
  again.outputs.clear();
  again.dynamic_outputs = again.run_time_values = 0;
  for (size_t i = 0; i < again.inputs.size(); ++i) {
    if (!out.Type(again.inputs[i]).has_value()) return wanted.ref;
    const Wanted part{again.inputs[i], absl::StrCat(wanted.question, ", input ", i, " of ", again.name), wanted.what};
    MR_ASSIGN_OR_RETURN(again.inputs[i], KnownByAsking(out, guards, call, part));
    if (out.Known(again.inputs[i]) == nullptr) return wanted.ref;
  }
  if (again.inputs.empty()) return wanted.ref;
  MR_ASSIGN_OR_RETURN(const NodeId made, out.Add(std::move(again)));
  return out.Current({made, wanted.ref.index});
}

// A tensor whose value is known: itself, or the constant that the answer is. One that is not known where nobody could tell.
absl::StatusOr<OutputRef> KnownByAsking(StraightGraph& out, Guards& guards, const NodeCall& call, const Wanted& wanted) {
  if (out.Known(wanted.ref) != nullptr) return wanted.ref;
  const std::optional<TensorType> type = out.Type(wanted.ref);
  if (type && type->dtype == DataType::kString) return KnownStrings(out, guards, call, wanted);
  const std::string first = out.questions().Refuses(kAsksForSizes) ? kAsksForSizes : wanted.question;
  absl::Status refusal = NotKnownUnlessAsked(out, call.node, first, wanted.ref, wanted.what);
  if (!NeededFeeds(refusal).empty()) return refusal;
  MR_RETURN_IF_ERROR(AskIfTaken(out, guards, call, wanted.ref));
  MR_RETURN_IF_ERROR(SayThatSizesAreAskedFor(out, refusal));
  Tensor guess;
  if (out.questions().MayGuess(wanted.question)) {
    MR_ASSIGN_OR_RETURN(guess, LikelyValue(out, wanted.ref, kDeepestGuess));
  }
  MR_ASSIGN_OR_RETURN(const Tensor value, out.questions().Answer(wanted.question, wanted.ref, guess, std::move(refusal)));
  return out.Constant(value);
}

}  // namespace

std::string SideQuestion(const StraightGraph& out, OutputRef predicate) {
  return absl::StrCat(kAsksForSide, out.graph().node(predicate.node).name, ":", predicate.index);
}

absl::StatusOr<std::optional<bool>> AnsweredSide(StraightGraph& out, Guards& guards, OutputRef predicate, bool exact_sizes) {
  const Literal literal = guards.Source(predicate);
  const Tensor* answer = out.questions().Answered(SideQuestion(out, literal.predicate), literal.predicate);
  if (answer == nullptr) return std::nullopt;
  if (exact_sizes) MR_RETURN_IF_ERROR(SayThatSizesAreAskedFor(out, absl::OkStatus()));
  return (answer->IntAt(0) != 0) == literal.value;
}

absl::Status AskForSide(StraightGraph& out, Guards& guards, const NodeCall& merge) {
  const DataType dtype = merge.node.attrs.GetOr<DataType>("T", DataType::kFloat);
  const bool words = dtype == DataType::kString;  // which must be known, whatever their number
  if (merge.inputs.size() != 2 || (DataTypeSize(dtype) == 0 && !words)) return absl::OkStatus();
  std::optional<TensorType> types[2];
  for (int side : {0, 1}) {
    MR_ASSIGN_OR_RETURN(const OutputRef ref, TensorOf(out, merge, merge.inputs[side]));
    types[side] = out.Type(ref);
  }
  if (types[0].has_value() && types[0] == types[1] && !words) return absl::OkStatus();
  const std::optional<Literal> between = Guards::Between(guards.Of(merge.inputs[0]), guards.Of(merge.inputs[1]));
  return between.has_value() ? AskForSide(out, merge, between->predicate) : absl::OkStatus();
}

absl::Status AskIfWrong(StraightGraph& out, Guards& guards, const NodeCall& call, absl::Status wrong) {
  MR_RETURN_IF_ERROR(AskForSides(out, call, guards.Of(call.inputs, call.origin.waits)));
  return wrong;
}

bool StopsAsking(StraightGraph& out, const absl::Status& failure) {
  return out.questions().stopped() || (NeededFeeds(failure).empty() && out.questions().StopIfGuessing());
}

absl::StatusOr<OutputRef> ShuffleNumbersInstead(StraightGraph& out, Node& node) {
  if (node.op != "RandomShuffle" || node.inputs.size() != 1) return OutputRef();
  const OutputRef strings = node.inputs[0];
  const std::optional<TensorType> type = out.Type(strings);
  if (!type || type->dtype != DataType::kString || type->shape.rank() < 1) return OutputRef();
  std::vector<int64_t> numbers(type->shape.dim(0));
  std::iota(numbers.begin(), numbers.end(), 0);
  MR_ASSIGN_OR_RETURN(node.inputs[0], out.Constant(Tensor::Vector<int64_t>(absl::MakeConstSpan(numbers))));
  node.attrs.Set("T", DataType::kInt64);
  return strings;
}

absl::StatusOr<OutputRef> StringsByNumbers(StraightGraph& out, const NodeCall& call, OutputRef strings, OutputRef numbers) {
  StraightGraph::Origin origin = call.origin;
  origin.name = absl::StrCat(origin.name, "/shuffled");
  MR_ASSIGN_OR_RETURN(const OutputRef axis, out.Constant(Tensor::Scalar<int32_t>(0)));
  return out.Op(origin, "GatherV2", {strings, numbers, axis},
                {{"Tparams", DataType::kString}, {"Tindices", DataType::kInt64}, {"Taxis", DataType::kInt32}, {"batch_dims", int64_t{0}}});
}

absl::StatusOr<NodeId> AddWithKnownSizes(StraightGraph& out, Guards& guards, const NodeCall& call, Node node) {
  for (;;) {
    MR_ASSIGN_OR_RETURN(const NodeId added, out.Add(node));
    const std::optional<size_t> missing = out.MissingValue(added);
    if (!missing) return added;
    const OutputRef ref = out.graph().node(added).inputs[*missing];
    const std::string what = absl::StrCat("the size that input ", *missing, " gives");
    const std::string question = absl::StrCat(call.origin.name, " input ", *missing);
    MR_ASSIGN_OR_RETURN(const OutputRef known, KnownByAsking(out, guards, call, {ref, question, what}));
    if (out.Known(known) == nullptr) return added;
    out.Remove(added);
    node.inputs[*missing] = known;
    const bool waits = std::find(node.control_inputs.begin(), node.control_inputs.end(), ref.node) != node.control_inputs.end();
    if (!waits) node.control_inputs.push_back(ref.node);
  }
}

namespace {

// The elements of a tensor of another size than `elements`, without the last ones or with zeros behind them.
absl::StatusOr<OutputRef> CutOrFilledUp(StraightGraph& out, const StraightGraph::Origin& origin, OutputRef tensor, DataType dtype, int64_t elements) {
  const AttrMap of_type{{"T", dtype}, {"Tshape", DataType::kInt64}};
  MR_ASSIGN_OR_RETURN(const OutputRef one_row, out.Constant(Tensor::Vector<int64_t>({-1})));
  MR_ASSIGN_OR_RETURN(const OutputRef count, out.Constant(Tensor::Vector<int64_t>({elements})));
  MR_ASSIGN_OR_RETURN(const OutputRef first, out.Constant(Tensor::Vector<int64_t>({0})));
  MR_ASSIGN_OR_RETURN(const OutputRef axis, out.Constant(Tensor::Scalar<int32_t>(0)));
  MR_ASSIGN_OR_RETURN(const OutputRef zeros, out.Zeros({dtype, Shape({elements})}));
  MR_ASSIGN_OR_RETURN(const OutputRef row, out.Op(origin, "Reshape", {tensor, one_row}, of_type));
  MR_ASSIGN_OR_RETURN(const OutputRef filled_up, out.Op(origin, "ConcatV2", {row, zeros, axis},
                                                        {{"T", dtype}, {"N", int64_t{2}}, {"Tidx", DataType::kInt32}}));
  return out.Op(origin, "Slice", {filled_up, first, count}, {{"T", dtype}, {"Index", DataType::kInt64}});
}

}  // namespace

absl::Status SettleShapes(StraightGraph& out, Guards& guards, const NodeCall& call, NodeId made, absl::Span<Value> outputs) {
  for (int32_t o = 0; o < static_cast<int32_t>(outputs.size()); ++o) {
    const Node& node = out.graph().node(made);
    if (static_cast<size_t>(o) >= node.outputs.size() || !node.dynamic_output(o)) continue;
    const DataType dtype = node.outputs[o].dtype;
    if (DataTypeSize(dtype) == 0) continue;
    const OutputRef output{made, o};
    MR_ASSIGN_OR_RETURN(const Tensor shape, AskForShape(out, guards, call, output, dtype));
    MR_ASSIGN_OR_RETURN(const OutputRef dims, out.Constant(shape));
    const StraightGraph::Origin origin{absl::StrCat(call.origin.name, "/sized_", o), call.origin.device, nullptr};
    OutputRef whole = output;
    if (out.questions().ask()) {
      int64_t elements = 1;
      for (int64_t d = 0; d < shape.num_elements(); ++d) elements *= shape.IntAt(d);
      MR_ASSIGN_OR_RETURN(whole, CutOrFilledUp(out, origin, output, dtype, elements));
    }
    MR_ASSIGN_OR_RETURN(const OutputRef sized, out.Op(origin, "Reshape", {whole, dims}, {{"T", dtype}, {"Tshape", DataType::kInt64}}));
    outputs[o] = Value::Of(sized);
  }
  return absl::OkStatus();
}

}  // namespace millrace
