#include "passes/control_flow/creation_places.h"

#include <algorithm>
#include <tuple>

#include "glog/logging.h"

namespace millrace {

NodeId CreationPlaces::Add(Graph& graph, NodeId neighbour, Node node, int32_t side) {
  const auto added = places_.find(neighbour.value);
  const Place place = added == places_.end() ? Place{neighbour.value, side} : added->second;
  const NodeId id = graph.AddUnique(std::move(node));
  places_.emplace(id.value, place);
  return id;
}

std::vector<NodeId> RenumberAs(Graph& graph, const std::vector<NodeId>& order) {
  CHECK_EQ(static_cast<int32_t>(order.size()), graph.num_nodes());
  std::vector<NodeId> renumbered(graph.num_ids());
  for (size_t i = 0; i < order.size(); ++i) renumbered[order[i].value] = NodeId{static_cast<int32_t>(i)};
  Graph result;
  result.producer_version = graph.producer_version;
  result.set_library(graph.library());
  result.Reserve(static_cast<int64_t>(order.size()));
  for (NodeId id : order) {
    Node node = std::move(graph.mutable_node(id));
    for (OutputRef& input : node.inputs) input.node = renumbered[input.node.value];
    for (NodeId& control : node.control_inputs) control = renumbered[control.value];
    CHECK(result.AddNode(std::move(node)).ok());
  }
  graph = std::move(result);
  return renumbered;
}

void RenumberAs(Graph& graph, const std::vector<NodeId>& order, std::vector<uint64_t>& by_value) {
  const std::vector<NodeId> now = RenumberAs(graph, order);
  std::vector<uint64_t> followed(graph.num_ids(), 0);
  for (size_t i = 0; i < now.size(); ++i) {
    if (now[i].valid()) followed[now[i].value] = by_value[i];
  }
  by_value = std::move(followed);
}

std::vector<NodeId> CreationPlaces::Renumber(Graph& graph) const { return RenumberAs(graph, Order(graph)); }

void CreationPlaces::Renumber(Graph& graph, std::vector<uint64_t>& by_value) const { RenumberAs(graph, Order(graph), by_value); }

std::vector<NodeId> CreationPlaces::Order(const Graph& graph) const {
  std::vector<NodeId> order;
  order.reserve(graph.num_nodes());
  for (int32_t i = 0; i < graph.num_ids(); ++i) {
    if (graph.alive(NodeId{i})) order.push_back(NodeId{i});
  }
  const auto key = [this](NodeId id) {
    const auto found = places_.find(id.value);
    return found == places_.end() ? std::make_tuple(id.value, 0, 0) : std::make_tuple(found->second.neighbour, found->second.side, id.value);
  };
  std::sort(order.begin(), order.end(), [&](NodeId a, NodeId b) { return key(a) < key(b); });
  return order;
}

}  // namespace millrace
