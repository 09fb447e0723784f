#include "passes/rewrite/lower_strings.h"

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "graph/table.h"
#include "millrace/status.h"
#include "passes/control_flow/control_flow_ops.h"
#include "passes/rewrite/keep_tables.h"
#include "passes/control_flow/kept_state.h"
#include "passes/rewrite/known_tables.h"
#include "passes/control_flow/text_source.h"

namespace millrace {
namespace {

absl::Status Refuse(const Node& node, const std::string& why) {
  return absl::UnimplementedError(absl::StrCat("node '", node.name, "' (", node.op, "): ", why));
}

class Lowering {
 public:
  Lowering(Graph& graph, const Graph& whole, const OpRegistry& ops, KernelOracle& oracle)
      : graph_(graph), whole_(whole), ops_(ops), oracle_(oracle) {}

  absl::StatusOr<bool> Run() {
    MR_RETURN_IF_ERROR(KeepWhatChanges());
    for (int32_t i = 0; i < graph_.num_ids(); ++i) {
      if (graph_.alive(NodeId{i})) MR_RETURN_IF_ERROR(Visit(NodeId{i}));
    }
    // Handles last: what reads them has found its table. What only waited for one has nothing to wait for but its inputs.
    for (int32_t i = 0; changed_ && i < graph_.num_ids(); ++i) {
      if (graph_.alive(NodeId{i}) && IsHandle(NodeId{i})) handles_.push_back(NodeId{i});
    }
    for (NodeId handle : handles_) BecomeNoOp(graph_, handle);
    return changed_;
  }

 private:
  absl::StatusOr<const KnownTables*> Known() {
    if (!tables_) {
      MR_ASSIGN_OR_RETURN(tables_, KnownTables::Find(whole_, ops_, oracle_));
    }
    return &*tables_;
  }

  const Node& TableOf(const Node& user) const { return graph_.node(SourceOfHandle(graph_, user.inputs[0]).node); }

  // Tables that the step changes, and those that it reads whose contents are not known, are state.
  absl::Status KeepWhatChanges() {
    std::vector<NodeId> users;
    std::map<std::string, std::string> changed_by;  // by the name of the table: a node of this step
    for (int32_t i = 0; i < graph_.num_ids(); ++i) {
      const Node& node = graph_.node(NodeId{i});
      if (!graph_.alive(NodeId{i}) || !UsesTable(node) || node.inputs.empty() || !IsChangingTable(TableOf(node))) continue;
      users.push_back(NodeId{i});
      if (!IsTableFind(node) && !IsTableSize(node) && !IsTableExport(node)) changed_by[NameOfResource(TableOf(node))] = node.name;
    }
    std::set<std::string> kept;
    for (NodeId id : users) {
      const Node &user = graph_.node(id), &table = TableOf(user);
      const std::string name = NameOfResource(table);
      const auto changed = changed_by.find(name);
      absl::Status known = absl::UnimplementedError("it is no table that is filled once");
      if (changed != changed_by.end()) {
        known = absl::UnimplementedError(absl::StrCat("it is filled by '", changed->second, "' in the same step"));
      } else if (IsMutableTable(table) && !IsTableExport(user)) {
        MR_ASSIGN_OR_RETURN(const KnownTables* const tables, Known());
        known = tables->Of(table, user).status();
      }
      if (known.ok()) continue;
      if (CanKeepTable(table)) {
        kept.insert(name);
      } else if (!IsMutableTable(table) || !IsTableInitializer(user)) {
        return RefuseChanging(user, table, known);
      }
    }
    if (kept.empty()) return absl::OkStatus();
    changed_ = true;
    return KeepTables(graph_, kept);
  }

  static absl::Status RefuseChanging(const Node& user, const Node& table, const absl::Status& why) {
    return Refuse(user, absl::StrCat("table '", table.name, "' (", table.op, ") may change from step to step (", why.message(),
                                     "), which only tables from integers to numbers do; look words up before feeding, or use "
                                     "tf.lookup.StaticHashTable, or hashes of the words as keys"));
  }

  absl::Status Visit(NodeId id) {
    const Node& node = graph_.node(id);
    if (IsTableFind(node) || IsTableSize(node)) return ReadTable(id);
    if (absl::StartsWith(node.op, "StringToHashBucket")) HashNumbers(id);
    if (IsTableFromFile(node) || IsTableInitializer(node)) {
      if (!node.inputs.empty() && !IsTable(TableOf(node))) {
        return Refuse(node, absl::StrCat("the table comes from node '", TableOf(node).name, "' (", TableOf(node).op, "), expected HashTableV2"));
      }
      BecomeNoOp(graph_, id);
      changed_ = true;
    } else if (IsTable(node) || IsChangingTable(node)) {
      changed_ = true;
    }
    return absl::OkStatus();
  }

  absl::Status ReadTable(NodeId id) {
    const bool find = IsTableFind(graph_.node(id));
    if (graph_.node(id).inputs.size() != (find ? 3 : 1)) return Refuse(graph_.node(id), "has the wrong number of inputs");
    MR_ASSIGN_OR_RETURN(const KnownTables* const tables, Known());
    const Node& table = graph_.node(SourceOfHandle(graph_, graph_.node(id).inputs[0]).node);
    MR_ASSIGN_OR_RETURN(const TableContents contents, tables->Of(table, graph_.node(id)));
    AttrMap attrs({{"keys", contents.keys}, {"values", contents.values}, {"replaces", IsMutableTable(table)}});
    changed_ = true;
    Node& node = graph_.mutable_node(id);
    node.attrs = AttrMap();
    if (find) {
      node.op = "_FindInTable";
      node.inputs.erase(node.inputs.begin());
      node.attrs = std::move(attrs);
      return absl::OkStatus();
    }
    const absl::StatusOr<Table> made = Table::Create(attrs);
    if (!made.ok()) return absl::InvalidArgumentError(absl::StrCat("node '", node.name, "' (", node.op, "): ", made.status().message()));
    node.op = "Const";
    node.inputs.clear();
    node.attrs.Set("dtype", DataType::kInt64);
    node.attrs.Set("value", Tensor::Scalar<int64_t>(made->num_keys()));
    return absl::OkStatus();
  }

  // A hash of numbers' texts needs the numbers alone.
  void HashNumbers(NodeId id) {
    const Node& node = graph_.node(id);
    auto waits = node.control_inputs;
    const NodeId from = HashedNumbers(graph_, node, waits);
    if (!from.valid()) return;
    const Node& text = graph_.node(from);
    AttrMap attrs = text.attrs;
    attrs.Set("num_buckets", node.attrs.GetOr<int64_t>("num_buckets", 0));
    if (const AttrValue* key = node.attrs.Find("key"); key != nullptr) attrs.Set("key", *key);
    const OutputRef numbers = text.inputs[0];
    Node& hash = graph_.mutable_node(id);
    hash.op = "_AsStringToHashBucket";
    hash.inputs[0] = numbers;
    hash.control_inputs = std::move(waits);
    hash.attrs = std::move(attrs);
    changed_ = true;
  }

  // A table, or what passes its handle on.
  bool IsHandle(NodeId id) const {
    const Node& source = graph_.node(SourceOfHandle(graph_, OutputRef{id, 0}).node);
    return IsTable(source) || IsChangingTable(source);
  }

  Graph& graph_;
  const Graph& whole_;
  const OpRegistry& ops_;
  KernelOracle& oracle_;
  std::optional<KnownTables> tables_;
  std::vector<NodeId> handles_;
  bool changed_ = false;
};

}  // namespace

absl::StatusOr<bool> LowerStrings(Graph& graph, const Graph& whole, const OpRegistry& ops, KernelOracle& oracle) {
  return Lowering(graph, whole, ops, oracle).Run();
}

}  // namespace millrace
