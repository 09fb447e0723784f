// The structural check of a Graph: what every pass may rely on, and importers establish.
#ifndef MILLRACE_SRC_GRAPH_VERIFY_H_
#define MILLRACE_SRC_GRAPH_VERIFY_H_

#include "absl/status/status.h"
#include "millrace/graph.h"

namespace millrace {

// OK when names are unique and found, every input and control input is a live node, output numbers exist (where the
// producer's types are known), in-place pairs are in range, and there is no cycle but through the back edges of
// TensorFlow's v1 loops (NextIteration -> Merge). Otherwise InvalidArgument names the node.
absl::Status VerifyGraph(const Graph& graph);

// The same but for the names, for those who have just added every node by Graph::AddNode.
absl::Status VerifyEdges(const Graph& graph);

// Whether every input and control input is a node of the graph: graphs that are put together by hand may have others.
absl::Status CheckNodeIds(const Graph& graph);

// Whether an edge between the two is one of those that may close a cycle.
bool IsBackEdge(const Node& producer, const Node& consumer);

}  // namespace millrace

#endif  // MILLRACE_SRC_GRAPH_VERIFY_H_
