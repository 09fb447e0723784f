// What becomes of questions (questions.h) when the graph is made: where it asks, they are its fetches; where it was answered, what the
// answers stand in for happens all the same: a draw of random numbers that says how many turns a loop takes, an assignment that gives
// the index of a row.
#ifndef MILLRACE_PASSES_UNROLL_ANSWERS_H_
#define MILLRACE_PASSES_UNROLL_ANSWERS_H_

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "millrace/graph.h"
#include "millrace/op.h"

namespace millrace {

// Names of the nodes that draw or write variables and that one of `values` follows from.
std::vector<std::string> EffectsBefore(const Graph& graph, const OpRegistry& ops, absl::Span<const OutputRef> values);

// Names of those `nodes` that no fetch and none of the nodes called `kept` follows from.
std::vector<std::string> NotFollowedBy(const Graph& graph, const std::vector<NodeId>& nodes, const std::vector<std::string>& kept);

// Puts fetches of what was asked in the place of all that was to be fetched. `turns`: the questions whether a loop takes a turn.
void FetchAnswers(const std::vector<std::pair<std::string, OutputRef>>& asked, const std::set<std::string>& turns, Graph& graph);

}  // namespace millrace

#endif  // MILLRACE_PASSES_UNROLL_ANSWERS_H_
