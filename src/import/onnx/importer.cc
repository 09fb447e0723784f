#include "onnx/importer.h"

#include <algorithm>
#include <limits>
#include <queue>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "graph/with_message.h"
#include "onnx/fold.h"
#include "onnx/narrow.h"
#include "onnx/tensors.h"

namespace millrace::onnx {
namespace {

using google::protobuf::RepeatedPtrField;
using onnx_proto::AttributeProto;
using onnx_proto::FunctionProto;
using onnx_proto::GraphProto;
using onnx_proto::NodeProto;
using onnx_proto::TypeProto;
using onnx_proto::ValueInfoProto;

constexpr int64_t kNewestOpset = 28;
constexpr int64_t kMostElements = int64_t{1} << 40;
constexpr int64_t kMostBaked = 16;  // elements of an initialiser that decides how many turns there are

// Whether shapes derived from this one can be computed without overflow.
bool IsReasonable(const Shape& shape) {
  for (int64_t dim : shape.dims()) {
    if (dim > std::numeric_limits<int32_t>::max()) return false;
  }
  return shape.num_elements() <= kMostElements;
}

bool IsMainDomain(const std::string& domain) { return domain.empty() || domain == "ai.onnx"; }

absl::Status Missing(const std::string& name, const char* source) {
  return absl::UnimplementedError(absl::StrCat("'", name, "' comes from ", source, ", which is not supported"));
}

absl::Status NarrowRefused(const std::string& name, const onnx_proto::TensorProto& tensor) {
  return absl::UnimplementedError(absl::StrCat("initialiser '", name, "' of element type ", ElementTypeName(tensor.data_type()),
                                               " is not supported but as an input of DequantizeLinear and Cast"));
}

// A node name that TensorFlow accepts: other characters become '_'.
std::string NodeName(std::string_view onnx_name) {
  std::string name;
  for (char ch : onnx_name) {
    const bool plain = absl::ascii_isalnum(static_cast<unsigned char>(ch)) || ch == '.' || ch == '_' || ch == '/' || ch == '-';
    name += plain ? ch : '_';
  }
  const size_t first = name.find_first_not_of("/_-");
  name = first == std::string::npos ? "unnamed" : name.substr(first);
  return name;
}

}  // namespace

int64_t MainOpset(const RepeatedPtrField<onnx_proto::OperatorSetIdProto>& sets, int64_t fallback) {
  for (const onnx_proto::OperatorSetIdProto& set : sets) {
    if (IsMainDomain(set.domain())) return set.version();
  }
  return fallback;
}

Importer::Importer(const onnx_proto::ModelProto& model, const std::string& folder, const OnnxOptions& options,
                   const std::set<std::string>& baked, bool selects)
    : model_(model), folder_(folder), options_(options), baked_(baked), selects_(selects) {
  b_.FoldWith(HostEvaluator());
}

absl::Status Importer::AddInitializers(const GraphProto& graph) {
  if (graph.sparse_initializer_size() > 0) return absl::UnimplementedError("sparse initialisers are not supported");
  for (const onnx_proto::TensorProto& tensor : graph.initializer()) {
    if (tensor.name().empty()) return absl::InvalidArgumentError("an initialiser has no name");
    if (graph.input_size() > 0 && options_.input_values.count(tensor.name()) > 0) {
      for (const ValueInfoProto& input : graph.input()) {
        if (input.name() == tensor.name()) {
          return absl::UnimplementedError(absl::StrCat("input '", tensor.name(), "' has an initialiser and cannot be fed"));
        }
      }
    }
    // Nested graphs may have some of one name each, and loops name theirs at every step.
    if (const auto [made, inserted] = initializers_.try_emplace(&tensor); inserted) {
      std::string name = tensor.name();
      for (int& i = next_numbers_[name]; !initializer_names_.insert(name).second;) name = absl::StrCat(tensor.name(), "_", ++i);
      made->second.name = std::move(name);
    }
    Entry entry;
    entry.initializer = &tensor;
    Bind(tensor.name(), std::move(entry));
  }
  return absl::OkStatus();
}

absl::StatusOr<Shape> Importer::InputShape(const ValueInfoProto& input, Symbols& symbols) const {
  const TypeProto::Tensor& type = input.type().tensor_type();
  const auto value = options_.input_values.find(input.name());
  const auto shape = options_.input_shapes.find(input.name());
  const Shape* given = value != options_.input_values.end()   ? &value->second.shape()
                       : shape != options_.input_shapes.end() ? &shape->second
                                                              : nullptr;
  if (!type.has_shape()) return given != nullptr ? *given : Shape::UnknownRank();
  Shape declared;
  for (const auto& dim : type.shape().dim()) {
    // Some exporters write -1 for a dimension that is open.
    const bool known = dim.value_case() == onnx_proto::TensorShapeProto::Dimension::kDimValue && dim.dim_value() >= 0;
    declared.AddDim(known ? dim.dim_value() : -1);
  }
  if (given != nullptr) {
    bool fits = given->rank() == declared.rank();
    for (int i = 0; fits && i < declared.rank(); ++i) fits = declared.dim(i) < 0 || declared.dim(i) == given->dim(i);
    if (!fits) {
      return absl::InvalidArgumentError(absl::StrCat("input '", input.name(), "' is ", declared.ToString(),
                                                     " in the model, the shape given is ", given->ToString()));
    }
    declared = *given;
  }
  for (int i = 0; i < declared.rank(); ++i) {
    const std::string& symbol = type.shape().dim(i).dim_param();
    if (symbol.empty()) continue;
    if (declared.dim(i) >= 0) {
      const auto [bound, inserted] = symbols.try_emplace(symbol, declared.dim(i), absl::StrCat(declared.dim(i), " in input '", input.name(), "'"));
      auto& [size, said] = bound->second;
      if (size < 0 || size == declared.dim(i)) continue;
      size = -1;
      absl::StrAppend(&said, " and ", declared.dim(i), " in input '", input.name(), "'");
      continue;
    }
    const auto bound = symbols.find(symbol);
    if (bound == symbols.end()) continue;
    if (bound->second.first < 0) {
      return absl::InvalidArgumentError(absl::StrCat("dimension '", symbol, "' of input '", input.name(), "' is ", bound->second.second));
    }
    declared.set_dim(i, bound->second.first);
  }
  return declared;
}

// Tensors of a sequence have names, too, and so has what training is fed. "x:0" may be meant for x, or the other way.
absl::Status Importer::CheckShapesAreOfInputs() const {
  std::set<std::string> inputs;
  for (const ValueInfoProto& input : model_.graph().input()) inputs.insert(input.name());
  for (const auto& [name, shape] : options_.input_shapes) {
    const std::string other = name.ends_with(":0") ? name.substr(0, name.size() - 2) : absl::StrCat(name, ":0");
    const auto is_known = [&](const std::string& form) { return inputs.count(form) > 0 || names_.count(form) > 0; };
    const auto is_of_loss = [&](const std::string& form) { return training() && absl::StrContains(options_.training->loss, form); };
    if (is_known(name) || is_known(other) || is_of_loss(name) || is_of_loss(other)) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("a shape is given for '", name, "', but the model has no such input, only ", absl::StrJoin(inputs, ", ")));
  }
  return absl::OkStatus();
}

absl::Status Importer::AddInputs() {
  Symbols symbols;
  std::vector<std::string> open;
  // Twice: the first time binds the names of dimensions.
  for (const ValueInfoProto& input : model_.graph().input()) MR_RETURN_IF_ERROR(InputShape(input, symbols).status());
  for (const ValueInfoProto& input : model_.graph().input()) {
    const std::string& name = input.name();
    if (names_.count(name) > 0 && names_[name].initializer != nullptr) continue;
    if (name.empty() || names_.count(name) > 0) {
      return absl::InvalidArgumentError(absl::StrCat("two inputs are named '", name, "'"));
    }
    initializer_names_.insert(name);  // what is baked goes by its name, too
    if (input.type().has_sequence_type()) {
      MR_RETURN_IF_ERROR(AddSequenceInput(input));
      continue;
    }
    if (!input.type().has_tensor_type()) {
      return absl::UnimplementedError(absl::StrCat("input '", name, "' is not a tensor, which is not supported"));
    }
    TensorType type{TypeFromOnnx(input.type().tensor_type().elem_type()), Shape()};
    if (type.dtype == DataType::kInvalid) {
      return absl::UnimplementedError(absl::StrCat("input '", name, "': element type ",
                                                   ElementTypeName(input.type().tensor_type().elem_type()), " is not supported"));
    }
    MR_ASSIGN_OR_RETURN(type.shape, InputShape(input, symbols));
    if (!type.shape.fully_known()) {
      open.push_back(absl::StrCat(name, " ", type.ToString()));
      continue;
    }
    Entry entry;
    MR_ASSIGN_OR_RETURN(entry.output, AddInput(name, type));
    names_[name] = std::move(entry);
  }
  MR_RETURN_IF_ERROR(CheckShapesAreOfInputs());
  if (open.empty()) return b_.status();
  return absl::InvalidArgumentError(absl::StrCat("inputs without a known shape: ", absl::StrJoin(open, ", "),
                                                 "; feed them, or give shapes with --feed_shapes=NAME:DIMxDIM..."));
}

// Nodes that training adds have names of their own; a tensor of the model that is called so gets another.
std::string Importer::NameOutsideScopes(const std::string& name, const char* kind) const {
  const std::string node = NodeName(name);
  const bool taken = training() && (node == "loss" || node == "train" || node == "init");
  return taken ? absl::StrCat("/", node, "_", kind) : absl::StrCat("/", node);
}

absl::StatusOr<Output> Importer::AddInput(const std::string& name, const TensorType& type) {
  if (!IsReasonable(type.shape)) {
    return absl::InvalidArgumentError(absl::StrCat("input '", name, "' is ", type.ToString(), ", which no memory holds"));
  }
  if (baked_.count(name) > 0) {
    const Tensor& value = options_.input_values.at(name);
    if (value.dtype() == type.dtype) return b_.Const(value, NameOutsideScopes(name, "input"));
    return absl::InvalidArgumentError(absl::StrCat("input '", name, "' is ", type.ToString(), ", the value given ",
                                                   value.type().ToString()));
  }
  const Output input = b_.Placeholder(NameOutsideScopes(name, "input"), type.dtype, type.shape);
  MR_RETURN_IF_ERROR(b_.status());
  inputs_[name] = b_.graph().node(input.node()).name;
  placeholders_[input.node().value] = name;
  return input;
}

// Its tensors are inputs NAME/0, NAME/1, …: as many as there are values or shapes of.
absl::Status Importer::AddSequenceInput(const ValueInfoProto& input) {
  const TypeProto& element = input.type().sequence_type().elem_type();
  const DataType dtype = TypeFromOnnx(element.tensor_type().elem_type());
  if (!element.has_tensor_type() || dtype == DataType::kInvalid) {
    return absl::UnimplementedError(absl::StrCat("input '", input.name(), "' is a sequence of what is not supported"));
  }
  Sequence tensors;
  while (true) {
    const std::string name = absl::StrCat(input.name(), "/", tensors.size());
    const auto value = options_.input_values.find(name);
    const auto shape = options_.input_shapes.find(name);
    if (value == options_.input_values.end() && shape == options_.input_shapes.end()) break;
    MR_ASSIGN_OR_RETURN(const Output tensor, AddInput(name, {dtype, value != options_.input_values.end() ? value->second.shape() : shape->second}));
    Entry entry;
    entry.output = tensor;
    names_[name] = std::move(entry);
    tensors.push_back(tensor);
  }
  names_[input.name()] = EntryOf(ValueOf(std::move(tensors)));
  return absl::OkStatus();
}

Importer::Entry Importer::EntryOf(const ModelValue& value) const {
  Entry entry;
  entry.output = value.tensor;
  entry.sequence = value.sequence;
  entry.missing = value.missing;
  return entry;
}

void Importer::Bind(const std::string& name, Entry entry) {
  const auto found = names_.find(name);
  if (shadowed_ != nullptr) shadowed_->emplace_back(name, found != names_.end() ? std::optional<Entry>(found->second) : std::nullopt);
  if (found != names_.end()) {
    found->second = std::move(entry);
  } else {
    names_.emplace(name, std::move(entry));
  }
}

ModelValue Importer::UseAny(const std::string& name) {
  const auto found = names_.find(name);
  if (found != names_.end() && found->second.sequence != nullptr) return {Output(), found->second.sequence, nullptr};
  return ValueOf(Use(name));
}

Variable Importer::AddVariable(const std::string& name, const Tensor& value, bool trainable) {
  const Output handle = b_.Op("VarHandleOp", {},
                              {{"dtype", value.dtype()}, {"shape", value.shape()}, {"shared_name", name}, {"container", std::string()}},
                              NameOutsideScopes(name, "variable"));
  if (!handle.valid()) return Variable();
  Variable variable(&b_, b_.graph().node(handle.node()).name, handle, value.type());
  b_.Adopt(variable, trainable);
  variables_[name] = value;
  return variable;
}

Output Importer::UseAs(const std::string& name, bool trainable) {
  const Output none(&b_, OutputRef{}, TensorType{});
  const auto found = names_.find(name);
  if (found == names_.end()) {
    b_.Fail(absl::InvalidArgumentError(absl::StrCat("tensor '", name, "' is neither an input, an initialiser nor an output of a node")));
    return none;
  }
  const Entry& entry = found->second;
  if (entry.sequence != nullptr) {
    b_.Fail(absl::InvalidArgumentError(absl::StrCat("'", name, "' is a sequence of tensors, expected a tensor")));
    return none;
  }
  if (entry.missing != nullptr) {
    b_.Fail(Missing(name, entry.missing));
    return none;
  }
  if (entry.initializer == nullptr) return entry.output;
  const bool narrow = WideType(entry.initializer->data_type()) != DataType::kInvalid;
  if (narrow && !reads_narrow_) {
    b_.Fail(NarrowRefused(name, *entry.initializer));
    return none;
  }
  Initializer& made = initializers_.at(entry.initializer);
  if (!made.constant.valid() && !made.variable.valid()) {
    absl::StatusOr<Tensor> value = WidenedFromOnnx(*entry.initializer, folder_);
    if (!value.ok()) {
      b_.Fail(WithMessage(value.status(), absl::StrCat("initialiser '", name, "' ", value.status().message())));
      return none;
    }
    NameScope root(b_, "/");
    if (!IsFloating(value->dtype()) || narrow || baked_.count(made.name) > 0) {
      return made.constant = b_.Const(*std::move(value), NameOutsideScopes(made.name, "constant"));
    }
    made.variable = AddVariable(made.name, *value, trainable);
    if (made.variable.valid() && value->num_elements() <= kMostBaked) small_weights_[made.variable.handle().node().value] = made.name;
  }
  if (made.constant.valid()) return made.constant;
  return made.variable.valid() ? made.variable.Read() : none;
}

absl::StatusOr<Tensor> Importer::Value(const std::string& name) {
  const auto found = names_.find(name);
  if (found == names_.end()) return absl::InvalidArgumentError(absl::StrCat("('", name, "') is not in the model"));
  if (found->second.missing != nullptr) return Missing(name, found->second.missing);
  if (found->second.initializer != nullptr) return TensorFromOnnx(*found->second.initializer, folder_);
  absl::StatusOr<Tensor> value = Known(found->second.output);
  if (value.ok()) return value;
  return WithMessage(value.status(), absl::StrCat("('", name, "') ", value.status().message()));
}

absl::StatusOr<Tensor> Importer::Known(const Output& output) {
  if (const Tensor* value = b_.ConstantValue(output); value != nullptr) return *value;
  // The inputs that it is computed from.
  std::set<int32_t> seen;
  std::vector<int32_t> stack;
  std::vector<std::string> inputs;
  if (output.valid()) stack.push_back(output.node().value);
  while (!stack.empty()) {
    const int32_t id = stack.back();
    stack.pop_back();
    if (!seen.insert(id).second) continue;
    if (auto input = placeholders_.find(id); input != placeholders_.end()) inputs.push_back(input->second);
    // Numbers of turns may be compared as floats: what decides them is a constant and does not train.
    if (auto weight = small_weights_.find(id); weight != small_weights_.end()) missing_values_.insert(weight->second);
    for (const OutputRef& in : b_.graph().node(NodeId{id}).inputs) stack.push_back(in.node.value);
  }
  std::sort(inputs.begin(), inputs.end());
  for (const std::string& input : inputs) {
    if (options_.input_values.count(input) > 0) missing_values_.insert(input);
  }
  return absl::InvalidArgumentError(
      absl::StrCat("must be known before the graph runs; it is computed",
                   inputs.empty() ? " from weights or random numbers, or by operators whose results exceed 64 KiB, which are not computed ahead"
                                  : absl::StrCat(" from inputs ", absl::StrJoin(inputs, ", "), ", whose values are needed then")));
}

const Variable* Importer::FindVariable(const std::string& name) {
  const auto found = names_.find(name);
  if (found == names_.end() || found->second.initializer == nullptr) return nullptr;
  const Variable& variable = initializers_.at(found->second.initializer).variable;
  return variable.valid() ? &variable : nullptr;
}

namespace {
std::set<std::string> NamesOf(const GraphProto& graph) {
  std::set<std::string> names;
  for (const ValueInfoProto& input : graph.input()) names.insert(input.name());
  for (const onnx_proto::TensorProto& tensor : graph.initializer()) names.insert(tensor.name());
  for (const NodeProto& node : graph.node()) names.insert(node.output().begin(), node.output().end());
  return names;
}

// Names that the node's nested graphs take from outside count as inputs, too.
void CollectInputs(const NodeProto& node, int depth, std::vector<std::string>& names) {
  names.insert(names.end(), node.input().begin(), node.input().end());
  for (const AttributeProto& attribute : node.attribute()) {
    if (!attribute.has_g() || depth > kMostNested) continue;
    std::vector<std::string> used;
    for (const NodeProto& inner : attribute.g().node()) CollectInputs(inner, depth + 1, used);
    for (const ValueInfoProto& output : attribute.g().output()) used.push_back(output.name());
    const std::set<std::string> own = NamesOf(attribute.g());
    for (std::string& name : used) {
      if (own.count(name) == 0) names.push_back(std::move(name));
    }
  }
}
}  // namespace

absl::StatusOr<std::vector<int>> Importer::Order(const RepeatedPtrField<NodeProto>& nodes) const {
  std::map<std::string, int> producer;
  for (int i = 0; i < nodes.size(); ++i) {
    for (const std::string& output : nodes.Get(i).output()) {
      if (output.empty()) continue;
      if (!producer.emplace(output, i).second || names_.count(output) > 0) {
        return absl::InvalidArgumentError(absl::StrCat("two nodes, inputs or initialisers give '", output, "'"));
      }
    }
  }
  std::vector<std::vector<int>> consumers(nodes.size());
  std::vector<int> pending(nodes.size(), 0);
  std::priority_queue<int, std::vector<int>, std::greater<int>> ready;
  for (int i = 0; i < nodes.size(); ++i) {
    std::vector<std::string> inputs;
    CollectInputs(nodes.Get(i), 0, inputs);
    for (const std::string& input : inputs) {
      const auto found = producer.find(input);
      if (found == producer.end()) continue;
      consumers[found->second].push_back(i);
      ++pending[i];
    }
    if (pending[i] == 0) ready.push(i);
  }
  std::vector<int> order;
  while (!ready.empty()) {
    const int i = ready.top();
    ready.pop();
    order.push_back(i);
    for (int consumer : consumers[i]) {
      if (--pending[consumer] == 0) ready.push(consumer);
    }
  }
  for (int i = 0; i < nodes.size(); ++i) {
    if (pending[i] == 0) continue;
    const NodeProto& node = nodes.Get(i);
    return absl::InvalidArgumentError(absl::StrCat("node '", node.name().empty() && node.output_size() > 0 ? node.output(0) : node.name(),
                                                   "' (", node.op_type(), ") is on a cycle"));
  }
  return order;
}

absl::Status Importer::AddNodes(const RepeatedPtrField<NodeProto>& nodes) {
  MR_ASSIGN_OR_RETURN(const std::vector<int> order, Order(nodes));
  for (int i : order) MR_RETURN_IF_ERROR(AddNode(nodes.Get(i)));
  return absl::OkStatus();
}

absl::Status Importer::AddNode(const NodeProto& node) {
  if (const FunctionProto* function = FindFunction(node); function != nullptr) return AddCall(node, *function);
  NodeContext context(b_, node, opset_, *this);
  if (const auto made = constants_.find(&node); made != constants_.end()) {
    Bind(node.output(0), EntryOf(ValueOf(made->second)));
    return absl::OkStatus();
  }
  const std::string op = QualifiedOp(node);
  const Lowering lowering = LoweringTable::Builtin().Find(op);
  if (lowering == nullptr) return context.Unsupported("the operator");
  missing_values_.clear();
  const std::string& label = !node.name().empty() || node.output_size() == 0 ? node.name() : node.output(0);
  NameScope scope(b_, absl::StrCat("/", NodeName(label)));
  // Inputs first, so that errors name the one that is wrong.
  for (const std::string& input : node.input()) {
    if (!input.empty() && names_.count(input) == 0) {
      return context.Error(absl::StrCat("input '", input, "' is neither an input of the model, an initialiser nor an output of a node"));
    }
  }
  const bool outer_reads_narrow = std::exchange(reads_narrow_, op == "DequantizeLinear" || op == "Cast");
  absl::Status status = lowering(context);
  reads_narrow_ = outer_reads_narrow;
  if (!b_.ok()) {
    const std::string message(b_.status().message());
    if (message.find(context.Describe()) != std::string::npos) return b_.status();
    return WithPrefix(b_.status(), context.Describe());
  }
  MR_RETURN_IF_ERROR(status);
  for (int i = 0; i < node.output_size(); ++i) {
    if (node.output(i).empty()) continue;
    Entry entry = EntryOf(context.outputs()[i]);
    if (entry.sequence != nullptr || entry.missing != nullptr) {
      Bind(node.output(i), std::move(entry));
      continue;
    }
    if (!entry.output.valid()) return context.Unsupported(absl::StrCat("output ", i));
    if (!entry.output.shape().fully_known()) {
      return context.Error(absl::StrCat("output ", i, " is ", entry.output.type().ToString(),
                                        ", expected a shape that is known once the inputs' are"));
    }
    if (!IsReasonable(entry.output.shape())) {
      return context.Error(absl::StrCat("output ", i, " is ", entry.output.type().ToString(), ", which no memory holds"));
    }
    // In the body of a loop it is made once.
    if (op == "Constant" && i == 0) constants_[&node] = entry.output;
    Bind(node.output(i), std::move(entry));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<ModelValue>> Importer::Lower(const GraphProto& graph, const std::vector<ModelValue>& inputs) {
  if (++depth_ > kMostNested) return absl::InvalidArgumentError("graphs are nested without end");
  Shadowed shadowed;
  Shadowed* const outer = std::exchange(shadowed_, &shadowed);
  absl::Status status = AddInitializers(graph);
  if (graph.input_size() < static_cast<int>(inputs.size())) {
    status.Update(absl::InvalidArgumentError(absl::StrCat("a nested graph has ", graph.input_size(), " inputs, expected ", inputs.size())));
  }
  for (size_t i = 0; status.ok() && i < inputs.size(); ++i) {
    Bind(graph.input(static_cast<int>(i)).name(), EntryOf(inputs[i]));
  }
  if (status.ok()) status = AddNodes(graph.node());
  std::vector<ModelValue> outputs;
  for (const ValueInfoProto& output : graph.output()) {
    if (status.ok()) outputs.push_back(UseAny(output.name()));
  }
  shadowed_ = outer;
  for (auto last = shadowed.rbegin(); last != shadowed.rend(); ++last) {
    if (last->second.has_value()) {
      names_[last->first] = *std::move(last->second);
    } else {
      names_.erase(last->first);
    }
  }
  --depth_;
  MR_RETURN_IF_ERROR(status);
  MR_RETURN_IF_ERROR(b_.status());
  return outputs;
}

absl::Status Importer::AddOutput(const std::string& name, const Output& value, OnnxModel& result) {
  result.outputs.push_back(name);
  Entry named;
  named.output = ops::Identity(value, NameOutsideScopes(name, "output"));
  names_[name] = named;
  return b_.status();
}

absl::Status Importer::AddOutputs(OnnxModel& result) {
  for (const ValueInfoProto& output : model_.graph().output()) {
    if (names_.count(output.name()) == 0) {
      return absl::InvalidArgumentError(absl::StrCat("output '", output.name(), "' is not computed by any node"));
    }
    const ModelValue value = UseAny(output.name());
    if (value.sequence == nullptr) MR_RETURN_IF_ERROR(AddOutput(output.name(), value.tensor, result));
    for (size_t i = 0; value.sequence != nullptr && i < value.sequence->size(); ++i) {
      MR_RETURN_IF_ERROR(AddOutput(absl::StrCat(output.name(), "/", i), (*value.sequence)[i], result));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<OnnxModel> Importer::Run() {
  if (!model_.has_graph() || (model_.graph().node_size() == 0 && model_.graph().output_size() == 0)) {
    return absl::InvalidArgumentError("no graph, expected an ONNX model");
  }
  opset_ = MainOpset(model_.opset_import(), 0);
  if (model_.opset_import_size() == 0) opset_ = 1;
  if (opset_ > kNewestOpset || opset_ < 0) {
    return absl::UnimplementedError(absl::StrCat("the model is of opset ", opset_, ", expected at most ", kNewestOpset));
  }
  if (opset_ == 0) opset_ = kNewestOpset;  // only operators of other domains
  MR_RETURN_IF_ERROR(CheckOps());
  MR_RETURN_IF_ERROR(AddInitializers(model_.graph()));
  MR_RETURN_IF_ERROR(AddInputs());
  MR_RETURN_IF_ERROR(AddNodes(model_.graph().node()));
  OnnxModel result;
  if (training()) MR_RETURN_IF_ERROR(AddTraining(result));
  MR_RETURN_IF_ERROR(AddOutputs(result));
  result.inputs = std::move(inputs_);
  for (const auto& [name, entry] : names_) {
    const Output& output = entry.initializer != nullptr ? initializers_.at(entry.initializer).constant : entry.output;
    if (output.valid()) result.tensors[name] = b_.TensorName(output);
  }
  result.variables = std::move(variables_);
  MR_ASSIGN_OR_RETURN(result.graph, std::move(b_).Build());
  return result;
}

}  // namespace millrace::onnx
