#include "passes/rewrite/lower_strings.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "graph/table.h"
#include "graph/variable_name.h"
#include "millrace/status.h"
#include "passes/control_flow/control_flow_ops.h"
#include "passes/control_flow/loop_ops.h"
#include "passes/rewrite/keep_tables.h"
#include "passes/control_flow/kept_state.h"
#include "passes/rewrite/known_tables.h"
#include "passes/rewrite/known_words.h"
#include "passes/control_flow/text_source.h"

namespace millrace {
namespace {

absl::Status Refuse(const Node& node, const std::string& why) {
  return absl::UnimplementedError(absl::StrCat("node '", node.name, "' (", node.op, "): ", why));
}

bool AsksForPresence(const Node& node) { return node.op == "VarIsInitializedOp" || node.op == "IsVariableInitialized"; }

// Reads or assigns what a variable holds, or asks whether it holds anything.
bool UsesVariable(const Node& node) {
  const bool assigns = (node.op == "Assign" || node.op == "AssignVariableOp") && node.inputs.size() == 2;
  const bool reads = (node.op == "ReadVariableOp" || AsksForPresence(node)) && node.inputs.size() == 1;
  return assigns || reads;
}

// Elements of a vector.
Tensor EntriesAt(const Tensor& vector, const std::vector<int64_t>& rows) {
  Tensor taken(vector.dtype(), Shape({static_cast<int64_t>(rows.size())}));
  const int64_t bytes = DataTypeSize(vector.dtype());
  for (size_t i = 0; i < rows.size(); ++i) {
    if (vector.dtype() == DataType::kString) {
      taken.mutable_strings()[i] = vector.strings()[rows[i]];
    } else {
      std::memcpy(static_cast<char*>(taken.mutable_data()) + i * bytes, static_cast<const char*>(vector.data()) + rows[i] * bytes, bytes);
    }
  }
  return taken;
}

class Lowering {
 public:
  Lowering(Graph& graph, const Graph& whole, const OpRegistry& ops, KernelOracle& oracle)
      : graph_(graph), whole_(whole), ops_(ops), oracle_(oracle) {}

  absl::StatusOr<bool> Run() {
    MR_RETURN_IF_ERROR(LookAtVariables());
    MR_RETURN_IF_ERROR(KeepWhatChanges());
    for (int32_t i = 0; i < graph_.num_ids(); ++i) {
      if (graph_.alive(NodeId{i})) MR_RETURN_IF_ERROR(Visit(NodeId{i}));
    }
    for (NodeId variable : references_) MR_RETURN_IF_ERROR(ReadReference(variable));
    // Handles last: what reads them has found its table. What only waited for one has nothing to wait for but its inputs.
    for (int32_t i = 0; changed_ && i < graph_.num_ids(); ++i) {
      if (graph_.alive(NodeId{i}) && IsHandle(NodeId{i})) handles_.push_back(NodeId{i});
    }
    for (NodeId handle : handles_) BecomeNoOp(graph_, handle);
    return changed_;
  }

  absl::Status RunOnFoundWords() {
    for (int32_t i = 0; i < graph_.num_ids(); ++i) {
      const Node& node = graph_.node(NodeId{i});
      if (!graph_.alive(NodeId{i}) || !IsTableFind(node) || node.inputs.size() != 3) continue;
      const Node& table = TableOf(node);
      const bool of_words = table.attrs.GetOr<DataType>("value_dtype", DataType::kInvalid) == DataType::kString;
      if (!of_words || !IsTable(table) || IsMutableTable(table)) continue;
      const absl::StatusOr<const KnownTables*> tables = Known();
      const bool unknown = absl::IsUnimplemented(tables.status()) || absl::IsInvalidArgument(tables.status());
      if (!tables.ok()) return unknown ? absl::OkStatus() : tables.status();
      if (!(*tables)->Of(table, node).ok()) continue;
      MR_RETURN_IF_ERROR(ReadTable(NodeId{i}));
    }
    return absl::OkStatus();
  }

 private:
  absl::StatusOr<const KnownTables*> Known() {
    if (!tables_) {
      MR_ASSIGN_OR_RETURN(tables_, KnownTables::Find(whole_, ops_, oracle_));
    }
    return &*tables_;
  }

  const Node& TableOf(const Node& user) const { return graph_.node(SourceOfHandle(graph_, user.inputs[0]).node); }

  // Variables of strings that the step assigns. Unimplemented names what does anything else with one.
  absl::Status LookAtVariables() {
    if (!HoldsNode(graph_, IsVariableOfWords)) return absl::OkStatus();
    for (int32_t i = 0; i < graph_.num_ids(); ++i) {
      if (!graph_.alive(NodeId{i})) continue;
      const Node& node = graph_.node(NodeId{i});
      for (OutputRef input : node.inputs) {
        const Node& variable = graph_.node(SourceOfHandle(graph_, input).node);
        if (!IsVariableOfWords(variable) || UsesVariable(node) || SourceOfHandle(graph_, {NodeId{i}, 0}) == SourceOfHandle(graph_, input)) continue;
        const OpDef* const op = ops_.Find(node.op);
        if (variable.op != "VarHandleOp" && (op == nullptr || !op->WritesVariables())) continue;
        return Refuse(node, absl::StrCat("variable '", VariableName(variable), "' of strings can only be read as a whole, and be assigned"));
      }
      if (AssignsWords(node)) assigned_.insert(VariableName(TableOf(node)));
    }
    return absl::OkStatus();
  }

  // What the variable holds that `user` reads.
  absl::StatusOr<Tensor> WordsIn(const Node& variable, const Node& user) {
    if (const AttrValue* const restored = variable.attrs.Find(kRestoredWords); restored != nullptr) {
      if (assigned_.count(VariableName(variable)) == 0) return variable.attrs.GetOr<Tensor>(kRestoredWords, Tensor());
      return Refuse(user, absl::StrCat("variable '", VariableName(variable), "' of strings comes from a checkpoint, and the same step assigns it"));
    }
    if (!words_) {
      MR_ASSIGN_OR_RETURN(words_, KnownWords::Find(whole_, ops_, oracle_));
    }
    return words_->Of(variable, user);
  }

  // Tables that the step changes, and those that it reads whose contents are not known, are state.
  absl::Status KeepWhatChanges() {
    std::vector<NodeId> users;
    std::map<std::string, std::string> changed_by;  // by the name of the table: a node of this step
    std::set<std::string> asked;                    // tables that the step takes something of
    for (int32_t i = 0; i < graph_.num_ids(); ++i) {
      const Node& node = graph_.node(NodeId{i});
      if (!graph_.alive(NodeId{i}) || !UsesTable(node) || node.inputs.empty() || !IsChangingTable(TableOf(node))) continue;
      users.push_back(NodeId{i});
      const bool asks = IsTableFind(node) || IsTableSize(node) || IsTableExport(node);
      if (asks) asked.insert(NameOfResource(TableOf(node)));
      if (!asks) changed_by[NameOfResource(TableOf(node))] = node.name;
    }
    std::set<std::string> kept;
    for (NodeId id : users) {
      const Node &user = graph_.node(id), &table = TableOf(user);
      const std::string name = NameOfResource(table);
      const auto changed = changed_by.find(name);
      absl::Status known = absl::UnimplementedError("it is no table that is filled once");
      const bool only_filled = CanKeepTableOfWords(table) && IsTableInitializer(user) && asked.count(name) == 0;
      if (changed != changed_by.end() && !only_filled) {
        known = absl::UnimplementedError(absl::StrCat("it is filled by '", changed->second, "' in the same step"));
      } else if (IsMutableTable(table) && (!IsTableExport(user) || !CanKeepTable(table))) {
        MR_ASSIGN_OR_RETURN(const KnownTables* const tables, Known());
        known = tables->Of(table, user).status();
      }
      if (known.ok()) continue;
      if (CanKeepTableOfWords(table)) {
        MR_ASSIGN_OR_RETURN(const KnownTables* const tables, Known());
        const absl::Status not_restored = tables->CheckNotRestored(table, user);
        // What looks in it is refused; what only restores it does no harm.
        if (!not_restored.ok() && IsMutableTable(table) && IsTableInitializer(user) && asked.count(name) == 0) continue;
        MR_RETURN_IF_ERROR(not_restored);
        kept.insert(name);
      } else if (CanKeepTable(table)) {
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
                                     "), which only tables from integers or words to numbers do; look words up before feeding, or use "
                                     "tf.lookup.StaticHashTable"));
  }

  absl::Status Visit(NodeId id) {
    const Node& node = graph_.node(id);
    if (IsTableFind(node) || IsTableSize(node)) return ReadTable(id);
    if (IsTableExport(node)) return ExportTable(id);
    if (IsVariableOfWords(node)) {
      changed_ = true;
      if (node.op != "VarHandleOp") references_.push_back(id);
      return absl::OkStatus();
    }
    if (UsesVariable(node) && IsVariableOfWords(TableOf(node))) return UseWords(id);
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

  // Keys and values that count, in the order in which the table was given them.
  absl::Status ExportTable(NodeId id) {
    const Node& exporter = graph_.node(id);
    if (exporter.inputs.size() != 1) return Refuse(exporter, "has the wrong number of inputs");
    MR_ASSIGN_OR_RETURN(const KnownTables* const tables, Known());
    MR_ASSIGN_OR_RETURN(const TableContents contents, tables->Of(TableOf(exporter), exporter));
    const absl::StatusOr<Table> made =
        Table::Create(AttrMap({{"keys", contents.keys}, {"values", contents.values}, {"replaces", IsMutableTable(TableOf(exporter))}}));
    if (!made.ok()) return absl::InvalidArgumentError(absl::StrCat("node '", exporter.name, "' (", exporter.op, "): ", made.status().message()));
    std::vector<int64_t> rows;
    for (int64_t i = 0; i < contents.keys.num_elements(); ++i) {
      if (made->Find(contents.keys, i) == i) rows.push_back(i);
    }
    const std::vector<Tensor> parts = {EntriesAt(contents.keys, rows), EntriesAt(contents.values, rows)};
    std::vector<OutputRef> constants;
    for (const Tensor& part : parts) {
      Node constant;
      constant.name = absl::StrCat(graph_.node(id).name, "/known");
      constant.op = "Const";
      constant.attrs = AttrMap{{"dtype", part.dtype()}, {"value", part}};
      constants.push_back({graph_.AddUnique(std::move(constant)), 0});
    }
    for (int32_t i = 0; i < graph_.num_ids(); ++i) {
      if (!graph_.alive(NodeId{i})) continue;
      for (OutputRef& input : graph_.mutable_node(NodeId{i}).inputs) {
        if (input.node == id && input.index < static_cast<int32_t>(constants.size())) input = constants[input.index];
      }
    }
    BecomeNoOp(graph_, id);
    changed_ = true;
    return absl::OkStatus();
  }

  // What assigns passes on what it is given, or nothing.
  absl::Status UseWords(NodeId id) {
    Node& node = graph_.mutable_node(id);
    if (node.op == "ReadVariableOp") {
      MR_ASSIGN_OR_RETURN(const Tensor value, WordsIn(TableOf(node), node));
      Node constant;
      constant.name = absl::StrCat(node.name, "/words");
      constant.op = "Const";
      constant.attrs = AttrMap{{"dtype", DataType::kString}, {"value", value}};
      const NodeId known = graph_.AddUnique(std::move(constant));
      Node& read = graph_.mutable_node(id);
      read.op = "Identity";
      read.inputs = {{known, 0}};
      read.attrs = AttrMap{{"T", DataType::kString}};
    } else if (node.op == "AssignVariableOp") {
      const std::string name = NameOfKeptState(TableOf(node));
      BecomeNoOp(graph_, id);
      if (IsAskedFor()) Mark(id, name);
    } else if (node.op == "Assign") {
      const std::string name = NameOfKeptState(TableOf(node));
      const OutputRef value = node.inputs[1];
      node.op = "Identity";
      node.inputs = {value};
      node.attrs = AttrMap{{"T", DataType::kString}};
      if (IsAskedFor()) MarkBefore(id, name);
    } else if (TableOf(node).attrs.Has(kRestoredWords)) {
      node.op = "Const";
      node.inputs.clear();
      node.attrs = AttrMap{{"dtype", DataType::kBool}, {"value", Tensor::Scalar<bool>(true)}};
    } else {
      const NodeId mark = MarkOf(NameOfKeptState(TableOf(node)));
      Node& question = graph_.mutable_node(id);
      question.op = "VarIsInitializedOp";
      question.inputs = {{mark, 0}};
      question.attrs = AttrMap();
    }
    return absl::OkStatus();
  }

  // Whether steps may ask if variables are initialised. Those of strings have a number beside them then, which is assigned where they are.
  bool IsAskedFor() {
    if (!asked_for_) asked_for_ = HoldsAny(whole_, AsksForPresence);
    return *asked_for_;
  }

  NodeId MarkOf(const std::string& name) {
    Node mark;
    mark.name = name;
    mark.op = "VarHandleOp";
    mark.attrs = AttrMap{{"dtype", DataType::kUint8}, {"shape", Shape()}, {"shared_name", name}};
    return graph_.AddUnique(std::move(mark));
  }

  // The NoOp assigns it.
  void Mark(NodeId id, const std::string& name) {
    const NodeId mark = MarkOf(name);
    Node one;
    one.name = absl::StrCat(name, "/one");
    one.op = "Const";
    one.attrs = AttrMap{{"dtype", DataType::kUint8}, {"value", Tensor::Scalar<uint8_t>(1)}};
    const NodeId constant = graph_.AddUnique(std::move(one));
    Node& assign = graph_.mutable_node(id);
    assign.op = "AssignVariableOp";
    assign.inputs = {{mark, 0}, {constant, 0}};
    assign.attrs = AttrMap{{"dtype", DataType::kUint8}};
  }

  void MarkBefore(NodeId id, const std::string& name) {
    Node assign;
    assign.name = absl::StrCat(graph_.node(id).name, "/assigned");
    assign.op = "NoOp";
    assign.control_inputs = graph_.node(id).control_inputs;
    const NodeId marks = graph_.AddUnique(std::move(assign));
    Mark(marks, name);
    graph_.mutable_node(id).control_inputs.push_back(marks);
  }

  // A variable of TensorFlow 1, which what reads it takes as it is.
  absl::Status ReadReference(NodeId id) {
    for (int32_t i = 0; i < graph_.num_ids(); ++i) {
      const Node& user = graph_.node(NodeId{i});
      const bool reads = graph_.alive(NodeId{i}) && std::any_of(user.inputs.begin(), user.inputs.end(), [&](OutputRef input) { return input.node == id; });
      if (!reads) continue;
      MR_ASSIGN_OR_RETURN(const Tensor value, WordsIn(graph_.node(id), user));
      graph_.mutable_node(id).op = "Const";
      graph_.mutable_node(id).attrs = AttrMap{{"dtype", DataType::kString}, {"value", value}};
      return absl::OkStatus();
    }
    BecomeNoOp(graph_, id);
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

  // A table or a variable of strings, or what passes its handle on.
  bool IsHandle(NodeId id) const {
    const Node& source = graph_.node(SourceOfHandle(graph_, OutputRef{id, 0}).node);
    return IsTable(source) || IsChangingTable(source) || (source.op == "VarHandleOp" && IsVariableOfWords(source));
  }

  Graph& graph_;
  const Graph& whole_;
  const OpRegistry& ops_;
  KernelOracle& oracle_;
  std::optional<KnownTables> tables_;
  std::optional<KnownWords> words_;
  std::set<std::string> assigned_;  // variables of strings, in this step
  std::vector<NodeId> handles_, references_;
  std::optional<bool> asked_for_;
  bool changed_ = false;
};

}  // namespace

absl::StatusOr<bool> LowerStrings(Graph& graph, const Graph& whole, const OpRegistry& ops, KernelOracle& oracle) {
  return Lowering(graph, whole, ops, oracle).Run();
}

absl::Status LowerFoundWords(Graph& graph, const Graph& whole, const OpRegistry& ops, KernelOracle& oracle) {
  const auto branches = [](const Node& node) { return IsLoopOp(node) || IsIf(node) || IsCase(node) || IsSwitch(node); };
  if (!HoldsNode(graph, branches)) return absl::OkStatus();
  return Lowering(graph, whole, ops, oracle).RunOnFoundWords();
}

}  // namespace millrace
