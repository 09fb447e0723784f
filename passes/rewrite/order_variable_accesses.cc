#include "passes/rewrite/order_variable_accesses.h"

#include <algorithm>
#include <limits>
#include <map>
#include <unordered_map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "graph/variable_name.h"
#include "millrace/status.h"
#include "passes/shapes/per_op.h"

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

bool IsReferenceVariable(const Graph& graph, NodeId variable) {
  return variable.valid() && (graph.node(variable).op == "VariableV2" || graph.node(variable).op == "Variable");
}

// Of a variable, filled as far as was asked.
struct Newest {
  std::vector<int32_t> by_position;  // from the first writer's on: the last write at or before each by given edges, counted from 1
  size_t writers = 0;                // that were come by
};

class Orderer {
 public:
  Orderer(Graph& graph, const OpRegistry& ops) : graph_(graph), ops_(ops), def_of_(ops), alias_(graph.num_ids()) {}

  absl::StatusOr<bool> Run() {
    // Fetches happen where their tensor is made; a reference variable's memory is looked at when the step is over.
    std::vector<int64_t> priority(graph_.num_ids());
    given_controls_.reserve(graph_.num_ids());
    for (int32_t i = 0; i < graph_.num_ids(); ++i) {
      const Node& node = graph_.node(NodeId{i});
      const bool fetch = node.op == "_Fetch" && !node.inputs.empty();
      const bool of_reference = fetch && IsReference(VariableOf(graph_, ops_, node.inputs[0]));
      priority[i] = of_reference ? std::numeric_limits<int64_t>::max() : fetch ? node.inputs[0].node.value : i;
      given_controls_.push_back(node.control_inputs.size());
    }
    MR_ASSIGN_OR_RETURN(order_, TopologicalOrder(graph_, priority));
    position_.resize(graph_.num_ids());
    for (size_t i = 0; i < order_.size(); ++i) position_[order_[i].value] = i;
    for (NodeId id : order_) {
      MR_RETURN_IF_ERROR(CheckUses(id));
      Visit(id);
    }
    return changed_;
  }

 private:
  // Only of a variable can be asked whether it is initialised: anything else would have no memory here. What is written in the place of a
  // variable that is fed would be lost.
  absl::Status CheckUses(NodeId id) {
    const Node& node = graph_.node(id);
    const OpDef& def = *def_of_(node.op);
    for (const VariableUse& use : def.variables) {
      const OutputRef asked = node.inputs[use.input];
      const Node& origin = graph_.node(OriginOf(asked).node);
      if (use.writes() && (origin.op == "_Feed" || origin.op == "Const")) {
        return absl::InvalidArgumentError(absl::StrCat("node '", node.name, "' (", node.op, ") writes its input ", use.input, ", '", origin.name,
                                                       "', which is ", origin.op == "_Feed" ? "fed" : "a constant", ", expected a variable"));
      }
      if (use.access != VariableAccess::kPresence || def.from_types) continue;
      if (asked.index == 0 && alias_[asked.node.value].variable >= 0) continue;
      return absl::InvalidArgumentError(absl::StrCat("node '", node.name, "' (", node.op, ") asks whether '", graph_.node(asked.node).name,
                                                     "' is initialised, which is no variable"));
    }
    return absl::OkStatus();
  }

  // Where what it stands for comes from: what ops that pass it on take.
  OutputRef OriginOf(OutputRef ref) {
    while (ref.index == 0) {
      const Node& node = graph_.node(ref.node);
      const OpDef& def = *def_of_(node.op);
      if (!(def.returns_variable || def.is_view) || node.inputs.empty()) break;
      ref = node.inputs[0];
    }
    return ref;
  }

  void Visit(NodeId id) {
    const OpDef& def = *def_of_(graph_.node(id).op);
    if (def.is_variable) {
      alias_[id.value] = Alias{VariableIndex(graph_.node(id)), true, 0};
      return;
    }
    if (def.writes_chosen_rows) CopyWhatIsWritten(id, def);
    std::vector<std::pair<int32_t, VariableAccess>> accesses;
    for (size_t i = 0; i < graph_.node(id).inputs.size(); ++i) {
      const OutputRef input = graph_.node(id).inputs[i];
      if (input.index != 0 || alias_[input.node.value].variable < 0) continue;
      Alias alias = alias_[input.node.value];
      if (!alias.handle) alias.version = SeenVersion(id, alias);
      if (!alias.handle && alias.version != states_[alias.variable].version) {
        if (i == 0 && def.is_view && IsReference(Variable(alias.variable))) {
          alias_[id.value] = alias;  // reads nothing; who uses it may come after the write, or not
          continue;
        }
        ReadCopy(id, static_cast<int>(i), alias);
      } else {
        accesses.emplace_back(alias.variable, AccessOf(def, static_cast<int>(i), alias));
      }
    }
    for (auto [variable, access] : accesses) {
      Order(id, variable, access);
    }
    if (!accesses.empty() && alias_[id.value].variable < 0) SetAlias(id, def);
  }

  // Inputs of `id` that are the memory of a variable that it writes: they become copies from before.
  void CopyWhatIsWritten(NodeId id, const OpDef& def) {
    for (const VariableUse& use : def.variables) {
      const Alias written = alias_[graph_.node(id).inputs[use.input].node.value];
      for (size_t i = 0; i < graph_.node(id).inputs.size(); ++i) {
        const OutputRef input = graph_.node(id).inputs[i];
        const Alias alias = alias_[input.node.value];
        if (input.index != 0 || alias.handle || alias.variable < 0 || alias.variable != written.variable) continue;
        const int32_t version = SeenVersion(id, alias);
        // What an earlier write has ended is copied before that one.
        if (version != states_[alias.variable].version) continue;
        const NodeId copy = CopyOf(input.node, {alias.variable, false, version}, id);
        graph_.mutable_node(id).inputs[i] = {copy, 0};
      }
    }
  }

  static VariableAccess AccessOf(const OpDef& def, int i, const Alias& alias) {
    if (!alias.handle) return VariableAccess::kRead;
    for (const VariableUse& use : def.variables) {
      if (use.input == i) return use.access;
    }
    return VariableAccess::kRead;
  }

  bool IsReference(NodeId variable) const { return IsReferenceVariable(graph_, variable); }

  // The version that `id` finds in what was read from a variable: a value of a reference variable is its memory, so whoever
  // comes after a write by the graph's own edges finds what was written.
  int32_t SeenVersion(NodeId id, const Alias& alias) {
    if (!IsReference(Variable(alias.variable))) return alias.version;
    const int32_t now = states_[alias.variable].version;
    if (now == alias.version || graph_.node(id).op == "_Fetch") return now;
    return std::max(alias.version, NewestBefore(id, alias.variable));
  }

  // How many of the variable's writes the edges that the graph came with put before the node: up to the last such one.
  int32_t NewestBefore(NodeId id, int32_t variable) {
    const std::vector<NodeId>& writers = writers_[variable];
    Newest& newest = newest_[variable];
    const size_t begin = position_[writers[0].value], end = position_[id.value];
    for (size_t at = begin + newest.by_position.size(); at < end; ++at) {
      int32_t most = NewestAmongInputs(order_[at], newest, begin);
      for (; newest.writers < writers.size() && writers[newest.writers] == order_[at]; ++newest.writers) {
        most = static_cast<int32_t>(newest.writers) + 1;
      }
      newest.by_position.push_back(most);
    }
    // Not kept: the node may yet turn out to be the next writer.
    return NewestAmongInputs(id, newest, begin);
  }

  int32_t NewestAmongInputs(NodeId id, const Newest& newest, size_t begin) const {
    int32_t most = 0;
    const auto look_at = [&](NodeId before) {
      while (static_cast<size_t>(before.value) >= position_.size()) before = graph_.node(before).inputs[0].node;
      const size_t position = position_[before.value];
      if (position >= begin) most = std::max(most, newest.by_position[position - begin]);
    };
    const Node& node = graph_.node(id);
    for (const OutputRef input : node.inputs) look_at(input.node);
    for (size_t i = 0; i < given_controls_[id.value]; ++i) look_at(node.control_inputs[i]);
    return most;
  }

  // Input `i` of node `id` is a value that a write has ended: read a copy from before that write.
  void ReadCopy(NodeId id, int i, const Alias& alias) {
    const NodeId copy = CopyOf(graph_.node(id).inputs[i].node, alias, writers_[alias.variable][alias.version]);
    graph_.mutable_node(id).inputs[i] = {copy, 0};
  }

  // The copy of the value that `view` holds, made before the write `ending` that ends it.
  NodeId CopyOf(NodeId view, const Alias& alias, NodeId ending) {
    auto found = copies_.find({view.value, alias.version});
    if (found != copies_.end()) return found->second;
    if (position_[view.value] > position_[ending.value]) return CopyOfLaterView(view, alias, ending);
    Node copy;
    copy.name = absl::StrCat(graph_.node(view).name, "/snapshot");
    copy.op = "DeepCopy";
    copy.attrs.Set("T", graph_.node(view).outputs[0].dtype);
    copy.inputs.push_back({view, 0});
    copy.outputs.push_back(graph_.node(view).outputs[0]);
    copy.reason = "the value from before a write to the variable is read by the write or after it";
    const NodeId id = graph_.AddUnique(std::move(copy));
    alias_.emplace_back();
    copies_.emplace(std::pair(view.value, alias.version), id);
    if (alias.version > alias_[view.value].version) AddControl(writers_[alias.variable][alias.version - 1], id);
    AddControl(id, ending);
    changed_ = true;
    return id;
  }

  // As CopyOf for a view that may itself come after the write: the same view of a copy.
  NodeId CopyOfLaterView(NodeId view, const Alias& alias, NodeId ending) {
    Node same = graph_.node(view);
    same.name = absl::StrCat(same.name, "/snapshot");
    same.inputs[0] = {CopyOf(same.inputs[0].node, alias, ending), 0};
    const NodeId id = graph_.AddUnique(std::move(same));
    alias_.emplace_back();
    copies_.emplace(std::pair(view.value, alias.version), id);
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
    AddControls(state.readers, id);
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

  // A weight of an unrolled network may have thousands of readers.
  void AddControls(const std::vector<NodeId>& from, NodeId to) {
    constexpr size_t kFew = 8;
    if (from.size() <= kFew) {
      for (NodeId one : from) AddControl(one, to);
      return;
    }
    ++mark_;
    marked_.resize(graph_.num_ids(), 0);
    Node& node = graph_.mutable_node(to);
    marked_[to.value] = mark_;
    for (OutputRef input : node.inputs) marked_[input.node.value] = mark_;
    for (NodeId control : node.control_inputs) marked_[control.value] = mark_;
    for (NodeId one : from) {
      if (std::exchange(marked_[one.value], mark_) == mark_) continue;
      node.control_inputs.push_back(one);
      changed_ = true;
    }
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
  OpFinder def_of_;
  std::vector<Alias> alias_;  // of output 0, by node id
  std::map<std::string, int32_t> index_;
  std::vector<VariableState> states_;
  std::vector<NodeId> nodes_;
  std::vector<std::vector<NodeId>> writers_;  // per variable, the node that ends version v
  std::map<std::pair<int32_t, int32_t>, NodeId> copies_;  // by view and version
  std::vector<size_t> given_controls_;                    // control edges of a node before any was added
  std::vector<NodeId> order_;
  std::vector<size_t> position_;  // in order_, by node
  std::unordered_map<int32_t, Newest> newest_;  // by variable
  std::vector<int32_t> marked_;  // per node: the last call of AddControls whose node waits for it
  int32_t mark_ = 0;
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

NodeId ReferenceOf(const Graph& graph, const OpRegistry& ops, OutputRef ref) {
  const NodeId variable = VariableOf(graph, ops, ref);
  return IsReferenceVariable(graph, variable) ? variable : NodeId();
}

}  // namespace millrace
