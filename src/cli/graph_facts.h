// What can be said of a graph without feeds, beside graph/graph_summary.h: levels and operations.
#ifndef MILLRACE_SRC_CLI_GRAPH_FACTS_H_
#define MILLRACE_SRC_CLI_GRAPH_FACTS_H_

#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "millrace/graph.h"
#include "millrace/op.h"

namespace millrace::cli {

// Length of the longest path, in nodes, through loops once. InvalidArgument names a node on a cycle that is no loop.
absl::StatusOr<int64_t> Levels(const Graph& graph);

// Nodes of the functions that the graph reaches, each function counted once, without arguments and results.
int64_t NodesInFunctions(const Graph& graph);

// How often each op is used, by the graph and by the functions that it reaches (each counted once). Calls are not
// counted: their bodies take their place.
std::map<std::string, int64_t> OpCounts(const Graph& graph);
// Of these, the ones that `ops` does not know.
std::map<std::string, int64_t> UnsupportedOps(const std::map<std::string, int64_t>& counts, const OpRegistry& ops);

}  // namespace millrace::cli

#endif  // MILLRACE_SRC_CLI_GRAPH_FACTS_H_
