#include "passes/control_flow/control_flow_ops.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "graph/function.h"
#include "passes/control_flow/lower_function_ops.h"

namespace millrace {
namespace {

void AddFunctionsIn(const AttrMap& attrs, std::vector<std::string>& names) {
  const auto add = [&](const FunctionRef& ref) {
    names.push_back(ref.name);
    if (ref.attrs != nullptr) AddFunctionsIn(*ref.attrs, names);
  };
  for (const auto& [name, value] : attrs) {
    if (const auto* ref = std::get_if<FunctionRef>(&value)) add(*ref);
    const auto* refs = std::get_if<std::vector<FunctionRef>>(&value);
    for (size_t i = 0; refs != nullptr && i < refs->size(); ++i) add((*refs)[i]);
  }
}

}  // namespace

bool IsIf(const Node& node) { return node.op == "If" || node.op == "StatelessIf"; }
bool IsCase(const Node& node) { return node.op == "Case" || node.op == "StatelessCase"; }
bool IsWhile(const Node& node) { return node.op == "While" || node.op == "StatelessWhile" || node.op == "XlaWhile"; }
bool IsPartitionedCall(const Node& node) {
  return node.op == "PartitionedCall" || node.op == "StatefulPartitionedCall" || node.op == "BatchFunction" || node.op == kSymbolicGradientOp;
}

bool IsSwitch(const Node& node) { return node.op == "Switch" || node.op == "RefSwitch"; }
bool IsMerge(const Node& node) { return node.op == "Merge" || node.op == "RefMerge"; }
bool IsEnter(const Node& node) { return node.op == "Enter" || node.op == "RefEnter"; }
bool IsExit(const Node& node) { return node.op == "Exit" || node.op == "RefExit"; }
bool IsNextIteration(const Node& node) { return node.op == "NextIteration" || node.op == "RefNextIteration"; }

absl::Status CheckInputsOfControl(const Node& node) {
  const bool passes = IsEnter(node) || IsExit(node) || IsNextIteration(node) || node.op == "LoopCond";
  const size_t least = IsSwitch(node) ? 2 : passes || IsMerge(node) ? 1 : 0;
  if (node.inputs.size() >= least && (node.inputs.size() == least || least == 0 || IsMerge(node))) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("node '", node.name, "' (", node.op, ") has ", node.inputs.size(), " inputs, expected ",
                                                 IsMerge(node) ? "at least " : "", least));
}

absl::Status CheckLeastInputs(const Node& node) {
  static const auto& least = *new std::unordered_map<std::string, size_t>{
      // Lists, arrays and stacks, and what passes them on.
      {"Identity", 1}, {"PreventGradient", 1}, {"StopGradient", 1}, {"_Retval", 1},
      {"RaggedTensorFromVariant", 1}, {"RaggedTensorToVariant", 1}, {"RaggedTensorToVariantGradient", 1},
      {"StackPushV2", 2}, {"TensorArrayScatterV3", 3}, {"TensorArraySplitV3", 2}, {"TensorArrayWriteV3", 3},
      {"TensorListFromTensor", 1}, {"TensorListGetItem", 2}, {"TensorListPushBack", 2}, {"TensorListScatter", 1},
      {"TensorListScatterIntoExistingList", 2}, {"TensorListScatterV2", 1}, {"TensorListSetItem", 3}, {"TensorListSplit", 1},
      // Collectives.
      {"CollectiveBcastSend", 1}, {"CollectiveBcastSendV2", 1}, {"CollectiveGather", 1}, {"CollectiveGatherV2", 1},
      {"CollectiveReduce", 1}, {"CollectiveReduceScatterV2", 1}, {"CollectiveReduceV2", 1},
      {"NcclAllReduce", 1}, {"NcclBroadcast", 1}, {"NcclReduce", 1},
      // What becomes other ops.
      {"ApproxTopK", 1}, {"BatchSelfAdjointEig", 1}, {"QuantizeAndDequantize", 1}, {"RefSelect", 2}, {"SelfAdjointEig", 1}, {"SobolSample", 3},
      {"XlaDynamicSlice", 3}, {"XlaDynamicUpdateSlice", 3}, {"_SwitchN", 2}};
  const auto found = least.find(node.op);
  if (found == least.end() || node.inputs.size() >= found->second) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("node '", node.name, "' (", node.op, ") has ", node.inputs.size(), " inputs, expected at least ", found->second));
}

bool IsMutableTable(const Node& node) { return node.op == "MutableHashTable" || node.op == "MutableHashTableV2"; }
bool IsTable(const Node& node) { return node.op == "HashTable" || node.op == "HashTableV2" || IsMutableTable(node); }
bool IsDenseTable(const Node& node) { return node.op == "MutableDenseHashTable" || node.op == "MutableDenseHashTableV2"; }
bool IsChangingTable(const Node& node) {
  return IsMutableTable(node) || IsDenseTable(node) || node.op == "MutableHashTableOfTensors" || node.op == "MutableHashTableOfTensorsV2";
}
bool IsTableInitializer(const Node& node) {
  return node.op == "InitializeTable" || node.op == "InitializeTableV2" || node.op == "LookupTableImport" || node.op == "LookupTableImportV2" ||
         node.op == "LookupTableInsert" || node.op == "LookupTableInsertV2";
}
bool IsTableFromFile(const Node& node) { return node.op == "InitializeTableFromTextFile" || node.op == "InitializeTableFromTextFileV2"; }
bool IsTableFind(const Node& node) { return node.op == "LookupTableFind" || node.op == "LookupTableFindV2"; }
bool IsTableSize(const Node& node) { return node.op == "LookupTableSize" || node.op == "LookupTableSizeV2"; }
bool IsTableRemove(const Node& node) { return node.op == "LookupTableRemoveV2"; }
bool IsTableExport(const Node& node) { return node.op == "LookupTableExport" || node.op == "LookupTableExportV2"; }
bool UsesTable(const Node& node) {
  return IsTableInitializer(node) || IsTableFromFile(node) || IsTableFind(node) || IsTableSize(node) || IsTableRemove(node) || IsTableExport(node);
}
bool IsTableOp(const Node& node) { return IsTable(node) || IsChangingTable(node) || UsesTable(node); }

bool IsNextAsOptional(const Node& node) { return node.op == "IteratorGetNextAsOptional"; }

bool WritesText(const Node& node) { return node.op == "PrintV2" || node.op == "WriteFile"; }

bool NeverWaits(const Node& node) { return node.op == "Const" || node.op == "VarHandleOp"; }

bool HoldsNode(const Graph& graph, absl::FunctionRef<bool(const Node&)> predicate) {
  for (int32_t i = 0; i < graph.num_ids(); ++i) {
    if (graph.alive(NodeId{i}) && predicate(graph.node(NodeId{i}))) return true;
  }
  return false;
}

bool LibraryHolds(const Graph& graph, absl::FunctionRef<bool(const Node&)> predicate) {
  if (graph.library() == nullptr) return false;
  return std::any_of(graph.library()->begin(), graph.library()->end(), [&](const auto& entry) {
    return entry.second.body != nullptr && HoldsAny(*entry.second.body, predicate);
  });
}

bool HoldsAny(const Graph& graph, absl::FunctionRef<bool(const Node&)> predicate) {
  return HoldsNode(graph, predicate) || LibraryHolds(graph, predicate);
}

std::set<std::string> FunctionsWith(const Graph& graph, absl::FunctionRef<bool(const Node&)> predicate) {
  std::set<std::string> found;
  if (graph.library() == nullptr) return found;
  std::map<std::string, std::vector<std::string>> named_by;
  std::vector<std::string> open;
  for (const auto& [name, function] : *graph.library()) {
    for (int32_t i = 0; function.body != nullptr && i < function.body->num_ids(); ++i) {
      if (!function.body->alive(NodeId{i})) continue;
      const Node& node = function.body->node(NodeId{i});
      if (predicate(node)) open.push_back(name);
      for (const std::string& named : FunctionsNamedBy(node)) named_by[named].push_back(name);
    }
  }
  while (!open.empty()) {
    const std::string name = std::move(open.back());
    open.pop_back();
    if (!found.insert(name).second) continue;
    for (const std::string& namer : named_by[name]) open.push_back(namer);
  }
  return found;
}

std::vector<std::string> FunctionsNamedBy(const Node& node) {
  std::vector<std::string> names = {node.op};
  AddFunctionsIn(node.attrs, names);
  return names;
}

}  // namespace millrace
