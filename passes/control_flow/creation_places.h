// Places in creation order for nodes that a pass adds. Creation order is id order (graph.h) and decides what happens to
// accesses of a variable that no edge orders, so a node made in the place of another must stand where that one stood.
#ifndef MILLRACE_PASSES_CONTROL_FLOW_CREATION_PLACES_H_
#define MILLRACE_PASSES_CONTROL_FLOW_CREATION_PLACES_H_

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "millrace/graph.h"

namespace millrace {

// Gives the nodes, all that there are, ids in this order. Returns old id -> new id (invalid if removed).
std::vector<NodeId> RenumberAs(Graph& graph, const std::vector<NodeId>& order);
// `by_value` (per node id) follows.
void RenumberAs(Graph& graph, const std::vector<NodeId>& order, std::vector<uint64_t>& by_value);

class CreationPlaces {
 public:
  // Adds the node; it will stand after what was added before it for the same neighbour, all of them before or after it.
  NodeId AddBefore(Graph& graph, NodeId neighbour, Node node) { return Add(graph, neighbour, std::move(node), -1); }
  NodeId AddAfter(Graph& graph, NodeId neighbour, Node node) { return Add(graph, neighbour, std::move(node), 1); }
  bool empty() const { return places_.empty(); }
  // Renumbers the nodes so that each stands in its place. Returns old id -> new id (invalid if removed).
  std::vector<NodeId> Renumber(Graph& graph) const;
  // `by_value` (per node id) follows.
  void Renumber(Graph& graph, std::vector<uint64_t>& by_value) const;

 private:
  struct Place {
    int32_t neighbour;  // of the nodes that were there from the beginning
    int32_t side;       // -1 before, 1 after
  };
  NodeId Add(Graph& graph, NodeId neighbour, Node node, int32_t side);
  std::vector<NodeId> Order(const Graph& graph) const;

  std::unordered_map<int32_t, Place> places_;  // of the added nodes, by id
};

}  // namespace millrace

#endif  // MILLRACE_PASSES_CONTROL_FLOW_CREATION_PLACES_H_
