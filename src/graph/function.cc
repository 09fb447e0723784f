#include "graph/function.h"

#include "absl/strings/str_cat.h"
#include "millrace/status.h"

namespace millrace {
namespace {

// Nodes of `op` by their attribute `index`.
absl::StatusOr<std::vector<NodeId>> IndexedNodes(const Graph& body, const char* op) {
  std::vector<NodeId> found;
  for (int32_t i = 0; i < body.num_ids(); ++i) {
    if (body.alive(NodeId{i}) && body.node(NodeId{i}).op == op) found.push_back(NodeId{i});
  }
  std::vector<NodeId> by_index(found.size());
  for (NodeId id : found) {
    const Node& node = body.node(id);
    const int64_t index = node.attrs.GetOr<int64_t>("index", -1);
    if (index < 0 || index >= static_cast<int64_t>(found.size()) || by_index[index].valid()) {
      return absl::InvalidArgumentError(absl::StrCat("node '", node.name, "' (", op,
                                                     ") has index ", index, ", expected each of 0 to ",
                                                     found.size() - 1, " once"));
    }
    by_index[index] = id;
  }
  return by_index;
}

}  // namespace

absl::StatusOr<Function> MakeFunction(std::string name, AttrMap attrs, Graph body,
                                      std::vector<std::string> control_rets) {
  Function function;
  MR_ASSIGN_OR_RETURN(const std::vector<NodeId> args, IndexedNodes(body, kArgOp));
  MR_ASSIGN_OR_RETURN(const std::vector<NodeId> rets, IndexedNodes(body, kRetvalOp));
  for (NodeId id : args) {
    function.arg_names.push_back(body.node(id).name);
    function.arg_types.push_back(body.node(id).attrs.GetOr<DataType>("T", DataType::kInvalid));
  }
  for (NodeId id : rets) {
    const Node& node = body.node(id);
    if (node.inputs.size() != 1) {
      return absl::InvalidArgumentError(absl::StrCat("result '", node.name, "' has ",
                                                     node.inputs.size(), " inputs, expected 1"));
    }
    function.ret_names.push_back(node.name);
    function.ret_types.push_back(node.attrs.GetOr<DataType>("T", DataType::kInvalid));
  }
  for (const std::string& control : control_rets) {
    if (body.Find(control).valid()) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("control result '", control, "' is not a node of its body"));
  }
  function.name = std::move(name);
  function.attrs = std::move(attrs);
  function.control_rets = std::move(control_rets);
  function.body = std::make_shared<const Graph>(std::move(body));
  return function;
}

}  // namespace millrace
