// The NodeContext: inputs, outputs and attributes of a node.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "graph/with_message.h"
#include "onnx/lowering.h"

namespace millrace::onnx {

using onnx_proto::AttributeProto;

NodeContext::NodeContext(GraphBuilder& builder, const onnx_proto::NodeProto& node, int64_t opset, ValueSource& source)
    : b(builder), node_(node), opset_(opset), source_(source), outputs_(node.output_size()) {}

Output NodeContext::in(int i) { return has(i) ? source_.Use(node_.input(i)) : Output(&b, OutputRef{}, TensorType{}); }

Output NodeContext::state(int i) {
  return has(i) ? source_.UseState(node_.input(i)) : Output(&b, OutputRef{}, TensorType{});
}

ModelValue NodeContext::any(int i) { return has(i) ? source_.UseAny(node_.input(i)) : ModelValue(); }

absl::StatusOr<Sequence> NodeContext::sequence(int i) {
  const ModelValue value = any(i);
  if (value.sequence != nullptr) return *value.sequence;
  return Error(absl::StrCat("input ", i, has(i) ? " is a tensor, expected a sequence of tensors" : " is missing"));
}

absl::StatusOr<Tensor> NodeContext::Constant(int i) {
  if (!has(i)) return Error(absl::StrCat("input ", i, " is missing"));
  absl::StatusOr<Tensor> value = source_.Value(node_.input(i));
  if (!value.ok()) {
    return WithMessage(value.status(), absl::StrCat(Describe(), ": input ", i, " ", value.status().message()));
  }
  return value;
}

absl::StatusOr<IntList> NodeContext::ConstantInts(int i) {
  MR_ASSIGN_OR_RETURN(const Tensor value, Constant(i));
  if (!IsInteger(value.dtype()) && value.dtype() != DataType::kBool) {
    return Error(absl::StrCat("input ", i, " is ", value.type().ToString(), ", expected integers"));
  }
  IntList list(value.num_elements());
  for (size_t k = 0; k < list.size(); ++k) list[k] = value.IntAt(static_cast<int64_t>(k));
  return list;
}

absl::StatusOr<std::vector<double>> NodeContext::ConstantFloats(int i) {
  MR_ASSIGN_OR_RETURN(const Tensor value, Constant(i));
  if (DataTypeSize(value.dtype()) == 0) {
    return Error(absl::StrCat("input ", i, " is ", value.type().ToString(), ", expected numbers"));
  }
  std::vector<double> list(value.num_elements());
  for (size_t k = 0; k < list.size(); ++k) list[k] = value.DoubleAt(static_cast<int64_t>(k));
  return list;
}

absl::Status NodeContext::ExpectInputs(int least, int most) const {
  for (int i = 0; i < least; ++i) {
    if (!has(i)) return Error(absl::StrCat("input ", i, " is missing"));
  }
  if (num_inputs() <= most) return absl::OkStatus();
  return Error(absl::StrCat("has ", num_inputs(), " inputs, expected at most ", most));
}

void NodeContext::Set(int i, ModelValue value) {
  if (i < static_cast<int>(outputs_.size())) outputs_[i] = std::move(value);
}

const AttributeProto* NodeContext::Attribute(std::string_view name) const {
  for (const AttributeProto& attribute : node_.attribute()) {
    if (attribute.name() == name) return &attribute;
  }
  return nullptr;
}

int64_t NodeContext::Int(std::string_view name, int64_t fallback) const {
  const AttributeProto* attribute = Attribute(name);
  return attribute == nullptr ? fallback : attribute->i();
}

float NodeContext::Float(std::string_view name, float fallback) const {
  const AttributeProto* attribute = Attribute(name);
  return attribute == nullptr ? fallback : attribute->f();
}

std::string NodeContext::String(std::string_view name, std::string_view fallback) const {
  const AttributeProto* attribute = Attribute(name);
  return attribute == nullptr ? std::string(fallback) : attribute->s();
}

IntList NodeContext::Ints(std::string_view name, IntList fallback) const {
  const AttributeProto* attribute = Attribute(name);
  return attribute == nullptr ? fallback : IntList(attribute->ints().begin(), attribute->ints().end());
}

std::vector<float> NodeContext::Floats(std::string_view name) const {
  const AttributeProto* attribute = Attribute(name);
  if (attribute == nullptr) return {};
  return {attribute->floats().begin(), attribute->floats().end()};
}

std::vector<std::string> NodeContext::Strings(std::string_view name) const {
  const AttributeProto* attribute = Attribute(name);
  if (attribute == nullptr) return {};
  return {attribute->strings().begin(), attribute->strings().end()};
}

absl::StatusOr<int64_t> NodeContext::Axis(int64_t axis, int rank) const {
  const int64_t from_front = axis < 0 ? axis + rank : axis;
  if (from_front < 0 || from_front >= rank) {
    return Error(absl::StrCat("axis ", axis, " of a tensor of rank ", rank));
  }
  return from_front;
}

absl::StatusOr<IntList> NodeContext::Axes(IntList axes, int rank) const {
  for (int64_t& axis : axes) {
    MR_ASSIGN_OR_RETURN(axis, Axis(axis, rank));
  }
  IntList sorted = axes;
  std::sort(sorted.begin(), sorted.end());
  if (std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end()) return Error("an axis is given twice");
  return axes;
}

std::string NodeContext::Describe() const {
  const std::string& name = !node_.name().empty() || node_.output_size() == 0 ? node_.name() : node_.output(0);
  return absl::StrCat("node '", name, "' (", node_.op_type(), ")");
}

absl::Status NodeContext::Error(std::string_view message) const {
  return absl::InvalidArgumentError(absl::StrCat(Describe(), ": ", std::string(message)));
}

absl::Status NodeContext::Unsupported(std::string_view message) const {
  return absl::UnimplementedError(absl::StrCat(Describe(), ": ", std::string(message), " is not supported"));
}

}  // namespace millrace::onnx
