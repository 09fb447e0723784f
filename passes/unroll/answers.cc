#include "passes/unroll/answers.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "passes/control_flow/guard_effects.h"
#include "passes/unroll/exact_sizes.h"

namespace millrace {

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
