#include "passes/rewrite/strided_views.h"

#include "millrace/tensor.h"

namespace millrace {

std::vector<int64_t> ConstantIntegers(const Graph& graph, OutputRef ref) {
  const Node& node = graph.node(ref.node);
  if (node.op != "Const") return {};
  const Tensor value = node.attrs.GetOr<Tensor>("value", Tensor());
  std::vector<int64_t> integers;
  if (value.dtype() == DataType::kInt32) integers.assign(value.as<int32_t>().begin(), value.as<int32_t>().end());
  if (value.dtype() == DataType::kInt64) integers.assign(value.as<int64_t>().begin(), value.as<int64_t>().end());
  return integers;
}

namespace {

// The axis that a constant names, or -1.
int AxisOf(const Graph& graph, OutputRef ref, int rank) {
  const std::vector<int64_t> axis = ConstantIntegers(graph, ref);
  if (axis.size() != 1 || axis[0] < -rank || axis[0] >= rank) return -1;
  return static_cast<int>(axis[0] < 0 ? axis[0] + rank : axis[0]);
}

// `begin` to `begin + size` on one axis of `shape`.
StridedPart PartOnAxis(const Shape& shape, int axis, int64_t begin, int64_t size) {
  int64_t inner = 1;
  for (int d = axis + 1; d < shape.rank(); ++d) inner *= shape.dim(d);
  return {size * inner, shape.dim(axis) * inner, begin * inner};
}

std::optional<StridedView> SliceView(const Graph& graph, const Node& node, const Shape& shape, const Shape& part) {
  const std::vector<int64_t> begin = ConstantIntegers(graph, node.inputs[1]);
  if (static_cast<int>(begin.size()) != shape.rank()) return std::nullopt;
  int axis = -1;
  for (int d = 0; d < shape.rank(); ++d) {
    if (part.dim(d) == shape.dim(d)) continue;
    if (axis >= 0) return std::nullopt;
    axis = d;
  }
  if (axis < 0) return std::nullopt;
  return StridedView{node.inputs[0], PartOnAxis(shape, axis, begin[axis], part.dim(axis)), axis == shape.rank() - 1};
}

}  // namespace

std::optional<StridedView> ViewOf(const Graph& graph, OutputRef output) {
  const Node& node = graph.node(output.node);
  const size_t whole = node.op == "Split" ? 1 : 0;
  const size_t arguments = node.op == "Split" ? 2 : node.op == "Slice" || node.op == "SplitV" ? 3 : 0;
  if (arguments == 0 || node.inputs.size() != arguments || node.dynamic_outputs != 0) return std::nullopt;
  const Shape& shape = graph.type(node.inputs[whole]).shape;
  const Shape& part = graph.type(output).shape;
  if (!shape.fully_known() || !part.fully_known() || shape.rank() != part.rank()) return std::nullopt;
  if (node.op == "Slice") return SliceView(graph, node, shape, part);
  const int axis = AxisOf(graph, node.inputs[node.op == "Split" ? 0 : 2], shape.rank());
  if (axis < 0) return std::nullopt;
  int64_t begin = 0;
  for (int k = 0; k < output.index; ++k) begin += node.outputs[k].shape.dim(axis);
  return StridedView{node.inputs[whole], PartOnAxis(shape, axis, begin, part.dim(axis)), axis == shape.rank() - 1};
}

std::vector<StridedPart> PartsOf(const Graph& graph, NodeId concat) {
  const Node& node = graph.node(concat);
  if (node.op != "ConcatV2" || node.dynamic_outputs != 0 || node.inputs.size() < 2 || node.outputs.size() != 1) return {};
  const Shape& shape = node.outputs[0].shape;
  const int axis = shape.fully_known() ? AxisOf(graph, node.inputs.back(), shape.rank()) : -1;
  if (axis < 0) return {};
  std::vector<StridedPart> parts;
  int64_t begin = 0;
  for (size_t i = 0; i + 1 < node.inputs.size(); ++i) {
    const Shape& part = graph.type(node.inputs[i]).shape;
    if (!part.fully_known() || part.rank() != shape.rank()) return {};
    parts.push_back(PartOnAxis(shape, axis, begin, part.dim(axis)));
    if (parts.back().length != parts[0].length) return {};
    begin += part.dim(axis);
  }
  return parts;
}

}  // namespace millrace
