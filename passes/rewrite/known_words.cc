#include "passes/rewrite/known_words.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "graph/parameters.h"
#include "graph/variable_name.h"
#include "millrace/status.h"
#include "passes/control_flow/kept_state.h"
#include "passes/rewrite/known_tables.h"

namespace millrace {

bool IsVariableOfWords(const Node& node) { return IsVariable(node) && node.attrs.GetOr<DataType>("dtype", DataType::kInvalid) == DataType::kString; }

bool AssignsWords(const Node& node) {
  const char* const type = node.op == "AssignVariableOp" ? "dtype" : "T";
  const bool assigns = (node.op == "AssignVariableOp" || node.op == "Assign") && node.inputs.size() == 2;
  return assigns && node.attrs.GetOr<DataType>(type, DataType::kInvalid) == DataType::kString;
}

void KnownWords::Words::Assign(const Node& by, Tensor assigned) {
  if (assigned_by == by.name) return;
  if (!assigned_by.empty()) {
    also_by = by.name;
    return;
  }
  assigned_by = by.name;
  value = std::move(assigned);
}

absl::StatusOr<KnownWords> KnownWords::Find(const Graph& whole, const OpRegistry& ops, KernelOracle& oracle) {
  KnownWords words;
  const auto visit = [&](const Graph& graph, const Node& node, const ShapeTracker& tracker) {
    const Node& variable = graph.node(SourceOfHandle(graph, node.inputs[0]).node);
    if (!IsVariableOfWords(variable)) return;
    const Tensor* const value = tracker.Value(node.inputs[1]);
    words.by_name_[VariableName(variable)].Assign(node, value == nullptr ? Tensor() : *value);
  };
  const auto may_visit = [&](const Node& variable, const Node& node) {
    if (IsVariableOfWords(variable)) words.by_name_[VariableName(variable)].Assign(node, Tensor());
  };
  MR_RETURN_IF_ERROR(VisitWithValues(whole, ops, oracle, AssignsWords, visit, may_visit));
  return words;
}

absl::StatusOr<Tensor> KnownWords::Of(const Node& variable, const Node& user) const {
  const auto refuse = [&](const std::string& why) {
    return absl::UnimplementedError(absl::StrCat("node '", user.name, "' (", user.op, "): variable '", VariableName(variable), "' of strings ", why,
                                                 "; only those that are assigned once, with constants, are read"));
  };
  const auto found = by_name_.find(VariableName(variable));
  if (found == by_name_.end()) return refuse("is assigned nowhere in the graph");
  if (!found->second.also_by.empty()) return refuse(absl::StrCat("is assigned by '", found->second.assigned_by, "' and by '", found->second.also_by, "'"));
  if (found->second.value.dtype() != DataType::kString) {
    return refuse(absl::StrCat("gets by '", found->second.assigned_by, "' what is not known when the graph is planned"));
  }
  return found->second.value;
}

}  // namespace millrace
