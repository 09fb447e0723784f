#include "passes/unroll/unroll_loops.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "graph/needed_nodes.h"
#include "millrace/status.h"
#include "millrace/stream_name.h"
#include "passes/control_flow/control_flow_ops.h"
#include "passes/control_flow/guard_effects.h"
#include "passes/control_flow/loop_ops.h"
#include "passes/shapes/effects.h"
#include "passes/unroll/alternatives.h"
#include "passes/unroll/answers.h"
#include "passes/unroll/exact_sizes.h"
#include "passes/unroll/unroller.h"
#include "passes/unroll/value.h"

namespace millrace {
namespace {

bool IsIdentity(const Node& node) { return node.op == "Identity" || node.op == "StopGradient" || node.op == "PreventGradient"; }

bool TakesLists(const NodeCall& call) {
  return std::any_of(call.inputs.begin(), call.inputs.end(), [](const Value& input) { return IsHeldByName(input) || input.kind == Value::Kind::kObject; });
}

}  // namespace

absl::StatusOr<UnrollResult> Unroller::UnrollGraph(Graph& graph) {
  MR_ASSIGN_OR_RETURN(const std::unique_ptr<Body> body, bodies_.OfGraph(std::move(graph)));
  has_references_ = HoldsAny(body->graph, [](const Node& node) { return node.op == "VariableV2" || node.op == "Variable"; });
  Run run;
  run.body = body.get();
  run.top = true;
  std::shared_ptr<const NeededNodes> needed;
  const std::vector<NodeId> roots = FetchesAndTargets(body->graph, targets_);
  if (body->acts && !roots.empty()) {
    MR_ASSIGN_OR_RETURN(needed, FindNeeded(bodies_, *body, roots));
    run.needed = needed.get();
  }
  run.nodes.resize(body->graph.num_ids());
  absl::Status status = RunFrame(run, 0);
  if (!status.ok() && !StopsAsking(out_, status)) return status;
  graph = out_.Take();
  // Answers may depend on what earlier turns have written, so they keep these.
  if (out_.questions().ask()) result_.effects.clear();
  if (run.effects.valid()) result_.effects.push_back(graph.node(run.effects).name);
  EndQuestions(graph);
  if (!out_.questions().ask() && !roots.empty()) KeepUnread(run, graph);
  result_.searches = out_.questions().searches();
  result_.changed = true;
  return std::move(result_);
}

// What was needed happens, though something else has taken its value's place: turns that of a count which a loop begins with, an answer
// (questions.h) that of a draw which says how many turns there are.
void Unroller::KeepUnread(const Run& run, const Graph& graph) {
  std::vector<NodeId> acting;
  for (int32_t unit : run.body->frames[0].units) {
    if (unit < 0 || run.nodes[unit].dead || !run.needs(NodeId{unit})) continue;
    const std::string& op = run.body->graph.node(NodeId{unit}).op;
    const OpDef* const def = ops_.Find(op);
    const bool acts = WritesVariables(ops_, op) || (def != nullptr && def->state_bytes > 0);
    if (acts && run.nodes[unit].made.valid()) acting.push_back(run.nodes[unit].made);
  }
  std::vector<std::string> kept = targets_;
  kept.insert(kept.end(), result_.effects.begin(), result_.effects.end());
  const std::vector<bool> needed = NeededBy(graph, FetchesAndTargets(graph, kept));
  for (const NodeId id : acting) {
    if (!needed[id.value]) result_.effects.push_back(graph.node(id).name);
  }
}

absl::Status Unroller::RunFrame(Run& run, int32_t frame) {
  for (int32_t unit : run.body->frames[frame].units) {
    MR_RETURN_IF_ERROR(unit < 0 ? RunLoop(run, ~unit) : RunNode(run, NodeId{unit}));
  }
  return absl::OkStatus();
}

std::vector<NodeId> Unroller::ControlsOf(const Run& run, const Node& node) const {
  std::vector<NodeId> controls;
  for (NodeId control : node.control_inputs) {
    const NodeState& state = run.nodes[control.value];
    AddOnce(state.made, controls);
    AddAll(state.waits, controls);
  }
  return controls;
}

// Takes the values of the node's inputs. Whether it runs: where one of them is dead, or what it waits for, it does not.
bool Unroller::TakeInputs(const Run& run, NodeCall& call) {
  for (OutputRef input : call.node.inputs) {
    const NodeState& from = run.nodes[input.node.value];
    if (from.dead || static_cast<size_t>(input.index) >= from.values.size() || from.values[input.index].dead) return false;
    call.inputs.push_back(from.values[input.index]);
  }
  if (call.node.op == "ControlTrigger") return true;  // it waits for what runs, whichever that is
  return std::none_of(call.node.control_inputs.begin(), call.node.control_inputs.end(), [&](NodeId control) { return run.nodes[control.value].dead; });
}

absl::Status Unroller::LeaveOut(Run& run, NodeId id) {
  const Node& node = run.body->graph.node(id);
  NodeState& state = run.nodes[id.value];
  state.dead = true;
  if (!run.top || !run.suffix.empty()) return absl::OkStatus();
  if (node.op == "_Fetch") return NothingToFetch(run.body->graph.TensorName(node.inputs[0]));
  MR_ASSIGN_OR_RETURN(state.made, out_.AddNoOp(node.name, {}));
  return absl::OkStatus();
}

// Who waits for what only passes a value on comes after the writes that the value comes after: what it reads of a reference tells.
void Unroller::AddWrite(const Value& value, std::vector<NodeId>& controls) const {
  const bool is_made = value.kind == Value::Kind::kTensor || value.kind == Value::Kind::kRow;
  if (has_references_ && is_made) AddOnce(out_.written(value.ref.node), controls);
}

Waits Unroller::WithWrites(absl::Span<const Value> values, const Waits& waits) const {
  std::vector<NodeId> writes;
  for (const Value& value : values) AddWrite(value, writes);
  return Together(waits, ToWaits(std::move(writes)));
}

// What the node waits for, beside what its inputs are made by.
std::vector<NodeId> Unroller::ControlsOfCall(const Run& run, NodeId id, const NodeCall& call) const {
  const Node& node = call.node;
  std::vector<NodeId> controls = ControlsOf(run, node);
  for (const Value& input : call.inputs) AddAll(input.waits, controls);
  const bool enters = std::any_of(node.inputs.begin(), node.inputs.end(), [&](OutputRef input) { return IsEnter(run.body->graph.node(input.node)); });
  if (enters) AddOnce(run.effects, controls);
  if (run.enter.valid() && (run.body->first[id.value] || WritesText(node))) AddOnce(run.enter, controls);
  for (size_t i = 0; i < node.inputs.size() && WritesText(node); ++i) {
    AddAll(run.nodes[node.inputs[i].node.value].waits, controls);  // a text that is a constant in the turn has waited for lines before it
  }
  return controls;
}

absl::Status Unroller::RunNode(Run& run, NodeId id) {
  const Node& node = run.body->graph.node(id);
  if (IsMerge(node)) return RunMerge(run, id);
  MR_RETURN_IF_ERROR(CheckLeastInputs(node));
  NodeCall call{node, {}, {NameOf(run, node), node.requested_device.empty() ? run.device : node.requested_device.str(), nullptr}};
  const bool runs = TakeInputs(run, call);
  run.nodes[id.value] = NodeState();
  if (!runs) return LeaveOut(run, id);
  std::vector<NodeId> controls = ControlsOfCall(run, id, call);
  if (node.op == kArgOp && run.arguments != nullptr) {
    const Value& argument = (*run.arguments)[node.attrs.GetOr<int64_t>("index", 0)];
    return PassOn(run, id, {argument}, has_references_ ? argument.waits : nullptr);
  }
  if (node.op == kRetvalOp && !run.top) return PassOn(run, id, call.inputs, nullptr);
  const bool passes_on =
      IsIdentity(node) || IsOptionalOp(node) || IsEnter(node) || IsExit(node) || IsNextIteration(node) || IsSwitch(node) || IsWhile(node);
  for (size_t i = 0; i < call.inputs.size() && !passes_on; ++i) {
    if (IsKeptItem(node, i)) continue;
    MR_ASSIGN_OR_RETURN(call.inputs[i], AsOne(out_, call, call.inputs[i]));
  }
  if (node.op == "LoopCond" || IsSwitch(node)) MR_RETURN_IF_ERROR(CheckInputsOfControl(node));
  if (node.op == "LoopCond") return RunLoopCond(run, id, call, std::move(controls));
  if (IsEnter(node) || IsExit(node) || IsNextIteration(node)) {
    return PassOn(run, id, call.inputs, ToWaits(std::move(controls)));
  }
  if (IsSwitch(node)) return RunSwitch(run, id, std::move(call));
  if (IsWhile(node)) return RunWhile(run, id, call, controls);
  if (node.op == "Const" && run.in_loop() && node.inputs.empty()) return CopyConstant(run, id, controls);
  if (IsListOp(node) || IsArrayOp(node) || IsOptionalOp(node)) return RunHolder(run, id, call, std::move(controls));
  return RunOp(run, id, call, controls);
}

absl::Status Unroller::RunLoopCond(Run& run, NodeId id, NodeCall& call, std::vector<NodeId> controls) {
  MR_ASSIGN_OR_RETURN(const bool goes_on, Holds(call.node, call.origin.name, call.inputs[0]));
  const OutputRef asked = call.inputs[0].ref;
  if (out_.guarded(asked.node)) AddOnce(asked.node, controls);  // a loop in a branch ends there alone
  AddWrite(call.inputs[0], controls);
  const Tensor* known = call.inputs[0].kind == Value::Kind::kTensor ? out_.Known(asked) : nullptr;
  if (known == nullptr || known->dtype() != DataType::kBool || known->shape().rank() != 0) {
    MR_ASSIGN_OR_RETURN(const OutputRef answer, out_.Constant(Tensor::Scalar<bool>(goes_on)));  // the frame's Switches must know
    call.inputs[0] = Value::Of(answer);
  }
  return PassOn(run, id, call.inputs, ToWaits(std::move(controls)));
}

// Ops of lists, arrays and Optionals.
absl::Status Unroller::RunHolder(Run& run, NodeId id, NodeCall& call, std::vector<NodeId> controls) {
  const Node& node = call.node;
  const bool lists = TakesLists(call);
  // What is made or read on one side of a predicate says so: nothing else may wait for a pivot.
  for (const Value& input : call.inputs) {
    if (input.kind != Value::Kind::kTensor || !out_.guarded(input.ref.node)) continue;
    if ((IsListOp(node) && !lists) || out_.graph().node(input.ref.node).op == "Const") AddOnce(input.ref.node, controls);
  }
  const Waits waits = ToWaits(std::move(controls));
  call.origin.waits = waits;
  absl::StatusOr<std::vector<Value>> values = IsListOp(node)    ? RunListOp(out_, call)
                                              : IsArrayOp(node) ? arrays_.Run(call)
                                                                : RunOptionalOp(out_, call);
  if (!values.ok() && exact_sizes_ && !NeedsAnswer(values.status())) return AskIfWrong(out_, guards_, call, values.status());
  MR_RETURN_IF_ERROR(values.status());
  if (lists) {
    MR_RETURN_IF_ERROR(SayWhere(call, absl::MakeSpan(*values)));
  }
  return PassOn(run, id, *values, waits);
}

// All other ops: what only passes its input on is not made anew in turns.
absl::Status Unroller::RunOp(Run& run, NodeId id, NodeCall& call, const std::vector<NodeId>& controls) {
  const Node& node = call.node;
  const bool guarded = std::any_of(controls.begin(), controls.end(), [&](NodeId control) { return out_.guarded(control); });
  const bool lists = TakesLists(call), in_loop = run.in_loop() && !guarded;
  const Waits waits = ToWaits(controls);
  call.origin.waits = waits;
  const bool row = in_loop && !call.inputs.empty() && call.inputs[0].kind == Value::Kind::kRow;
  if (IsIdentity(node) && (lists || row)) return PassOn(run, id, call.inputs, waits);
  if (lists) {
    MR_ASSIGN_OR_RETURN(const std::vector<Value> values, RunOnLists(out_, call));
    return PassOn(run, id, values, waits);
  }
  if (IsIdentity(node) && in_loop && !out_.guarded(call.inputs[0].ref.node) && !IsReference(call.inputs[0].ref)) {
    return PassOn(run, id, call.inputs, waits);
  }
  if ((node.op == "NoOp" || node.op == "ControlTrigger") && in_loop) return PassOn(run, id, {}, waits);
  return Copy(run, id, call, controls);
}

// What an op of lists or arrays gives is there where all of its inputs are: it waits for what runs there, where it does not say so itself.
absl::Status Unroller::SayWhere(const NodeCall& call, absl::Span<Value> values) {
  const Guard guard = guards_.Of(call.inputs, call.origin.waits);
  if (guard.empty()) return absl::OkStatus();
  const Guard of_waits = guards_.Of(call.origin.waits);
  for (Value& value : values) {
    if (value.kind == Value::Kind::kList) {
      ListValue list = *value.list;
      list.guard.insert(guard.begin(), guard.end());
      value.list = std::make_shared<const ListValue>(std::move(list));
      continue;
    }
    if (value.kind == Value::Kind::kMissing || value.kind == Value::Kind::kObject) continue;
    const Guard of_value = guards_.Of(value);
    for (const Literal& literal : guard) {
      if (of_waits.count(literal) > 0 || of_value.count(literal) > 0) continue;
      MR_ASSIGN_OR_RETURN(const NodeId pivot, PivotOf(call, literal));
      value.waits = Together(value.waits, ToWaits({pivot}));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<NodeId> Unroller::PivotOf(const NodeCall& call, const Literal& literal) {
  NodeId& pivot = pivots_[literal];
  if (pivot.valid()) return pivot;
  const AttrMap type{{"T", DataType::kBool}};
  const StraightGraph::Origin origin{absl::StrCat(call.origin.name, "/side"), "", nullptr};
  MR_ASSIGN_OR_RETURN(const OutputRef sides, out_.Op(origin, "Switch", {literal.predicate, literal.predicate}, type));
  MR_ASSIGN_OR_RETURN(const OutputRef runs, out_.Op(origin, "Identity", {{sides.node, literal.value ? 1 : 0}}, type));
  return pivots_[literal] = runs.node;
}

// The node needs no copy. Outside of loops its name stays, for targets.
absl::Status Unroller::PassOn(Run& run, NodeId id, absl::Span<const Value> values, Waits waits) {
  NodeState& state = run.nodes[id.value];
  state.values.assign(values.begin(), values.end());
  for (Value& value : state.values) value.waits = Together(value.waits, waits);
  state.waits = WithWrites(values, waits);
  if (run.in_loop()) return absl::OkStatus();
  // What it stands for may have been made under its name just now.
  const std::string& name = run.body->graph.node(id).name;
  state.made = out_.graph().Find(name);
  if (state.made.valid()) return absl::OkStatus();
  MR_ASSIGN_OR_RETURN(state.made, out_.AddNoOp(name, state.waits == nullptr ? std::vector<NodeId>() : *state.waits));
  return absl::OkStatus();
}

// Copies of one random op draw from one stream, one after another.
absl::Status Unroller::DrawInOrder(const Run& run, const Node& node, Node& copy) {
  const OpDef* def = ops_.Find(node.op);
  if (!run.in_loop() || def == nullptr || def->state_bytes == 0) return absl::OkStatus();
  const std::string stream = absl::StrCat(run.stream_prefix, node.name);
  copy.attrs.Set(kStreamAttr, stream);
  const auto last = last_draw_.find(stream);
  if (last == last_draw_.end()) return absl::OkStatus();
  NodeId drawn = last->second;
  if (out_.guarded(drawn)) {
    // Whether that turn took its branch says nothing of this one.
    MR_ASSIGN_OR_RETURN(drawn, out_.AddTrigger(absl::StrCat(copy.name, "/drawn"), {drawn}));
  }
  copy.control_inputs.push_back(drawn);
  return absl::OkStatus();
}

absl::Status Unroller::Copy(Run& run, NodeId id, const NodeCall& call, const std::vector<NodeId>& controls) {
  const Node& node = call.node;
  NodeState& state = run.nodes[id.value];
  Node copy = node;
  copy.name = call.origin.name;
  copy.requested_device = call.origin.device;
  copy.inputs.clear();
  for (const Value& input : call.inputs) {
    MR_ASSIGN_OR_RETURN(const OutputRef ref, TensorOf(out_, call, input));
    copy.inputs.push_back(ref);
  }
  copy.control_inputs.assign(controls.begin(), controls.end());
  OutputRef strings;
  if (exact_sizes_) {
    MR_ASSIGN_OR_RETURN(strings, ShuffleNumbersInstead(out_, copy));
  }
  MR_RETURN_IF_ERROR(DrawInOrder(run, node, copy));
  const bool draws = copy.attrs.Has(kStreamAttr);
  const std::string stream = draws ? copy.attrs.GetOr<std::string>(kStreamAttr, "") : "";
  MR_ASSIGN_OR_RETURN(state.made, exact_sizes_ ? AddWithKnownSizes(out_, guards_, call, std::move(copy)) : out_.Add(std::move(copy)));
  if (draws && run.needs(id)) last_draw_[stream] = state.made;
  // Nobody need wait for a constant, nor for a read: creation order says what a later write must not overtake. Turns would
  // add up to long lists of them.
  const bool is_constant = run.in_loop() && out_.FreeConstant(state.made);
  const OpDef* def = ops_.Find(node.op);
  const bool only_reads = def != nullptr && OnlyReads(*def) && run.in_loop() && !out_.guarded(state.made);
  const NodeId made = state.made;
  if (is_constant || only_reads) {
    state.waits = WithWrites(call.inputs, ToWaits(controls));
    state.made = NodeId();
  }
  if (is_constant) {
    state.values.push_back(Value::Of({made, 0}));
    MR_ASSIGN_OR_RETURN(state.values[0].waits, WritesAmong(call.origin.name, state.waits));
    return absl::OkStatus();
  }
  for (int32_t o = 0; o < run.body->outputs[id.value]; ++o) state.values.push_back(Value::Of(out_.Current({made, o})));
  if (strings.node.valid() && !state.values.empty()) {
    MR_ASSIGN_OR_RETURN(state.values[0].ref, StringsByNumbers(out_, call, strings, state.values[0].ref));
  }
  return exact_sizes_ ? SettleShapes(out_, guards_, call, made, absl::MakeSpan(state.values)) : absl::OkStatus();
}

// A constant is the same in every turn, unless it says that its branch was taken.
absl::Status Unroller::CopyConstant(Run& run, NodeId id, const std::vector<NodeId>& controls) {
  const Node& node = run.body->graph.node(id);
  const bool guarded = std::any_of(controls.begin(), controls.end(), [&](NodeId control) { return out_.guarded(control); });
  OutputRef& made = constants_[{run.body, id.value}];
  if (guarded || !made.node.valid()) {
    Node copy = node;
    copy.name = guarded ? NameOf(run, node) : absl::StrCat(run.constant_prefix, node.name);
    copy.control_inputs.clear();
    if (guarded) copy.control_inputs.assign(controls.begin(), controls.end());
    MR_ASSIGN_OR_RETURN(const NodeId added, out_.Add(std::move(copy)));
    if (guarded) {
      run.nodes[id.value].made = added;
      run.nodes[id.value].values.push_back(Value::Of({added, 0}));
      return absl::OkStatus();
    }
    made = {added, 0};
  }
  run.nodes[id.value].waits = ToWaits(controls);
  run.nodes[id.value].values.push_back(Value::Of(made));
  MR_ASSIGN_OR_RETURN(run.nodes[id.value].values[0].waits, WritesAmong(NameOf(run, node), run.nodes[id.value].waits));
  return absl::OkStatus();
}

// What the consumers of a constant wait for: TensorFlow leaves it to a constant to say that they come after a write.
absl::StatusOr<Waits> Unroller::WritesAmong(const std::string& name, const Waits& waits) {
  std::vector<NodeId> controls;
  AddAll(waits, controls);
  controls.erase(std::remove_if(controls.begin(), controls.end(), [&](NodeId control) { return !Writes(control); }), controls.end());
  return WrittenInFew(name, std::move(controls));
}

// A counter, and what a loop hands through, would collect the writes of all turns.
absl::StatusOr<Waits> Unroller::WrittenInFew(const std::string& name, std::vector<NodeId> writes) {
  constexpr size_t kFew = 8;
  if (writes.size() <= kFew) return ToWaits(std::move(writes));
  MR_ASSIGN_OR_RETURN(const NodeId all, out_.AddNoOp(absl::StrCat(name, "/written"), std::move(writes)));
  ends_of_writes_.insert(all.value);
  return ToWaits({all});
}

absl::StatusOr<Waits> Unroller::InFew(const std::string& name, std::vector<NodeId> controls) {
  if (!has_references_) return ToWaits(std::move(controls));
  const auto writes = std::stable_partition(controls.begin(), controls.end(), [&](NodeId control) { return out_.guarded(control) || !Writes(control); });
  MR_ASSIGN_OR_RETURN(const Waits written, WrittenInFew(name, {writes, controls.end()}));
  controls.erase(writes, controls.end());
  return Together(ToWaits(std::move(controls)), written);
}

bool Unroller::Writes(NodeId made) const {
  if (ends_of_writes_.count(made.value) > 0) return true;
  return has_references_ ? out_.written(made).valid() : WritesVariables(ops_, out_.graph().node(made).op);
}

bool Unroller::IsReference(OutputRef ref) const {
  const Node& node = out_.graph().node(ref.node);
  const OpDef* def = ops_.Find(node.op);
  if (def == nullptr) return node.op == "RefSwitch" || node.op == "RefMerge";
  return (def->is_variable && node.op != "VarHandleOp") || def->returns_variable;
}

absl::Status Unroller::RunSwitch(Run& run, NodeId id, NodeCall call) {
  NodeState& state = run.nodes[id.value];
  MR_ASSIGN_OR_RETURN(const OutputRef predicate, TensorOf(out_, call, call.inputs[1]));
  const Tensor* known = out_.Known(predicate);
  std::optional<bool> holds;
  if (known != nullptr && (known->dtype() != DataType::kBool || known->num_elements() != 1)) {
    return CallError(call, absl::StrCat("the predicate is ", known->type().ToString(), ", expected a bool scalar"));
  }
  if (known != nullptr) {
    holds = known->as<bool>()[0];
  } else {
    MR_ASSIGN_OR_RETURN(holds, AnsweredSide(out_, guards_, predicate, exact_sizes_));
  }
  std::vector<NodeId> controls = ControlsOf(run, call.node);
  for (const Value& input : call.inputs) AddAll(input.waits, controls);
  if (holds.has_value()) AddWrite(call.inputs[1], controls);
  Value data = call.inputs[0];
  if (holds.has_value()) {
    std::vector<Value> sides(2, Value::Dead());
    Value& live = sides[*holds ? 1 : 0];
    live = data;
    if (run.in_loop()) {
      MR_ASSIGN_OR_RETURN(live.waits, InFew(NameOf(run, call.node), std::move(controls)));
      state.waits = WithWrites({data}, live.waits);
    } else {
      MR_ASSIGN_OR_RETURN(state.made, out_.AddNoOp(call.node.name, controls));
      if (!controls.empty()) live.waits = Together(live.waits, ToWaits({state.made}));
    }
    state.values.assign(sides.begin(), sides.end());
    return absl::OkStatus();
  }
  if (data.kind == Value::Kind::kObject) {
    auto [other, taken] = SwitchedObject(data, predicate);
    state.values = {std::move(other), std::move(taken)};
    state.waits = ToWaits(std::move(controls));
    return absl::OkStatus();
  }
  if (IsHeldByName(data)) {
    MR_ASSIGN_OR_RETURN(data, ListBeforeSwitch(out_, guards_, call, data, predicate));
    auto [other, taken] = SwitchedByName(guards_, data, predicate);
    state.values.push_back(std::move(other));
    state.values.push_back(std::move(taken));
    state.waits = ToWaits(std::move(controls));
    return absl::OkStatus();
  }
  return Copy(run, id, call, controls);
}

// What comes into a Merge, with which input.
Unroller::LiveInputs Unroller::LiveInputsOf(const Run& run, NodeId id) {
  const Graph& graph = run.body->graph;
  const Node& node = graph.node(id);
  const auto back = std::find_if(node.inputs.begin(), node.inputs.end(), [&](OutputRef input) { return IsNextIteration(graph.node(input.node)); });
  const bool loops = back != node.inputs.end();
  LiveInputs live;
  if (loops && !absl::EndsWith(run.suffix, "/turn_0")) {
    // RunLoop has put it there.
    const NodeState& state = run.nodes[id.value];
    if (!state.values.empty() && !state.values[0].dead) live.emplace_back(static_cast<int32_t>(back - node.inputs.begin()), state.values[0]);
    return live;
  }
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    const OutputRef input = node.inputs[i];
    const NodeState& from = run.nodes[input.node.value];
    if (loops && IsNextIteration(graph.node(input.node))) continue;
    if (from.dead || static_cast<size_t>(input.index) >= from.values.size() || from.values[input.index].dead) continue;
    live.emplace_back(static_cast<int32_t>(i), from.values[input.index]);
  }
  return live;
}

// A Merge whose other inputs are dead. Who waits for it waits for what its branch did, though who takes the value need not.
absl::Status Unroller::PassOnTaken(Run& run, NodeId id, int32_t input, const Value& taken, std::vector<NodeId> controls) {
  MR_ASSIGN_OR_RETURN(const OutputRef index, out_.Constant(Tensor::Scalar<int32_t>(input)));
  std::vector<NodeId> ends = controls;
  AddAll(taken.waits, ends);
  if (taken.kind == Value::Kind::kTensor) {
    const Node& made = out_.graph().node(taken.ref.node);
    if (made.op != "Const" || !made.control_inputs.empty()) AddOnce(taken.ref.node, ends);
  }
  MR_RETURN_IF_ERROR(PassOn(run, id, {taken, Value::Of(index)}, ToWaits(std::move(ends))));
  NodeState& state = run.nodes[id.value];
  state.values[0].waits = Together(taken.waits, ToWaits(controls));
  state.values[1].waits = ToWaits(std::move(controls));
  return absl::OkStatus();
}

absl::Status Unroller::RunMerge(Run& run, NodeId id) {
  const Node& node = run.body->graph.node(id);
  NodeState& state = run.nodes[id.value];
  const LiveInputs live = LiveInputsOf(run, id);
  state = NodeState();
  const NodeCall empty{node, {}, {NameOf(run, node), node.requested_device, nullptr}};
  std::vector<NodeId> controls = ControlsOf(run, node);
  if (live.empty()) {
    state.dead = true;
    if (run.in_loop()) return absl::OkStatus();
    MR_ASSIGN_OR_RETURN(state.made, out_.AddNoOp(node.name, {}));
    return absl::OkStatus();
  }
  if (live.size() == 1) return PassOnTaken(run, id, live[0].first, live[0].second, std::move(controls));
  const Value &other = live[0].second, &taken = live[1].second;
  if (IsHeldByName(other) || IsHeldByName(taken)) {
    const std::optional<Literal> between = Guards::Between(guards_.Of(other), guards_.Of(taken));
    if (!between) return CallError(empty, "joins a list with one that is not of the other side of a predicate");
    MR_ASSIGN_OR_RETURN(const Waits end, EndOfBoth(out_, empty, *between, other.waits, taken.waits));
    return PassOn(run, id, {MergedByName(*between, other, taken)}, Together(end, ToWaits(std::move(controls))));
  }
  NodeCall call = empty;
  for (const auto& [input, value] : live) {
    AddAll(value.waits, controls);
    call.inputs.push_back(value);
  }
  if (live[0].second.kind == Value::Kind::kObject && SameValue(live[0].second, live[1].second)) {
    return PassOn(run, id, {live[0].second}, ToWaits(std::move(controls)));
  }
  MR_RETURN_IF_ERROR(TieToSides(out_, guards_, call));
  if (exact_sizes_) MR_RETURN_IF_ERROR(AskForSide(out_, guards_, call));
  return Copy(run, id, call, controls);
}

// Answers take the place of all that was to be fetched or done; once they are there, turns draw whether anybody reads it or not.
void Unroller::EndQuestions(Graph& graph) {
  if (out_.questions().ask()) {
    result_.stopped = out_.questions().stopped();
    result_.asked = FetchAnswers(out_.questions().asked(), turns_asked_for_, graph);
    return;
  }
  for (const auto& [stream, draw] : last_draw_) result_.effects.push_back(graph.node(draw).name);  // it waits for those before it
}

absl::StatusOr<UnrollResult> UnrollLoops(Graph& graph, const OpRegistry& ops, KernelOracle& oracle,
                                         const UnrollOptions& options) {
  if (!options.choose_branches && !HoldsNode(graph, IsLoopOp)) return UnrollResult();
  return Unroller(graph, ops, oracle, options).UnrollGraph(graph);
}

}  // namespace millrace
