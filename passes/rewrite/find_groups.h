// Which elementwise ops become one node, and what they take along: copies that they read through, reductions of what they compute.
// The choice alone; fuse_elementwise writes it into the graph.
#ifndef MILLRACE_PASSES_REWRITE_FIND_GROUPS_H_
#define MILLRACE_PASSES_REWRITE_FIND_GROUPS_H_

#include <cstdint>
#include <vector>

#include "millrace/graph.h"
#include "passes/rewrite/fused_writer.h"

namespace millrace {

struct Groups {
  std::vector<Draft> drafts;
  std::vector<int32_t> of;  // by node id; -1: in none

  bool Computes(int32_t group, NodeId id) const { return group >= 0 && Has(drafts[group], id); }
  // Whether the node is the group's root, or an op of it.
  static bool Has(const Draft& draft, NodeId id);
};

// `order`: of creation. Ops in `repeated` (by node id) are in every group that reads them and can, and in none of their own.
Groups FindGroups(const Graph& graph, const Fanout& fanout, const std::vector<NodeId>& order, const std::vector<bool>& repeated);

// Whether the op may be in a group of its shape.
bool MayBeInGroup(const Graph& graph, NodeId id);

}  // namespace millrace

#endif  // MILLRACE_PASSES_REWRITE_FIND_GROUPS_H_
