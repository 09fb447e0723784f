#include "millrace/graph.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <optional>
#include <queue>
#include <tuple>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "graph/lazy_fanout.h"
#include "graph/near_names.h"
#include "xxhash.h"

namespace millrace {
namespace {

absl::Status TakenError(const std::string& name) { return absl::AlreadyExistsError(absl::StrCat("two nodes are named '", name, "'")); }

uint32_t NameHash(std::string_view name) { return static_cast<uint32_t>(XXH3_64bits(name.data(), name.size())); }

// How far suffixes of names that nodes are renamed to are counted: apart from those of nodes that are added.
std::string RenamedKey(std::string_view name) { return std::string(name) + "\n"; }

// Up to three names of the graph that look like `name`: a slip away, the same last component, or a common prefix.
std::vector<std::string> NearestNames(const Graph& graph, const std::string& name) {
  const std::string tail = name.substr(name.rfind('/') + 1);
  std::vector<std::pair<size_t, std::string>> scored;
  for (int32_t i = 0; i < graph.num_ids(); ++i) {
    const Node& node = graph.node(NodeId{i});
    if (node.removed) continue;
    size_t prefix = 0;
    while (prefix < name.size() && prefix < node.name.size() && name[prefix] == node.name[prefix]) ++prefix;
    const bool same_tail = node.name.substr(node.name.rfind('/') + 1) == tail;
    const size_t score = prefix + (same_tail ? 100 : DifferingLetters(node.name, name, 1) <= 1 ? 50 : 0);
    if (score > 2) scored.emplace_back(score, node.name);
  }
  const size_t count = std::min<size_t>(3, scored.size());
  std::partial_sort(scored.begin(), scored.begin() + count, scored.end(), [](const auto& a, const auto& b) {
    return a.first != b.first ? a.first > b.first : a.second < b.second;
  });
  std::vector<std::string> names;
  for (size_t i = 0; i < count; ++i) names.push_back(scored[i].second);
  return names;
}

}  // namespace

Graph& Graph::operator=(Graph&& other) noexcept {
  producer_version = std::exchange(other.producer_version, 0);
  nodes_ = std::exchange(other.nodes_, {});
  name_slots_ = std::exchange(other.name_slots_, {});
  used_slots_ = std::exchange(other.used_slots_, 0);
  next_suffix_ = std::exchange(other.next_suffix_, {});
  num_removed_ = std::exchange(other.num_removed_, 0);
  library_ = std::exchange(other.library_, nullptr);
  return *this;
}

size_t Graph::FindSlot(std::string_view name, uint32_t hash) const {
  const size_t mask = name_slots_.size() - 1;
  size_t slot = hash & mask;
  for (; name_slots_[slot].id != kFreeSlot; slot = (slot + 1) & mask) {
    if (name_slots_[slot].hash == hash && name_slots_[slot].id >= 0 && nodes_[name_slots_[slot].id].name == name) break;
  }
  return slot;
}

bool Graph::InsertName(std::string_view name, uint32_t hash, int32_t id) {
  if (2 * (used_slots_ + 1) > name_slots_.size()) RebuildNames(num_nodes() + 1);
  NameSlot& slot = name_slots_[FindSlot(name, hash)];
  if (slot.id >= 0) return false;
  slot = {hash, id};
  ++used_slots_;
  return true;
}

void Graph::EraseName(std::string_view name) {
  if (name_slots_.empty()) return;
  NameSlot& slot = name_slots_[FindSlot(name, NameHash(name))];
  if (slot.id >= 0) slot.id = kErasedSlot;
  // A suffix that is free again is the first that a node is renamed with.
  const size_t underscore = name.rfind('_');
  int32_t suffix = 0;
  if (underscore == std::string_view::npos || !absl::SimpleAtoi(std::string(name.substr(underscore + 1)), &suffix) || suffix < 1) return;
  const auto counted = next_suffix_.find(RenamedKey(name.substr(0, underscore)));
  if (counted != next_suffix_.end()) counted->second = std::min(counted->second, suffix - 1);
}

void Graph::RebuildNames(size_t expected_names) {
  constexpr size_t kSmallest = 64;
  const std::vector<NameSlot> former = std::move(name_slots_);
  name_slots_.assign(std::bit_ceil(std::max(kSmallest, 2 * expected_names)), NameSlot());
  used_slots_ = 0;
  const size_t mask = name_slots_.size() - 1;
  for (const NameSlot& entry : former) {
    if (entry.id < 0) continue;
    size_t slot = entry.hash & mask;
    while (name_slots_[slot].id != kFreeSlot) slot = (slot + 1) & mask;
    name_slots_[slot] = entry;
    ++used_slots_;
  }
}

absl::StatusOr<NodeId> Graph::AddNode(Node node) {
  if (node.name.empty()) return absl::InvalidArgumentError(absl::StrCat("a node (", node.op, ") without a name"));
  const NodeId id{num_ids()};
  if (!InsertName(node.name, NameHash(node.name), id.value)) return TakenError(node.name);
  nodes_.push_back(std::move(node));
  return id;
}

absl::StatusOr<std::vector<NodeId>> Graph::AddNodesOf(const Graph& from, const std::vector<bool>& keep) {
  std::vector<uint32_t> hashes(from.num_ids());
  for (const NameSlot& slot : from.name_slots_) {
    if (slot.id >= 0) hashes[slot.id] = slot.hash;
  }
  std::vector<NodeId> renamed(from.num_ids());
  for (int32_t i = 0; i < from.num_ids(); ++i) {
    if (!keep[i]) continue;
    const Node& node = from.nodes_[i];
    if (!InsertName(node.name, hashes[i], num_ids())) return TakenError(node.name);
    renamed[i] = NodeId{num_ids()};
    nodes_.push_back(node);
  }
  return renamed;
}

NodeId Graph::AddUnique(Node node) {
  if (node.name.empty()) node.name = node.op.empty() ? "node" : node.op;
  const NodeId id{num_ids()};
  if (!InsertName(node.name, NameHash(node.name), id.value)) {
    int32_t& suffix = next_suffix_[node.name];
    std::string candidate;
    do {
      candidate = absl::StrCat(node.name, "_", ++suffix);
    } while (!InsertName(candidate, NameHash(candidate), id.value));
    node.name = std::move(candidate);
  }
  nodes_.push_back(std::move(node));
  return id;
}

void Graph::RemoveNode(NodeId id) {
  Node& node = nodes_[id.value];
  if (node.removed) return;
  EraseName(node.name);
  node = Node();
  node.removed = true;
  ++num_removed_;
}

std::vector<NodeId> Graph::Compact() {
  std::vector<NodeId> renamed(nodes_.size());
  if (num_removed_ == 0) {
    for (size_t i = 0; i < renamed.size(); ++i) renamed[i] = NodeId{static_cast<int32_t>(i)};
    return renamed;
  }
  int32_t next = 0;
  for (size_t i = 0; i < nodes_.size(); ++i) {
    if (nodes_[i].removed) continue;
    renamed[i] = NodeId{next};
    if (static_cast<size_t>(next) != i) nodes_[next] = std::move(nodes_[i]);
    ++next;
  }
  nodes_.resize(next);
  num_removed_ = 0;
  // Names keep their slots.
  for (NameSlot& slot : name_slots_) {
    if (slot.id >= 0) slot.id = renamed[slot.id].value;
  }
  for (Node& node : nodes_) {
    for (OutputRef& input : node.inputs) input.node = renamed[input.node.value];
    for (NodeId& control : node.control_inputs) control = renamed[control.value];
  }
  return renamed;
}

void Graph::Rename(NodeId id, std::string name) {
  Node& node = nodes_[id.value];
  if (node.name == name) return;
  // A node whose name another one has would not be found again.
  std::string free = name;
  if (name.empty() || Find(name).valid()) {
    int32_t& suffix = next_suffix_[RenamedKey(name)];
    do {
      free = absl::StrCat(name, "_", ++suffix);
    } while (Find(free).valid());
  }
  EraseName(node.name);
  node.name = std::move(free);
  InsertName(node.name, NameHash(node.name), id.value);
}

void Graph::Reserve(int64_t nodes) {
  nodes_.reserve(nodes);
  RebuildNames(std::max<int64_t>(nodes, num_nodes()));
}

NodeId Graph::Find(std::string_view name) const {
  if (name_slots_.empty()) return NodeId();
  const NameSlot& slot = name_slots_[FindSlot(name, NameHash(name))];
  return slot.id >= 0 ? NodeId{slot.id} : NodeId();
}

absl::StatusOr<OutputRef> Graph::FindTensor(std::string_view tensor_name) const {
  std::string name(tensor_name);
  int32_t index = 0;
  const size_t colon = name.rfind(':');
  if (colon != std::string::npos) {
    if (!absl::SimpleAtoi(name.substr(colon + 1), &index) || index < 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("'", name, "' is not a tensor name; expected 'node' or 'node:index'"));
    }
    name.resize(colon);
  }
  const NodeId id = Find(name);
  if (!id.valid()) {
    const std::vector<std::string> nearest = NearestNames(*this, name);
    return absl::NotFoundError(absl::StrCat("no node '", name, "' in the graph",
                                            nearest.empty() ? "" : "; nearest names: ",
                                            absl::StrJoin(nearest, ", ")));
  }
  return OutputRef{id, index};
}

std::string Graph::TensorName(OutputRef ref) const {
  return absl::StrCat(node(ref.node).name, ":", ref.index);
}

Fanout ComputeFanout(const Graph& graph) {
  Fanout fanout;
  fanout.begin.assign(graph.num_ids() + 1, 0);
  auto for_each_edge = [&graph](auto&& visit) {
    for (int32_t i = 0; i < graph.num_ids(); ++i) {
      const Node& node = graph.node(NodeId{i});
      if (node.removed) continue;
      for (size_t k = 0; k < node.inputs.size(); ++k) {
        visit(node.inputs[k].node, Fanout::Use{NodeId{i}, static_cast<int32_t>(k), node.inputs[k].index});
      }
      for (NodeId control : node.control_inputs) visit(control, Fanout::Use{NodeId{i}, -1, 0});
    }
  };
  for_each_edge([&](NodeId from, const Fanout::Use&) { ++fanout.begin[from.value + 1]; });
  for (size_t i = 1; i < fanout.begin.size(); ++i) fanout.begin[i] += fanout.begin[i - 1];
  fanout.uses.resize(fanout.begin.back());
  std::vector<int64_t> next(fanout.begin.begin(), fanout.begin.end() - 1);
  for_each_edge([&](NodeId from, const Fanout::Use& use) { fanout.uses[next[from.value]++] = use; });
  return fanout;
}

absl::StatusOr<std::vector<NodeId>> CreationOrder(const Graph& graph) {
  LazyFanout fanout(graph);
  return CreationOrder(graph, fanout);
}

absl::StatusOr<std::vector<NodeId>> CreationOrder(const Graph& graph, LazyFanout& fanout) {
  std::vector<NodeId> order;
  order.reserve(graph.num_nodes());
  bool topological = true;
  for (int32_t i = 0; i < graph.num_ids() && topological; ++i) {
    const Node& node = graph.node(NodeId{i});
    if (node.removed) continue;
    order.push_back(NodeId{i});
    for (OutputRef input : node.inputs) topological = topological && input.node.value < i;
    for (NodeId control : node.control_inputs) topological = topological && control.value < i;
  }
  if (topological) return order;
  std::vector<int64_t> priority(graph.num_ids());
  std::iota(priority.begin(), priority.end(), 0);
  return TopologicalOrder(graph, priority, fanout);
}

namespace {

// Of a graph whose ids are a topological order: the order by priorities that are the ids, but for a few nodes that come
// as soon as they may. None when that is not what the priorities ask for.
std::optional<std::vector<NodeId>> NearlyById(const Graph& graph, absl::Span<const int64_t> priority) {
  struct Early {
    int32_t after;  // the node that is not early and after which it may come
    int64_t priority;
    int32_t id;
    bool operator<(const Early& other) const {
      return std::tie(after, priority, id) < std::tie(other.after, other.priority, other.id);
    }
  };
  constexpr int32_t kInPlace = -1, kRemoved = -2;
  std::vector<Early> early;
  std::vector<int32_t> early_of(graph.num_ids(), kInPlace);  // its index in `early`
  for (int32_t i = 0; i < graph.num_ids(); ++i) {
    const Node& node = graph.node(NodeId{i});
    if (node.removed) {
      early_of[i] = kRemoved;
      continue;
    }
    Early at{-1, priority[i], i};
    bool valid = priority[i] <= i;
    const auto see = [&](NodeId input) {
      valid = valid && input.value < i;
      if (!valid || priority[i] == i) return;
      const int32_t e = early_of[input.value];
      at.after = std::max(at.after, e < 0 ? input.value : early[e].after);
      // Among those that may come after the same node, order is by priority: it must not break this edge.
      valid = e < 0 || early[e].after < at.after || early[e] < at;
    };
    for (OutputRef input : node.inputs) see(input.node);
    for (NodeId control : node.control_inputs) see(control);
    if (!valid || (priority[i] < i && priority[i] > at.after)) return std::nullopt;
    if (priority[i] == i) continue;
    early_of[i] = static_cast<int32_t>(early.size());
    early.push_back(at);
  }
  std::sort(early.begin(), early.end());
  std::vector<NodeId> order;
  order.reserve(graph.num_nodes());
  size_t next = 0;
  const auto take_after = [&](int32_t id) {
    for (; next < early.size() && early[next].after <= id; ++next) order.push_back(NodeId{early[next].id});
  };
  take_after(-1);
  for (int32_t i = 0; i < graph.num_ids(); ++i) {
    if (early_of[i] == kInPlace) order.push_back(NodeId{i});
    take_after(i);
  }
  return order;
}

}  // namespace

absl::StatusOr<std::vector<NodeId>> TopologicalOrder(const Graph& graph, absl::Span<const int64_t> priority) {
  LazyFanout fanout(graph);
  return TopologicalOrder(graph, priority, fanout);
}

absl::StatusOr<std::vector<NodeId>> TopologicalOrder(const Graph& graph, absl::Span<const int64_t> priority, LazyFanout& lazy_fanout) {
  if (std::optional<std::vector<NodeId>> order = NearlyById(graph, priority)) return *std::move(order);
  const Fanout& fanout = lazy_fanout.get();
  std::vector<int32_t> pending(graph.num_ids(), 0);
  using Entry = std::pair<int64_t, int32_t>;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<Entry>> ready;
  std::vector<NodeId> order;
  order.reserve(graph.num_nodes());
  for (int32_t i = 0; i < graph.num_ids(); ++i) {
    const Node& node = graph.node(NodeId{i});
    if (node.removed) continue;
    pending[i] = static_cast<int32_t>(node.inputs.size() + node.control_inputs.size());
    if (pending[i] == 0) ready.emplace(priority[i], i);
  }
  while (!ready.empty()) {
    const NodeId id{ready.top().second};
    ready.pop();
    order.push_back(id);
    for (const Fanout::Use& use : fanout.of(id)) {
      if (--pending[use.consumer.value] == 0) {
        ready.emplace(priority[use.consumer.value], use.consumer.value);
      }
    }
  }
  if (static_cast<int32_t>(order.size()) == graph.num_nodes()) return order;
  for (int32_t i = 0; i < graph.num_ids(); ++i) {
    if (graph.node(NodeId{i}).removed || pending[i] == 0) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("the graph has a cycle through node '", graph.node(NodeId{i}).name, "' (",
                     graph.node(NodeId{i}).op, "); expected an acyclic graph"));
  }
  return absl::InternalError("a topological order lost nodes");
}

}  // namespace millrace
