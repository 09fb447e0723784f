#include "passes/rewrite/update_chains.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <utility>

#include "graph/variable_name.h"
#include "millrace/status.h"
#include "passes/rewrite/positions.h"

namespace millrace {
namespace {

// Correctly rounded, or exact: no vector loop treats the last few elements in another way.
bool IsElementwise(const std::string& op) {
  static const auto* ops = new std::set<std::string>{"Abs", "Add", "AddV2", "Div", "DivNoNan", "Maximum", "Minimum", "Mul",
                                                     "Neg", "RealDiv", "Sign", "Sqrt", "Square", "SquaredDifference", "Sub"};
  return ops->count(op) > 0;
}
bool IsRead(const Node& node) { return node.op == "ReadVariableOp"; }
bool Overwrites(const Node& node) { return node.op == "AssignVariableOp"; }
bool IsAssignment(const Node& node) {
  return Overwrites(node) || node.op == "AssignAddVariableOp" || node.op == "AssignSubVariableOp";
}

class Finder {
 public:
  Finder(const Graph& graph, const OpRegistry& ops, int64_t least_bytes, std::vector<NodeId> order)
      : graph_(graph),
        least_bytes_(least_bytes),
        order_(std::move(order)),
        fanout_(ComputeFanout(graph)),
        position_(PositionsIn(order_, graph.num_ids())),
        is_variable_(graph.num_ids(), false),
        joins_(graph.num_ids(), false),
        parent_(graph.num_ids()) {
    std::iota(parent_.begin(), parent_.end(), 0);
    for (NodeId id : order_) {
      const OpDef* def = ops.Find(graph.node(id).op);
      is_variable_[id.value] = def != nullptr && def->is_variable;
      if (is_variable_[id.value]) ++nodes_of_variable_[VariableName(graph.node(id))];
    }
  }

  std::vector<UpdateChain> Run() {
    for (auto id = order_.rbegin(); id != order_.rend(); ++id) joins_[id->value] = Joins(*id);
    for (NodeId id : order_) {
      if (!joins_[id.value]) continue;
      for (OutputRef input : graph_.node(id).inputs) {
        if (joins_[input.node.value] || is_variable_[input.node.value]) Unite(id.value, input.node.value);
      }
    }
    std::map<int32_t, UpdateChain> chains;
    for (NodeId id : order_) {
      if (joins_[id.value]) chains[Root(id.value)].nodes.push_back(id);
      if (is_variable_[id.value] && IsSlot(id)) chains[Root(id.value)].slots.push_back(id);
    }
    std::vector<UpdateChain> found;
    for (auto& [root, chain] : chains) {
      if (IsSliceable(chain)) found.push_back(std::move(chain));
    }
    return found;
  }

 private:
  // Whether all that take the node's value join, and it is of one kind with them.
  bool Joins(NodeId id) const {
    const Node& node = graph_.node(id);
    if (node.dynamic_outputs != 0 || node.run_time_values != 0) return false;
    if (IsAssignment(node)) {
      // A part of a variable that stays whole is not overwritten as a whole.
      if (Overwrites(node) && !MayBeSlot(node.inputs[0].node)) return false;
      return is_variable_[node.inputs[0].node.value] && graph_.type(node.inputs[0]) == graph_.type(node.inputs[1]) &&
             IsStatic(node);
    }
    if (!IsRead(node) && !IsElementwise(node.op)) return false;
    if (node.outputs.size() != 1 || !IsStatic(node) || (IsRead(node) && !is_variable_[node.inputs[0].node.value])) return false;
    int takers = 0;
    for (const Fanout::Use& use : fanout_.of(id)) {
      if (use.input < 0) continue;
      ++takers;
      if (!joins_[use.consumer.value]) return false;
      const Node& taker = graph_.node(use.consumer);
      const TensorType& made = IsAssignment(taker) ? graph_.type(taker.inputs[0]) : taker.outputs[0];
      if (made.shape != node.outputs[0].shape) return false;
    }
    return takers > 0;
  }

  // Whether nothing but elementwise ops takes what is read of it.
  bool MayBeSlot(NodeId variable) const {
    const auto serves = [&](const Fanout::Use& use) {
      const Node& taker = graph_.node(use.consumer);
      return use.input < 0 || IsElementwise(taker.op) || IsAssignment(taker);
    };
    const absl::Span<const Fanout::Use> uses = fanout_.of(variable);
    return std::all_of(uses.begin(), uses.end(), [&](const Fanout::Use& use) {
      const absl::Span<const Fanout::Use> takers = fanout_.of(use.consumer);
      return std::all_of(takers.begin(), takers.end(), serves);
    });
  }

  // Every input is whole, of the shape of what is made, or one element.
  bool IsStatic(const Node& node) const {
    const Shape& shape = IsAssignment(node) ? graph_.type(node.inputs[0]).shape : node.outputs[0].shape;
    if (!shape.fully_known() || shape.num_elements() < 2) return false;
    return std::all_of(node.inputs.begin(), node.inputs.end(), [&](OutputRef input) {
      const TensorType& type = graph_.type(input);
      return !graph_.node(input.node).dynamic_output(input.index) && (type.shape == shape || type.shape.num_elements() == 1);
    });
  }

  bool IsSlot(NodeId id) const {
    const Node& node = graph_.node(id);
    const absl::Span<const Fanout::Use> uses = fanout_.of(id);
    return !uses.empty() && node.control_inputs.empty() && nodes_of_variable_.at(VariableName(node)) == 1 &&
           std::all_of(uses.begin(), uses.end(),
                       [&](const Fanout::Use& use) { return use.input == 0 && joins_[use.consumer.value]; });
  }

  bool IsSliceable(const UpdateChain& chain) const {
    if (chain.slots.empty()) return false;
    const TensorType& type = graph_.node(chain.slots[0]).outputs[0];
    if (type.size_bytes() < least_bytes_) return false;
    const std::set<NodeId> slots(chain.slots.begin(), chain.slots.end());
    for (NodeId slot : chain.slots) {
      if (graph_.node(slot).outputs[0] != type) return false;
    }
    for (NodeId id : chain.nodes) {
      const Node& node = graph_.node(id);
      const Shape& shape = IsAssignment(node) ? graph_.type(node.inputs[0]).shape : node.outputs[0].shape;
      if (shape != type.shape || (Overwrites(node) && slots.count(node.inputs[0].node) == 0)) return false;
    }
    return !HasDetour(chain);
  }

  // Whether a node outside waits for one of the chain and another of the chain for it.
  bool HasDetour(const UpdateChain& chain) const {
    const std::set<NodeId> inside(chain.nodes.begin(), chain.nodes.end());
    std::set<NodeId> seen;
    std::vector<NodeId> open;
    const auto visit = [&](NodeId from) {
      for (const Fanout::Use& use : fanout_.of(from)) {
        const NodeId to = use.consumer;
        if (inside.count(from) > 0 && inside.count(to) > 0) continue;
        if (inside.count(to) > 0) return true;
        if (position_[to.value] < position_[chain.nodes.back().value] && seen.insert(to).second) open.push_back(to);
      }
      return false;
    };
    for (NodeId id : chain.nodes) visit(id);
    while (!open.empty()) {
      const NodeId id = open.back();
      open.pop_back();
      if (visit(id)) return true;
    }
    return false;
  }

  int32_t Root(int32_t id) {
    while (parent_[id] != id) id = parent_[id] = parent_[parent_[id]];
    return id;
  }
  void Unite(int32_t a, int32_t b) { parent_[Root(a)] = Root(b); }

  const Graph& graph_;
  const int64_t least_bytes_;
  const std::vector<NodeId> order_;
  const Fanout fanout_;
  std::vector<int32_t> position_;   // in order_
  std::vector<bool> is_variable_, joins_;
  std::vector<int32_t> parent_;     // of the chain that a node belongs to, or a step towards it
  std::map<std::string, int> nodes_of_variable_;
};

}  // namespace

absl::StatusOr<std::vector<UpdateChain>> FindUpdateChains(const Graph& graph, const OpRegistry& ops, int64_t least_bytes) {
  bool any = false;
  for (int32_t i = 0; i < graph.num_ids() && !any; ++i) {
    const Node& node = graph.node(NodeId{i});
    if (node.removed || !IsAssignment(node)) continue;
    const TensorType& type = graph.type(node.inputs[0]);
    any = type.shape.fully_known() && type.size_bytes() >= least_bytes;
  }
  if (!any) return std::vector<UpdateChain>();
  MR_ASSIGN_OR_RETURN(std::vector<NodeId> order, CreationOrder(graph));
  return Finder(graph, ops, least_bytes, std::move(order)).Run();
}

}  // namespace millrace
