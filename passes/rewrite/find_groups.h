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

  // Whether the node is the group's root, or an op of it.
  static bool Has(const Draft& draft, NodeId id);
};

// `order`: of creation.
Groups FindGroups(const Graph& graph, const Fanout& fanout, const std::vector<NodeId>& order);

// Whether the op may be in a group of its shape.
bool MayBeInGroup(const Graph& graph, NodeId id);

}  // namespace millrace

#endif  // MILLRACE_PASSES_REWRITE_FIND_GROUPS_H_
