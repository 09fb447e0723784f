#include "passes/control_flow/kept_state.h"

#include <algorithm>
#include <iterator>
#include <string_view>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "graph/hidden_state.h"
#include "graph/parameters.h"
#include "graph/variable_name.h"
#include "passes/control_flow/control_flow_ops.h"

namespace millrace {
namespace {

bool PassesOn(const Node& node) {
  return !node.inputs.empty() && (node.op == "Identity" || node.op == "RefIdentity" || IsSwitch(node) || IsEnter(node));
}

bool IsOfStrings(const Node& node) { return IsVariable(node) && node.attrs.GetOr<DataType>("dtype", DataType::kInvalid) == DataType::kString; }

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

bool IsStagingOp(const Node& node) {
  constexpr std::string_view kUsers[] = {"Stage", "Unstage", "StagePeek", "StageSize", "StageClear"};
  return node.op == kStagingArea || std::find(std::begin(kUsers), std::end(kUsers), node.op) != std::end(kUsers);
}

bool IsAccumulator(const Node& node) { return absl::EndsWith(node.op, "ConditionalAccumulator"); }
bool IsQueue(const Node& node) {
  return absl::StartsWith(node.op, "FIFOQueue") || absl::StartsWith(node.op, "PaddingFIFOQueue") || absl::StartsWith(node.op, "RandomShuffleQueue") ||
         absl::StartsWith(node.op, "PriorityQueue") || node.op == kStagingArea;
}

std::string NameOfKeptState(const Node& resource) {
  const char* const suffix = IsChangingTable(resource) ? "/table"
                             : IsStagingOp(resource)   ? "/staged"
                             : IsQueue(resource)       ? "/queue"
                             : IsAccumulator(resource) ? "/accumulator"
                             : IsOfStrings(resource)   ? "/assigned"
                                                       : nullptr;
  if (suffix == nullptr) return std::string();
  return absl::StrCat(IsVariable(resource) ? VariableName(resource) : NameOfResource(resource), suffix);
}

void BecomeKeptState(const KeptState& state, Node& resource) {
  const std::string name = NameOfKeptState(resource);
  resource.op = "VarHandleOp";
  resource.inputs.clear();
  resource.attrs = AttrMap();
  resource.attrs.Set("dtype", DataType::kUint8);
  resource.attrs.Set("shape", Shape({state.bytes}));
  resource.attrs.Set("shared_name", name);
}

void BecomeNoOp(Graph& graph, NodeId id) {
  Node& node = graph.mutable_node(id);
  for (OutputRef input : node.inputs) node.control_inputs.push_back(input.node);
  node.inputs.clear();
  node.op = "NoOp";
  node.attrs = AttrMap();
}

}  // namespace millrace
