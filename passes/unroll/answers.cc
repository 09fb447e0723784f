#include "passes/unroll/answers.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/types/span.h"
#include "passes/control_flow/guard_effects.h"
#include "passes/unroll/exact_sizes.h"
#include "passes/unroll/questions.h"

namespace millrace {
namespace {

// Each is kept until the last is there.
constexpr size_t kMostTogether = 64;

using Question = std::pair<std::string, OutputRef>;

OutputRef Gathered(absl::Span<const Question> questions, Graph& graph) {
  Node pack;
  pack.name = absl::StrCat(kGathersAnswers, questions[0].first);
  pack.op = "Pack";
  pack.attrs.Set("T", DataType::kBool);
  pack.attrs.Set("N", static_cast<int64_t>(questions.size()));
  pack.attrs.Set("axis", int64_t{0});
  for (const auto& [name, ref] : questions) pack.inputs.push_back(ref);
  return {graph.AddUnique(std::move(pack)), 0};
}

}  // namespace

std::vector<std::string> FetchAnswers(const std::vector<Question>& asked, const TurnQuestions& turns, Graph& graph) {
  for (int32_t i = 0; i < graph.num_ids(); ++i) {
    if (graph.alive(NodeId{i}) && graph.node(NodeId{i}).op == "_Fetch") graph.RemoveNode(NodeId{i});
  }
  std::vector<std::string> fetches;
  for (size_t begin = 0, end; begin < asked.size(); begin = end) {
    for (end = begin; end < asked.size() && end - begin < kMostTogether && turns.certain.count(asked[end].first) > 0;) ++end;
    end = std::max(end, begin + 1);
    const absl::Span<const Question> together = absl::MakeConstSpan(asked).subspan(begin, end - begin);
    Node fetch;
    fetch.name = absl::StrCat("_fetch/", together[0].first);
    fetch.op = "_Fetch";
    fetch.attrs.Set("index", static_cast<int64_t>(fetches.size()));
    fetch.inputs = {together.size() > 1 ? Gathered(together, graph) : together[0].second};
    const bool of_turn = turns.all.count(together[0].first) > 0 || absl::StartsWith(together[0].first, kAsksForSide);
    if (together.size() == 1 && of_turn) fetch.attrs.Set(kAsksForATurn, true);
    graph.AddUnique(std::move(fetch));
    fetches.push_back(absl::StrJoin(together, kBetweenQuestions, [](std::string* line, const Question& question) { line->append(question.first); }));
  }
  return fetches;
}

}  // namespace millrace
