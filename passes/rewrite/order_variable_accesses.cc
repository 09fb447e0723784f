#include "passes/rewrite/order_variable_accesses.h"

#include <algorithm>
#include <map>
#include <unordered_map>

#include "absl/strings/str_cat.h"
#include "millrace/status.h"
#include "passes/shapes/infer_shapes.h"

namespace millrace {
namespace {

// What a tensor is with respect to variables.
struct Alias {
  int32_t variable = -1;  // index of the variable, or -1
  bool handle = false;    // stands for the variable itself (a handle or reference), not for a value read from it
  int32_t version = 0;    // of a value: number of writes before the read
};

struct VariableState {
  int32_t version = 0;
  NodeId last_writer;
  std::vector<NodeId> readers;  // since the last write
};

class Orderer {
 public:
  Orderer(Graph& graph, const OpRegistry& ops) : graph_(graph), ops_(ops), alias_(graph.num_ids()) {}

  absl::StatusOr<bool> Run() {
    // Fetches happen where their tensor is made.
    std::vector<int64_t> priority(graph_.num_ids());
    for (int32_t i = 0; i < graph_.num_ids(); ++i) {
      const Node& node = graph_.node(NodeId{i});
      priority[i] = node.op == "_Fetch" ? node.inputs[0].node.value : i;
    }
    MR_ASSIGN_OR_RETURN(const std::vector<NodeId> order, TopologicalOrder(graph_, priority));
    for (NodeId id : order) Visit(id);
    return changed_;
  }

 private:
  void Visit(NodeId id) {
    const OpDef& def = *ops_.Find(graph_.node(id).op);
    if (def.is_variable) {
      alias_[id.value] = Alias{VariableIndex(graph_.node(id)), true, 0};
      return;
    }
    std::vector<std::pair<int32_t, VariableAccess>> accesses;
    for (size_t i = 0; i < graph_.node(id).inputs.size(); ++i) {
      const OutputRef input = graph_.node(id).inputs[i];
      if (input.index != 0 || alias_[input.node.value].variable < 0) continue;
      const Alias alias = alias_[input.node.value];
      if (!alias.handle && alias.version != states_[alias.variable].version) {
        ReadCopy(id, static_cast<int>(i), alias);
      } else {
        accesses.emplace_back(alias.variable, AccessOf(def, static_cast<int>(i), alias));
      }
    }
    for (auto [variable, access] : accesses) {
      Order(id, variable, access);
    }
    if (!accesses.empty()) SetAlias(id, def);
  }

  static VariableAccess AccessOf(const OpDef& def, int i, const Alias& alias) {
    if (!alias.handle) return VariableAccess::kRead;
    for (const VariableUse& use : def.variables) {
      if (use.input == i) return use.access;
    }
    return VariableAccess::kRead;
  }

  // Input `i` of node `id` is a value that a write has ended: read a copy from before that write.
  void ReadCopy(NodeId id, int i, const Alias& alias) {
    const NodeId copy = CopyOf(graph_.node(id).inputs[i].node, alias);
    graph_.mutable_node(id).inputs[i] = {copy, 0};
  }

  // The copy of the value that `view` holds, made before the write that ends it.
  NodeId CopyOf(NodeId view, const Alias& alias) {
    auto found = copies_.find(view.value);
    if (found != copies_.end()) return found->second;
    Node copy;
    copy.name = absl::StrCat(graph_.node(view).name, "/snapshot");
    copy.op = "DeepCopy";
    copy.attrs.Set("T", graph_.node(view).outputs[0].dtype);
    copy.inputs.push_back({view, 0});
    copy.outputs.push_back(graph_.node(view).outputs[0]);
    copy.reason = "a later node reads the value from before a write to the variable";
    const NodeId id = graph_.AddUnique(std::move(copy));
    alias_.emplace_back();
    copies_.emplace(view.value, id);
    AddControl(id, writers_[alias.variable][alias.version]);
    changed_ = true;
    return id;
  }

  void Order(NodeId id, int32_t variable, VariableAccess access) {
    if (access == VariableAccess::kPresence && states_[variable].version == 0) {
      states_[variable].readers.push_back(id);
      return;
    }
    VariableState& state = states_[variable];
    if (state.last_writer.valid()) AddControl(state.last_writer, id);
    if (access == VariableAccess::kRead || access == VariableAccess::kPresence) {
      state.readers.push_back(id);
      return;
    }
    for (NodeId reader : state.readers) AddControl(reader, id);
    state.readers.clear();
    state.last_writer = id;
    writers_[variable].push_back(id);
    ++state.version;
  }

  void SetAlias(NodeId id, const OpDef& def) {
    const Node& node = graph_.node(id);
    if (node.inputs.empty() || node.outputs.empty()) return;
    const Alias input = alias_[node.inputs[0].node.value];
    if (input.variable < 0 || node.inputs[0].index != 0) return;
    if (def.returns_variable) {
      alias_[id.value] = input;
    } else if (def.is_view) {
      const bool passes_handle = input.handle && graph_.node(Variable(input.variable)).op == "VarHandleOp" &&
                                 def.variables.empty();
      alias_[id.value] = Alias{input.variable, passes_handle, states_[input.variable].version};
    }
  }

  void AddControl(NodeId from, NodeId to) {
    if (from == to) return;
    Node& node = graph_.mutable_node(to);
    for (OutputRef input : node.inputs) {
      if (input.node == from) return;
    }
    for (NodeId control : node.control_inputs) {
      if (control == from) return;
    }
    node.control_inputs.push_back(from);
    changed_ = true;
  }

  int32_t VariableIndex(const Node& node) {
    auto [it, inserted] = index_.emplace(VariableName(node), static_cast<int32_t>(states_.size()));
    if (inserted) {
      states_.emplace_back();
      writers_.emplace_back();
      nodes_.push_back(graph_.Find(node.name));
    }
    return it->second;
  }
  NodeId Variable(int32_t index) const { return nodes_[index]; }

  Graph& graph_;
  const OpRegistry& ops_;
  std::vector<Alias> alias_;  // of output 0, by node id
  std::map<std::string, int32_t> index_;
  std::vector<VariableState> states_;
  std::vector<NodeId> nodes_;
  std::vector<std::vector<NodeId>> writers_;  // per variable, the node that ends version v
  std::unordered_map<int32_t, NodeId> copies_;
  bool changed_ = false;
};

}  // namespace

absl::StatusOr<bool> OrderVariableAccesses(Graph& graph, const OpRegistry& ops) { return Orderer(graph, ops).Run(); }

NodeId VariableOf(const Graph& graph, const OpRegistry& ops, OutputRef ref) {
  while (ref.index == 0) {
    const Node& node = graph.node(ref.node);
    const OpDef* def = ops.Find(node.op);
    if (def == nullptr) return NodeId();
    if (def->is_variable) return ref.node;
    if (!(def->returns_variable || def->is_view) || node.inputs.empty()) return NodeId();
    ref = node.inputs[0];
  }
  return NodeId();
}

}  // namespace millrace
