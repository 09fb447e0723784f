// The parameters of a training graph: what a person means by "a model of 25.6 M parameters".
#ifndef MILLRACE_SRC_GRAPH_PARAMETERS_H_
#define MILLRACE_SRC_GRAPH_PARAMETERS_H_

#include <cstdint>

#include "millrace/graph.h"

namespace millrace {

// Whether the node declares a variable, of TensorFlow 1 or 2.
bool IsVariable(const Node& node);

struct Parameters {
  int64_t elements = 0;
  int64_t bytes = 0;
};

// The variables that an optimizer updates (the first input of Apply*, ResourceApply* and their sparse forms), without
// slots and moving averages; all variables in a graph without such updates. Variables whose declaration does not say
// the shape count nothing.
Parameters ParametersOf(const Graph& graph);

}  // namespace millrace

#endif  // MILLRACE_SRC_GRAPH_PARAMETERS_H_
