// Nodes that go away while others wait for them: those wait for what came before the node instead, so that effects keep
// their order. For nodes without effects of their own. A node behind many others becomes a NoOp instead: else each of its waiters would
// have an edge from all of them, and of a chain of such nodes from all that its nodes ever came behind.
#ifndef MILLRACE_PASSES_REWRITE_BYPASS_H_
#define MILLRACE_PASSES_REWRITE_BYPASS_H_

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "millrace/graph.h"

namespace millrace {

class Bypass {
 public:
  // Requires that no node takes a value of this one, or only such as are removed before Redirect. What it came behind should be removed
  // before it where it is at all.
  void Remove(Graph& graph, NodeId id);
  // Once, after all removals.
  void Redirect(Graph& graph) const;
  bool empty() const { return before_.empty(); }

 private:
  std::unordered_map<int32_t, std::vector<NodeId>> before_;  // producers and control inputs, or what those came behind
};

}  // namespace millrace

#endif  // MILLRACE_PASSES_REWRITE_BYPASS_H_
