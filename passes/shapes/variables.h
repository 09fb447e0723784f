// Variables of a graph: whether a plan can give them memory, and what that is the value of.
#ifndef MILLRACE_PASSES_SHAPES_VARIABLES_H_
#define MILLRACE_PASSES_SHAPES_VARIABLES_H_

#include "absl/status/status.h"
#include "millrace/graph.h"
#include "millrace/op.h"

namespace millrace {

// Of a graph with types. InvalidArgument where nodes of one name declare different variables, and where a node uses one whose shape nothing has said.
absl::Status CheckVariables(const Graph& graph, const OpRegistry& ops);

// The variable whose memory the node's value is, through views of it; invalid for others.
NodeId VariableBehind(const Graph& graph, const OpRegistry& ops, NodeId id);

}  // namespace millrace

#endif  // MILLRACE_PASSES_SHAPES_VARIABLES_H_
