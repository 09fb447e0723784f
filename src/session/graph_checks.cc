#include "session/graph_checks.h"

#include <string_view>

#include "absl/strings/str_cat.h"
#include "millrace/status.h"
#include "ops/op_attrs.h"

namespace millrace {

absl::Status CheckAttrsOf(const Graph& graph) {
  for (int32_t i = 0; i < graph.num_ids(); ++i) {
    if (graph.alive(NodeId{i})) MR_RETURN_IF_ERROR(CheckAttrKinds(graph.node(NodeId{i})));
  }
  return absl::OkStatus();
}

absl::Status CheckMayKeepState(const Graph& graph, const std::string& node) {
  for (size_t end = node.find('/'); end != std::string::npos; end = node.find('/', end + 1)) {
    if (graph.Find(std::string_view(node).substr(0, end)).valid()) return absl::OkStatus();
  }
  if (graph.Find(node).valid() || graph.library() != nullptr) return absl::OkStatus();
  for (int32_t i = 0; i < graph.num_ids(); ++i) {
    const std::string& op = graph.node(NodeId{i}).op;
    if (op == "Enter" || op == "RefEnter") return absl::OkStatus();
  }
  return absl::NotFoundError(absl::StrCat("the state of node '", node, "': the graph has no node of that name"));
}

}  // namespace millrace
