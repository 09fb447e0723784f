#include "passes/control_flow/lower_conditionals.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "graph/of_sides.h"
#include "millrace/status.h"
#include "passes/control_flow/control_flow_ops.h"
#include "passes/control_flow/creation_places.h"
#include "passes/control_flow/harmless_inputs.h"
#include "passes/control_flow/sizes_of_values.h"

namespace millrace {
namespace {

constexpr int kMaxDepth = 50;  // of functions in functions: more is recursion

// The functions that a node's attributes name: branches in order, or the one that is called.
std::vector<FunctionRef> FunctionsOf(const Node& node) {
  if (IsCase(node)) return node.attrs.GetOr<std::vector<FunctionRef>>("branches", {});
  std::vector<FunctionRef> functions;
  for (const char* name : {"then_branch", "else_branch", "f"}) {
    const AttrValue* value = node.attrs.Find(name);
    if (value == nullptr) continue;
    if (const FunctionRef* function = std::get_if<FunctionRef>(value)) functions.push_back(*function);
  }
  return functions;
}

class ConditionalLowering {
 public:
  ConditionalLowering(Graph& graph, const OpRegistry& ops, ConditionalForm form)
      : graph_(graph), ops_(ops), form_(form), library_(graph.library()) {}

  absl::StatusOr<bool> Run() {
    const int32_t ids = graph_.num_ids();
    for (int32_t i = 0; i < ids; ++i) {
      const Node& node = graph_.node(NodeId{i});
      if (node.removed || !(IsIf(node) || IsCase(node))) continue;
      if (!sizes_of_values_.has_value()) sizes_of_values_ = MayHaveSizesOfValues(graph_, ops_);
      MR_ASSIGN_OR_RETURN(const Form form, FormFor(node));
      if (form == Form::kSelects) Lower(NodeId{i});
      if (form == Form::kSwitches) LowerToSwitches(NodeId{i});
    }
    if (!changed_) return false;
    for (int32_t i = 0; i < graph_.num_ids(); ++i) {
      if (!graph_.alive(NodeId{i})) continue;
      for (OutputRef& input : graph_.mutable_node(NodeId{i}).inputs) input = Replacement(input);
    }
    places_.Renumber(graph_);
    return true;
  }

 private:
  enum class Form { kStays, kSelects, kSwitches };

  absl::StatusOr<const Function*> Find(const Node& node, const FunctionRef& ref) const {
    const auto found = library_ == nullptr ? Graph::Library::const_iterator() : library_->find(ref.name);
    if (library_ != nullptr && found != library_->end()) return &found->second;
    return absl::InvalidArgumentError(absl::StrCat("node '", node.name, "' (", node.op, "): branch '", ref.name,
                                                   "' is not in the graph's library"));
  }

  // Behind the Identity nodes of one graph.
  static OutputRef Source(const Graph& graph, OutputRef ref) {
    while (graph.node(ref.node).op == "Identity" && !graph.node(ref.node).inputs.empty()) ref = graph.node(ref.node).inputs[0];
    return ref;
  }

  absl::StatusOr<Form> FormFor(const Node& node) const {
    const std::vector<FunctionRef> branches = FunctionsOf(node);
    if (branches.size() < (IsIf(node) ? 2 : 1) || node.inputs.empty()) return Form::kStays;
    if (IsIf(node) && node.attrs.GetOr<DataType>("Tcond", DataType::kBool) != DataType::kBool) return Form::kStays;
    const OutputRef predicate = Source(graph_, node.inputs[0]);
    OutputRef asked = predicate;
    while (graph_.node(asked.node).op == "LogicalNot") asked = Source(graph_, graph_.node(asked.node).inputs[0]);
    const std::string& question = graph_.node(asked.node).op;
    const bool presence = question == "VarIsInitializedOp" || question == "IsVariableInitialized";
    const bool switches = form_ == ConditionalForm::kSwitches || (*sizes_of_values_ && !presence);
    Form form = switches ? Form::kSwitches : Form::kSelects;
    for (size_t b = 0; b < branches.size(); ++b) {
      MR_ASSIGN_OR_RETURN(const Function* function, Find(node, branches[b]));
      if (function->ret_types.size() != (*Find(node, branches[0]))->ret_types.size()) return Form::kStays;
      std::vector<bool> is_predicate(function->arg_names.size(), false);
      if (IsIf(node) && b == 1) {
        for (size_t i = 0; i < is_predicate.size() && i + 1 < node.inputs.size(); ++i) {
          is_predicate[i] = Source(graph_, node.inputs[i + 1]) == predicate;
        }
      }
      MR_ASSIGN_OR_RETURN(const bool pure, Pure(*function, is_predicate, 0));
      if (!pure) form = presence ? Form::kStays : Form::kSwitches;
      if (form == Form::kStays) break;
      if (!presence && form == Form::kSelects) {
        MR_ASSIGN_OR_RETURN(const bool fails, MayFail(*function, 0));
        if (fails) form = Form::kSwitches;
      }
      for (DataType type : function->ret_types) {
        if (DataTypeSize(type) == 0) form = Form::kSwitches;
      }
    }
    return form;
  }

  // is_predicate: arguments that are true whenever the branch would not have been taken.
  absl::StatusOr<bool> Pure(const Function& function, const std::vector<bool>& is_predicate, int depth) const {
    if (depth > kMaxDepth) return false;
    const Graph& body = *function.body;
    for (int32_t i = 0; i < body.num_ids(); ++i) {
      const Node& node = body.node(NodeId{i});
      if (node.removed || node.op == kArgOp || node.op == kRetvalOp) continue;
      if (node.op == "Assert") {
        const Node& condition = body.node(Source(body, node.inputs[0]).node);
        const int64_t argument = condition.op == kArgOp ? condition.attrs.GetOr<int64_t>("index", 0) : -1;
        if (argument < 0 || argument >= static_cast<int64_t>(is_predicate.size()) || !is_predicate[argument]) return false;
        continue;
      }
      if (IsIf(node) || IsCase(node) || IsPartitionedCall(node)) {
        for (const FunctionRef& ref : FunctionsOf(node)) {
          MR_ASSIGN_OR_RETURN(const Function* inner, Find(node, ref));
          MR_ASSIGN_OR_RETURN(const bool pure, Pure(*inner, {}, depth + 1));
          if (!pure) return false;
        }
        continue;
      }
      const OpDef* def = ops_.Find(node.op);
      if (def == nullptr) return false;
      const bool reads = !def->variables.empty() &&
                         std::all_of(def->variables.begin(), def->variables.end(),
                                     [](const VariableUse& use) { return use.access == VariableAccess::kRead; });
      if (def->stateful && !def->is_no_op && !reads) return false;
    }
    return true;
  }

  // Whether the branch may fail for values that only a step has.
  absl::StatusOr<bool> MayFail(const Function& function, int depth) const {
    if (depth > kMaxDepth) return true;
    const Graph& body = *function.body;
    KnownWhenPlanned known(body, ops_);
    for (int32_t i = 0; i < body.num_ids(); ++i) {
      const Node& node = body.node(NodeId{i});
      if (node.removed) continue;
      for (const HarmlessInput& input : HarmlessInputsOf(node)) {
        if (!known.Holds(node.inputs[input.input])) return true;
      }
      for (size_t input : CheckedInputsOf(node)) {
        if (!known.Holds(node.inputs[input])) return true;
      }
      for (const FunctionRef& ref : FunctionsOf(node)) {
        MR_ASSIGN_OR_RETURN(const Function* inner, Find(node, ref));
        MR_ASSIGN_OR_RETURN(const bool fails, MayFail(*inner, depth + 1));
        if (fails) return true;
      }
    }
    return false;
  }

  NodeId AddCall(NodeId id, size_t branch, const FunctionRef& function) {
    const Node& node = graph_.node(id);
    Node call;
    call.name = absl::StrCat(node.name, "/branch_", branch);
    call.op = "StatefulPartitionedCall";
    call.requested_device = node.requested_device;
    call.inputs.assign(node.inputs.begin() + 1, node.inputs.end());
    call.control_inputs = node.control_inputs;
    call.attrs.Set("f", function);
    return places_.AddBefore(graph_, id, std::move(call));
  }

  // Who waited for the conditional waits for `ends`.
  template <typename Nodes>
  void LeaveNoOp(NodeId id, const Nodes& ends) {
    Node& done = graph_.mutable_node(id);
    done.op = "NoOp";
    done.inputs.clear();
    done.attrs = AttrMap();
    done.control_inputs.assign(ends.begin(), ends.end());
    changed_ = true;
  }

  void Lower(NodeId id) {
    const Node node = graph_.node(id);
    const std::vector<FunctionRef> branches = FunctionsOf(node);
    std::vector<NodeId> calls;
    for (size_t b = 0; b < branches.size(); ++b) calls.push_back(AddCall(id, b, branches[b]));
    const Function& first = library_->find(branches[0].name)->second;
    for (size_t output = 0; output < first.ret_types.size(); ++output) {
      const int32_t index = static_cast<int32_t>(output);
      OutputRef value{calls.back(), index};
      for (size_t b = calls.size() - 1; b-- > 0;) {
        const OutputRef taken = Taken(id, static_cast<int32_t>(b));
        Node select = Part(id, absl::StrCat("select_", output), "Select", {taken, {calls[b], index}, value},
                           first.ret_types[output]);
        select.attrs.Set(kOfSides, true);
        value = {places_.AddBefore(graph_, id, std::move(select)), 0};
      }
      replaced_[{id, index}] = value;
    }
    LeaveNoOp(id, calls);
  }

  // A node of the conditional, named after it, in its place.
  Node Part(NodeId id, std::string_view name, const char* op, std::initializer_list<OutputRef> inputs, DataType type) const {
    Node node;
    node.name = absl::StrCat(graph_.node(id).name, "/", std::string(name));
    node.op = op;
    node.requested_device = graph_.node(id).requested_device;
    node.inputs = inputs;
    node.attrs.Set("T", type);
    return node;
  }

  // A Switch of `data` by `taken`; output 1 goes into the branch, output 0 on to the next.
  NodeId AddSwitch(NodeId id, OutputRef data, OutputRef taken, DataType type) {
    return places_.AddBefore(graph_, id, Part(id, "switch", "Switch", {data, taken}, type));
  }

  OutputRef AddMerge(NodeId id, OutputRef otherwise, OutputRef taken, DataType type) {
    Node node = Part(id, "merge", "Merge", {otherwise, taken}, type);
    node.attrs.Set("N", int64_t{2});
    return {places_.AddBefore(graph_, id, std::move(node)), 0};
  }

  OutputRef AddIdentity(NodeId id, const char* name, OutputRef value, NodeId after, DataType type) {
    Node node = Part(id, name, "Identity", {value}, type);
    if (after.valid()) node.control_inputs = {after};
    return {places_.AddBefore(graph_, id, std::move(node)), 0};
  }

  // Every argument goes through a Switch per branch but the last, every result through a Merge.
  void LowerToSwitches(NodeId id) {
    const Node node = graph_.node(id);
    const std::vector<FunctionRef> branches = FunctionsOf(node);
    const Function& first = library_->find(branches[0].name)->second;
    std::vector<OutputRef> rest(node.inputs.begin() + 1, node.inputs.end());
    OutputRef rest_pivot;
    std::vector<NodeId> calls;
    std::vector<NodeId> pivots;  // by branch: a node that runs when the branch does
    for (size_t b = 0; b < branches.size(); ++b) {
      const NodeId call = AddCall(id, b, branches[b]);
      OutputRef pivot = rest_pivot;
      std::vector<OutputRef> into = rest;
      if (b + 1 < branches.size()) {
        const OutputRef taken = Taken(id, static_cast<int32_t>(b));
        const NodeId both = AddSwitch(id, b == 0 ? taken : rest_pivot, taken, DataType::kBool);
        pivot = {both, 1};
        rest_pivot = {both, 0};
        for (size_t i = 0; i < rest.size() && i < first.arg_types.size(); ++i) {
          const NodeId sides = AddSwitch(id, rest[i], taken, first.arg_types[i]);
          into[i] = {sides, 1};
          rest[i] = {sides, 0};
        }
      }
      if (pivot.node.valid()) pivot = AddIdentity(id, "pivot", pivot, NodeId(), DataType::kBool);
      if (pivot.node.valid()) graph_.mutable_node(call).control_inputs.push_back(pivot.node);
      graph_.mutable_node(call).inputs.assign(into.begin(), into.end());
      calls.push_back(call);
      pivots.push_back(pivot.node);
    }
    if (calls.size() == 1) {
      for (size_t i = 0; i < first.ret_types.size(); ++i) {
        const int32_t output = static_cast<int32_t>(i);
        replaced_[{id, output}] = {calls[0], output};
      }
      return LeaveNoOp(id, calls);
    }
    for (size_t output = 0; output < first.ret_types.size(); ++output) {
      const int32_t index = static_cast<int32_t>(output);
      const DataType type = first.ret_types[output];
      // A result may be a constant, which waits for nothing: it is there with its branch.
      const auto result = [&](size_t b) { return AddIdentity(id, "result", {calls[b], index}, pivots[b], type); };
      OutputRef value = result(calls.size() - 1);
      for (size_t b = calls.size() - 1; b-- > 0;) value = AddMerge(id, value, result(b), type);
      replaced_[{id, index}] = value;
    }
    const auto end_of = [&](size_t b) { return AddIdentity(id, "end", {pivots[b], 0}, calls[b], DataType::kBool); };
    OutputRef end = end_of(calls.size() - 1);
    for (size_t b = calls.size() - 1; b-- > 0;) end = AddMerge(id, end, end_of(b), DataType::kBool);
    LeaveNoOp(id, std::vector<NodeId>{end.node});
  }

  // Whether branch `b` is the one: the predicate itself, or index == b. One for all conditionals of an index: the gradient of
  // one is known to be on the same side, and takes what that side computed.
  OutputRef Taken(NodeId id, int32_t b) {
    const Node node = graph_.node(id);
    if (IsIf(node)) return node.inputs[0];
    OutputRef& made = taken_[{node.inputs[0], b}];
    if (made.node.valid()) return made;
    Node number;
    number.name = absl::StrCat(node.name, "/number_", b);
    number.op = "Const";
    number.attrs.Set("dtype", DataType::kInt32);
    number.attrs.Set("value", Tensor::Scalar<int32_t>(b));
    Node equal;
    equal.name = absl::StrCat(node.name, "/is_", b);
    equal.op = "Equal";
    equal.requested_device = node.requested_device;
    equal.attrs.Set("T", DataType::kInt32);
    equal.inputs = {node.inputs[0], OutputRef{places_.AddBefore(graph_, id, std::move(number)), 0}};
    made = {places_.AddBefore(graph_, id, std::move(equal)), 0};
    return made;
  }

  OutputRef Replacement(OutputRef ref) const {
    const auto found = replaced_.find(ref);
    return found == replaced_.end() ? ref : found->second;
  }

  Graph& graph_;
  const OpRegistry& ops_;
  const ConditionalForm form_;
  std::shared_ptr<const Graph::Library> library_;
  CreationPlaces places_;
  bool changed_ = false;
  std::optional<bool> sizes_of_values_;  // of the graph; asked only where there is a conditional
  std::map<OutputRef, OutputRef> replaced_;
  std::map<std::pair<OutputRef, int32_t>, OutputRef> taken_;  // by index and branch
};

}  // namespace

absl::StatusOr<bool> LowerConditionals(Graph& graph, const OpRegistry& ops, ConditionalForm form) {
  return ConditionalLowering(graph, ops, form).Run();
}

bool HoldsConditionals(const Graph& graph) {
  return HoldsAny(graph, [](const Node& node) { return IsIf(node) || IsCase(node) || IsSwitch(node); });
}

}  // namespace millrace
