#include "passes/rewrite/kept_state.h"

#include "absl/strings/str_cat.h"
#include "graph/hidden_state.h"
#include "passes/control_flow/control_flow_ops.h"

namespace millrace {
namespace {

bool PassesOn(const Node& node) {
  return !node.inputs.empty() && (node.op == "Identity" || node.op == "RefIdentity" || IsSwitch(node) || IsEnter(node));
}

}  // namespace

OutputRef SourceOfHandle(const Graph& graph, OutputRef ref) {
  while (PassesOn(graph.node(ref.node))) ref = graph.node(ref.node).inputs[0];
  return ref;
}

std::string NameOfResource(const Node& resource) {
  const std::string shared = resource.attrs.GetOr<std::string>("shared_name", "");
  return shared.empty() ? resource.name : shared;
}

KeptState::KeptState() {
  attrs.Set("dtype", DataType::kUint8);
  attrs.Set(kStartsEmpty, true);
}

void BecomeKeptState(const KeptState& state, const std::string& suffix, Node& resource) {
  const std::string name = absl::StrCat(NameOfResource(resource), suffix);
  resource.op = "VarHandleOp";
  resource.inputs.clear();
  resource.attrs = AttrMap();
  resource.attrs.Set("dtype", DataType::kUint8);
  resource.attrs.Set("shape", Shape({state.bytes}));
  resource.attrs.Set("shared_name", name);
}

}  // namespace millrace
