#include "passes/rewrite/known_tables.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "graph/unread_file.h"
#include "millrace/status.h"
#include "passes/control_flow/control_flow_ops.h"
#include "passes/control_flow/kept_state.h"
#include "passes/rewrite/prune.h"

namespace millrace {
namespace {

bool Fills(const Node& node) { return IsTableInitializer(node) || IsTableFromFile(node); }
bool Changes(const Node& node) { return Fills(node) || IsTableRemove(node); }

absl::Status Refuse(const Node& node, const std::string& why) {
  return absl::UnimplementedError(absl::StrCat("node '", node.name, "' (", node.op, "): ", why));
}

TableContents ContentsFrom(const Node& node, const ShapeTracker& tracker) {
  TableContents contents;
  contents.from_file = IsTableFromFile(node);
  contents.why_unread = node.attrs.GetOr<std::string>(kWhyUnread, "");
  if (!contents.from_file && node.inputs.size() == 3) {
    const Tensor *keys = tracker.Value(node.inputs[1]), *values = tracker.Value(node.inputs[2]);
    if (keys != nullptr && values != nullptr) contents = {*keys, *values};
  }
  return contents;
}

bool NamesAny(const Node& node, const std::set<std::string>& functions) {
  const std::vector<std::string> named = FunctionsNamedBy(node);
  return std::any_of(named.begin(), named.end(), [&](const std::string& name) { return functions.count(name) > 0; });
}

bool IsRestored(const Graph& graph, const Node& filler) {
  return filler.inputs.size() > 1 && absl::StartsWith(graph.node(SourceOfHandle(graph, filler.inputs[1]).node).op, "Restore");
}

// The resources that a node takes which names some of `functions`, and those that are declared in these.
void VisitResources(const Graph& graph, const Node& node, const std::set<std::string>& functions, absl::FunctionRef<void(const Node&)> visit) {
  for (OutputRef input : node.inputs) visit(graph.node(SourceOfHandle(graph, input).node));
  std::vector<std::string> open = FunctionsNamedBy(node);
  std::set<std::string> seen;
  while (!open.empty()) {
    const std::string name = std::move(open.back());
    open.pop_back();
    if (functions.count(name) == 0 || !seen.insert(name).second) continue;
    const Graph& body = *graph.library()->at(name).body;
    for (int32_t i = 0; i < body.num_ids(); ++i) {
      if (!body.alive(NodeId{i})) continue;
      if (body.node(NodeId{i}).inputs.empty()) visit(body.node(NodeId{i}));
      const std::vector<std::string> named = FunctionsNamedBy(body.node(NodeId{i}));
      open.insert(open.end(), named.begin(), named.end());
    }
  }
}

}  // namespace

void CutLoops(Graph& graph) {
  for (int32_t i = 0; i < graph.num_ids(); ++i) {
    if (!graph.alive(NodeId{i}) || !IsMerge(graph.node(NodeId{i}))) continue;
    Node& merge = graph.mutable_node(NodeId{i});
    const auto turns = [&](OutputRef input) { return IsNextIteration(graph.node(input.node)); };
    merge.inputs.erase(std::remove_if(merge.inputs.begin(), merge.inputs.end(), turns), merge.inputs.end());
  }
}

absl::StatusOr<Graph> WhatRunsFor(const Graph& whole, const OpRegistry& ops, absl::FunctionRef<bool(const Node&)> predicate) {
  Signature signature;
  const std::set<std::string> functions = FunctionsWith(whole, predicate);
  for (int32_t i = 0; i < whole.num_ids(); ++i) {
    const Node& node = whole.node(NodeId{i});
    if (!whole.alive(NodeId{i})) continue;
    if (predicate(node) || NamesAny(node, functions)) signature.targets.push_back(node.name);
    if (node.op != "Placeholder" && node.op != "PlaceholderV2") continue;
    signature.feeds[absl::StrCat(node.name, ":0")] = {node.attrs.GetOr<DataType>("dtype", DataType::kFloat),
                                                      node.attrs.GetOr<Shape>("shape", Shape::UnknownRank())};
  }
  return PruneAndInline(whole, signature, ops);
}

absl::Status VisitWithValues(const Graph& whole, const OpRegistry& ops, KernelOracle& oracle, absl::FunctionRef<bool(const Node&)> predicate,
                             absl::FunctionRef<void(const Graph&, const Node&, const ShapeTracker&)> visit,
                             absl::FunctionRef<void(const Node&, const Node&)> may_visit) {
  MR_ASSIGN_OR_RETURN(Graph graph, WhatRunsFor(whole, ops, predicate));
  CutLoops(graph);
  MR_ASSIGN_OR_RETURN(const std::vector<NodeId> order, CreationOrder(graph));
  const std::set<std::string> functions = FunctionsWith(graph, predicate);
  const std::map<std::string, TensorType> no_variables;
  ShapeTracker tracker(graph, ops, oracle, no_variables);
  for (NodeId id : order) {
    const Node node = graph.node(id);
    if (predicate(node)) {
      visit(graph, node, tracker);
    } else if (NamesAny(node, functions)) {
      VisitResources(graph, node, functions, [&](const Node& resource) { may_visit(resource, node); });
    } else if (ops.Find(node.op) != nullptr) {
      tracker.Track(id, false);
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<KnownTables> KnownTables::Find(const Graph& whole, const OpRegistry& ops, KernelOracle& oracle) {
  KnownTables tables;
  const auto visit = [&](const Graph& graph, const Node& node, const ShapeTracker& tracker) {
    if (node.inputs.empty()) return;
    const Node& table = graph.node(SourceOfHandle(graph, node.inputs[0]).node);
    if (!IsTable(table) && !IsChangingTable(table)) return;
    TableContents& found = tables.by_name_[NameOfResource(table)];
    // What the file says is in a node of its own where it was read.
    if (IsTableFromFile(node) && !found.keys.empty()) return;
    if (Fills(node)) {
      TableContents contents = ContentsFrom(node, tracker);
      contents.filled_by = node.name;
      contents.changed_by = found.changed_by.empty() ? found.filled_by : found.changed_by;
      contents.restored_by = IsRestored(graph, node) ? node.name : found.restored_by;
      found = std::move(contents);
    } else {
      found.changed_by = node.name;
    }
  };
  const auto may_visit = [&](const Node& table, const Node& node) {
    if (!IsChangingTable(table)) return;
    TableContents& found = tables.by_name_[NameOfResource(table)];
    if (found.filled_by != node.name) (found.filled_by.empty() ? found.filled_by : found.changed_by) = node.name;
  };
  MR_RETURN_IF_ERROR(VisitWithValues(whole, ops, oracle, Changes, visit, may_visit));
  return tables;
}

absl::StatusOr<TableContents> KnownTables::Of(const Node& table, const Node& user) const {
  if (!IsTable(table)) {
    return Refuse(user, absl::StrCat("the table comes from node '", table.name, "' (", table.op, "), expected HashTableV2"));
  }
  const auto found = by_name_.find(NameOfResource(table));
  if (found == by_name_.end()) {
    return Refuse(user, absl::StrCat("nothing in the graph initialises table '", NameOfResource(table),
                                     "'; export it with its initializer (LookupTableImportV2 of constants)"));
  }
  const TableContents& contents = found->second;
  if (IsMutableTable(table) && !contents.changed_by.empty()) {
    return Refuse(user, absl::StrCat("table '", table.name, "' (", table.op, ") is changed by '", contents.filled_by, "' and by '",
                                     contents.changed_by, "'"));
  }
  if (!contents.why_unread.empty()) {
    return Refuse(user, absl::StrCat("table '", NameOfResource(table), "' is initialised from a file that '", contents.filled_by,
                                     "' cannot use: ", contents.why_unread));
  }
  if (contents.from_file) {
    return Refuse(user, absl::StrCat("table '", NameOfResource(table), "' is initialised from a file, which is no part of the graph; "
                                     "initialise it with constants (tf.lookup.KeyValueTensorInitializer)"));
  }
  if (contents.keys.empty()) {
    return Refuse(user, absl::StrCat("the keys and values of table '", NameOfResource(table), "' are not known when the graph is planned, "
                                     "expected constants"));
  }
  return contents;
}

absl::Status KnownTables::CheckNotRestored(const Node& table, const Node& user) const {
  const auto found = by_name_.find(NameOfResource(table));
  if (found == by_name_.end() || found->second.restored_by.empty()) return absl::OkStatus();
  return Refuse(user, absl::StrCat("the words of table '", table.name, "' (", table.op, ") are restored from a checkpoint by '",
                                   found->second.restored_by, "', which only keys that are integers are"));
}

}  // namespace millrace
