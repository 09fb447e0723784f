#include "passes/initial_shapes.h"

#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "graph/parameters.h"
#include "graph/variable_name.h"

namespace millrace {
namespace {

// A value that a node assigns to a variable that nothing is known of yet.
struct Assigned {
  std::string variable;
  std::string value;  // tensor name
};

bool DeclaredWhole(const Node& variable) { return variable.attrs.GetOr<Shape>("shape", Shape::UnknownRank()).fully_known(); }

// In creation order.
std::vector<Assigned> FindAssigned(const Graph& graph, const OpRegistry& ops, const VariableTypesByName& known) {
  std::set<std::string> whole;
  for (int32_t i = 0; i < graph.num_ids(); ++i) {
    const Node& node = graph.node(NodeId{i});
    if (!node.removed && IsVariable(node) && (DeclaredWhole(node) || known.count(VariableName(node)) > 0)) whole.insert(VariableName(node));
  }
  std::vector<Assigned> found;
  for (int32_t i = 0; i < graph.num_ids(); ++i) {
    const Node& node = graph.node(NodeId{i});
    const OpDef* def = node.removed ? nullptr : ops.Find(node.op);
    if (def == nullptr) continue;
    for (const VariableUse& use : def->variables) {
      if (use.access != VariableAccess::kWrite || static_cast<size_t>(use.input) + 1 >= node.inputs.size()) continue;
      const Node& variable = graph.node(node.inputs[use.input].node);
      if (!IsVariable(variable) || whole.count(VariableName(variable)) > 0) continue;
      const OutputRef value = node.inputs[use.input + 1];
      found.push_back({VariableName(variable), absl::StrCat(graph.node(value.node).name, ":", value.index)});
    }
  }
  return found;
}

}  // namespace

void AddInitialShapes(const Graph& graph, const OpRegistry& ops,
                      absl::FunctionRef<absl::StatusOr<TensorType>(const std::string&, const VariableTypesByName&)> type_of,
                      VariableTypesByName& known) {
  std::vector<Assigned> open = FindAssigned(graph, ops, known);
  // Slots take the shapes of their variables, which must be known before.
  for (size_t before = open.size() + 1; open.size() < before;) {
    before = open.size();
    VariableTypesByName found;
    std::set<std::string> differ;
    std::vector<Assigned> left;
    for (Assigned& assigned : open) {
      const absl::StatusOr<TensorType> type = type_of(assigned.value, known);
      if (!type.ok()) {
        left.push_back(std::move(assigned));
        continue;
      }
      const auto [first, is_first] = found.emplace(assigned.variable, *type);
      if (!is_first && !(first->second == *type)) differ.insert(assigned.variable);
    }
    for (const std::string& variable : differ) found.erase(variable);
    std::erase_if(left, [&](const Assigned& assigned) { return found.count(assigned.variable) + differ.count(assigned.variable) > 0; });
    known.merge(found);
    open = std::move(left);
  }
}

}  // namespace millrace
