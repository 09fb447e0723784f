#include "passes/control_flow/keep_predicates.h"

#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "passes/control_flow/control_flow_ops.h"
#include "passes/control_flow/creation_places.h"

namespace millrace {
namespace {

class Keeper {
 public:
  Keeper(Graph& graph, const OpRegistry& ops) : graph_(graph), ops_(ops) {}

  int64_t Run() {
    const int32_t nodes = graph_.num_ids();
    for (int32_t i = 0; i < nodes; ++i) {
      const NodeId id{i};
      if (graph_.alive(id) && IsSwitch(graph_.node(id)) && graph_.node(id).inputs.size() == 2) KeepInput(id, 1);
    }
    if (!copies_.empty()) places_.Renumber(graph_);
    return static_cast<int64_t>(copies_.size());
  }

 private:
  void KeepInput(NodeId id, int input) {
    const OutputRef ref = graph_.node(id).inputs[input];
    if (IsMemory(ref)) {
      const Node& node = graph_.node(id);
      const DataType type = node.op == "Equal" ? node.attrs.GetOr<DataType>("T", DataType::kInt32) : DataType::kBool;
      const NodeId copy = CopyOf(ref, type, id);
      graph_.mutable_node(id).inputs[input] = {copy, 0};
      return;
    }
    // Literals of guards look behind these.
    const Node& from = graph_.node(ref.node);
    const bool looked_behind = from.op == "LogicalNot" || from.op == "Equal" || from.op == "Identity" || IsSwitch(from);
    if (looked_behind && !from.inputs.empty() && visited_.insert(ref.node.value).second) KeepInput(ref.node, 0);
  }

  // Whether the tensor is a reference variable's memory: the reference itself, or what only passes it on.
  bool IsMemory(OutputRef ref) const {
    while (true) {
      const Node& node = graph_.node(ref.node);
      const OpDef* def = ops_.Find(node.op);
      if (def != nullptr && def->is_variable) return node.op != "VarHandleOp";
      const bool passes_on = IsSwitch(node) || node.op == "Identity" || (def != nullptr && def->returns_variable);
      if (!passes_on || node.inputs.empty()) return false;
      ref = node.inputs[0];
    }
  }

  // Made before its first user, `user`.
  NodeId CopyOf(OutputRef ref, DataType type, NodeId user) {
    const auto [found, added] = copies_.try_emplace(ref);
    if (!added) return found->second;
    Node copy;
    copy.name = absl::StrCat(graph_.node(ref.node).name, "/predicate");
    copy.op = "DeepCopy";
    copy.attrs.Set("T", type);
    copy.inputs = {ref};
    copy.reason = "a conditional is decided once, whatever its branches write";
    return found->second = places_.AddBefore(graph_, user, std::move(copy));
  }

  Graph& graph_;
  const OpRegistry& ops_;
  CreationPlaces places_;
  std::map<OutputRef, NodeId> copies_;
  std::set<int32_t> visited_;
};

}  // namespace

int64_t KeepPredicates(Graph& graph, const OpRegistry& ops) { return Keeper(graph, ops).Run(); }

}  // namespace millrace
