#include "passes/unroll/exact_sizes.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "millrace/status.h"
#include "passes/control_flow/control_flow_ops.h"
#include "passes/shapes/needed_feeds.h"

namespace millrace {
namespace {

// Of a Merge of tensors whose sizes differ, which no rule gives a type.
std::optional<DataType> MergedType(const StraightGraph& out, const Node& node) {
  if (!IsMerge(node) || node.inputs.size() != 2 || !node.outputs.empty()) return std::nullopt;
  const std::optional<TensorType> a = out.Type(node.inputs[0]), b = out.Type(node.inputs[1]);
  if (!a || !b || a->dtype != b->dtype || a->shape.rank() != b->shape.rank()) return std::nullopt;
  return a->dtype;
}

absl::Status SayThatSizesAreAskedFor(StraightGraph& out, absl::Status refusal) {
  if (out.questions().CameUp(kAsksForSizes)) return absl::OkStatus();
  const Tensor yes = Tensor::Scalar<bool>(true);
  MR_ASSIGN_OR_RETURN(const OutputRef ref, out.Constant(yes));
  return out.questions().Answer(kAsksForSizes, ref, yes, std::move(refusal)).status();
}

// The shape of the output, as an answer.
absl::StatusOr<Tensor> AskForShape(StraightGraph& out, const NodeCall& call, OutputRef output, DataType dtype) {
  const StraightGraph::Origin origin{absl::StrCat(call.origin.name, "/shape_", output.index), call.origin.device, nullptr};
  MR_ASSIGN_OR_RETURN(const OutputRef shape, out.Op(origin, "Shape", {output}, {{"T", dtype}, {"out_type", DataType::kInt64}}));
  absl::Status refusal = absl::UnimplementedError(
      absl::StrCat("node '", call.node.name, "' (", call.node.op, "): the shape of output ", output.index,
                   " depends on values that are known only when running, and what takes it must know its size"));
  const auto known = [&out](OutputRef ref) { return out.Known(ref); };
  const uint64_t by_value = out.graph().node(output.node).run_time_values;
  refusal = AskForFeeds(out.graph(), out.ops(), output.node, by_value, known, std::move(refusal));
  if (!NeededFeeds(refusal).empty()) return refusal;
  MR_RETURN_IF_ERROR(SayThatSizesAreAskedFor(out, refusal));
  return out.questions().Answer(absl::StrCat(call.origin.name, " shape ", output.index), shape, Tensor(), std::move(refusal));
}

}  // namespace

absl::StatusOr<NodeId> AddWithKnownSizes(StraightGraph& out, const NodeCall& call, Node node) {
  for (;;) {
    MR_ASSIGN_OR_RETURN(const NodeId added, out.Add(node));
    const std::optional<size_t> missing = out.MissingValue(added);
    if (!missing) return added;
    const OutputRef ref = out.graph().node(added).inputs[*missing];
    const std::string what = absl::StrCat("the size that input ", *missing, " gives");
    const std::string question = absl::StrCat(call.origin.name, " input ", *missing);
    const std::string first = out.questions().Refuses(kAsksForSizes) ? kAsksForSizes : question;
    absl::Status refusal = NotKnownUnlessAsked(out, call.node, first, ref, what);
    if (!NeededFeeds(refusal).empty()) return refusal;
    MR_RETURN_IF_ERROR(SayThatSizesAreAskedFor(out, refusal));
    MR_ASSIGN_OR_RETURN(const Tensor value, out.questions().Answer(question, ref, Tensor(), std::move(refusal)));
    out.Remove(added);
    MR_ASSIGN_OR_RETURN(node.inputs[*missing], out.Constant(value));
    const bool waits = std::find(node.control_inputs.begin(), node.control_inputs.end(), ref.node) != node.control_inputs.end();
    if (!waits) node.control_inputs.push_back(ref.node);
  }
}

absl::Status SettleShapes(StraightGraph& out, const NodeCall& call, NodeId made, absl::Span<Value> outputs) {
  const std::optional<DataType> merged = MergedType(out, out.graph().node(made));
  for (int32_t o = 0; o < static_cast<int32_t>(outputs.size()); ++o) {
    const Node& node = out.graph().node(made);
    const bool has_type = static_cast<size_t>(o) < node.outputs.size();
    const bool dynamic = has_type ? node.dynamic_output(o) : o == 0 && merged.has_value();
    const DataType dtype = has_type ? node.outputs[o].dtype : merged.value_or(DataType::kInvalid);
    if (!dynamic || DataTypeSize(dtype) == 0) continue;
    const OutputRef output{made, o};
    MR_ASSIGN_OR_RETURN(const Tensor shape, AskForShape(out, call, output, dtype));
    MR_ASSIGN_OR_RETURN(const OutputRef dims, out.Constant(shape));
    const StraightGraph::Origin origin{absl::StrCat(call.origin.name, "/sized_", o), call.origin.device, nullptr};
    MR_ASSIGN_OR_RETURN(const OutputRef sized, out.Op(origin, "Reshape", {output, dims}, {{"T", dtype}, {"Tshape", DataType::kInt64}}));
    if (!has_type) {
      std::vector<int64_t> sizes;
      for (int64_t i = 0; i < shape.num_elements(); ++i) sizes.push_back(shape.IntAt(i));
      out.Declare(sized.node, {dtype, Shape(sizes)});
    }
    outputs[o] = Value::Of(sized);
  }
  return absl::OkStatus();
}

}  // namespace millrace
