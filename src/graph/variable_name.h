// By which name a variable of a graph persists.
#ifndef MILLRACE_SRC_GRAPH_VARIABLE_NAME_H_
#define MILLRACE_SRC_GRAPH_VARIABLE_NAME_H_

#include <string>

#include "millrace/graph.h"

namespace millrace {

// Name under which a variable node's value persists: its shared_name or else the name of the node, behind that of its container and a
// colon if it has one.
std::string VariableName(const Node& node);

// Where the variable is kept; empty where all are that say nothing of it.
std::string ContainerOf(const Node& variable);

}  // namespace millrace

#endif  // MILLRACE_SRC_GRAPH_VARIABLE_NAME_H_
