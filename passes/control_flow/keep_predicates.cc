#include "passes/control_flow/keep_predicates.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "graph/variable_name.h"
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
    return kept_;
  }

 private:
  void KeepInput(NodeId id, int input) {
    const OutputRef ref = graph_.node(id).inputs[input];
    if (IsMemory(ref)) {
      const Node& node = graph_.node(id);
      const DataType type = node.op == "Equal" ? node.attrs.GetOr<DataType>("T", DataType::kInt32) : DataType::kBool;
      const NodeId copy = CopyOf(ref, type, id);
      graph_.mutable_node(id).inputs[input] = {copy, 0};
      ++kept_;
      return;
    }
    if (const NodeId first = FirstRead(ref.node); !(first == ref.node)) {
      graph_.mutable_node(id).inputs[input] = {first, 0};
      ++kept_;
      return;
    }
    // Literals of guards look behind these.
    const Node& from = graph_.node(ref.node);
    const bool looked_behind = from.op == "LogicalNot" || from.op == "Equal" || from.op == "Identity" || IsSwitch(from);
    if (looked_behind && !from.inputs.empty() && visited_.insert(ref.node.value).second) KeepInput(ref.node, 0);
  }

  // The variable that it is a reference or handle of, or what only passes one on; nullptr: of none that is known.
  const Node* VariableOf(OutputRef ref) const {
    while (true) {
      const Node& node = graph_.node(ref.node);
      const OpDef* def = ops_.Find(node.op);
      if (def != nullptr && def->is_variable) return &node;
      const bool enters = IsEnter(node) && node.attrs.GetOr<DataType>("T", DataType::kFloat) == DataType::kResource;
      const bool passes_on = enters || IsSwitch(node) || node.op == "Identity" || (def != nullptr && def->returns_variable);
      if (!passes_on || node.inputs.empty()) return nullptr;
      ref = node.inputs[0];
    }
  }

  bool IsMemory(OutputRef ref) const {
    const Node* variable = VariableOf(ref);
    return variable != nullptr && variable->op != "VarHandleOp";
  }

  // Behind what passes it on whenever it is there.
  OutputRef Source(OutputRef ref) const {
    while (graph_.node(ref.node).op == "Identity" && graph_.node(ref.node).control_inputs.empty() && !graph_.node(ref.node).inputs.empty()) {
      ref = graph_.node(ref.node).inputs[0];
    }
    return ref;
  }

  // The first of the reads that find the same value at the same time: where nothing writes their variable, all that wait for the same.
  NodeId FirstRead(NodeId id) {
    if (!IsRead(graph_.node(id))) return id;
    FindReads();
    const auto found = first_reads_.find(KeyOf(id));
    return found == first_reads_.end() ? id : found->second;
  }

  static bool IsRead(const Node& node) { return node.op == "ReadVariableOp" && node.inputs.size() == 1; }

  using ReadKey = std::pair<OutputRef, std::vector<int32_t>>;  // handle, control inputs

  ReadKey KeyOf(NodeId read) const {
    ReadKey key{Source(graph_.node(read).inputs[0]), {}};
    for (NodeId control : graph_.node(read).control_inputs) key.second.push_back(control.value);
    std::sort(key.second.begin(), key.second.end());
    return key;
  }

  void FindReads() {
    if (std::exchange(reads_found_, true)) return;
    for (int32_t i = 0; i < graph_.num_ids(); ++i) {
      const NodeId id{i};
      if (!graph_.alive(id) || !IsRead(graph_.node(id))) continue;
      if (StaysTheSame(graph_.node(id).inputs[0])) first_reads_.try_emplace(KeyOf(id), id);
    }
  }

  // Whether nothing writes the variable.
  bool StaysTheSame(OutputRef ref) {
    if (!writes_found_) writes_known_ = FindWritten(written_);
    writes_found_ = true;
    const Node* variable = VariableOf(ref);
    return writes_known_ && variable != nullptr && written_.count(VariableName(*variable)) == 0;
  }

  // Where the value is found that the tensor passes on: in the memory of a variable that stays the same, else where the memory is first
  // read, since another Identity of it may come behind a write.
  OutputRef FoundAt(OutputRef ref) {
    const OutputRef memory = Source(ref);
    if (StaysTheSame(ref)) return memory;
    while (ref != memory && graph_.node(ref.node).inputs[0] != memory) ref = graph_.node(ref.node).inputs[0];
    return ref;
  }

  // Names of variables that nodes write; false where one may write any, as functions of loops do.
  bool FindWritten(std::set<std::string>& names) const {
    const auto writes = [&](const Node& node) {
      const OpDef* def = ops_.Find(node.op);
      return def != nullptr && def->WritesVariables();
    };
    for (int32_t i = 0; i < graph_.num_ids(); ++i) {
      const Node& node = graph_.node(NodeId{i});
      if (node.removed) continue;
      if (IsWhile(node) && LibraryHolds(graph_, writes)) return false;
      const OpDef* def = ops_.Find(node.op);
      if (def == nullptr) continue;
      for (const VariableUse& use : def->variables) {
        if (!use.writes() || static_cast<size_t>(use.input) >= node.inputs.size()) continue;
        const Node* variable = VariableOf(node.inputs[use.input]);
        if (variable == nullptr) return false;
        names.insert(VariableName(*variable));
      }
    }
    return true;
  }

  // Made before its first user, `user`.
  NodeId CopyOf(OutputRef ref, DataType type, NodeId user) {
    const auto [found, added] = copies_.try_emplace(FoundAt(ref));
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
  std::map<OutputRef, NodeId> copies_;  // by where the value is found
  std::map<ReadKey, NodeId> first_reads_;
  std::set<std::string> written_;  // variables, by name
  bool reads_found_ = false, writes_found_ = false, writes_known_ = false;
  std::set<int32_t> visited_;
  int64_t kept_ = 0;
};

}  // namespace

int64_t KeepPredicates(Graph& graph, const OpRegistry& ops) { return Keeper(graph, ops).Run(); }

}  // namespace millrace
