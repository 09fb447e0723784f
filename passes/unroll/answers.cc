#include "passes/unroll/answers.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "passes/control_flow/guard_effects.h"
#include "passes/shapes/effects.h"
#include "passes/unroll/exact_sizes.h"

namespace millrace {
namespace {

// By node: whether one of `from` is it or follows from it.
std::vector<bool> Before(const Graph& graph, std::vector<NodeId> from) {
  std::vector<bool> seen(graph.num_ids(), false);
  while (!from.empty()) {
    const NodeId id = from.back();
    from.pop_back();
    if (!graph.alive(id) || seen[id.value]) continue;
    seen[id.value] = true;
    for (const OutputRef& input : graph.node(id).inputs) from.push_back(input.node);
    from.insert(from.end(), graph.node(id).control_inputs.begin(), graph.node(id).control_inputs.end());
  }
  return seen;
}

}  // namespace

std::vector<std::string> EffectsBefore(const Graph& graph, const OpRegistry& ops, absl::Span<const OutputRef> values) {
  std::vector<NodeId> from;
  for (const OutputRef& value : values) from.push_back(value.node);
  const std::vector<bool> before = Before(graph, std::move(from));
  std::vector<std::string> effects;
  for (int32_t i = 0; i < graph.num_ids(); ++i) {
    if (!before[i]) continue;
    const OpDef* const def = ops.Find(graph.node(NodeId{i}).op);
    if (def != nullptr && (def->state_bytes > 0 || WritesVariables(*def))) effects.push_back(graph.node(NodeId{i}).name);
  }
  return effects;
}

std::vector<std::string> NotFollowedBy(const Graph& graph, const std::vector<NodeId>& nodes, const std::vector<std::string>& kept) {
  std::vector<NodeId> from;
  for (const std::string& name : kept) {
    if (const NodeId id = graph.Find(name); id.valid()) from.push_back(id);
  }
  for (int32_t i = 0; i < graph.num_ids(); ++i) {
    if (graph.alive(NodeId{i}) && graph.node(NodeId{i}).op == "_Fetch") from.push_back(NodeId{i});
  }
  const std::vector<bool> before = Before(graph, std::move(from));
  std::vector<std::string> names;
  for (const NodeId id : nodes) {
    if (graph.alive(id) && !before[id.value]) names.push_back(graph.node(id).name);
  }
  return names;
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
