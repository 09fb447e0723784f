#include "passes/rewrite/fuse_elementwise.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "glog/logging.h"
#include "millrace/status.h"
#include "millrace/tensor.h"
#include "passes/rewrite/find_groups.h"
#include "passes/rewrite/fused_writer.h"
#include "passes/rewrite/group_ops.h"
#include "passes/rewrite/repeated_ops.h"
#include "passes/rewrite/strided_views.h"

namespace millrace {
namespace {

// Rounds in which groups are found before no op is repeated.
constexpr int kMaxRounds = 6;

class Fuser {
 public:
  Fuser(Graph& graph, std::vector<uint64_t>& by_value) : graph_(graph), by_value_(by_value), fanout_(ComputeFanout(graph)) {}

  absl::StatusOr<int64_t> Run() {
    MR_ASSIGN_OR_RETURN(const std::vector<NodeId> order, CreationOrder(graph_));
    FindGroupsFor(order);
    Operands of_repeated;
    for (NodeId id : order) {
      if (repeated_[id.value]) AddOperandsOf(id, of_repeated);
    }
    const int32_t before = graph_.num_nodes();
    for (const Draft& group : groups_.drafts) Replace(group);
    RemoveRepeated(std::move(of_repeated));
    if (!moved_.empty()) FollowMoved();
    return before - graph_.num_nodes();
  }

 private:
  // Nodes that may be unused without who read them: what repeats a tensor (of which groups read that), and constants.
  struct Operands {
    std::set<NodeId> copies, constants;
  };

  // Groups depend on what is repeated, and the other way round.
  void FindGroupsFor(const std::vector<NodeId>& order) {
    repeated_ = OpsToRepeat(graph_, fanout_, order);
    groups_ = FindGroups(graph_, fanout_, order, repeated_);
    for (int round = 1; KeepRepeatable(graph_, order, groups_, repeated_); ++round) {
      if (round == kMaxRounds) repeated_.assign(repeated_.size(), false);
      groups_ = FindGroups(graph_, fanout_, order, repeated_);
    }
  }

  // Whether the consumer, or the node that it has become part of, takes the result or waits for it.
  bool Takes(NodeId consumer, NodeId id) const {
    const int32_t group = groups_.of[consumer.value];
    const Node& node = graph_.node(group >= 0 && graph_.node(consumer).removed ? groups_.drafts[group].root : consumer);
    const auto is = [id](OutputRef input) { return input.node == id; };
    return !node.removed && (std::any_of(node.inputs.begin(), node.inputs.end(), is) ||
                             std::find(node.control_inputs.begin(), node.control_inputs.end(), id) != node.control_inputs.end());
  }

  std::vector<Shape> WriteResults(const Draft& group, const Node& old, FusedWriter& writer);
  void Replace(const Draft& group);
  absl::InlinedVector<NodeId, 2> ControlsOf(const std::vector<NodeId>& nodes) const;
  void RemoveRepeated(Operands operands);
  void AddOperandsOf(NodeId id, Operands& operands) const;
  void RemoveUnused(const Operands& operands);
  void FollowMoved();

  Graph& graph_;
  std::vector<uint64_t>& by_value_;
  const Fanout fanout_;
  Groups groups_;
  std::vector<bool> repeated_;          // computed in every group that reads it; no node, and in no group of its own
  std::map<int32_t, OutputRef> moved_;  // node that is gone -> where its result is now
};

// Writes the results, and says where they are now.
std::vector<Shape> Fuser::WriteResults(const Draft& group, const Node& old, FusedWriter& writer) {
  std::vector<std::string> reductions;
  for (NodeId id : group.reductions) reductions.push_back(ReductionOf(graph_, id)->op);
  Node& root = graph_.mutable_node(group.root);
  root.outputs.clear();
  std::vector<Shape> shapes;
  const auto add = [&](NodeId id, const TensorType& type) {
    moved_[id.value] = {group.root, static_cast<int32_t>(root.outputs.size())};
    root.outputs.push_back(type);
    shapes.push_back(type.shape);
    return static_cast<int64_t>(shapes.size()) - 1;
  };
  for (NodeId id : group.results) {
    const int64_t output = add(id, id == group.root ? old.outputs[0] : graph_.node(id).outputs[0]);
    if (id != group.root || !group.concat) {
      writer.AddResult({id, 0}, output, -1, 0);
      continue;
    }
    const std::vector<StridedPart> parts = PartsOf(graph_, id);
    writer.set_row(parts[0].length);
    for (size_t i = 0; i < parts.size(); ++i) writer.AddResult(old.inputs[i], output, parts[i].pitch, parts[i].offset);
  }
  for (size_t r = 0; r < reductions.size(); ++r) {
    const Node& reduction = graph_.node(group.reductions[r]);
    writer.AddReduction(reduction.inputs[0], reductions[r], add(group.reductions[r], reduction.outputs[0]));
  }
  moved_.erase(group.root.value);
  return shapes;
}

void Fuser::Replace(const Draft& group) {
  FusedWriter writer(graph_, group);
  const Node old = graph_.node(group.root);
  std::vector<NodeId> gone, read = group.members;
  for (const Cut& cut : group.cuts) {
    read.push_back(cut.copy);
    if (cut.bias.valid()) read.push_back(cut.bias);
  }
  read.insert(read.end(), group.reductions.begin(), group.reductions.end());
  if (group.concat) read.push_back(group.root);
  for (NodeId id : read) {
    if (id == group.root || repeated_[id.value]) continue;
    gone.push_back(id);
    moved_[id.value] = {group.root, -1};  // for those that wait for it
  }
  const std::string reductions = absl::StrJoin(group.reductions, ", ", [&](std::string* out, NodeId id) { *out += graph_.node(id).op; });
  std::vector<Shape> shapes = WriteResults(group, old, writer);
  Operands operands;
  for (NodeId id : read) AddOperandsOf(id, operands);
  Node& root = graph_.mutable_node(group.root);
  root.op = group.reductions.empty() ? "_Fused" : group.results.empty() ? "_FusedReduce" : "_FusedMapReduce";
  root.reason = absl::StrCat(group.members.size(), " elementwise ops in one", group.reductions.empty() ? "" : ", then ", reductions);
  root.attrs = writer.Attributes(std::move(shapes));
  root.control_inputs = ControlsOf(read);
  root.inputs.clear();
  for (const FusedInput& input : writer.inputs()) root.inputs.push_back(input.ref);
  by_value_[group.root.value] = 0;
  for (NodeId id : gone) graph_.RemoveNode(id);
  RemoveUnused(operands);
}

// What they wait for together, one another aside.
absl::InlinedVector<NodeId, 2> Fuser::ControlsOf(const std::vector<NodeId>& nodes) const {
  absl::InlinedVector<NodeId, 2> controls;
  for (NodeId id : nodes) {
    for (NodeId control : graph_.node(id).control_inputs) {
      if (std::find(nodes.begin(), nodes.end(), control) == nodes.end() &&
          std::find(controls.begin(), controls.end(), control) == controls.end()) {
        controls.push_back(control);
      }
    }
  }
  return controls;
}

// Those that every group computes which reads them are nodes no longer.
void Fuser::RemoveRepeated(Operands operands) {
  for (int32_t i = 0; i < static_cast<int32_t>(repeated_.size()); ++i) {
    if (repeated_[i]) graph_.RemoveNode(NodeId{i});
  }
  for (const Draft& group : groups_.drafts) {
    for (OutputRef input : graph_.node(group.root).inputs) {
      operands.copies.erase(input.node);
      operands.constants.erase(input.node);
    }
  }
  RemoveUnused(operands);
}

void Fuser::AddOperandsOf(NodeId id, Operands& operands) const {
  const auto add_constant = [&](OutputRef ref) {
    if (graph_.node(ref.node).op == "Const") operands.constants.insert(ref.node);
  };
  for (OutputRef input : graph_.node(id).inputs) {
    add_constant(input);
    if (!ReadFor(graph_, input).spread) continue;
    operands.copies.insert(input.node);
    add_constant(graph_.node(input.node).inputs[1]);
  }
}

// Those of them that nobody takes now.
void Fuser::RemoveUnused(const Operands& operands) {
  for (const std::set<NodeId>* nodes : {&operands.copies, &operands.constants}) {
    for (NodeId id : *nodes) {
      const auto uses = fanout_.of(id);
      const auto takes = [&](const Fanout::Use& use) { return Takes(use.consumer, id); };
      if (std::none_of(uses.begin(), uses.end(), takes)) graph_.RemoveNode(id);
    }
  }
}

void Fuser::FollowMoved() {
  for (int32_t i = 0; i < graph_.num_ids(); ++i) {
    if (graph_.node(NodeId{i}).removed) continue;
    Node& node = graph_.mutable_node(NodeId{i});
    for (OutputRef& input : node.inputs) {
      const auto moved = moved_.find(input.node.value);
      if (moved == moved_.end()) continue;
      CHECK_GE(moved->second.index, 0) << node.name << " reads " << graph_.node(input.node).name << ", which is in another group";
      input = moved->second;
    }
    if (node.control_inputs.empty()) continue;
    absl::InlinedVector<NodeId, 2> controls;
    for (NodeId control : node.control_inputs) {
      const auto moved = moved_.find(control.value);
      const NodeId now = moved == moved_.end() ? control : moved->second.node;
      if (std::find(controls.begin(), controls.end(), now) == controls.end()) controls.push_back(now);
    }
    node.control_inputs = std::move(controls);
  }
}

}  // namespace

absl::StatusOr<int64_t> FuseElementwise(Graph& graph, std::vector<uint64_t>& by_value) {
  return Fuser(graph, by_value).Run();
}

}  // namespace millrace
