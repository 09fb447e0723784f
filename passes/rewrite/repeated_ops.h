// Ops that every group which reads them computes on its own, so that their result is never a tensor: cheap ones of one tensor
// (group_ops.h) that groups and their reductions alone read.
#ifndef MILLRACE_PASSES_REWRITE_REPEATED_OPS_H_
#define MILLRACE_PASSES_REWRITE_REPEATED_OPS_H_

#include <vector>

#include "millrace/graph.h"
#include "passes/rewrite/find_groups.h"

namespace millrace {

// Those that may be, by node id. `order`: as the nodes were created.
std::vector<bool> OpsToRepeat(const Graph& graph, const Fanout& fanout, const std::vector<NodeId>& order);

// Of `repeated` those stay that all who read them compute. Returns whether there were others.
bool KeepRepeatable(const Graph& graph, const std::vector<NodeId>& order, const Groups& groups, std::vector<bool>& repeated);

}  // namespace millrace

#endif  // MILLRACE_PASSES_REWRITE_REPEATED_OPS_H_
