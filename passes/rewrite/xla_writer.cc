#include "passes/rewrite/xla_writer.h"

#include <algorithm>
#include <limits>
#include <variant>

#include "absl/strings/str_cat.h"
#include "passes/rewrite/layout_forms.h"

namespace millrace {

absl::Status XlaWriter::Refuse(const std::string& what) const {
  return absl::UnimplementedError(absl::StrCat("node '", node().name, "' (", node().op, "): ", what));
}

XlaValue XlaWriter::Input(int input) const {
  const OutputRef ref = node().inputs[input];
  const TensorType& type = graph_.type(ref);
  return {ref, type.dtype, Ints(type.shape.dims().begin(), type.shape.dims().end())};
}

XlaValue XlaWriter::Output(int output) const {
  const TensorType& type = node().outputs[output];
  return {{}, type.dtype, Ints(type.shape.dims().begin(), type.shape.dims().end())};
}

XlaWriter::Ints XlaWriter::Numbers(int input) const { return NumbersOf(graph_, node().inputs[input]).value_or(Ints()); }

std::optional<double> XlaWriter::Known(const XlaValue& value) const {
  const Node& made_by = graph_.node(value.ref.node);
  const AttrValue* found = made_by.op == "Const" ? made_by.attrs.Find("value") : nullptr;
  const Tensor* tensor = found == nullptr ? nullptr : std::get_if<Tensor>(found);
  if (tensor == nullptr || tensor->num_elements() != 1) return std::nullopt;
  if (IsFloating(tensor->dtype())) return tensor->DoubleAt(0);
  if (IsInteger(tensor->dtype()) || tensor->dtype() == DataType::kBool) return static_cast<double>(tensor->IntAt(0));
  return std::nullopt;
}

Node XlaWriter::Part(const std::string& op, AttrMap attrs) const {
  Node part;
  part.name = absl::StrCat(node().name, "/", op);
  part.op = op;
  part.requested_device = node().requested_device;
  part.attrs = std::move(attrs);
  return part;
}

XlaValue XlaWriter::Add(const std::string& op, const std::vector<XlaValue>& inputs, DataType dtype, Ints dims, AttrMap attrs) {
  Node part = Part(op, std::move(attrs));
  if (!part.attrs.Has("T") && !part.attrs.Has("SrcT")) part.attrs.Set("T", inputs[0].dtype);
  for (const XlaValue& input : inputs) part.inputs.push_back(input.ref);
  part.control_inputs = node().control_inputs;
  added_.push_back(places_.AddBefore(graph_, id_, std::move(part)));
  return {{added_.back(), 0}, dtype, std::move(dims)};
}

XlaValue XlaWriter::Constant(const Tensor& value) {
  const NodeId id = places_.AddBefore(graph_, id_, Part("Const", {{"dtype", value.dtype()}, {"value", value}}));
  return {{id, 0}, value.dtype(), Ints(value.shape().dims().begin(), value.shape().dims().end())};
}

XlaValue XlaWriter::Constant(const Ints& values) {
  const auto wide = [](int64_t value) { return value > std::numeric_limits<int32_t>::max(); };
  if (std::any_of(values.begin(), values.end(), wide)) return Constant(Tensor::Vector<int64_t>(values));
  const std::vector<int32_t> narrow(values.begin(), values.end());
  return Constant(Tensor::Vector<int32_t>(narrow));
}

XlaValue XlaWriter::Scalar(double value, DataType dtype) { return Cast(Constant(Tensor::Scalar<double>(value)), dtype); }

XlaValue XlaWriter::Cast(const XlaValue& value, DataType dtype) {
  if (value.dtype == dtype) return value;
  return Add("Cast", {value}, dtype, value.dims, {{"SrcT", value.dtype}, {"DstT", dtype}});
}

XlaValue XlaWriter::Reshape(const XlaValue& value, const Ints& dims) {
  if (dims == value.dims) return value;
  const XlaValue shape = Constant(dims);
  return Add("Reshape", {value, shape}, value.dtype, dims, {{"Tshape", shape.dtype}, {"T", value.dtype}});
}

XlaValue XlaWriter::Broadcast(const XlaValue& value, const Ints& dims) {
  if (value.dims == dims) return value;
  const XlaValue shape = Constant(dims);
  return Add("BroadcastTo", {value, shape}, value.dtype, dims, {{"Tidx", shape.dtype}, {"T", value.dtype}});
}

XlaValue XlaWriter::Transpose(const XlaValue& value, const Ints& perm) {
  const Ints dims = PermutedBy(value.dims, perm);
  Ints moved;
  std::copy_if(perm.begin(), perm.end(), std::back_inserter(moved), [&](int64_t d) { return value.dims[d] != 1; });
  if (std::is_sorted(moved.begin(), moved.end())) return Reshape(value, dims);
  return Add("Transpose", {value, Constant(perm)}, value.dtype, dims, {{"Tperm", DataType::kInt32}, {"T", value.dtype}});
}

XlaValue XlaWriter::Reverse(const XlaValue& value, const Ints& axes) {
  Ints longer;
  std::copy_if(axes.begin(), axes.end(), std::back_inserter(longer), [&](int64_t d) { return value.dims[d] > 1; });
  return longer.empty() ? value : Same("ReverseV2", {value, Constant(longer)}, {{"Tidx", DataType::kInt32}, {"T", value.dtype}});
}

XlaValue XlaWriter::Slice(const XlaValue& value, const Ints& begin, const Ints& size) {
  if (size == value.dims) return value;
  XlaValue from = Constant(begin), taken = Constant(size);
  const DataType index = from.dtype == taken.dtype ? from.dtype : DataType::kInt64;
  from = Cast(from, index);
  taken = Cast(taken, index);
  return Add("Slice", {value, from, taken}, value.dtype, size, {{"Index", index}, {"T", value.dtype}});
}

XlaValue XlaWriter::Pad(const XlaValue& value, const Ints& low, const Ints& high, const XlaValue& with) {
  Ints dims;
  std::vector<int32_t> pads;
  for (size_t d = 0; d < value.dims.size(); ++d) {
    pads.insert(pads.end(), {static_cast<int32_t>(low[d]), static_cast<int32_t>(high[d])});
    dims.push_back(low[d] + value.dims[d] + high[d]);
  }
  if (dims == value.dims) return value;
  const XlaValue paddings = Constant(Tensor::Vector<int32_t>(pads).Reshaped(Shape({value.rank(), 2})));
  const AttrMap attrs{{"Tpaddings", DataType::kInt32}, {"T", value.dtype}};
  if (Known(with) == 0.0) return Add("Pad", {value, paddings}, value.dtype, dims, attrs);
  return Add("PadV2", {value, paddings, with}, value.dtype, dims, attrs);
}

XlaValue XlaWriter::PadAny(const XlaValue& value, const Ints& low, const Ints& high, const Ints& interior, const XlaValue& with) {
  XlaValue now = value;
  Ints front = low, back = high;
  // Every element gets its neighbours behind it in a dimension of their own; those of the last are part of what follows.
  Ints apart, zeros, behind, together;
  for (int64_t d = 0; d < value.rank(); ++d) {
    const int64_t between = value.dims[d] > 1 ? interior[d] : 0;
    apart.push_back(value.dims[d]);
    zeros.push_back(0);
    behind.push_back(0);
    together.push_back(value.dims[d] * (1 + between));
    if (between == 0) continue;
    apart.push_back(1);
    zeros.push_back(0);
    behind.push_back(between);
    back[d] -= between;
  }
  if (apart.size() > value.dims.size()) now = Reshape(Pad(Reshape(now, apart), zeros, behind, with), together);
  Ints begin, size;
  for (int64_t d = 0; d < now.rank(); ++d) {
    begin.push_back(std::max<int64_t>(-front[d], 0));
    size.push_back(std::max<int64_t>(now.dims[d] - begin.back() - std::max<int64_t>(-back[d], 0), 0));
    // More is cut off than there is where the other side adds it again.
    const int64_t missing = now.dims[d] - begin.back() - std::max<int64_t>(-back[d], 0);
    if (missing < 0 && front[d] < 0) back[d] += missing;
    if (missing < 0 && front[d] >= 0) front[d] += missing;
    if (size.back() == 0) begin.back() = 0;
    front[d] = std::max<int64_t>(front[d], 0);
    back[d] = std::max<int64_t>(back[d], 0);
  }
  return Pad(Slice(now, begin, size), front, back, with);
}

void XlaWriter::Finish(const XlaValue& value) {
  Node& node = graph_.mutable_node(id_);
  const NodeId last = value.ref.node;
  node.attrs = AttrMap{{"T", value.dtype}};
  if (std::find(added_.begin(), added_.end(), last) == added_.end() || value.ref.index != 0) {
    node.op = "Identity";
    node.inputs.assign({value.ref});
    return;
  }
  Node& made = graph_.mutable_node(last);
  node.op = made.op;
  node.inputs = made.inputs;
  node.attrs = made.attrs;
  graph_.RemoveNode(last);
}

void XlaWriter::Finish(const std::vector<XlaValue>& values) {
  if (values.size() == 1) return Finish(values[0]);
  Node& node = graph_.mutable_node(id_);
  node.op = "IdentityN";
  node.inputs.clear();
  std::vector<DataType> types;
  for (const XlaValue& value : values) {
    node.inputs.push_back(value.ref);
    types.push_back(value.dtype);
  }
  node.attrs = AttrMap{{"T", types}};
}

std::vector<int64_t> PermutedBy(const std::vector<int64_t>& values, const std::vector<int64_t>& perm) {
  std::vector<int64_t> permuted;
  for (int64_t from : perm) permuted.push_back(values[from]);
  return permuted;
}

int64_t ProductOf(const std::vector<int64_t>& values, size_t begin, size_t end) {
  int64_t product = 1;
  for (size_t i = begin; i < end; ++i) product *= values[i];
  return product;
}

}  // namespace millrace
