#include "passes/shapes/infer_shapes.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "graph/of_sides.h"
#include "graph/parameters.h"
#include "graph/variable_name.h"
#include "graph/with_message.h"
#include "millrace/guard.h"
#include "millrace/status.h"
#include "passes/shapes/alike_nodes.h"
#include "passes/shapes/compared_strings.h"
#include "passes/shapes/dynamic_shapes.h"
#include "passes/shapes/effects.h"
#include "passes/shapes/known_ops.h"
#include "passes/shapes/needed_feeds.h"
#include "passes/shapes/parts.h"
#include "passes/shapes/per_op.h"
#include "passes/shapes/sparse_shapes.h"
#include "passes/shapes/value_bounds.h"
#include "passes/shapes/variables.h"

namespace millrace {
namespace {

class Inferrer {
 public:
  Inferrer(Graph& graph, const OpRegistry& ops, KernelOracle& oracle,
           const std::map<std::string, TensorType>& variable_types)
      : graph_(graph),
        ops_(ops),
        oracle_(oracle),
        variable_types_(variable_types),
        values_(graph.num_ids()),
        def_of_(ops),
        builtin_def_of_(OpRegistry::Builtin()) {
    result_.by_value.assign(graph.num_ids(), 0);
    behind_write_.assign(graph.num_ids(), false);
  }

  absl::StatusOr<InferenceResult> Run() {
    MR_RETURN_IF_ERROR(CheckOpsKnown(graph_, ops_));
    MR_ASSIGN_OR_RETURN(const std::vector<NodeId> order, CreationOrder(graph_));
    for (NodeId id : order) {
      MarkBehindWrite(id);
      absl::Status status = Visit(id);
      if (status.ok()) continue;
      const auto known = [this](OutputRef ref) { return Value(ref); };
      return AskForFeeds(graph_, ops_, id, result_.by_value[id.value], known, std::move(status));
    }
    MR_RETURN_IF_ERROR(CheckVariables(graph_, ops_));
    return std::move(result_);
  }

  // One node at a time, as the graph grows (ShapeTracker).
  bool Track(NodeId id, bool may_replace) {
    Grow();
    may_replace_ = may_replace;
    Node& node = graph_.mutable_node(id);
    Rewire(node);
    MarkBehindWrite(id);
    const bool typed = std::all_of(node.inputs.begin(), node.inputs.end(), [&](OutputRef input) {
      return static_cast<size_t>(input.index) < graph_.node(input.node).outputs.size();
    });
    if (typed && def_of_(node.op) != nullptr && Visit(id).ok()) return true;
    graph_.mutable_node(id).outputs.clear();
    values_[id.value].clear();
    return false;
  }
  void Declare(NodeId id, std::vector<TensorType> types, std::vector<Tensor> values) {
    Grow();
    graph_.mutable_node(id).outputs.assign(types.begin(), types.end());
    values_[id.value] = std::move(values);
  }
  void DeclarePassed(NodeId id, int32_t output, absl::Span<const OutputRef> sources) {
    const auto known = [&](OutputRef source) { return !graph_.node(source.node).dynamic_output(source.index); };
    if (std::all_of(sources.begin(), sources.end(), known)) return;
    Shape certain = Bounded(sources[0]).partial;
    for (OutputRef source : sources) {
      const Shape other = Bounded(source).partial;
      for (int d = 0; d < certain.rank(); ++d) {
        if (other.dim(d) != certain.dim(d)) certain.set_dim(d, -1);
      }
    }
    if (certain.fully_known()) return;
    graph_.mutable_node(id).dynamic_outputs |= uint64_t{1} << std::min<int32_t>(output, 63);
    partial_[{id, output}] = std::move(certain);
  }
  uint64_t ByValue(NodeId id) const { return result_.by_value[id.value]; }
  OutputRef Current(OutputRef ref) const {
    const auto replaced = replaced_.find(ref);
    return replaced == replaced_.end() ? ref : replaced->second;
  }

  const Tensor* Value(OutputRef ref) const {
    if (static_cast<size_t>(ref.node.value) >= values_.size()) return nullptr;
    const std::vector<Tensor>& values = values_[ref.node.value];
    if (static_cast<size_t>(ref.index) >= values.size() || values[ref.index].empty()) return nullptr;
    return &values[ref.index];
  }

 private:
  void Grow() {
    values_.resize(graph_.num_ids());
    result_.by_value.resize(graph_.num_ids(), 0);
    behind_write_.resize(graph_.num_ids(), false);
  }

  void MarkBehindWrite(NodeId id) {
    const Node& node = graph_.node(id);
    const auto behind = [&](NodeId before) { return behind_write_[before.value]; };
    const OpDef* def = def_of_(node.op);
    behind_write_[id.value] =
        (def != nullptr && def->WritesVariables()) || std::any_of(node.control_inputs.begin(), node.control_inputs.end(), behind) ||
        std::any_of(node.inputs.begin(), node.inputs.end(), [&](OutputRef input) { return behind(input.node); });
  }

  void Rewire(Node& node) const {
    if (replaced_.empty()) return;
    for (OutputRef& input : node.inputs) {
      auto replaced = replaced_.find(input);
      if (replaced == replaced_.end()) continue;
      // What is fetched is what the node makes, where it still makes it.
      if (node.op == "_Fetch" && static_cast<size_t>(input.index) < graph_.node(input.node).outputs.size()) continue;
      input = replaced->second;
    }
  }

  absl::Status Visit(NodeId id) {
    Node& node = graph_.mutable_node(id);
    const OpDef& def = *def_of_(node.op);
    Rewire(node);
    MR_RETURN_IF_ERROR(Infer(id, node, def));
    MR_RETURN_IF_ERROR(SettleVariables(node, def));
    if (node.op == "Const") {
      MR_ASSIGN_OR_RETURN(Tensor value, node.attrs.Get<Tensor>("value"));
      values_[id.value] = {std::move(value)};
      return absl::OkStatus();
    }
    const bool limits = Limits(node.op);
    MR_RETURN_IF_ERROR(Fold(id, node, def));  // may add nodes: `node` is gone then
    if (!partial_.empty() || !bounds_.empty() || limits) BoundValues(id, def);
    KnowSparseShapes(id);
    BoundSparseShapes(id);
    return absl::OkStatus();
  }

  absl::Status Infer(NodeId id, Node& node, const OpDef& def) {
    std::vector<const TensorType*>& types = input_types_;
    types.clear();
    bool dynamic = false;
    for (OutputRef input : node.inputs) {
      const Node& producer = graph_.node(input.node);
      if (input.index < 0 || static_cast<size_t>(input.index) >= producer.outputs.size()) {
        const std::string has = absl::StrCat(producer.outputs.size(), producer.outputs.size() == 1 ? " output" : " outputs");
        // A fetch is known by its tensor, not by the node that stands for it.
        if (node.op == "_Fetch") {
          return absl::InvalidArgumentError(absl::StrCat("fetch '", graph_.TensorName(input), "': the node '", producer.name, "' has ", has));
        }
        return absl::InvalidArgumentError(absl::StrCat("node '", node.name, "' (", node.op, ") takes output ",
                                                       input.index, " of '", producer.name, "' (", producer.op, "), which has ", has));
      }
      types.push_back(&producer.outputs[input.index]);
      dynamic = dynamic || producer.dynamic_output(input.index);
    }
    if (const std::string* why = node.op == "_Fetch" ? WhyNotComputed(node) : nullptr; why != nullptr) {
      return absl::UnimplementedError(absl::StrCat("fetch '", graph_.TensorName(node.inputs[0]), "': its strings are not computed: ", *why));
    }
    const AlikeNodes<OutputTypes>::Key key{node.op, node.attrs, types};
    // Rules of Millrace's own ops depend on nothing else, unless they ask for values.
    const bool by_types = !dynamic && !def.is_variable && types.size() <= kKnownByValue && builtin_def_of_(node.op) == &def;
    if (by_types) {
      if (const OutputTypes* known = alike_.Find(key); known != nullptr) {
        node.outputs = *known;
        result_.by_value[id.value] = 0;
        return absl::OkStatus();
      }
    }
    MR_ASSIGN_OR_RETURN(const bool followed_from_types, InferByRule(id, node, def, types));
    if (by_types && followed_from_types) alike_.Add(key, node.outputs);
    return absl::OkStatus();
  }

  // Whether neither values nor what is known only when running had a part in it.
  absl::StatusOr<bool> InferByRule(NodeId id, Node& node, const OpDef& def, absl::Span<const TensorType* const> input_types) {
    std::vector<TensorType> types;
    std::vector<const Tensor*> values;
    for (const TensorType* type : input_types) types.push_back(*type);
    for (OutputRef input : node.inputs) values.push_back(Value(input));
    InferenceContext context(node.name, node.op, node.attrs, types, values);
    const absl::Status status = def.InferShapes(context);
    const absl::Status compared = status.ok() ? TakeComparedStrings(context) : absl::OkStatus();
    result_.by_value[id.value] = context.by_value();
    MR_RETURN_IF_ERROR(compared);
    if (!def.is_variable && IsDynamic(node, context, status)) {
      MR_RETURN_IF_ERROR(InferDynamicNode(id, node, def, status));
      return false;
    }
    MR_RETURN_IF_ERROR(status);
    node.outputs.assign(context.outputs().begin(), context.outputs().end());
    if (def.is_variable) {
      auto known = variable_types_.find(VariableName(node));
      if (known != variable_types_.end() && known->second.dtype == node.outputs[0].dtype) node.outputs[0] = known->second;
      SettleShape(id);
      return false;
    }
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      if (node.outputs[i].shape.fully_known()) continue;
      return absl::InvalidArgumentError(absl::StrCat(
          "output ", i, " of node '", node.name, "' (", node.op, ") has type ", node.outputs[i].ToString(),
          ", expected a shape that is known once feeds are"));
    }
    return context.by_value() == 0;
  }

  // Whether shapes of the node depend on what is known only when running: those of its inputs, or values that its
  // shape rule asked for in vain.
  bool IsDynamic(const Node& node, const InferenceContext& context, const absl::Status& status) const {
    for (OutputRef input : node.inputs) {
      if (graph_.node(input.node).dynamic_output(input.index)) return true;
    }
    if (status.ok()) return !context.bound_outputs().empty();
    for (size_t i = 0; i < node.inputs.size() && i < 64; ++i) {
      if ((context.by_value() >> i & 1) != 0 && Value(node.inputs[i]) == nullptr) return true;
    }
    return false;
  }

  BoundedInput Bounded(OutputRef ref) const {
    BoundedInput input;
    input.type = graph_.type(ref);
    auto partial = partial_.find(ref);
    input.partial = partial != partial_.end() ? partial->second : input.type.shape;
    if (auto others = others_.find(ref); others != others_.end()) input.others = others->second;
    auto bounds = bounds_.find(ref);
    if (const Tensor* value = Value(ref); value != nullptr) {
      input.bounds = ValueBounds{*value, *value};
    } else if (bounds != bounds_.end()) {
      input.bounds = bounds->second;
    }
    return input;
  }

  absl::Status InferDynamicNode(NodeId id, Node& node, const OpDef& def, const absl::Status& static_status) {
    if (node.attrs.GetOr(kOfSides, false)) node.attrs.Set(kEitherShape, true);
    OpInstance instance = MakeInstance(graph_, id, 0);
    std::vector<BoundedInput> inputs;
    for (OutputRef input : node.inputs) {
      const Tensor* value = Value(input);
      instance.input_values.push_back(value == nullptr ? Tensor() : *value);
      inputs.push_back(Bounded(input));
    }
    absl::StatusOr<DynamicTypes> types = InferDynamic(def, instance, inputs);
    // A graph that is wrong whatever the values are is told so by the rule.
    if (!types.ok()) return static_status.ok() ? types.status() : static_status;
    node.outputs.assign(types->outputs.begin(), types->outputs.end());
    node.run_time_values = types->run_time_values;
    result_.by_value[id.value] |= types->by_value;
    for (size_t o = 0; o < types->outputs.size(); ++o) {
      if (types->partial[o].fully_known()) continue;
      node.dynamic_outputs |= uint64_t{1} << std::min<size_t>(o, 63);
      partial_[{id, static_cast<int32_t>(o)}] = types->partial[o];
      if (!types->others[o].empty()) others_[{id, static_cast<int32_t>(o)}] = std::move(types->others[o]);
    }
    result_.possible[node.name] = std::move(types->possible);
    return absl::OkStatus();
  }

  // Gives a bound to numbers that have none.
  static bool Limits(const std::string& op) { return op == "Maximum" || op == "Minimum"; }

  // Bounds of the elements of the node's outputs; those that are certain are known values.
  void BoundValues(NodeId id, const OpDef& def) {
    const Node& node = graph_.node(id);
    const bool follows = std::any_of(node.inputs.begin(), node.inputs.end(), [&](OutputRef input) {
      return def.from_types ? graph_.node(input.node).dynamic_output(input.index) : bounds_.count(input) > 0;
    });
    if ((!follows && !Limits(node.op)) || node.dynamic_outputs != 0 || node.run_time_values != 0) return;
    std::vector<BoundedInput> inputs;
    for (OutputRef input : node.inputs) inputs.push_back(Bounded(input));
    std::vector<ValueBounds> bounds = BoundOutputs(def, MakeInstance(graph_, id, 0), inputs, oracle_);
    for (size_t o = 0; o < bounds.size(); ++o) {
      const OutputRef output{id, static_cast<int32_t>(o)};
      if (bounds[o].exact() && may_replace_) {
        const std::string name = absl::StrCat(graph_.node(id).name, "/output_", o);
        replaced_.emplace(output, OutputRef{AddConstant(name, bounds[o].low, AfterWrites(id)), 0});
      } else {
        bounds_.emplace(output, std::move(bounds[o]));
      }
    }
  }

  // Outputs of sparse ops that are dense shapes are known where those of the operands are; so are row splits.
  void KnowSparseShapes(NodeId id) {
    const std::string& op = graph_.node(id).op;
    if (!may_replace_ || (!absl::StartsWith(op, "Sparse") && op != "RaggedGather")) return;
    OpInstance instance = MakeInstance(graph_, id, 0);
    for (OutputRef input : graph_.node(id).inputs) {
      const Tensor* value = Value(input);
      instance.input_values.push_back(value == nullptr ? Tensor() : *value);
    }
    for (auto& [output, value] : SparseShapes(instance)) {
      const std::string name = absl::StrCat(instance.name, "/output_", output);
      replaced_.emplace(OutputRef{id, output}, OutputRef{AddConstant(name, value, AfterWrites(id)), 0});
    }
  }

  void BoundSparseShapes(NodeId id) {
    const std::string& op = graph_.node(id).op;
    if (!absl::StartsWith(op, "Ragged") && !absl::StartsWith(op, "CTC")) return;
    OpInstance instance = MakeInstance(graph_, id, 0);
    std::vector<BoundedInput> inputs;
    for (OutputRef input : graph_.node(id).inputs) {
      const Tensor* value = Value(input);
      instance.input_values.push_back(value == nullptr ? Tensor() : *value);
      inputs.push_back(Bounded(input));
    }
    if (inputs.empty()) return;
    for (auto& [index, bounds] : SparseShapeBounds(instance, inputs)) {
      const OutputRef output{id, index};
      if (!bounds.exact()) {
        bounds_.emplace(output, std::move(bounds));
      } else if (may_replace_) {
        replaced_.emplace(output, OutputRef{AddConstant(absl::StrCat(instance.name, "/output_", index), bounds.low, AfterWrites(id)), 0});
      }
    }
  }

  // What a constant in the place of the node's output waits for.
  absl::InlinedVector<NodeId, 2> AfterWrites(NodeId id) const {
    return behind_write_[id.value] ? absl::InlinedVector<NodeId, 2>{id} : absl::InlinedVector<NodeId, 2>();
  }

  NodeId AddConstant(const std::string& name, const Tensor& value, absl::InlinedVector<NodeId, 2> controls) {
    Node constant;
    constant.name = name;
    constant.op = "Const";
    constant.attrs.Set("dtype", value.dtype());
    constant.attrs.Set("value", value);
    constant.outputs.push_back(value.type());
    constant.control_inputs = std::move(controls);
    const NodeId added = graph_.AddUnique(std::move(constant));
    values_.push_back({value});
    result_.by_value.push_back(0);
    behind_write_.push_back(false);
    MarkBehindWrite(added);
    return added;
  }

  // What is known of a variable's shape, by whichever of its nodes.
  struct VariableShape {
    Shape shape = Shape::UnknownRank();
    std::vector<NodeId> open;  // its nodes that were declared without one
  };

  void SettleShape(NodeId variable) {
    Node& node = graph_.mutable_node(variable);
    VariableShape& known = shape_of_variable_[VariableName(node)];
    Shape& declared = node.outputs[0].shape;
    if (!declared.fully_known()) declared = known.shape;
    if (!declared.fully_known()) {
      known.open.push_back(variable);
    } else if (!known.shape.fully_known()) {
      known.shape = declared;
      for (NodeId id : std::exchange(known.open, {})) {
        auto& outputs = graph_.mutable_node(id).outputs;
        if (!outputs.empty()) outputs[0].shape = known.shape;
      }
    }
  }

  // A variable declared without a shape takes that of the first value assigned to it.
  absl::Status SettleVariables(const Node& node, const OpDef& def) {
    for (const VariableUse& use : def.variables) {
      if (use.access != VariableAccess::kWrite || node.inputs.size() < 2) continue;
      const OutputRef variable = node.inputs[use.input];
      Node& declaration = graph_.mutable_node(variable.node);
      const TensorType& assigned = graph_.type(node.inputs[use.input + 1]);
      TensorType& type = declaration.outputs[variable.index];
      const OutputRef value = node.inputs[use.input + 1];
      if (graph_.node(value.node).dynamic_output(value.index)) {
        if (type.shape.fully_known()) continue;  // compared when running
        return absl::UnimplementedError(absl::StrCat(
            "node '", node.name, "' (", node.op, ") assigns a value whose shape is known only when running to variable '",
            declaration.name, "', expected a variable of known shape"));
      }
      if (!type.shape.fully_known()) {
        type = assigned;
        if (def_of_(declaration.op)->is_variable) SettleShape(variable.node);
      }
      if (!(type == assigned) && node.attrs.GetOr<bool>("validate_shape", true)) {
        return absl::InvalidArgumentError(absl::StrCat("node '", node.name, "' (", node.op, ") assigns ",
                                                       assigned.ToString(), " to variable '", declaration.name,
                                                       "', expected ", type.ToString()));
      }
    }
    return absl::OkStatus();
  }

  bool Foldable(const Node& node, const OpDef& def) const {
    if (def.stateful || def.is_variable || def.returns_variable || node.outputs.empty()) return false;
    if (!def.variables.empty() && !def.from_types) return false;
    int64_t bytes = 0;
    for (const TensorType& type : node.outputs) {
      if (DataTypeSize(type.dtype) == 0 && type.dtype != DataType::kString) return false;
      bytes += type.size_bytes();
      if (bytes > kMaxFoldedBytes) return false;
    }
    if (def.from_types) {
      return std::none_of(node.inputs.begin(), node.inputs.end(),
                          [&](OutputRef in) { return graph_.node(in.node).dynamic_output(in.index); });
    }
    return std::all_of(node.inputs.begin(), node.inputs.end(), [&](OutputRef in) { return Value(in) != nullptr; });
  }

  // What comes out of a choice between equal values, whichever is taken: a shape that both branches of a conditional give, say.
  const Tensor* EitherWay(const Node& node) const {
    if ((node.op != "Select" && node.op != "SelectV2") || node.inputs.size() != 3 || node.outputs.size() != 1) return nullptr;
    const Tensor *one = Value(node.inputs[1]), *other = Value(node.inputs[2]);
    const bool same = one != nullptr && other != nullptr && one->BitEqual(*other) && one->type() == node.outputs[0];
    return same && node.dynamic_outputs == 0 ? one : nullptr;
  }

  static bool MakesStrings(const Node& node) { return !node.outputs.empty() && node.outputs[0].dtype == DataType::kString; }

  // Of strings that planning would know if it could compute them; null of others.
  const std::string* WhyNotComputed(const Node& node) const {
    for (const OutputRef& input : node.inputs) {
      if (const auto found = not_computed_.find(input.node); found != not_computed_.end()) return &found->second;
    }
    return nullptr;
  }

  absl::Status Fold(NodeId id, Node& node, const OpDef& def) {
    if (const Tensor* either = EitherWay(node); either != nullptr) {
      values_[id.value] = {*either};
      if (may_replace_) ReplaceByConst(id);
      return absl::OkStatus();
    }
    if (!Foldable(node, def)) {
      if (const std::string* why = MakesStrings(node) ? WhyNotComputed(node) : nullptr; why != nullptr) not_computed_.emplace(id, *why);
      return absl::OkStatus();
    }
    OpInstance instance = MakeInstance(graph_, id, 0);
    std::vector<Tensor> inputs;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const Tensor* value = Value(node.inputs[i]);
      inputs.push_back(value == nullptr ? Tensor() : *value);
      instance.input_values.push_back(inputs.back());
    }
    absl::StatusOr<std::vector<Tensor>> outputs = oracle_.Evaluate(def, instance, std::move(inputs));
    // What the host cannot compute is left to the device, which says so if it cannot either; strings have no other place.
    if (absl::IsUnimplemented(outputs.status())) {
      if (MakesStrings(node)) not_computed_[id] = absl::StrCat("node '", node.name, "' (", node.op, "): ", outputs.status().message());
      return absl::OkStatus();
    }
    if (!outputs.ok()) return WithPrefix(outputs.status(), absl::StrCat("node '", node.name, "' (", node.op, ")"));
    values_[id.value] = *std::move(outputs);
    for (size_t i = 0; i < values_[id.value].size(); ++i) {
      graph_.mutable_node(id).outputs[i] = values_[id.value][i].type();
    }
    if (may_replace_) ReplaceByConst(id);
    return absl::OkStatus();
  }

  // A node of one output becomes a Const in place; one of several becomes a NoOp beside a Const per output, to
  // which the consumers, visited later, are wired. Order that came in by control edges is kept.
  void ReplaceByConst(NodeId id) {
    result_.changed = true;
    Node& node = graph_.mutable_node(id);
    for (OutputRef input : node.inputs) {
      const bool ordered = !graph_.node(input.node).control_inputs.empty() || behind_write_[input.node.value];
      if (ordered) node.control_inputs.push_back(input.node);
    }
    node.inputs.clear();
    node.attrs = AttrMap();
    node.dynamic_outputs = node.run_time_values = 0;
    for (size_t o = 0; o < node.outputs.size(); ++o) partial_.erase({id, static_cast<int32_t>(o)});
    result_.possible.erase(node.name);
    result_.by_value[id.value] = 0;
    if (node.outputs.size() == 1) {
      node.op = "Const";
      node.attrs.Set("dtype", node.outputs[0].dtype);
      node.attrs.Set("value", values_[id.value][0]);
      return;
    }
    const std::string name = node.name;
    const bool ordered = !node.control_inputs.empty();
    const std::vector<Tensor> values = std::move(values_[id.value]);
    values_[id.value].clear();
    node.op = "NoOp";
    node.outputs.clear();
    for (size_t i = 0; i < values.size(); ++i) {
      absl::InlinedVector<NodeId, 2> controls;
      if (ordered) controls.push_back(id);
      const NodeId added = AddConstant(absl::StrCat(name, "/output_", i), values[i], std::move(controls));
      replaced_.emplace(OutputRef{id, static_cast<int32_t>(i)}, OutputRef{added, 0});
    }
  }

  Graph& graph_;
  const OpRegistry& ops_;
  KernelOracle& oracle_;
  const std::map<std::string, TensorType>& variable_types_;
  std::map<std::string, VariableShape> shape_of_variable_;
  std::vector<std::vector<Tensor>> values_;
  std::vector<bool> behind_write_;  // by node: it writes a variable, or its inputs come after a write
  bool may_replace_ = true;  // known nodes by Const
  std::map<OutputRef, OutputRef> replaced_;
  std::map<OutputRef, Shape> partial_;       // of dynamic outputs
  std::map<OutputRef, std::vector<Shape>> others_;  // of some of them
  std::map<OutputRef, ValueBounds> bounds_;  // of small outputs that follow from dynamic shapes
  std::map<NodeId, std::string> not_computed_;  // strings, and why not
  OpFinder def_of_, builtin_def_of_;
  using OutputTypes = absl::InlinedVector<TensorType, 1>;
  AlikeNodes<OutputTypes> alike_;  // what rules gave that looked at types alone
  std::vector<const TensorType*> input_types_;  // of the node that is looked at
  InferenceResult result_;
};

}  // namespace

absl::StatusOr<InferenceResult> InferShapesAndFold(Graph& graph, const OpRegistry& ops, KernelOracle& oracle,
                                                   const std::map<std::string, TensorType>& variable_types) {
  return Inferrer(graph, ops, oracle, variable_types).Run();
}

class ShapeTracker::Impl : public Inferrer {
 public:
  using Inferrer::Inferrer;
};

ShapeTracker::ShapeTracker(Graph& graph, const OpRegistry& ops, KernelOracle& oracle,
                           const std::map<std::string, TensorType>& variable_types)
    : impl_(std::make_unique<Impl>(graph, ops, oracle, variable_types)) {}
ShapeTracker::~ShapeTracker() = default;
bool ShapeTracker::Track(NodeId id, bool may_replace) { return impl_->Track(id, may_replace); }
void ShapeTracker::Declare(NodeId id, std::vector<TensorType> types, std::vector<Tensor> values) {
  impl_->Declare(id, std::move(types), std::move(values));
}
void ShapeTracker::DeclarePassed(NodeId id, int32_t output, absl::Span<const OutputRef> sources) { impl_->DeclarePassed(id, output, sources); }
const Tensor* ShapeTracker::Value(OutputRef ref) const { return impl_->Value(ref); }
OutputRef ShapeTracker::Current(OutputRef ref) const { return impl_->Current(ref); }
uint64_t ShapeTracker::by_value(NodeId id) const { return impl_->ByValue(id); }

bool TakenByValue(const std::string& op, size_t num_inputs, size_t input, uint64_t by_value) {
  if (input < kKnownByValue) return (by_value >> input & 1) != 0;
  return op == "ConcatV2" && input + 1 == num_inputs;
}

OpInstance MakeInstance(const Graph& graph, NodeId id, uint64_t by_value) {
  const Node& node = graph.node(id);
  OpInstance instance;
  instance.name = node.name;
  instance.op = node.op;
  instance.attrs = node.attrs;
  instance.outputs.assign(node.outputs.begin(), node.outputs.end());
  const std::optional<Part> part = PartOf(node);
  const auto type_of = [&](const TensorType& type) {
    return part && TakesPartOf(*part, type) ? PartType(*part, type) : type;
  };
  for (TensorType& type : instance.outputs) type = type_of(type);
  instance.inputs.reserve(node.inputs.size());
  if (by_value != 0) instance.input_values.resize(node.inputs.size());
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    instance.inputs.push_back(type_of(graph.type(node.inputs[i])));
    if (!TakenByValue(node, i, by_value)) continue;
    const Node& producer = graph.node(node.inputs[i].node);
    if (producer.op != "Const") continue;
    instance.input_values.resize(node.inputs.size());
    instance.input_values[i] = producer.attrs.GetOr<Tensor>("value", Tensor());
  }
  return instance;
}

}  // namespace millrace
