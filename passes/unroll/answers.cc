#include "passes/unroll/answers.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "passes/control_flow/guard_effects.h"
#include "passes/shapes/effects.h"
#include "passes/unroll/exact_sizes.h"

namespace millrace {

std::vector<std::string> EffectsBefore(const Graph& graph, const OpRegistry& ops, absl::Span<const OutputRef> values) {
  std::vector<std::string> effects;
  std::vector<bool> seen(graph.num_ids(), false);
  std::vector<NodeId> next;
  const auto reach = [&](NodeId id) {
    if (!graph.alive(id) || seen[id.value]) return;
    seen[id.value] = true;
    next.push_back(id);
  };
  for (const OutputRef& value : values) reach(value.node);
  while (!next.empty()) {
    const NodeId id = next.back();
    next.pop_back();
    const Node& node = graph.node(id);
    const OpDef* const def = ops.Find(node.op);
    const bool acts = def != nullptr && (def->state_bytes > 0 || WritesVariables(*def));
    if (acts) effects.push_back(node.name);
    for (const OutputRef& input : node.inputs) reach(input.node);
    for (const NodeId control : node.control_inputs) reach(control);
  }
  return effects;
}

void FetchAnswers(const std::vector<std::pair<std::string, OutputRef>>& asked, const std::set<std::string>& turns, Graph& graph) {
  for (int32_t i = 0; i < graph.num_ids(); ++i) {
    if (graph.alive(NodeId{i}) && graph.node(NodeId{i}).op == "_Fetch") graph.RemoveNode(NodeId{i});
  }
  int64_t index = 0;
  for (const auto& [name, ref] : asked) {
    Node fetch;
    fetch.name = absl::StrCat("_fetch/", name);
    fetch.op = "_Fetch";
    fetch.attrs.Set("index", index++);
    fetch.inputs = {ref};
    if (turns.count(name) > 0 || absl::StartsWith(name, kAsksForSide)) fetch.attrs.Set(kAsksForATurn, true);
    graph.AddUnique(std::move(fetch));
  }
}

}  // namespace millrace
