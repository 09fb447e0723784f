#include "passes/rewrite/slice_updates.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "passes/shapes/infer_shapes.h"
#include "passes/shapes/parts.h"

namespace millrace {
namespace {

// Parts begin at multiples of so many elements: aligned, whatever the type.
constexpr int64_t kElements = 1024;

// Apply* and ResourceApply* of TensorFlow: dense updates, elementwise in the variable, its slots and the gradient.
bool IsDenseUpdate(const Node& node) { return absl::StartsWith(node.op, "Apply") || absl::StartsWith(node.op, "ResourceApply"); }

class Slicer {
 public:
  Slicer(Graph& graph, const OpRegistry& ops) : graph_(graph), ops_(ops), uses_(graph.num_ids(), 0) {
    for (int32_t i = 0; i < graph.num_ids(); ++i) {
      const Node& node = graph.node(NodeId{i});
      if (node.removed) continue;
      for (OutputRef input : node.inputs) ++uses_[input.node.value];
      for (NodeId control : node.control_inputs) ++uses_[control.value];
      const OpDef* def = ops.Find(node.op);
      if (def != nullptr && def->is_variable) ++nodes_of_variable_[VariableName(node)];
    }
    for (int32_t i = 0; i < graph.num_ids(); ++i) {
      if (!graph.node(NodeId{i}).removed && IsSliceable(NodeId{i})) updates_.push_back(NodeId{i});
    }
  }

  const std::vector<NodeId>& updates() const { return updates_; }
  int64_t SlotBytes(NodeId id) const {
    return (SlotsOf(id) - 1) * graph_.type(graph_.node(id).inputs[0]).size_bytes();
  }

  void Slice(NodeId id, int64_t part_bytes, std::vector<uint64_t>& by_value) {
    const TensorType whole = graph_.type(graph_.node(id).inputs[0]);
    const int64_t elements = whole.shape.num_elements();
    const int64_t parts = std::max<int64_t>(1, whole.size_bytes() / part_bytes);
    const int64_t size = ((elements + parts - 1) / parts + kElements - 1) / kElements * kElements;
    NodeId former;
    for (int64_t begin = 0; begin < elements; begin += size) {
      const Part part{begin, std::min(size, elements - begin)};
      const bool last = begin + part.size == elements;
      // The last part keeps the node's name: what waits for the node waits for all parts.
      Node update = graph_.node(id);
      SetPart(update, part);
      update.reason = absl::StrCat("elements ", part.begin, " to ", part.begin + part.size, " of the update");
      for (int s = 1; s < SlotsOf(id); ++s) update.inputs[s] = {PartOfSlot(update.inputs[s].node, part), 0};
      if (former.valid()) update.control_inputs.push_back(former);
      if (last) {
        DropSlots(id);
        graph_.mutable_node(id) = std::move(update);
      } else {
        absl::StrAppend(&update.name, "/part_", begin / size);
        const uint64_t taken = by_value[id.value];
        former = graph_.AddUnique(std::move(update));
        by_value.resize(graph_.num_ids(), 0);
        by_value[former.value] = taken;
      }
    }
    by_value.resize(graph_.num_ids(), 0);
  }

 private:
  int SlotsOf(NodeId id) const { return static_cast<int>(ops_.Find(graph_.node(id).op)->variables.size()); }

  bool IsSliceable(NodeId id) const {
    const Node& node = graph_.node(id);
    if (!IsDenseUpdate(node)) return false;
    const OpDef* def = ops_.Find(node.op);
    const int slots = static_cast<int>(def->variables.size());
    if (slots < 2) return false;
    const TensorType& whole = graph_.type(node.inputs[0]);
    if (!whole.shape.fully_known() || node.dynamic_outputs != 0 || node.run_time_values != 0) return false;
    for (int i = 0; i < static_cast<int>(node.inputs.size()); ++i) {
      const TensorType& type = graph_.type(node.inputs[i]);
      const Node& producer = graph_.node(node.inputs[i].node);
      if (producer.dynamic_output(node.inputs[i].index)) return false;
      if (i == 0 || i >= slots) {
        if (type.shape != whole.shape && type.shape.num_elements() != 1) return false;
        continue;
      }
      const OpDef* slot = ops_.Find(producer.op);
      const bool alone = slot != nullptr && slot->is_variable && uses_[node.inputs[i].node.value] == 1 &&
                         nodes_of_variable_.at(VariableName(producer)) == 1 && producer.control_inputs.empty();
      if (!alone || type != whole) return false;
    }
    return true;
  }

  NodeId PartOfSlot(NodeId slot, const Part& part) {
    Node variable = graph_.node(slot);
    BecomePart(variable, part);
    return graph_.AddUnique(std::move(variable));
  }

  void DropSlots(NodeId id) {
    for (int s = 1; s < SlotsOf(id); ++s) graph_.RemoveNode(graph_.node(id).inputs[s].node);
  }

  Graph& graph_;
  const OpRegistry& ops_;
  std::vector<int32_t> uses_;
  std::map<std::string, int> nodes_of_variable_;
  std::vector<NodeId> updates_;
};

}  // namespace

int64_t SliceableBytes(const Graph& graph, const OpRegistry& ops) {
  // Only looked at.
  const Slicer slicer(const_cast<Graph&>(graph), ops);
  int64_t bytes = 0;
  for (NodeId id : slicer.updates()) bytes += slicer.SlotBytes(id);
  return bytes;
}

int64_t SliceUpdates(Graph& graph, const OpRegistry& ops, int64_t part_bytes, std::vector<uint64_t>& by_value) {
  Slicer slicer(graph, ops);
  by_value.resize(graph.num_ids(), 0);
  int64_t sliced = 0;
  for (NodeId id : slicer.updates()) {
    if (graph.type(graph.node(id).inputs[0]).size_bytes() < 2 * part_bytes) continue;
    slicer.Slice(id, part_bytes, by_value);
    ++sliced;
  }
  return sliced;
}

}  // namespace millrace
