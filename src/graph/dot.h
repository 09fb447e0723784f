// A picture of a Graph in Graphviz's language.
#ifndef MILLRACE_SRC_GRAPH_DOT_H_
#define MILLRACE_SRC_GRAPH_DOT_H_

#include <string>

#include "millrace/graph.h"

namespace millrace {

// One cluster per partition, data edges labelled with their type, control edges dashed, swap nodes and nodes in host
// memory coloured, reasons as tooltips. For `dot -Tsvg`.
std::string GraphToDot(const Graph& graph);

}  // namespace millrace

#endif  // MILLRACE_SRC_GRAPH_DOT_H_
