// What becomes of questions (questions.h) when the graph that asks them is made: they are its fetches.
#ifndef MILLRACE_PASSES_UNROLL_ANSWERS_H_
#define MILLRACE_PASSES_UNROLL_ANSWERS_H_

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "millrace/graph.h"

namespace millrace {

// Puts fetches of what was asked in the place of all that was to be fetched. `turns`: the questions whether a loop takes a turn.
void FetchAnswers(const std::vector<std::pair<std::string, OutputRef>>& asked, const std::set<std::string>& turns, Graph& graph);

}  // namespace millrace

#endif  // MILLRACE_PASSES_UNROLL_ANSWERS_H_
