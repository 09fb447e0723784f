// What answers to questions (questions.h) stand in for has happened when the step runs: a draw of random numbers that says how many turns
// a loop takes, an assignment that gives the index of a row.
#ifndef MILLRACE_PASSES_UNROLL_EFFECTS_BEFORE_H_
#define MILLRACE_PASSES_UNROLL_EFFECTS_BEFORE_H_

#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "millrace/graph.h"
#include "millrace/op.h"

namespace millrace {

// Names of the nodes that draw or write variables and that one of `values` follows from, but for those of branches.
std::vector<std::string> EffectsBefore(const Graph& graph, const OpRegistry& ops, absl::Span<const OutputRef> values,
                                       absl::FunctionRef<bool(NodeId)> is_guarded);

}  // namespace millrace

#endif  // MILLRACE_PASSES_UNROLL_EFFECTS_BEFORE_H_
