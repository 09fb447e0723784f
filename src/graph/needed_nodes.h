// What of a graph is needed.
#ifndef MILLRACE_SRC_GRAPH_NEEDED_NODES_H_
#define MILLRACE_SRC_GRAPH_NEEDED_NODES_H_

#include <string>
#include <vector>

#include "millrace/graph.h"

namespace millrace {

// Marks what marked nodes need, and what that needs: producers come before their consumers but for the back edges of loops, so one
// look from the last node to the first finds nearly all. `for_each_need` gives the ids that a node needs.
template <typename ForEachNeed>
void MarkNeeds(std::vector<bool>& needed, const ForEachNeed& for_each_need) {
  std::vector<int32_t> later;  // needed by an earlier node
  int32_t at = static_cast<int32_t>(needed.size());
  const auto need = [&](NodeId id) {
    if (needed[id.value]) return;
    needed[id.value] = true;
    if (id.value >= at) later.push_back(id.value);
  };
  while (at-- > 0) {
    if (!needed[at]) continue;
    for_each_need(NodeId{at}, need);
    while (!later.empty()) {
      const NodeId id{later.back()};
      later.pop_back();
      for_each_need(id, need);
    }
  }
}

// By node: whether it is one of `nodes`, or one of them follows from it.
std::vector<bool> NeededBy(const Graph& graph, const std::vector<NodeId>& nodes);

// The nodes of a pruned graph that its fetches and these targets (names of nodes or of their outputs) are.
std::vector<NodeId> FetchesAndTargets(const Graph& graph, const std::vector<std::string>& targets);

}  // namespace millrace

#endif  // MILLRACE_SRC_GRAPH_NEEDED_NODES_H_
