#include "millrace/graph_builder.h"

#include <algorithm>
#include <optional>
#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "builder/emit.h"
#include "builder/shaped_by_values.h"
#include "builder/tensors.h"
#include "graph/exceptions.h"
#include "graph/function.h"
#include "graph/verify.h"
#include "graph/with_message.h"
#include "millrace/status.h"
#include "ops/input_types.h"
#include "ops/op_attrs.h"

namespace millrace {
namespace {

// Constants larger than this are not shared.
constexpr int64_t kMaxSharedConstBytes = 256;
// Values larger than this are not computed ahead, nor strings of longer ones.
constexpr int64_t kMaxFoldedBytes = 64 * 1024;

bool IsFedInAnyShape(const Node& node) {
  const bool fed = node.op == "Placeholder" || node.op == "PlaceholderV2" || node.op == "PlaceholderWithDefault";
  return fed && !node.outputs.empty() && !node.outputs[0].shape.fully_known();
}

bool AskedForUnknown(const InferenceContext& context, absl::Span<const Tensor* const> values) {
  for (size_t i = 0; i < std::min<size_t>(values.size(), 64); ++i) {
    if (values[i] == nullptr && (context.by_value() >> i & 1) != 0) return true;
  }
  return false;
}

int64_t TextBytes(const Tensor& tensor) {
  int64_t bytes = 0;
  if (tensor.dtype() != DataType::kString) return bytes;
  for (const std::string& text : tensor.strings()) bytes += static_cast<int64_t>(text.size());
  return bytes;
}

// "float[8,4], int32[2] (3 4)": with the values of what is given as a list of numbers.
std::string Inputs(absl::Span<const TensorType> types, absl::Span<const Tensor* const> values) {
  constexpr int64_t kMostShown = 12;
  std::string text;
  for (size_t i = 0; i < types.size(); ++i) {
    absl::StrAppend(&text, i == 0 ? "" : ", ", types[i].ToString());
    if (values[i] == nullptr || !IsInteger(values[i]->dtype()) || values[i]->num_elements() > kMostShown) continue;
    std::vector<int64_t> shown(values[i]->num_elements());
    for (size_t k = 0; k < shown.size(); ++k) shown[k] = values[i]->IntAt(k);
    absl::StrAppend(&text, " (", absl::StrJoin(shown, " "), ")");
  }
  return text;
}

// TensorFlow's rule for names of nodes.
bool IsNodeName(std::string_view name) {
  const auto plain = [](char c) { return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '.'; };
  return !name.empty() && plain(name.front()) &&
         std::all_of(name.begin(), name.end(), [&](char c) { return plain(c) || absl::StrContains("_\\/>-", c); });
}

bool Holds(const Graph& graph, NodeId id) { return id.valid() && id.value < graph.num_ids() && graph.alive(id); }

bool Holds(const Graph& graph, OutputRef ref) {
  return Holds(graph, ref.node) && ref.index >= 0 && ref.index < static_cast<int32_t>(graph.node(ref.node).outputs.size());
}

// Whether it is a call of a function, a loop or a conditional, which passes take apart before a shape rule sees it.
bool IsControlFlow(const Graph& graph, const std::string& op) {
  static const auto& ops = *new std::set<std::string>{
      "PartitionedCall", "StatefulPartitionedCall", "BatchFunction", kSymbolicGradientOp, "If", "StatelessIf",
      "Case", "StatelessCase", "While", "StatelessWhile", "For", "MapDefun", "RemoteCall",
      "Switch", "RefSwitch", "_SwitchN", "Merge", "RefMerge", "Enter", "RefEnter", "Exit", "RefExit", "NextIteration", "RefNextIteration", "LoopCond"};
  return ops.count(op) > 0 || (graph.library() != nullptr && graph.library()->count(op) > 0);
}

absl::Status UnknownOp(const Graph& graph, const Node& node) {
  if (!IsControlFlow(graph, node.op)) return absl::NotFoundError(absl::StrCat("node '", node.name, "': unknown op '", node.op, "'"));
  return absl::UnimplementedError(absl::StrCat("node '", node.name, "' (", node.op, "): a builder takes no calls, loops and conditionals, and "
                                               "gradients are not taken through them; export the graph with its gradients"));
}

// Whether it gives a variable's handle, perhaps passed on: in the graph its type is the variable's.
bool IsHandle(const Node& node) {
  return node.op == "VarHandleOp" || (node.op == "Identity" && node.attrs.GetOr("T", DataType::kInvalid) == DataType::kResource);
}

// OK when every output that the node takes is there. Those before it have their types.
absl::Status CheckInputs(const Graph& graph, const Node& node) {
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    if (Holds(graph, node.inputs[i])) continue;
    const Node& from = graph.node(node.inputs[i].node);
    return absl::InvalidArgumentError(absl::StrCat("node '", node.name, "' (", node.op, "): input ", i, " is output ", node.inputs[i].index,
                                                   " of node '", from.name, "' (", from.op, "), which has ", from.outputs.size()));
  }
  return absl::OkStatus();
}

}  // namespace

int64_t Output::dim(int i) const {
  const int index = i < 0 ? i + rank() : i;
  return index < 0 || index >= rank() ? -1 : type_.shape.dim(index);
}

Output Operation::output(int i) const {
  if (!valid() || builder_ == nullptr) return Output(builder_, OutputRef{}, TensorType{});
  return builder_->OutputOf(OutputRef{id_, i});
}

std::vector<Output> Operation::outputs() const {
  std::vector<Output> all;
  if (!valid() || builder_ == nullptr || !Holds(builder_->graph(), id_)) return all;
  const int count = static_cast<int>(builder_->graph().node(id_).outputs.size());
  for (int i = 0; i < count; ++i) all.push_back(output(i));
  return all;
}

GraphBuilder::GraphBuilder(std::shared_ptr<const OpRegistry> ops)
    : ops_(ops != nullptr ? std::move(ops)
                          : std::shared_ptr<const OpRegistry>(std::shared_ptr<void>(), &OpRegistry::Builtin())) {}

GraphBuilder::GraphBuilder(Graph graph, std::shared_ptr<const OpRegistry> ops) : GraphBuilder(std::move(ops)) {
  graph_ = std::move(graph);
  Fail(InferMissingTypes());
}

void GraphBuilder::Fail(absl::Status status) {
  if (status_.ok()) status_ = std::move(status);
}

void GraphBuilder::FailOp(std::string_view op, absl::Span<const Output> inputs, std::string_view name, std::string_view message) {
  std::vector<TensorType> types;
  std::vector<const Tensor*> values;
  for (const Output& input : inputs) {
    types.push_back(input.type());
    values.push_back(ConstantValue(input));
  }
  Fail(absl::InvalidArgumentError(absl::StrCat("node '", FullName(name, op), "' (", std::string(op), "): ", std::string(message),
                                               inputs.empty() ? "" : "; inputs are ", Inputs(types, values))));
}

absl::StatusOr<Graph> GraphBuilder::Build() && {
  if (ok() && edges_point_back_) Fail(CreationOrder(graph_).status());
  if (!status_.ok()) return status_;
  Graph built = std::move(graph_);
  graph_ = Graph();
  status_ = absl::FailedPreconditionError("the builder's graph has been taken by Build()");
  return built;
}

absl::Status GraphBuilder::InferTypes(Node& node, std::vector<int>* bounded) const {
  const OpDef* def = ops_->Find(node.op);
  if (def == nullptr) return UnknownOp(graph_, node);
  std::vector<TensorType> types;
  std::vector<const Tensor*> values;
  types.reserve(node.inputs.size());
  values.reserve(node.inputs.size());
  for (const OutputRef& input : node.inputs) {
    types.push_back(graph_.type(input));
    values.push_back(ConstantValue(Output(nullptr, input, TensorType{})));
  }
  InferenceContext context(node.name, node.op, node.attrs, types, values);
  const absl::Status status = def->InferShapes(context);
  if (!status.ok()) {
    const bool may_follow = (has_unknown_shapes_ || !partial_.empty()) && AskedForUnknown(context, values);
    if (const std::optional<DataType> type = may_follow ? TypeShapedByValues(node, types) : std::nullopt) {
      node.outputs.assign(1, TensorType{*type, Shape::UnknownRank()});
      return absl::OkStatus();
    }
    return WithMessage(status, absl::StrCat(status.message(), "; inputs are ", Inputs(types, values)));
  }
  for (size_t i = 0; i < context.outputs().size(); ++i) {
    if (context.outputs()[i].dtype != DataType::kInvalid) continue;
    return absl::InvalidArgumentError(absl::StrCat("node '", node.name, "' (", node.op, "): output ", i, " has no type"));
  }
  node.outputs.assign(context.outputs().begin(), context.outputs().end());
  bounded->assign(context.bound_outputs().begin(), context.bound_outputs().end());
  return absl::OkStatus();
}

// What the shape rule says of inputs with -1 for what is not certain.
void GraphBuilder::MarkBounded(NodeId id, const std::vector<int>& outputs) {
  const Node& node = graph_.node(id);
  const auto mark = [&](size_t i, Shape shape) {
    if (shape.fully_known()) return;
    partial_[OutputRef{id, static_cast<int32_t>(i)}] = std::move(shape);
    graph_.mutable_node(id).dynamic_outputs |= uint64_t{1} << std::min<size_t>(i, 63);
  };
  const auto nothing_certain = [&](size_t i) {
    return Shape(std::vector<int64_t>(std::max(node.outputs[i].shape.rank(), 0), -1));
  };
  for (int output : outputs) mark(output, nothing_certain(output));
  if (partial_.empty() || std::none_of(node.inputs.begin(), node.inputs.end(),
                                       [&](const OutputRef& input) { return partial_.count(input) > 0; })) {
    return;
  }
  std::vector<TensorType> types;
  std::vector<const Tensor*> values;
  for (const OutputRef& input : node.inputs) {
    types.push_back(graph_.type(input));
    const auto partial = partial_.find(input);
    if (partial != partial_.end()) types.back().shape = partial->second;
    values.push_back(ConstantValue(Output(nullptr, input, TensorType{})));
  }
  InferenceContext context(node.name, node.op, node.attrs, types, values);
  const OpDef* def = ops_->Find(node.op);  // a graph that came with its types may have ops that are not known here
  const bool ruled = def != nullptr && def->InferShapes(context).ok() && context.outputs().size() == node.outputs.size();
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    mark(i, ruled && !context.outputs()[i].shape.unknown_rank() ? context.outputs()[i].shape : nothing_certain(i));
  }
}

void GraphBuilder::MakeAlike(OutputRef output, OutputRef like) {
  Shape shape = graph_.type(output).shape;
  const Shape& known = graph_.type(like).shape;
  if (known.unknown_rank() || shape.fully_known()) return;
  if (shape.unknown_rank()) shape = known;
  for (int i = 0; i < shape.rank(); ++i) {
    if (shape.dim(i) < 0) shape.set_dim(i, known.dim(i));
  }
  Node& node = graph_.mutable_node(output.node);
  node.outputs[output.index].shape = std::move(shape);
  const auto bound = partial_.find(like);
  if (bound == partial_.end()) return;
  partial_[output] = bound->second;
  node.dynamic_outputs |= uint64_t{1} << std::min(output.index, 63);
}

absl::Status GraphBuilder::InferMissingTypes() {
  MR_RETURN_IF_ERROR(CheckNodeIds(graph_));
  // Before a loop is found to be a cycle.
  for (int32_t i = 0; i < graph_.num_ids(); ++i) {
    const Node& node = graph_.node(NodeId{i});
    if (!node.removed && node.outputs.empty() && ops_->Find(node.op) == nullptr) return UnknownOp(graph_, node);
  }
  MR_ASSIGN_OR_RETURN(const std::vector<NodeId> order, CreationOrder(graph_));
  for (NodeId id : order) {
    Node& node = graph_.mutable_node(id);
    MR_RETURN_IF_ERROR(CheckInputs(graph_, node));
    std::vector<int> bounded;
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      if (node.dynamic_output(static_cast<int>(i))) bounded.push_back(static_cast<int>(i));
    }
    if (node.outputs.empty()) MR_RETURN_IF_ERROR(InferTypes(node, &bounded));
    has_unknown_shapes_ = has_unknown_shapes_ || IsFedInAnyShape(node);
    MarkBounded(id, bounded);
  }
  return absl::OkStatus();
}

std::string GraphBuilder::FullName(std::string_view name, std::string_view op) const {
  if (!name.empty() && name.front() == '/') return std::string(name.substr(1));
  return absl::StrCat(scope_, std::string(name.empty() ? op : name));
}

absl::Status GraphBuilder::CompleteAttrs(Node& node) const {
  if (ops_->Find(node.op) == nullptr) return UnknownOp(graph_, node);
  MR_RETURN_IF_ERROR(CheckWrittenAttrs(node));
  std::vector<TensorType> types;
  types.reserve(node.inputs.size());
  for (const OutputRef& input : node.inputs) {
    types.push_back(graph_.type(input));
    if (IsHandle(graph_.node(input.node))) types.back().dtype = DataType::kResource;
  }
  FillInputAttrs(types, node);
  return CheckAttrs(node);
}

Operation GraphBuilder::Add(Node node) {
  std::vector<int> bounded;
  if (!IsNodeName(node.name)) {
    Fail(absl::InvalidArgumentError(absl::StrCat("node '", absl::CHexEscape(node.name),
                                                 "' (", node.op, "): the name has characters that TensorFlow does not allow")));
    return Operation(this, NodeId());
  }
  if (graph_.num_ids() >= most_nodes_) {
    Fail(absl::InvalidArgumentError(absl::StrCat("node '", node.name, "': the graph has ", graph_.num_ids(),
                                                 " nodes already, the most it may have is ", most_nodes_)));
    return Operation(this, NodeId());
  }
  absl::Status status = CompleteAttrs(node);
  if (status.ok()) status = InferTypes(node, &bounded);
  if (!status.ok()) {
    Fail(status);
    return Operation(this, NodeId());
  }
  has_unknown_shapes_ = has_unknown_shapes_ || IsFedInAnyShape(node);
  const NodeId id = graph_.AddUnique(std::move(node));
  MarkBounded(id, bounded);
  if (evaluate_) Fold(id);
  return Operation(this, id);
}

void GraphBuilder::Fold(NodeId id) {
  const Node& node = graph_.node(id);
  const OpDef& def = *ops_->Find(node.op);
  if (node.op == "Const" || def.stateful || def.is_variable || def.returns_variable || !def.variables.empty()) return;
  int64_t bytes = 0, text_bytes = 0;
  bool has_texts = false;
  for (const TensorType& type : node.outputs) {
    const bool is_text = type.dtype == DataType::kString;
    if ((!is_text && DataTypeSize(type.dtype) == 0) || !type.shape.fully_known()) return;
    if (type.shape.num_elements() > kMaxFoldedBytes) return;
    bytes += is_text ? type.shape.num_elements() * static_cast<int64_t>(sizeof(std::string)) : type.size_bytes();
    has_texts = has_texts || is_text;
  }
  if (node.outputs.empty() || bytes > kMaxFoldedBytes) return;
  OpInstance instance{.name = node.name, .op = node.op, .attrs = node.attrs};
  instance.outputs.assign(node.outputs.begin(), node.outputs.end());
  std::vector<Tensor> inputs;
  for (const OutputRef& input : node.inputs) {
    const Tensor* value = ConstantValue(OutputOf(input));
    if (value == nullptr && !(def.from_types && graph_.type(input).shape.fully_known())) return;
    instance.inputs.push_back(graph_.type(input));
    inputs.push_back(value == nullptr ? Tensor() : *value);
    text_bytes += TextBytes(inputs.back());
  }
  if (has_texts && text_bytes > kMaxFoldedBytes) return;
  instance.input_values = inputs;
  absl::StatusOr<std::vector<Tensor>> values = WithoutExceptions([&] { return evaluate_(def, instance, std::move(inputs)); });
  if (!values.ok() || values->size() != node.outputs.size()) return;
  text_bytes = 0;
  for (size_t i = 0; i < values->size(); ++i) {
    if ((*values)[i].dtype() != node.outputs[i].dtype) return;
    text_bytes += TextBytes((*values)[i]);
  }
  if (text_bytes > kMaxFoldedBytes) return;
  for (size_t i = 0; i < values->size(); ++i) {
    graph_.mutable_node(id).outputs[i] = (*values)[i].type();
    folded_[OutputRef{id, static_cast<int32_t>(i)}] = std::move((*values)[i]);
    partial_.erase(OutputRef{id, static_cast<int32_t>(i)});
    graph_.mutable_node(id).dynamic_outputs = 0;
  }
}

Operation GraphBuilder::Op(std::string_view op, absl::Span<const Output> inputs, AttrMap attrs,
                           std::string_view name) {
  if (!ok()) return Operation(this, NodeId());
  if (op.empty()) {
    FailOp(op, inputs, name, "there is no op of no name");
    return Operation(this, NodeId());
  }
  Node node;
  node.name = FullName(name, op);
  node.op = std::string(op);
  node.requested_device = device_;
  node.attrs = std::move(attrs);
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].builder() != this || !Holds(graph_, inputs[i].ref())) {
      Fail(absl::InvalidArgumentError(absl::StrCat("node '", node.name, "' (", node.op, "): input ", i,
                                                   WhyNotOwn(inputs[i]))));
      return Operation(this, NodeId());
    }
    node.inputs.push_back(inputs[i].ref());
  }
  node.control_inputs.assign(control_.begin(), control_.end());
  return Add(std::move(node));
}

Output GraphBuilder::Placeholder(std::string_view name, DataType dtype, Shape shape) {
  for (int i = 0; i < shape.rank(); ++i) {
    if (shape.dim(i) >= -1) continue;
    FailOp("Placeholder", {}, name, absl::StrCat("a dimension of ", shape.dim(i), ", expected -1 (unknown) or more"));
    return Output(this, OutputRef{}, TensorType{});
  }
  return Op("Placeholder", {}, {{"dtype", dtype}, {"shape", std::move(shape)}}, name);
}

Output GraphBuilder::Const(Tensor value, std::string_view name) {
  if (!ok()) return Output(this, OutputRef{}, TensorType{});
  if (value.dtype() == DataType::kInvalid) {
    FailOp("Const", {}, name, "the tensor has no type");
    return Output(this, OutputRef{}, TensorType{});
  }
  Node node;
  node.name = FullName(name, "Const");
  node.op = "Const";
  node.requested_device = device_;
  node.attrs.Set("dtype", value.dtype());
  node.attrs.Set("value", std::move(value));
  return Add(std::move(node));
}

Output GraphBuilder::SharedConst(Tensor value) {
  if (!ok()) return Output(this, OutputRef{}, TensorType{});
  // Strings are not in the tensor's bytes.
  if (DataTypeSize(value.dtype()) == 0 || value.size_bytes() > kMaxSharedConstBytes) return Const(std::move(value));
  std::string key = absl::StrCat(value.type().ToString(), ":");
  key.append(static_cast<const char*>(value.data()), value.size_bytes());
  auto [it, inserted] = cached_consts_.try_emplace(std::move(key));
  if (inserted) {
    Node node;
    node.name = absl::StrCat("constants/", std::string(DataTypeName(value.dtype())));
    node.op = "Const";
    node.attrs.Set("dtype", value.dtype());
    node.attrs.Set("value", std::move(value));
    it->second = Add(std::move(node)).id();
  }
  return OutputOf(OutputRef{it->second, 0});
}

Output GraphBuilder::Scalar(DataType dtype, double value) {
  absl::StatusOr<Tensor> tensor = FilledTensor(dtype, Shape(), value);
  if (tensor.ok()) return SharedConst(*std::move(tensor));
  FailOp("Const", {}, {}, std::string(tensor.status().message()));
  return Output(this, OutputRef{}, TensorType{});
}

// Whether every value is an int32; if not, fails.
bool GraphBuilder::ExpectInt32(absl::Span<const int64_t> values) {
  for (int64_t value : values) {
    if (value == static_cast<int32_t>(value)) continue;
    FailOp("Const", {}, {}, absl::StrCat("a size of ", value, ", expected one that fits int32"));
    return false;
  }
  return ok();
}

Output GraphBuilder::Ints(absl::Span<const int64_t> values) {
  if (!ExpectInt32(values)) return Output(this, OutputRef{}, TensorType{});
  Tensor tensor(DataType::kInt32, Shape({static_cast<int64_t>(values.size())}));
  for (size_t i = 0; i < values.size(); ++i) tensor.mutable_as<int32_t>()[i] = static_cast<int32_t>(values[i]);
  return SharedConst(std::move(tensor));
}

Output GraphBuilder::Int(int64_t value) {
  if (!ExpectInt32({value})) return Output(this, OutputRef{}, TensorType{});
  return SharedConst(Tensor::Scalar<int32_t>(static_cast<int32_t>(value)));
}

Operation GraphBuilder::Group(absl::Span<const Operation> operations, std::string_view name) {
  if (!ok()) return Operation(this, NodeId());
  Node node;
  node.name = FullName(name, "NoOp");
  node.op = "NoOp";
  node.requested_device = device_;
  node.control_inputs.assign(control_.begin(), control_.end());
  for (const Operation& operation : operations) {
    if (ExpectOwn(operation, absl::StrCat("node '", node.name, "'"))) node.control_inputs.push_back(operation.id());
  }
  if (!ok()) return Operation(this, NodeId());
  return Add(std::move(node));
}

// Whether it is a node of this graph; if not, fails.
bool GraphBuilder::ExpectOwn(const Operation& operation, std::string_view where) {
  if (operation.builder() == this && Holds(graph_, operation.id())) return true;
  Fail(absl::InvalidArgumentError(absl::StrCat(std::string(where), ": an operation is not a node of this graph")));
  return false;
}

void GraphBuilder::AddControlEdge(const Operation& before, const Operation& after) {
  if (!ok()) return;
  if (!ExpectOwn(before, "AddControlEdge") || !ExpectOwn(after, "AddControlEdge")) return;
  if (before.id() == after.id()) {
    Fail(absl::InvalidArgumentError(absl::StrCat("AddControlEdge: node '", graph_.node(after.id()).name, "' would run after itself")));
    return;
  }
  edges_point_back_ = edges_point_back_ || after.id() < before.id();
  graph_.mutable_node(after.id()).control_inputs.push_back(before.id());
}

std::pair<int64_t, int64_t> GraphBuilder::NextSeeds() { return {seed_, next_op_seed_++}; }

Output GraphBuilder::OutputOf(OutputRef ref) {
  if (Holds(graph_, ref)) return Output(this, ref, graph_.type(ref));
  if (Holds(graph_, ref.node)) {
    Fail(absl::InvalidArgumentError(absl::StrCat("node '", graph_.node(ref.node).name, "' has no output ", ref.index)));
  } else if (ref.node.valid()) {
    Fail(absl::InvalidArgumentError(absl::StrCat("the graph has no node of id ", ref.node.value)));
  }
  return Output(this, OutputRef{}, TensorType{});
}

const Tensor* GraphBuilder::ConstantValue(const Output& output) const {
  OutputRef ref = output.ref();
  if (output.builder() != nullptr && output.builder() != this) return nullptr;
  while (Holds(graph_, ref)) {
    const auto folded = folded_.find(ref);
    if (folded != folded_.end()) return &folded->second;
    const Node& node = graph_.node(ref.node);
    if (node.op == "Const") {
      const AttrValue* value = node.attrs.Find("value");
      return value == nullptr ? nullptr : std::get_if<Tensor>(value);
    }
    if (node.op != "Identity" || node.inputs.empty()) return nullptr;
    ref = node.inputs[0];
  }
  return nullptr;
}

void GraphBuilder::Adopt(const Variable& variable, bool trainable) {
  variables_.push_back(variable);
  if (trainable) trainable_.push_back(variable);
}

std::string GraphBuilder::TensorName(const Output& output) const {
  return output.builder() == this && Holds(graph_, output.ref()) ? graph_.TensorName(output.ref()) : "<no tensor>";
}

NameScope::NameScope(GraphBuilder& builder, std::string_view name) : builder_(builder), outer_(builder.scope_) {
  if (!name.empty() && name.front() == '/') {
    builder.scope_.clear();
    name.remove_prefix(1);
  }
  if (!name.empty()) absl::StrAppend(&builder.scope_, std::string(name), "/");
}

DeviceScope::DeviceScope(GraphBuilder& builder, std::string device) : builder_(builder), outer_(std::move(device)) {
  outer_.swap(builder.device_);
}

ControlScope::ControlScope(GraphBuilder& builder, absl::Span<const Operation> operations)
    : builder_(builder), outer_size_(builder.control_.size()) {
  for (const Operation& operation : operations) {
    if (builder.ok() && builder.ExpectOwn(operation, "ControlScope")) builder.control_.push_back(operation.id());
  }
}

ControlScope::~ControlScope() { builder_.control_.resize(outer_size_); }

}  // namespace millrace
