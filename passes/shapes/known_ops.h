// Which ops a graph asks for that are not there.
#ifndef MILLRACE_PASSES_SHAPES_KNOWN_OPS_H_
#define MILLRACE_PASSES_SHAPES_KNOWN_OPS_H_

#include "absl/status/status.h"
#include "millrace/graph.h"
#include "millrace/op.h"

namespace millrace {

// Unimplemented with every op of the graph that `ops` does not know, how often each occurs, and what could be fed in place of one.
absl::Status CheckOpsKnown(const Graph& graph, const OpRegistry& ops);

}  // namespace millrace

#endif  // MILLRACE_PASSES_SHAPES_KNOWN_OPS_H_
