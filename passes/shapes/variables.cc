#include "passes/shapes/variables.h"

#include <map>
#include <string>

#include "absl/strings/str_cat.h"
#include "graph/variable_name.h"
#include "millrace/status.h"
#include "passes/shapes/per_op.h"

namespace millrace {
namespace {

// Nodes of one name mean one variable. TensorFlow has references, handles and containers apart: they may not be mixed.
absl::Status CheckShared(const Graph& graph, OpFinder& def_of) {
  std::map<std::string, NodeId> firsts;
  for (int32_t i = 0; i < graph.num_ids(); ++i) {
    const Node& node = graph.node(NodeId{i});
    if (node.removed || !def_of(node.op)->is_variable) continue;
    const auto [found, is_first] = firsts.emplace(VariableName(node), NodeId{i});
    const Node& first = graph.node(found->second);
    const bool same_kind = (node.op == "VarHandleOp") == (first.op == "VarHandleOp") && ContainerOf(node) == ContainerOf(first);
    if (is_first || (same_kind && node.outputs[0] == first.outputs[0])) continue;
    return absl::InvalidArgumentError(absl::StrCat("variable '", found->first, "' is ", first.outputs[0].ToString(), " by node '", first.name,
                                                   "' (", first.op, ") and ", node.outputs[0].ToString(), " by node '", node.name, "' (",
                                                   node.op, "), expected the same of both"));
  }
  return absl::OkStatus();
}

// Nothing that is assigned may have said the shape.
absl::Status CheckShapes(const Graph& graph, OpFinder& def_of) {
  for (int32_t i = 0; i < graph.num_ids(); ++i) {
    const Node& node = graph.node(NodeId{i});
    if (node.removed) continue;
    for (const VariableUse& use : def_of(node.op)->variables) {
      const OutputRef variable = node.inputs[use.input];
      if (use.access == VariableAccess::kPresence || graph.type(variable).shape.fully_known()) continue;
      return absl::InvalidArgumentError(absl::StrCat(
          "node '", node.name, "' (", node.op, ") uses variable '", graph.node(variable.node).name, "', which is ",
          graph.type(variable).ToString(), ", expected a shape that is known: by its declaration, by what initialises it in this graph, or ",
          "because the variable exists already"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckVariables(const Graph& graph, const OpRegistry& ops) {
  OpFinder def_of(ops);
  MR_RETURN_IF_ERROR(CheckShared(graph, def_of));
  return CheckShapes(graph, def_of);
}

NodeId VariableBehind(const Graph& graph, const OpRegistry& ops, NodeId id) {
  while (true) {
    const Node& node = graph.node(id);
    const OpDef* def = ops.Find(node.op);
    if (def != nullptr && def->is_variable) return id;
    if (def == nullptr || !(def->is_view || def->returns_variable) || node.inputs.empty()) return NodeId();
    id = node.inputs[0].node;
  }
}

}  // namespace millrace
