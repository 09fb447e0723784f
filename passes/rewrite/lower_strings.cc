#include "passes/rewrite/lower_strings.h"

#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "millrace/options.h"
#include "millrace/status.h"
#include "passes/control_flow/control_flow_ops.h"
#include "passes/control_flow/inline_functions.h"
#include "passes/rewrite/prune.h"
#include "passes/shapes/infer_shapes.h"

namespace millrace {
namespace {

bool IsChangingTable(const Node& node) { return absl::StartsWith(node.op, "Mutable") && absl::StrContains(node.op, "HashTable"); }
bool PassesOn(const Node& node) { return node.op == "Identity" && node.inputs.size() == 1; }

OutputRef Source(const Graph& graph, OutputRef ref) {
  while (PassesOn(graph.node(ref.node))) ref = graph.node(ref.node).inputs[0];
  return ref;
}

std::string NameOf(const Node& table) {
  const std::string shared = table.attrs.GetOr<std::string>("shared_name", "");
  return shared.empty() ? table.name : shared;
}

absl::Status Refuse(const Node& node, const std::string& why) {
  return absl::UnimplementedError(absl::StrCat("node '", node.name, "' (", node.op, "): ", why));
}

absl::Status RefuseChanging(const Node& user, const Node& table, const std::string& why) {
  return Refuse(user, absl::StrCat("table '", table.name, "' (", table.op, ") ", why, " and may change from step to step; only tables that "
                                   "are filled once (tf.lookup.StaticHashTable) are planned; look its values up before feeding"));
}

struct Contents {
  Tensor keys, values;
  bool from_file = false;
  std::string filled_by, filled_again_by;  // nodes
};

// What is known of every table of the graph, by name.
class Tables {
 public:
  static absl::StatusOr<Tables> Find(const Graph& whole, const OpRegistry& ops, KernelOracle& oracle) {
    Signature signature;
    for (int32_t i = 0; i < whole.num_ids(); ++i) {
      if (whole.alive(NodeId{i}) && Initializes(whole, whole.node(NodeId{i}))) signature.targets.push_back(whole.node(NodeId{i}).name);
    }
    Tables tables;
    MR_ASSIGN_OR_RETURN(Graph graph, Prune(whole, signature));
    MR_RETURN_IF_ERROR(InlineFunctions(graph, ops, MostInlinedNodes(graph, PlanningOptions().max_unrolled_nodes)).status());
    MR_ASSIGN_OR_RETURN(const std::vector<NodeId> order, CreationOrder(graph));
    ShapeTracker tracker(graph, ops, oracle, {});
    for (NodeId id : order) {
      const Node node = graph.node(id);
      if (!IsTableInitializer(node) && !IsTableFromFile(node)) {
        if (ops.Find(node.op) != nullptr) tracker.Track(id, false);
        continue;
      }
      if (node.inputs.empty()) continue;
      const Node& table = graph.node(Source(graph, node.inputs[0]).node);
      if (!IsTable(table)) continue;
      Contents contents;
      contents.from_file = IsTableFromFile(node);
      if (!contents.from_file && node.inputs.size() == 3) {
        const Tensor *keys = tracker.Value(node.inputs[1]), *values = tracker.Value(node.inputs[2]);
        if (keys != nullptr && values != nullptr) contents = {*keys, *values};
      }
      Contents& found = tables.by_name_[NameOf(table)];
      contents.filled_by = node.name;
      contents.filled_again_by = found.filled_by;
      found = std::move(contents);
    }
    return tables;
  }

  // Of a table that `user` reads.
  absl::StatusOr<Contents> Of(const Node& table, const Node& user) const {
    if (IsChangingTable(table) && !IsTable(table)) return RefuseChanging(user, table, "is of another kind than MutableHashTable");
    if (!IsTable(table)) {
      return Refuse(user, absl::StrCat("the table comes from node '", table.name, "' (", table.op, "), expected HashTableV2"));
    }
    const auto found = by_name_.find(NameOf(table));
    if (found == by_name_.end()) {
      return Refuse(user, absl::StrCat("nothing in the graph initialises table '", NameOf(table),
                                       "'; export it with its initializer (LookupTableImportV2 of constants)"));
    }
    if (IsMutableTable(table) && !found->second.filled_again_by.empty()) {
      return RefuseChanging(user, table, absl::StrCat("is filled by '", found->second.filled_again_by, "' and by '", found->second.filled_by, "'"));
    }
    if (found->second.from_file) {
      return Refuse(user, absl::StrCat("table '", NameOf(table), "' is initialised from a file, which is no part of the graph; "
                                       "initialise it with constants (tf.lookup.KeyValueTensorInitializer)"));
    }
    if (found->second.keys.empty()) {
      return Refuse(user, absl::StrCat("the keys and values of table '", NameOf(table), "' are not known when the graph is planned, "
                                       "expected constants"));
    }
    return found->second;
  }

 private:
  // Nodes that do, and calls of functions that hold such a node.
  static bool Initializes(const Graph& graph, const Node& node) {
    const auto does = [](const Node& n) { return IsTableInitializer(n) || IsTableFromFile(n); };
    if (does(node)) return true;
    if (!IsPartitionedCall(node) || graph.library() == nullptr) return false;
    const auto called = graph.library()->find(node.attrs.GetOr<FunctionRef>("f", {}).name);
    if (called == graph.library()->end() || called->second.body == nullptr) return false;
    const Graph& body = *called->second.body;
    for (int32_t i = 0; i < body.num_ids(); ++i) {
      if (body.alive(NodeId{i}) && does(body.node(NodeId{i}))) return true;
    }
    return false;
  }

  std::map<std::string, Contents> by_name_;
};

void BecomeNoOp(Graph& graph, NodeId id) {
  Node& node = graph.mutable_node(id);
  for (OutputRef input : node.inputs) node.control_inputs.push_back(input.node);
  node.inputs.clear();
  node.op = "NoOp";
  node.attrs = AttrMap();
}

class Lowering {
 public:
  Lowering(Graph& graph, const Graph& whole, const OpRegistry& ops, KernelOracle& oracle)
      : graph_(graph), whole_(whole), ops_(ops), oracle_(oracle) {}

  absl::StatusOr<bool> Run() {
    for (int32_t i = 0; i < graph_.num_ids(); ++i) {
      const Node& node = graph_.node(NodeId{i});
      if (!graph_.alive(NodeId{i}) || !IsTableInitializer(node) || node.inputs.empty()) continue;
      const Node& table = graph_.node(Source(graph_, node.inputs[0]).node);
      if (IsMutableTable(table)) filled_here_[NameOf(table)] = node.name;
    }
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
  absl::Status Visit(NodeId id) {
    const Node& node = graph_.node(id);
    if (IsTableFind(node) || IsTableSize(node)) return ReadTable(id);
    if (absl::StartsWith(node.op, "StringToHashBucket")) HashNumbers(id);
    if (node.op == "PrintV2") PrintValues(id);
    if (IsTableFromFile(node) || IsTableInitializer(node)) {
      BecomeNoOp(graph_, id);
      changed_ = true;
    } else if (IsTable(node)) {
      changed_ = true;
    }
    return absl::OkStatus();
  }

  absl::Status ReadTable(NodeId id) {
    const bool find = IsTableFind(graph_.node(id));
    if (graph_.node(id).inputs.size() != (find ? 3 : 1)) return Refuse(graph_.node(id), "has the wrong number of inputs");
    if (!tables_) {
      MR_ASSIGN_OR_RETURN(tables_, Tables::Find(whole_, ops_, oracle_));
    }
    const Node& table = graph_.node(Source(graph_, graph_.node(id).inputs[0]).node);
    if (const auto filled = filled_here_.find(NameOf(table)); IsMutableTable(table) && filled != filled_here_.end()) {
      return RefuseChanging(graph_.node(id), table, absl::StrCat("is filled by '", filled->second, "' in the same step"));
    }
    MR_ASSIGN_OR_RETURN(const Contents contents, tables_->Of(table, graph_.node(id)));
    changed_ = true;
    Node& node = graph_.mutable_node(id);
    node.attrs = AttrMap();
    if (find) {
      node.op = "_FindInTable";
      node.inputs.erase(node.inputs.begin());
      node.attrs.Set("keys", contents.keys);
      node.attrs.Set("values", contents.values);
      return absl::OkStatus();
    }
    node.op = "Const";
    node.inputs.clear();
    node.attrs.Set("dtype", DataType::kInt64);
    node.attrs.Set("value", Tensor::Scalar<int64_t>(contents.keys.num_elements()));
    return absl::OkStatus();
  }

  // A hash of numbers' texts needs the numbers alone.
  void HashNumbers(NodeId id) {
    const Node& node = graph_.node(id);
    if (node.inputs.size() != 1 || node.op == "StringToHashBucket") return;
    const Node& text = graph_.node(Source(graph_, node.inputs[0]).node);
    if (text.op != "AsString" || text.inputs.size() != 1) return;
    const DataType type = text.attrs.GetOr<DataType>("T", DataType::kInvalid);
    if (!IsInteger(type) && type != DataType::kBool) return;
    AttrMap attrs = text.attrs;
    attrs.Set("num_buckets", node.attrs.GetOr<int64_t>("num_buckets", 0));
    if (const AttrValue* key = node.attrs.Find("key"); key != nullptr) attrs.Set("key", *key);
    const OutputRef numbers = text.inputs[0];
    Node& hash = graph_.mutable_node(id);
    hash.op = "_AsStringToHashBucket";
    hash.inputs[0] = numbers;
    hash.attrs = std::move(attrs);
    changed_ = true;
  }

  // A text that is made of values to be printed needs the values alone; a guard stays the last input.
  void PrintValues(NodeId id) {
    const Node& node = graph_.node(id);
    if (node.inputs.empty()) return;
    const Node& text = graph_.node(Source(graph_, node.inputs[0]).node);
    if (text.op != "StringFormat") return;
    const auto values = text.inputs;
    AttrMap attrs = node.attrs;
    for (const char* name : {"template", "placeholder", "summarize"}) {
      if (const AttrValue* value = text.attrs.Find(name); value != nullptr) attrs.Set(name, *value);
    }
    Node& print = graph_.mutable_node(id);
    print.op = "_PrintFormatted";
    print.inputs.erase(print.inputs.begin());
    print.inputs.insert(print.inputs.begin(), values.begin(), values.end());
    print.attrs = std::move(attrs);
    changed_ = true;
  }

  // A table, or what passes its handle on.
  bool IsHandle(NodeId id) const {
    const Node& source = graph_.node(Source(graph_, OutputRef{id, 0}).node);
    return IsTable(source) || IsChangingTable(source);
  }

  Graph& graph_;
  const Graph& whole_;
  const OpRegistry& ops_;
  KernelOracle& oracle_;
  std::optional<Tables> tables_;
  std::map<std::string, std::string> filled_here_;  // tables that could change -> the node that fills them
  std::vector<NodeId> handles_;
  bool changed_ = false;
};

}  // namespace

absl::StatusOr<bool> LowerStrings(Graph& graph, const Graph& whole, const OpRegistry& ops, KernelOracle& oracle) {
  return Lowering(graph, whole, ops, oracle).Run();
}

}  // namespace millrace
