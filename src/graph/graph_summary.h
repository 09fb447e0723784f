// What is told of a graph in numbers, before anything is planned.
#ifndef MILLRACE_SRC_GRAPH_GRAPH_SUMMARY_H_
#define MILLRACE_SRC_GRAPH_GRAPH_SUMMARY_H_

#include "millrace/graph.h"
#include "millrace/report.h"

namespace millrace {

// Nodes, edges (data and control) and parameter bytes (parameters.h); what marks fetches in a pruned graph is none of them.
// largest_node is left empty: it needs the shapes of the feeds, and scratch.
GraphSummary SummaryOf(const Graph& graph);

}  // namespace millrace

#endif  // MILLRACE_SRC_GRAPH_GRAPH_SUMMARY_H_
