#include "passes/rewrite/slice_updates.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "graph/variable_name.h"
#include "millrace/status.h"
#include "passes/control_flow/creation_places.h"
#include "passes/shapes/parts.h"
#include "plan/measured_times.h"

namespace millrace {
namespace {

// Parts begin at multiples of so many elements: aligned, whatever the type.
constexpr int64_t kElements = 1024;
// Of one variable: more are more nodes to plan than memory saved.
constexpr int64_t kMostParts = 256;

// Apply* and ResourceApply* of TensorFlow: dense updates, elementwise in the variable, its slots and the gradient.
bool IsDenseUpdate(const Node& node) { return absl::StartsWith(node.op, "Apply") || absl::StartsWith(node.op, "ResourceApply"); }

// The variable and its slots, an update's first inputs.
int VariablesOf(const Node& update, const OpRegistry& ops) { return static_cast<int>(ops.Find(update.op)->variables.size()); }

// Finds the updates whose slots are variables that nothing else uses.
class Finder {
 public:
  Finder(const Graph& graph, const OpRegistry& ops) : graph_(graph), ops_(ops), uses_(graph.num_ids(), 0) {
    for (int32_t i = 0; i < graph.num_ids(); ++i) {
      const Node& node = graph.node(NodeId{i});
      if (node.removed) continue;
      for (OutputRef input : node.inputs) ++uses_[input.node.value];
      for (NodeId control : node.control_inputs) ++uses_[control.value];
      const OpDef* def = ops.Find(node.op);
      if (def != nullptr && def->is_variable) ++nodes_of_variable_[VariableName(node)];
    }
  }

  std::vector<NodeId> Run() const {
    std::vector<NodeId> updates;
    for (int32_t i = 0; i < graph_.num_ids(); ++i) {
      const Node& node = graph_.node(NodeId{i});
      if (!node.removed && IsDenseUpdate(node) && IsSliceable(node)) updates.push_back(NodeId{i});
    }
    return updates;
  }

 private:
  bool IsSliceable(const Node& update) const {
    const int variables = VariablesOf(update, ops_);
    if (variables < 2) return false;
    const TensorType& whole = graph_.type(update.inputs[0]);
    if (!whole.shape.fully_known() || update.dynamic_outputs != 0 || update.run_time_values != 0) return false;
    for (int i = 0; i < static_cast<int>(update.inputs.size()); ++i) {
      const OutputRef input = update.inputs[i];
      const TensorType& type = graph_.type(input);
      if (graph_.node(input.node).dynamic_output(input.index)) return false;
      const bool slot = i > 0 && i < variables;
      if (slot ? type != whole || !IsAlone(input.node) : type.shape != whole.shape && type.shape.num_elements() != 1) return false;
    }
    return true;
  }

  // A variable that only the update uses.
  bool IsAlone(NodeId id) const {
    const Node& node = graph_.node(id);
    const OpDef* def = ops_.Find(node.op);
    return def != nullptr && def->is_variable && uses_[id.value] == 1 && nodes_of_variable_.at(VariableName(node)) == 1 &&
           node.control_inputs.empty();
  }

  const Graph& graph_;
  const OpRegistry& ops_;
  std::vector<int32_t> uses_;
  std::map<std::string, int> nodes_of_variable_;
};

// Elements of a part, so that parts are about equal.
int64_t PartSize(const TensorType& whole, int64_t part_bytes) {
  const int64_t elements = whole.shape.num_elements();
  const int64_t parts = std::clamp<int64_t>(whole.size_bytes() / part_bytes, 1, kMostParts);
  return ((elements + parts - 1) / parts + kElements - 1) / kElements * kElements;
}

// Two of them at least: inputs of one part would be as long as it is, and keep the shapes of the whole (TakesPartOf).
bool HasParts(const TensorType& whole, int64_t part_bytes) { return PartSize(whole, part_bytes) < whole.shape.num_elements(); }

std::string FreeName(const Graph& graph, std::string name) {
  while (graph.Find(name).valid()) name += "_";
  return name;
}

std::string ReasonOf(const Part& part) {
  return absl::StrCat("elements ", part.begin, " to ", part.begin + part.size, " of the update");
}

// Parts stand where the update stood: orders that follow creation keep them there.
void Slice(NodeId id, int64_t part_bytes, const OpRegistry& ops, Graph& graph, CreationPlaces& places,
           std::vector<uint64_t>& by_value) {
  const TensorType whole = graph.type(graph.node(id).inputs[0]);
  const int variables = VariablesOf(graph.node(id), ops);
  const int64_t elements = whole.shape.num_elements();
  const int64_t size = PartSize(whole, part_bytes);
  NodeId former;
  for (int64_t begin = 0; begin < elements; begin += size) {
    const Part part{begin, std::min(size, elements - begin)};
    Node update = graph.node(id);
    SetPart(update, part);
    update.reason = ReasonOf(part);
    for (int s = 1; s < variables; ++s) {
      Node slot = graph.node(update.inputs[s].node);
      BecomePart(slot, part);
      update.inputs[s] = {places.AddBefore(graph, id, std::move(slot)), 0};
    }
    if (former.valid()) update.control_inputs.push_back(former);
    const std::string name = FreeName(graph, absl::StrCat(graph.node(id).name, kUpdatePartName, begin / size));
    if (begin + part.size < elements) {
      update.name = name;
      former = places.AddBefore(graph, id, std::move(update));
      by_value.resize(graph.num_ids(), 0);
      by_value[former.value] = by_value[id.value];
      continue;
    }
    // The last part is the node itself: what waits for the node waits for all parts. Its name is another, since measured
    // times go by names.
    for (int s = 1; s < variables; ++s) graph.RemoveNode(graph.node(id).inputs[s].node);
    graph.mutable_node(id) = std::move(update);
    graph.Rename(id, name);
  }
  by_value.resize(graph.num_ids(), 0);
}

// A chain's parts, made one after another where its last node stood. Who waited for a node waits for its last part, which comes
// after all others: a part begins when the one before has assigned all.
class ChainSlicer {
 public:
  ChainSlicer(const UpdateChain& chain, int64_t part_bytes, Graph& graph, CreationPlaces& places, std::vector<uint64_t>& by_value)
      : chain_(chain),
        anchor_(chain.nodes.back()),
        whole_(graph.node(chain.slots[0]).outputs[0]),
        size_(PartSize(whole_, part_bytes)),
        graph_(graph),
        places_(places),
        by_value_(by_value) {}

  void Run() {
    const std::set<NodeId> slots(chain_.slots.begin(), chain_.slots.end());
    for (int64_t begin = 0; begin < whole_.shape.num_elements(); begin += size_) {
      const Part part{begin, std::min(size_, whole_.shape.num_elements() - begin)};
      made_.clear();
      for (NodeId id : chain_.slots) {
        Node slot = graph_.node(id);
        BecomePart(slot, part);
        made_[id] = places_.AddBefore(graph_, anchor_, std::move(slot));
      }
      std::vector<NodeId> assigned;
      for (NodeId id : chain_.nodes) {
        Add(id, part, slots);
        if (graph_.node(id).outputs.empty()) assigned.push_back(made_[id]);
      }
      former_ = std::move(assigned);
    }
    Replace();
  }

 private:
  void Add(NodeId id, const Part& part, const std::set<NodeId>& slots) {
    Node node = graph_.node(id);
    bool first = true;
    for (OutputRef& input : node.inputs) {
      const auto made = made_.find(input.node);
      if (made == made_.end()) continue;
      first = first && slots.count(input.node) > 0;
      input.node = made->second;
    }
    for (NodeId& control : node.control_inputs) {
      const auto made = made_.find(control);
      if (made == made_.end()) continue;
      first = false;
      control = made->second;
    }
    if (first) node.control_inputs.insert(node.control_inputs.end(), former_.begin(), former_.end());
    // What is read of a variable that stays whole is its memory: a part of it is taken where it is used.
    const bool reads_whole = node.op == "ReadVariableOp" && slots.count(graph_.node(id).inputs[0].node) == 0;
    if (!reads_whole) {
      SetPart(node, part);
      for (TensorType& type : node.outputs) type = PartType(part, type);
    }
    node.reason = ReasonOf(part);
    node.name = FreeName(graph_, absl::StrCat(graph_.node(id).name, kUpdatePartName, part.begin / size_));
    const NodeId made = places_.AddBefore(graph_, anchor_, std::move(node));
    made_[id] = made;
    by_value_.resize(graph_.num_ids(), 0);
    by_value_[made.value] = by_value_[id.value];
  }

  // The last parts take the places of the nodes.
  void Replace() {
    for (NodeId id : chain_.nodes) graph_.RemoveNode(id);
    for (NodeId id : chain_.slots) graph_.RemoveNode(id);
    for (int32_t i = 0; i < graph_.num_ids(); ++i) {
      Node& node = graph_.mutable_node(NodeId{i});
      if (node.removed) continue;
      for (NodeId& control : node.control_inputs) {
        const auto made = made_.find(control);
        if (made != made_.end()) control = made->second;
      }
    }
  }

  const UpdateChain& chain_;
  const NodeId anchor_;
  const TensorType whole_;
  const int64_t size_;
  Graph& graph_;
  CreationPlaces& places_;
  std::vector<uint64_t>& by_value_;
  std::map<NodeId, NodeId> made_;  // of the part at hand
  std::vector<NodeId> former_;     // the assignments of the part before
};

}  // namespace

std::vector<std::string> TargetsOfParts(const Graph& graph, std::vector<std::string> targets) {
  std::map<std::string, std::pair<int64_t, std::string>> last;  // by name of the whole: the part's number and name
  for (int32_t i = 0; i < graph.num_ids(); ++i) {
    if (!graph.alive(NodeId{i})) continue;
    const std::string& name = graph.node(NodeId{i}).name;
    const size_t end = name.rfind(kUpdatePartName);
    if (end == name.npos) continue;
    const int64_t number = std::strtoll(name.c_str() + end + std::strlen(kUpdatePartName), nullptr, 10);
    auto& known = last[name.substr(0, end)];
    known = std::max(known, std::pair(number, name));
  }
  for (std::string& target : targets) {
    const auto found = last.find(target.substr(0, target.rfind(':')));
    if (found != last.end() && !graph.Find(found->first).valid()) target = found->second.second;
  }
  return targets;
}

std::string WholeUpdateName(const Node& part) { return part.name.substr(0, part.name.rfind(kUpdatePartName)); }

absl::StatusOr<SliceableUpdates> FindSliceableUpdates(const Graph& graph, const OpRegistry& ops, PartBytes part) {
  SliceableUpdates updates;
  updates.nodes = Finder(graph, ops).Run();
  MR_ASSIGN_OR_RETURN(updates.chains, FindUpdateChains(graph, ops, 2 * part.of_chain));
  for (NodeId id : updates.nodes) {
    const Node& update = graph.node(id);
    updates.slot_bytes += (VariablesOf(update, ops) - 1) * graph.type(update.inputs[0]).size_bytes();
  }
  for (const UpdateChain& chain : updates.chains) {
    for (NodeId slot : chain.slots) updates.slot_bytes += graph.node(slot).outputs[0].size_bytes();
  }
  return updates;
}

int64_t SliceUpdates(Graph& graph, const OpRegistry& ops, const SliceableUpdates& updates, PartBytes part,
                     std::vector<uint64_t>& by_value) {
  by_value.resize(graph.num_ids(), 0);
  int64_t sliced = 0;
  CreationPlaces places;
  for (NodeId id : updates.nodes) {
    if (!HasParts(graph.type(graph.node(id).inputs[0]), part.of_op)) continue;
    Slice(id, part.of_op, ops, graph, places, by_value);
    ++sliced;
  }
  for (const UpdateChain& chain : updates.chains) {
    if (!HasParts(graph.node(chain.slots[0]).outputs[0], part.of_chain)) continue;
    ChainSlicer(chain, part.of_chain, graph, places, by_value).Run();
    ++sliced;
  }
  if (places.empty()) return sliced;
  places.Renumber(graph, by_value);
  return sliced;
}

}  // namespace millrace
