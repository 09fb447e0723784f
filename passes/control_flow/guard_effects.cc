#include "passes/control_flow/guard_effects.h"

#include <algorithm>
#include <iterator>
#include <string>

#include "absl/strings/str_cat.h"
#include "graph/of_sides.h"
#include "millrace/guard.h"
#include "passes/control_flow/control_flow_ops.h"

namespace millrace {
namespace {

constexpr char kReason[] = "in a branch: must have no effect unless it is taken";

bool OneOf(const std::string& op, std::initializer_list<const char*> names) {
  return std::any_of(names.begin(), names.end(), [&](const char* name) { return op == name; });
}

DataType TypeOf(const Node& node) {
  return node.attrs.GetOr<DataType>("dtype", node.attrs.GetOr<DataType>("T", DataType::kFloat));
}

}  // namespace

bool IsNeverMet(const Guard& guard) {
  return std::any_of(guard.begin(), guard.end(), [&](const Literal& literal) { return literal.value && guard.count({literal.predicate, false}) > 0; });
}

OutputRef GuardWriter::Expression(NodeId beside, const Guard& guard) {
  const auto found = expressions_.find(guard);
  if (found != expressions_.end()) return found->second;
  OutputRef all;
  for (const Literal& literal : guard) {
    OutputRef one = literal.predicate;
    if (!literal.value) {
      Node opposite;
      opposite.name = absl::StrCat(graph_.node(beside).name, "/not");
      opposite.op = "LogicalNot";
      opposite.inputs = {one};
      one = {places_.AddBefore(graph_, beside, std::move(opposite)), 0};
    }
    if (all.node.valid()) {
      Node both;
      both.name = absl::StrCat(graph_.node(beside).name, "/and");
      both.op = "LogicalAnd";
      both.inputs = {all, one};
      one = {places_.AddBefore(graph_, beside, std::move(both)), 0};
    }
    all = one;
  }
  expressions_[guard] = all;
  return all;
}

OutputRef GuardWriter::AddBefore(NodeId beside, const char* name, const char* op, std::vector<OutputRef> inputs, DataType type) {
  Node node;
  node.name = absl::StrCat(graph_.node(beside).name, "/", name);
  node.op = op;
  node.inputs.assign(inputs.begin(), inputs.end());
  node.attrs.Set("T", type);
  node.reason = kReason;
  return {places_.AddBefore(graph_, beside, std::move(node)), 0};
}

OutputRef GuardWriter::Harmless(NodeId beside, OutputRef value, DataType type, HarmlessValue kind) {
  if (kind == HarmlessValue::kOnes) return AddBefore(beside, "ones", "OnesLike", {value}, type);
  if (kind == HarmlessValue::kPositions) {
    const OutputRef ones = AddBefore(beside, "ones", "OnesLike", {value}, type);
    Node axis;
    axis.name = absl::StrCat(graph_.node(beside).name, "/axis");
    axis.op = "Const";
    axis.attrs.Set("dtype", DataType::kInt32);
    axis.attrs.Set("value", Tensor::Scalar<int32_t>(0));
    const OutputRef along{places_.AddBefore(graph_, beside, std::move(axis)), 0};
    const OutputRef positions = AddBefore(beside, "positions", "Cumsum", {ones, along}, type);
    graph_.mutable_node(positions.node).attrs.Set("exclusive", true);
    graph_.mutable_node(positions.node).attrs.Set("Tidx", DataType::kInt32);
    return positions;
  }
  const OutputRef zeros = AddBefore(beside, "nothing", "ZerosLike", {value}, type);
  if (kind == HarmlessValue::kZeros) return zeros;
  const OutputRef diagonal = AddBefore(beside, "diagonal", "MatrixDiagPart", {value}, type);
  const OutputRef ones = AddBefore(beside, "ones", "OnesLike", {diagonal}, type);
  return AddBefore(beside, "identity", "MatrixSetDiag", {zeros, ones}, type);
}

void GuardWriter::TakeUnlessGuarded(NodeId id, int input, DataType type, OutputRef other, const Guard& guard) {
  const OutputRef taken = graph_.node(id).inputs[input];
  const OutputRef value = AddBefore(id, "if_taken", "Select", {Expression(id, guard), taken, other}, type);
  graph_.mutable_node(value.node).attrs.Set(kOfSides, true);
  graph_.mutable_node(id).inputs[input] = value;
}

const Node* GuardWriter::VariableOf(OutputRef ref) const {
  while (true) {
    const Node& node = graph_.node(ref.node);
    const OpDef* def = ops_.Find(node.op);
    if (def != nullptr && def->is_variable) return &node;
    const bool passes = node.op == "Identity" || IsSwitch(node) ||
                        (def != nullptr && def->returns_variable);
    if (!passes || node.inputs.empty()) return nullptr;
    ref = node.inputs[0];
  }
}

bool GuardWriter::IsReference(OutputRef ref) const {
  const Node* variable = VariableOf(ref);
  return variable != nullptr && variable->op != "VarHandleOp";
}

DataType GuardWriter::TypeOfVariable(NodeId id, OutputRef ref) const {
  const Node* variable = VariableOf(ref);
  return TypeOf(variable != nullptr && variable->attrs.Has("dtype") ? *variable : graph_.node(id));
}

OutputRef GuardWriter::Read(NodeId id, OutputRef variable, bool after) {
  const bool reference = IsReference(variable);
  Node read;
  read.name = absl::StrCat(graph_.node(id).name, after ? "/after" : "/before");
  read.op = reference ? "Identity" : "ReadVariableOp";
  read.inputs = {variable};
  read.attrs.Set(reference ? "T" : "dtype", TypeOfVariable(id, variable));
  read.reason = kReason;
  if (after) {
    read.control_inputs = {id};
    const NodeId added = places_.AddAfter(graph_, id, std::move(read));
    exempt_.insert(added.value);
    return {added, 0};
  }
  // As late as the write itself could be: what the write's values wait for may write the variable, too.
  read.control_inputs = graph_.node(id).control_inputs;
  for (OutputRef input : graph_.node(id).inputs) {
    auto& waits = read.control_inputs;
    if (input == variable || std::find(waits.begin(), waits.end(), input.node) != waits.end()) continue;
    waits.push_back(input.node);
  }
  return {places_.AddBefore(graph_, id, std::move(read)), 0};
}

// The node runs in any case; its variables get back the values from before it where the guard does not hold.
void GuardWriter::RestoreUnless(NodeId id, const OpDef& def, const Guard& guard) {
  const OutputRef holds = Expression(id, guard);
  std::vector<std::pair<OutputRef, OutputRef>> written;  // variable, value before
  for (const VariableUse& use : def.variables) {
    if (!use.writes() || static_cast<size_t>(use.input) >= graph_.node(id).inputs.size()) continue;
    const OutputRef variable = graph_.node(id).inputs[use.input];
    const OutputRef before = Read(id, variable, false);
    if (IsReference(variable)) graph_.mutable_node(before.node).op = "DeepCopy";  // not the memory that is written
    written.emplace_back(variable, before);
  }
  for (const auto& [variable, before] : written) graph_.mutable_node(id).control_inputs.push_back(before.node);
  for (const auto& [variable, before] : written) {
    const OutputRef after = Read(id, variable, true);
    Node select;
    select.name = absl::StrCat(graph_.node(id).name, "/if_taken");
    select.op = "Select";
    select.inputs = {holds, after, before};
    const DataType type = TypeOfVariable(id, variable);
    select.attrs.Set("T", type);
    select.reason = kReason;
    const OutputRef value = {places_.AddAfter(graph_, id, std::move(select)), 0};
    const bool reference = IsReference(variable);
    Node assign;
    assign.name = absl::StrCat(graph_.node(id).name, "/taken_or_restored");
    assign.op = reference ? "Assign" : "AssignVariableOp";
    assign.inputs = {variable, value};
    assign.attrs.Set(reference ? "T" : "dtype", type);
    assign.reason = kReason;
    const NodeId added = places_.AddAfter(graph_, id, std::move(assign));
    followers_[id.value].push_back(added);
    if (def.returns_variable && variable == graph_.node(id).inputs[0]) returned_[id.value] = added;
  }
}

absl::Status GuardWriter::Visit(NodeId id, const Guard& guard, NodeId unsure) {
  const std::string op = graph_.node(id).op;
  if (graph_.node(id).attrs.Has(kAsksForATurn)) {
    const OutputRef no = Harmless(id, graph_.node(id).inputs[0], DataType::kBool, HarmlessValue::kZeros);
    TakeUnlessGuarded(id, 0, DataType::kBool, no, guard);
    return absl::OkStatus();
  }
  const OpDef* def = ops_.Find(op);
  if (def == nullptr || graph_.node(id).inputs.empty()) return absl::OkStatus();
  const bool writes = def->WritesVariables();
  if (unsure.valid() && (writes || def->state_bytes > 0 || WritesText(graph_.node(id)) || op == "Assert")) {
    return absl::UnimplementedError(absl::StrCat("node '", graph_.node(id).name, "' (", op, ") has an effect behind node '",
                                                 graph_.node(unsure).name, "' (", graph_.node(unsure).op,
                                                 "), whose inputs are there under conditions that differ by more than one predicate"));
  }
  if (writes) {
    for (const Literal& literal : guard) {
      const Node& asked = graph_.node(literal.predicate.node);
      if (!OneOf(asked.op, {"VarIsInitializedOp", "IsVariableInitialized"})) continue;
      return absl::UnimplementedError(absl::StrCat(
          "node '", graph_.node(id).name, "' (", op, ") writes a variable in a branch that depends on whether one is ",
          "initialised (node '", asked.name, "'); both branches run here, so that one would fail. Initialise it apart"));
    }
  }
  // What the node must not fail for, also where it is one of those below.
  for (const HarmlessInput& fails : HarmlessInputsOf(graph_.node(id))) {
    const OutputRef value = graph_.node(id).inputs[fails.input];
    if (known_.Holds(value)) continue;
    TakeUnlessGuarded(id, fails.input, fails.type, Harmless(id, value, fails.type, fails.value), guard);
  }
  if (OneOf(op, {"AssignVariableOp", "Assign"})) {
    const OutputRef before = Read(id, graph_.node(id).inputs[0], false);
    TakeUnlessGuarded(id, 1, TypeOf(graph_.node(id)), before, guard);
  } else if (OneOf(op, {"AssignAddVariableOp", "AssignSubVariableOp", "AssignAdd", "AssignSub"})) {
    const DataType type = TypeOf(graph_.node(id));
    OutputRef nothing = Harmless(id, graph_.node(id).inputs[1], type, HarmlessValue::kZeros);
    // To -0.0 a 0.0 cannot be added: the sum is 0.0.
    const bool adds = OneOf(op, {"AssignAddVariableOp", "AssignAdd"});
    const bool signed_zero = IsFloating(type) || type == DataType::kComplex64 || type == DataType::kComplex128;
    if (adds && signed_zero) nothing = AddBefore(id, "nothing_added", "Neg", {nothing}, type);
    TakeUnlessGuarded(id, 1, type, nothing, guard);
  } else if (op == "Assert") {
    Node opposite;
    opposite.name = absl::StrCat(graph_.node(id).name, "/not_taken");
    opposite.op = "LogicalNot";
    opposite.inputs = {Expression(id, guard)};
    Node either;
    either.name = absl::StrCat(graph_.node(id).name, "/or_not_taken");
    either.op = "LogicalOr";
    const OutputRef condition = graph_.node(id).inputs[0];
    either.inputs = {condition, OutputRef{places_.AddBefore(graph_, id, std::move(opposite)), 0}};
    either.reason = kReason;
    const OutputRef value = {places_.AddBefore(graph_, id, std::move(either)), 0};
    graph_.mutable_node(id).inputs[0] = value;
  } else if (def->state_bytes > 0 || WritesText(graph_.node(id))) {
    const OutputRef holds = Expression(id, guard);
    graph_.mutable_node(id).inputs.push_back(holds);
    graph_.mutable_node(id).attrs.Set(kGuarded, true);
  } else if (writes) {
    RestoreUnless(id, *def, guard);
  }
  return absl::OkStatus();
}

void GuardWriter::Redirect(NodeId id) {
  if (exempt_.count(id.value) > 0) return;
  Node& node = graph_.mutable_node(id);
  const auto followed = [&](int32_t of) {
    const auto found = followers_.find(of);
    return found != followers_.end() && std::find(found->second.begin(), found->second.end(), id) == found->second.end();
  };
  // Who takes an output asks for what the node did, too: nobody else may ask for what ends it.
  std::vector<NodeId> ends;
  for (OutputRef& input : node.inputs) {
    if (!followed(input.node.value)) continue;
    const std::vector<NodeId>& followers = followers_[input.node.value];
    const auto found = returned_.find(input.node.value);
    if (input.index == 0 && found != returned_.end()) input.node = found->second;
    std::copy_if(followers.begin(), followers.end(), std::back_inserter(ends), [&](NodeId follower) { return !(follower == input.node); });
  }
  absl::InlinedVector<NodeId, 2> controls;
  const auto add = [&](NodeId control) {
    if (std::find(controls.begin(), controls.end(), control) == controls.end()) controls.push_back(control);
  };
  for (NodeId control : node.control_inputs) {
    if (!followed(control.value)) {
      add(control);
      continue;
    }
    for (NodeId follower : followers_[control.value]) add(follower);
  }
  for (NodeId end : ends) add(end);
  node.control_inputs = std::move(controls);
}

}  // namespace millrace
