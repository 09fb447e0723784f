// What becomes of questions (questions.h) when the graph that asks them is made: they are its fetches.
#ifndef MILLRACE_PASSES_UNROLL_ANSWERS_H_
#define MILLRACE_PASSES_UNROLL_ANSWERS_H_

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "millrace/graph.h"

namespace millrace {

struct TurnQuestions {
  std::set<std::string> all;      // whether a loop takes a turn
  std::set<std::string> certain;  // of them, bool scalars that are there whichever branches are taken, with names of one line
};

// Puts fetches of what was asked in the place of all that was to be fetched; returns whose answers each is (QuestionsOf). Those of
// turns, one after the other, are fetched together: a copy may take a lane longer than the turn took.
std::vector<std::string> FetchAnswers(const std::vector<std::pair<std::string, OutputRef>>& asked, const TurnQuestions& turns, Graph& graph);

}  // namespace millrace

#endif  // MILLRACE_PASSES_UNROLL_ANSWERS_H_
