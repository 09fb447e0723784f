// What is wrong with a graph that a session is given, and with names of its nodes. Nothing is changed.
#ifndef MILLRACE_SRC_SESSION_GRAPH_CHECKS_H_
#define MILLRACE_SRC_SESSION_GRAPH_CHECKS_H_

#include <string>

#include "absl/status/status.h"
#include "millrace/graph.h"

namespace millrace {

// Whether the attributes of all nodes are of the kinds that TensorFlow's definitions of their ops say. Those of functions have been checked
// when they were read.
absl::Status CheckAttrsOf(const Graph& graph);

// NotFound when no node that keeps a state can have this name: that of a node, of one that a call of a function is replaced by, whose name
// begins with the call's, or of one in a turn of a loop.
absl::Status CheckMayKeepState(const Graph& graph, const std::string& node);

}  // namespace millrace

#endif  // MILLRACE_SRC_SESSION_GRAPH_CHECKS_H_
