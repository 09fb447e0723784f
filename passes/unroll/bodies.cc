#include "passes/unroll/bodies.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "millrace/status.h"
#include "passes/control_flow/control_flow_ops.h"
#include "passes/control_flow/expand_ops.h"
#include "passes/control_flow/inline_functions.h"
#include "passes/control_flow/lower_collectives.h"
#include "passes/control_flow/lower_conditionals.h"
#include "passes/control_flow/lower_function_ops.h"
#include "passes/control_flow/lower_sparse_matrices.h"
#include "passes/shapes/effects.h"

namespace millrace {
namespace {

constexpr int kMaxDepth = 50;  // of loops in loops: more is recursion

// Nor do arguments and results, within a body.
bool WaitsInBody(const Node& node) { return !NeverWaits(node) && node.op != kArgOp && node.op != kRetvalOp; }

}  // namespace

absl::StatusOr<std::unique_ptr<Body>> Bodies::OfGraph(Graph graph) {
  auto body = std::make_unique<Body>();
  body->graph = std::move(graph);
  MR_ASSIGN_OR_RETURN(body->frames, FindFrames(body->graph));
  const Graph& made = body->graph;
  body->outputs.assign(made.num_ids(), 1);
  body->first.assign(made.num_ids(), false);
  for (int32_t i = 0; i < made.num_ids(); ++i) {
    const Node& node = made.node(NodeId{i});
    if (node.removed) continue;
    for (OutputRef input : node.inputs) {
      body->outputs[input.node.value] = std::max(body->outputs[input.node.value], input.index + 1);
    }
    const auto waits = [&](NodeId id) { return WaitsInBody(made.node(id)); };
    body->first[i] = WaitsInBody(node) &&
                     std::none_of(node.inputs.begin(), node.inputs.end(), [&](OutputRef input) { return waits(input.node); }) &&
                     std::none_of(node.control_inputs.begin(), node.control_inputs.end(), waits);
    if (node.op == kArgOp) body->arguments = std::max<size_t>(body->arguments, node.attrs.GetOr<int64_t>("index", 0) + 1);
    if (node.op == kRetvalOp) {
      const int64_t index = node.attrs.GetOr<int64_t>("index", 0);
      body->results.resize(std::max<size_t>(body->results.size(), index + 1));
      body->results[index] = NodeId{i};
    }
    if (IsWhile(node)) {
      for (const char* attr : {"cond", "body"}) {
        MR_ASSIGN_OR_RETURN(const Body* function, OfFunction(made, node, attr));
        if (!function->effects.empty() && (body->effects.empty() || body->effects.back() != NodeId{i})) body->effects.push_back(NodeId{i});
        body->acts = body->acts || function->acts;
      }
    }
    const OpDef* def = ops_.Find(node.op);
    if (HasEffect(ops_, node.op)) body->effects.push_back(NodeId{i});
    body->acts = body->acts || (def != nullptr && def->state_bytes > 0);
  }
  body->acts = body->acts || !body->effects.empty();
  return body;
}

absl::StatusOr<const Body*> Bodies::OfFunction(const Graph& graph, const Node& node, const char* attr) {
  const AttrValue* value = node.attrs.Find(attr);
  const FunctionRef* ref = value == nullptr ? nullptr : std::get_if<FunctionRef>(value);
  const auto at_node = [&](const std::string& message) {
    return absl::InvalidArgumentError(absl::StrCat("node '", node.name, "' (", node.op, "): ", message));
  };
  if (ref == nullptr) return at_node(absl::StrCat("has no attribute '", attr, "' that names a function"));
  std::unique_ptr<Body>& body = functions_[ref->name];
  if (body != nullptr) return body.get();
  const auto found = graph.library() == nullptr ? Graph::Library::const_iterator() : graph.library()->find(ref->name);
  if (graph.library() == nullptr || found == graph.library()->end()) {
    return at_node(absl::StrCat("function '", ref->name, "' is not in the graph's library"));
  }
  if (depth_ == kMaxDepth) return at_node(absl::StrCat("loops are in loops to a depth of ", kMaxDepth));
  ++depth_;
  Graph expanded = found->second.body->Clone();
  expanded.set_library(graph.library());
  std::vector<std::string> controls = found->second.control_rets;
  for (bool lowered = true; lowered;) {
    MR_RETURN_IF_ERROR(InlineFunctions(expanded, ops_, MostInlinedNodes(expanded, max_nodes_)).status());
    const bool called = LowerFunctionOps(expanded, ops_, [&](const std::string& op) { return WritesVariables(ops_, op); });
    MR_ASSIGN_OR_RETURN(lowered, LowerConditionals(expanded, ops_, ConditionalForm::kSwitches));
    lowered = lowered || called;
  }
  MR_RETURN_IF_ERROR(LowerCollectives(expanded).status());
  MR_RETURN_IF_ERROR(ExpandOps(expanded).status());
  MR_RETURN_IF_ERROR(LowerSparseMatrices(expanded).status());
  MR_ASSIGN_OR_RETURN(std::unique_ptr<Body> made, OfGraph(std::move(expanded)));
  for (const std::string& control : controls) {
    const NodeId id = made->graph.Find(control);
    if (id.valid()) made->control_results.push_back(id);
  }
  if (made->results.size() != found->second.ret_names.size()) return at_node(absl::StrCat("function '", ref->name, "' lacks results"));
  --depth_;
  // Bodies of inner loops have been added meanwhile.
  std::unique_ptr<Body>& place = functions_[ref->name];
  place = std::move(made);
  return place.get();
}

}  // namespace millrace
