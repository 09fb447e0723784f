#include "passes/unroll/guards.h"

#include <algorithm>
#include <iterator>
#include <vector>

#include "passes/control_flow/control_flow_ops.h"

namespace millrace {

OutputRef Guards::PassedOn(OutputRef ref) const {
  while (true) {
    const Node& node = graph_.graph().node(ref.node);
    if ((node.op != "Identity" && !IsSwitch(node)) || node.inputs.empty()) return ref;
    ref = node.inputs[0];
  }
}

Literal Guards::Source(OutputRef ref, bool value) {
  ref = PassedOn(ref);
  while (graph_.graph().node(ref.node).op == "LogicalNot") {
    value = !value;
    ref = PassedOn(graph_.graph().node(ref.node).inputs[0]);
  }
  // Whether an index is the number of a branch: the same question wherever it is asked.
  const Node& node = graph_.graph().node(ref.node);
  if (node.op != "Equal" || node.inputs.size() != 2) return {ref, value};
  const Tensor* number = graph_.Known(node.inputs[1]);
  if (number == nullptr || number->dtype() != DataType::kInt32 || number->num_elements() != 1) return {ref, value};
  return {asked_.try_emplace({PassedOn(node.inputs[0]), number->IntAt(0)}, ref).first->second, value};
}

std::optional<Literal> Guards::Between(const Guard& first, const Guard& second) {
  for (const Literal& literal : second) {
    if (first.count({literal.predicate, !literal.value}) > 0) return literal;
  }
  return std::nullopt;
}

Guard Guards::OfBoth(const Guard& first, const Guard& second) {
  Guard both;
  std::set_intersection(first.begin(), first.end(), second.begin(), second.end(), std::inserter(both, both.end()), first.value_comp());
  return both;
}

// Requires that all it depends on is known.
Guard Guards::Made(NodeId id) {
  const Node& node = graph_.graph().node(id);
  Guard guard;
  if (node.op == "ControlTrigger") return guard;  // runs whichever of those that it waits for do
  for (NodeId control : node.control_inputs) {
    if (IsMerge(node)) break;  // waits for them, but runs where one of them does not
    const Guard& of = known_[control.value];
    guard.insert(of.begin(), of.end());
  }
  std::vector<Guard> sides;
  for (OutputRef input : node.inputs) {
    Guard of = known_[input.node.value];
    const Node& from = graph_.graph().node(input.node);
    if (IsSwitch(from) && from.inputs.size() == 2) of.insert(Source(from.inputs[1], input.index == 1));
    if (IsMerge(node)) {
      sides.push_back(std::move(of));
    } else {
      guard.insert(of.begin(), of.end());
    }
  }
  if (sides.size() != 2) return guard;
  if (IsNeverMet(sides[0])) return sides[1];
  if (IsNeverMet(sides[1])) return sides[0];
  const std::optional<Literal> between = Between(sides[0], sides[1]);
  for (const Guard& side : sides) {
    for (const Literal& literal : side) {
      if (!between || !(literal.predicate == between->predicate)) guard.insert(literal);
    }
  }
  return guard;
}

const Guard& Guards::Of(NodeId id) {
  std::vector<NodeId> open = {id};
  while (!open.empty()) {
    const NodeId at = open.back();
    if (known_.count(at.value) > 0) {
      open.pop_back();
      continue;
    }
    if (!graph_.guarded(at)) {
      known_[at.value];
      continue;
    }
    const Node& node = graph_.graph().node(at);
    const size_t before = open.size();
    const auto need = [&](NodeId of) {
      if (known_.count(of.value) == 0) open.push_back(of);
    };
    for (OutputRef input : node.inputs) need(input.node);
    for (NodeId control : node.control_inputs) need(control);
    if (open.size() == before) known_[at.value] = Made(at);
  }
  return known_[id.value];
}

Guard Guards::Of(const Waits& waits) {
  Guard guard;
  if (waits == nullptr) return guard;
  for (NodeId id : *waits) {
    const Guard& of = Of(id);
    guard.insert(of.begin(), of.end());
  }
  return guard;
}

Guard Guards::Of(const Value& value) {
  Guard guard = Of(value.waits);
  if (value.kind == Value::Kind::kTensor || value.kind == Value::Kind::kRow) {
    const Guard& of = Of(value.ref.node);
    guard.insert(of.begin(), of.end());
    const Node& from = graph_.graph().node(value.ref.node);
    if (IsSwitch(from) && from.inputs.size() == 2) guard.insert(Source(from.inputs[1], value.ref.index == 1));
  } else if (value.kind == Value::Kind::kObject && value.ref.node.valid()) {
    const Guard of = Of(Value::Of(value.ref));
    guard.insert(of.begin(), of.end());
    guard.insert(Source(value.ref, value.side == 1));
  } else if (value.kind == Value::Kind::kList) {
    guard.insert(value.list->guard.begin(), value.list->guard.end());
  } else if (value.kind == Value::Kind::kOptional && value.list != nullptr) {
    for (int64_t i = 0; i < value.list->items.size(); ++i) {
      const Guard of = Of(value.list->items.at(i));
      guard.insert(of.begin(), of.end());
    }
  } else if (value.kind == Value::Kind::kEither) {
    const Guard& of = OfBoth(value.either);
    guard.insert(of.begin(), of.end());
  }
  return guard;
}

Guard Guards::Of(absl::Span<const Value> inputs, const Waits& waits) {
  Guard guard = Of(waits);
  for (const Value& input : inputs) {
    const Guard of = Of(input);
    guard.insert(of.begin(), of.end());
  }
  return guard;
}

// What holds for the one and for the other.
const Guard& Guards::OfBoth(const std::shared_ptr<Either>& either) {
  if (const auto known = of_both_.find(either); known != of_both_.end()) return known->second;
  const Guard other = Of(either->other), taken = Of(either->taken);
  return of_both_[either] = OfBoth(other, taken);
}

}  // namespace millrace
