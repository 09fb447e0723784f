// Loops turn by turn: frames of TensorFlow 1, and While with its functions.
#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "millrace/status.h"
#include "passes/control_flow/control_flow_ops.h"
#include "passes/control_flow/loop_ops.h"
#include "passes/shapes/effects.h"
#include "passes/unroll/exact_sizes.h"
#include "passes/unroll/needed.h"
#include "passes/unroll/questions.h"
#include "passes/unroll/unroller.h"

namespace millrace {

// The turns of a frame of TensorFlow 1.
absl::Status Unroller::RunLoop(Run& run, int32_t frame) {
  const Graph& graph = run.body->graph;
  const LoopFrame& loop = run.body->frames[frame];
  const std::string suffix = run.suffix;
  for (int64_t turn = 0;; ++turn) {
    run.suffix = absl::StrCat(suffix, "/turn_", turn);
    const std::pair<int32_t, std::string> of_turn{loop.is_later_part() ? loop.first : frame, run.suffix};
    if (loop.is_later_part()) {
      for (const auto& [id, state] : run.kept[of_turn]) run.nodes[id.value] = state;
    }
    MR_RETURN_IF_ERROR(RunFrame(run, frame));
    MR_RETURN_IF_ERROR(KeepEffects(run, loop));
    for (NodeId id : loop.kept) run.kept[of_turn].emplace_back(id, run.nodes[id.value]);
    const NodeState& condition = run.nodes[loop.condition.value];
    if (condition.dead) break;
    if (condition.values.empty()) return absl::InternalError(absl::StrCat("loop '", loop.name, "': a later part runs before its first one"));
    if (out_.Known(condition.values[0].ref)->IntAt(0) == 0) break;
    // What the next turn's Merges take, all at once. Its nodes come after what this one has done.
    std::vector<std::pair<NodeId, Value>> next;
    const Waits done = run.effects.valid() ? ToWaits({run.effects}) : nullptr;
    for (int32_t unit : loop.units) {
      if (unit < 0 || !IsMerge(graph.node(NodeId{unit}))) continue;
      for (OutputRef input : graph.node(NodeId{unit}).inputs) {
        if (!IsNextIteration(graph.node(input.node))) continue;
        const NodeState& from = run.nodes[input.node.value];
        const bool there = !from.dead && static_cast<size_t>(input.index) < from.values.size();
        next.emplace_back(NodeId{unit}, there ? from.values[input.index] : Value::Dead());
        next.back().second.waits = Together(next.back().second.waits, done);
      }
    }
    for (auto& [merge, value] : next) {
      NodeState& state = run.nodes[merge.value];
      state.values.clear();
      state.values.push_back(std::move(value));
    }
    if (next.empty() && !loop.is_later_part()) {
      return absl::InvalidArgumentError(absl::StrCat("loop '", loop.name, "' changes nothing, so it never ends"));
    }
  }
  run.suffix = suffix;
  return absl::OkStatus();
}

// All nodes of a frame run in every turn, whether what comes later needs them or not.
absl::Status Unroller::KeepEffects(Run& run, const LoopFrame& loop) {
  std::vector<NodeId> made;
  for (int32_t unit : loop.units) {
    if (unit < 0) continue;
    const NodeState& state = run.nodes[unit];
    if (!state.dead && HasEffect(ops_, run.body->graph.node(NodeId{unit}).op)) AddOnce(state.made, made);
  }
  if (made.empty()) return absl::OkStatus();
  AddOnce(run.effects, made);
  MR_ASSIGN_OR_RETURN(run.effects, out_.AddTrigger(absl::StrCat(run.prefix, loop.name, run.suffix, "/done"), made));
  ends_of_writes_.insert(run.effects.value);
  return absl::OkStatus();
}

absl::StatusOr<bool> Unroller::Holds(const Node& loop, const std::string& turn, const Value& condition) {
  if (++turns_ > most_turns_) {
    return absl::OutOfRangeError(absl::StrCat("node '", loop.name, "' (", loop.op, "): the graph's loops take more than ",
                                                     most_turns_, " turns (--max_unrolled_nodes)"));
  }
  const NodeCall call{loop, {}, {}};
  MR_ASSIGN_OR_RETURN(const OutputRef ref, TensorOf(out_, call, condition));
  const Tensor* known = out_.Known(ref);
  Tensor value = known == nullptr ? Tensor() : *known;
  if (known == nullptr) {
    const std::optional<TensorType> type = out_.Type(ref);
    if (type && type->dtype == DataType::kBool) turns_asked_for_.all.insert(turn);
    const bool certain = type == TensorType{DataType::kBool, Shape({})} && !out_.guarded(ref.node);
    if (certain && !absl::StrContains(turn, kBetweenQuestions)) turns_asked_for_.certain.insert(turn);
    MR_ASSIGN_OR_RETURN(value, AskFor(out_, loop, turn, ref, Tensor::Scalar<bool>(true), "the number of its turns"));
  }
  // As in TensorFlow: a scalar by its value, anything else by whether it has elements.
  if (value.shape().rank() != 0) return value.num_elements() > 0;
  return IsFloating(value.dtype()) ? value.DoubleAt(0) != 0 : value.IntAt(0) != 0;
}

absl::StatusOr<std::vector<Value>> Unroller::RunFunction(Run& run) {
  run.nodes.assign(run.body->graph.num_ids(), NodeState());
  run.kept.clear();
  MR_RETURN_IF_ERROR(RunFrame(run, 0));
  std::vector<Value> results;
  for (NodeId result : run.body->results) {
    const NodeState& state = run.nodes[result.value];
    if (state.dead) return absl::InternalError("a result of a function was not made");
    results.push_back(state.values[0]);
  }
  return results;
}

// What is needed is done in every turn, whether what comes later reads it or not.
absl::Status Unroller::KeepEffectsOfTurn(Run& turn, const std::string& name, std::vector<NodeId>& ends) {
  std::vector<NodeId> in_branches;
  for (const NodeId id : turn.body->effects) {
    const NodeId made = turn.nodes[id.value].made;
    if (made.valid() && turn.needs(id)) AddOnce(made, out_.guarded(made) ? in_branches : ends);
  }
  if (in_branches.empty()) return absl::OkStatus();
  MR_ASSIGN_OR_RETURN(const NodeId taken, out_.AddTrigger(absl::StrCat(name, "/taken"), in_branches));
  ends_of_writes_.insert(taken.value);
  AddOnce(taken, ends);
  return absl::OkStatus();
}

// What comes next waits for the effects that the function which ran for this turn has, instead of each of its values.
absl::Status Unroller::EndTurn(Run& turn, const std::string& name, std::vector<Value>& values) {
  if (turn.body->effects.empty()) return absl::OkStatus();
  std::vector<NodeId> ends;
  for (size_t i = 0; i < values.size(); ++i) {
    if (turn.needs(turn.body->results[i])) AddAll(values[i].waits, ends);
    values[i].waits = nullptr;
  }
  for (NodeId control : turn.body->control_results) {
    AddOnce(turn.nodes[control.value].made, ends);
    AddAll(turn.nodes[control.value].waits, ends);
  }
  MR_RETURN_IF_ERROR(KeepEffectsOfTurn(turn, name, ends));
  AddOnce(std::exchange(turn.effects, NodeId()), ends);
  AddOnce(turn.enter, ends);
  MR_ASSIGN_OR_RETURN(turn.enter, AddEnd(absl::StrCat(name, "/done"), ends));
  return absl::OkStatus();
}

// What waits for all of these, and is a write to constants that say they come after it where one of these is.
absl::StatusOr<NodeId> Unroller::AddEnd(const std::string& name, const std::vector<NodeId>& ends) {
  const bool writes = std::any_of(ends.begin(), ends.end(), [&](NodeId end) { return Writes(end); });
  MR_ASSIGN_OR_RETURN(const NodeId all, out_.AddNoOp(name, ends));
  if (writes) ends_of_writes_.insert(all.value);
  return all;
}

namespace {

NeededLoop NothingOf(const Body& condition, const Body& body) {
  NeededLoop nothing;
  nothing.values.assign(body.results.size(), false);
  const auto none_of = [](const Body& function) {
    NeededNodes none;
    none.nodes.assign(function.graph.num_ids(), false);
    return std::make_shared<const NeededNodes>(std::move(none));
  };
  nothing.condition = none_of(condition);
  nothing.body = none_of(body);
  return nothing;
}

}  // namespace

absl::Status Unroller::RunWhile(Run& run, NodeId id, const NodeCall& call, const std::vector<NodeId>& controls) {
  const Graph& graph = run.body->graph;
  MR_ASSIGN_OR_RETURN(const Body* condition, bodies_.OfFunction(graph, call.node, "cond"));
  MR_ASSIGN_OR_RETURN(const Body* body, bodies_.OfFunction(graph, call.node, "body"));
  MR_RETURN_IF_ERROR(CheckWhile(call, std::max(condition->arguments, body->arguments), condition->results.size(), body->results.size()));
  const NeededLoop* needed = nullptr;  // all
  NeededLoop nothing;
  if (run.needed != nullptr) {
    const auto found = run.needed->loops.find(id.value);
    if (found == run.needed->loops.end()) nothing = NothingOf(*condition, *body);
    needed = found == run.needed->loops.end() ? &nothing : found->second.get();
  }
  Run turn;
  turn.device = call.origin.device;
  const std::string constants = absl::StrCat(run.constant_prefix, call.node.name, "/");
  const std::string streams = absl::StrCat(run.stream_prefix, call.node.name);
  if (run.enter.valid() || !controls.empty()) {
    std::vector<NodeId> waits = controls;
    AddOnce(run.enter, waits);
    MR_ASSIGN_OR_RETURN(turn.enter, AddEnd(absl::StrCat(call.origin.name, "/enter"), waits));
  }
  std::vector<Value> values = call.inputs;
  for (Value& value : values) value.waits = nullptr;  // the first nodes wait instead
  turn.arguments = &values;
  for (int64_t number = 0;; ++number) {
    const std::string name = absl::StrCat(call.origin.name, "/turn_", number);
    turn.body = condition;
    turn.needed = needed == nullptr ? nullptr : needed->condition.get();
    turn.prefix = absl::StrCat(name, "/cond/");
    turn.constant_prefix = absl::StrCat(constants, "cond/");
    turn.stream_prefix = absl::StrCat(streams, ":cond:");
    MR_ASSIGN_OR_RETURN(std::vector<Value> goes_on, RunFunction(turn));
    MR_RETURN_IF_ERROR(EndTurn(turn, absl::StrCat(name, "/cond"), goes_on));
    MR_ASSIGN_OR_RETURN(const bool holds, Holds(call.node, name, goes_on[0]));
    if (!holds) break;
    turn.body = body;
    turn.needed = needed == nullptr ? nullptr : needed->body.get();
    turn.prefix = absl::StrCat(name, "/");
    turn.constant_prefix = constants;
    turn.stream_prefix = absl::StrCat(streams, ":body:");
    MR_ASSIGN_OR_RETURN(std::vector<Value> next, RunFunction(turn));
    MR_RETURN_IF_ERROR(CheckTurn(out_, call, values, next));
    values = std::move(next);
    MR_RETURN_IF_ERROR(EndTurn(turn, name, values));
  }
  std::vector<NodeId> ends;
  AddOnce(turn.enter, ends);
  for (size_t i = 0; i < values.size(); ++i) {
    const Value& value = values[i];
    if (value.kind != Value::Kind::kTensor || (needed != nullptr && !needed->values[i])) continue;
    if (out_.graph().node(value.ref.node).op != "Const") AddOnce(value.ref.node, ends);
  }
  NodeState& state = run.nodes[id.value];
  MR_ASSIGN_OR_RETURN(state.made, AddEnd(call.origin.name, ends));
  state.values.assign(values.begin(), values.end());
  if (run.top && run.needs(id) && !(body->effects.empty() && condition->effects.empty())) result_.effects.push_back(call.origin.name);
  return absl::OkStatus();
}

}  // namespace millrace
