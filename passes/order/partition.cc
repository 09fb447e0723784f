#include "passes/order/partition.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "millrace/status.h"
#include "passes/devices/add_send_recv.h"
#include "passes/shapes/per_op.h"

namespace millrace {
namespace {

// Copies that leave a device follow their producer, those that come in follow what was sent.
bool IsCopy(const std::string& op) { return op == "_Fetch" || op == kSendOp || op == kRecvOp; }

class DepthFirst {
 public:
  DepthFirst(Graph& graph, int32_t num_devices, int64_t partition_size, LazyFanout& fanout)
      : graph_(graph),
        fanout_(fanout.get()),
        partition_size_(partition_size),
        stacks_(num_devices),
        counts_(num_devices, 0),
        pending_(graph.num_ids(), 0) {}

  absl::StatusOr<Partitioning> Run() {
    for (int32_t i = 0; i < graph_.num_ids(); ++i) {
      const Node& node = graph_.node(NodeId{i});
      if (node.removed) continue;
      pending_[i] = static_cast<int32_t>(node.inputs.size() + node.control_inputs.size());
    }
    // Lowest id on top, so that sources are taken in creation order.
    for (int32_t i = graph_.num_ids() - 1; i >= 0; --i) {
      if (!graph_.node(NodeId{i}).removed && pending_[i] == 0) initial_.push_back(NodeId{i});
    }
    for (NodeId id : initial_) {
      if (OnHost(id)) host_.push_back(id);
      else stacks_[graph_.node(id).device].push_back(id);
    }
    DrainHost();
    while (Turn()) {
    }
    if (static_cast<int32_t>(result_.order.size()) != graph_.num_nodes()) {
      return CreationOrder(graph_).status();  // names the cycle
    }
    result_.num_partitions = partition_ + (nodes_in_partition_ > 0 ? 1 : 0);
    return std::move(result_);
  }

 private:
  bool OnHost(NodeId id) const { return graph_.node(id).device == kHostDevice; }

  // One node of every device that has a ready one; false when none had.
  bool Turn() {
    bool took_any = false;
    for (size_t d = 0; d < stacks_.size(); ++d) {
      if (stacks_[d].empty()) continue;
      const NodeId id = stacks_[d].back();
      stacks_[d].pop_back();
      took_any = true;
      graph_.mutable_node(id).partition = partition_;
      ++nodes_in_partition_;
      Emit(id);
      DrainHost();
      if (++counts_[d] >= partition_size_) NextPartition();
    }
    return took_any;
  }

  void NextPartition() {
    ++partition_;
    nodes_in_partition_ = 0;
    counts_.assign(counts_.size(), 0);
  }

  void Emit(NodeId id) {
    result_.order.push_back(id);
    absl::InlinedVector<NodeId, 2> copies;
    // Later uses first, so that the first consumer in creation order ends up on top.
    const absl::Span<const Fanout::Use> uses = fanout_.of(id);
    for (size_t k = uses.size(); k-- > 0;) {
      const NodeId consumer = uses[k].consumer;
      if (--pending_[consumer.value] > 0) continue;
      if (IsCopy(graph_.node(consumer).op)) {
        copies.push_back(consumer);
      } else if (OnHost(consumer)) {
        host_.push_back(consumer);
      } else {
        stacks_[graph_.node(consumer).device].push_back(consumer);
      }
    }
    for (NodeId copy : copies) {
      const int32_t made_in = graph_.node(id).partition;
      Node& node = graph_.mutable_node(copy);
      // Of what is in no partition, a Variable or Constant, they are in the present one: copies in have them for their anchor.
      const bool present = node.op == kRecvOp || (made_in == kNoPartition && !OnHost(copy));
      node.partition = present ? partition_ : made_in;
      Emit(copy);
    }
  }

  void DrainHost() {
    while (!host_.empty()) {
      const NodeId id = host_.back();
      host_.pop_back();
      Emit(id);
    }
  }

  Graph& graph_;
  const Fanout& fanout_;
  const int64_t partition_size_;
  std::vector<std::vector<NodeId>> stacks_;
  std::vector<int64_t> counts_;
  std::vector<int32_t> pending_;
  std::vector<NodeId> initial_;
  std::vector<NodeId> host_;
  int32_t partition_ = 0;
  int64_t nodes_in_partition_ = 0;
  Partitioning result_;
};

}  // namespace

absl::StatusOr<Partitioning> PartitionDepthFirst(Graph& graph, int32_t num_devices, int64_t partition_size) {
  LazyFanout fanout(graph);
  return PartitionDepthFirst(graph, num_devices, partition_size, fanout);
}

absl::StatusOr<Partitioning> PartitionDepthFirst(Graph& graph, int32_t num_devices, int64_t partition_size, LazyFanout& fanout) {
  if (partition_size < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("--partition_size is ", partition_size, ", expected at least 1"));
  }
  return DepthFirst(graph, num_devices, partition_size, fanout).Run();
}

void CutEvery(Graph& graph, int32_t num_devices, int64_t partition_size, Partitioning& partitioning) {
  std::vector<int64_t> counts(num_devices, 0);
  int32_t partition = 0;
  for (NodeId id : partitioning.order) {
    Node& node = graph.mutable_node(id);
    if (node.device == kHostDevice) continue;
    if (!IsCopy(node.op) && ++counts[node.device] > partition_size) {
      ++partition;
      counts.assign(counts.size(), 0);
      counts[node.device] = 1;
    }
    node.partition = partition;
  }
  partitioning.num_partitions = partition + 1;
}

absl::StatusOr<Partitioning> KeepCreationOrder(Graph& graph) {
  LazyFanout fanout(graph);
  return KeepCreationOrder(graph, fanout);
}

absl::StatusOr<Partitioning> KeepCreationOrder(Graph& graph, LazyFanout& fanout) {
  Partitioning result;
  // Fetches happen where their tensor is made, so that it need not wait on the device.
  std::vector<int64_t> priority(graph.num_ids());
  for (int32_t i = 0; i < graph.num_ids(); ++i) {
    Node& node = graph.mutable_node(NodeId{i});
    priority[i] = node.op == "_Fetch" || node.op == kSendOp ? node.inputs[0].node.value : i;
    if (node.op == kRecvOp) priority[i] = graph.node(node.inputs[0].node).inputs[0].node.value;
    node.partition = node.device == kHostDevice ? kNoPartition : 0;
  }
  MR_ASSIGN_OR_RETURN(result.order, TopologicalOrder(graph, priority, fanout));
  result.num_partitions = 1;
  return result;
}

absl::StatusOr<Partitioning> UpdateEarly(Graph& graph, const OpRegistry& ops, LazyFanout& lazy_fanout) {
  MR_ASSIGN_OR_RETURN(const std::vector<NodeId> created, CreationOrder(graph, lazy_fanout));
  const Fanout& fanout = lazy_fanout.get();
  std::vector<bool> serves_updates(graph.num_ids(), false);
  OpFinder def_of(ops);
  for (size_t k = created.size(); k-- > 0;) {
    const Node& node = graph.node(created[k]);
    const OpDef* def = def_of(node.op);
    if (node.device == kHostDevice || def == nullptr || node.op == "_Fetch") continue;
    const absl::Span<const Fanout::Use> uses = fanout.of(created[k]);
    serves_updates[created[k].value] =
        def->WritesVariables() || def->is_no_op ||
        (!uses.empty() && std::all_of(uses.begin(), uses.end(),
                                      [&](const Fanout::Use& use) { return serves_updates[use.consumer.value]; }));
  }
  std::vector<int64_t> priority(graph.num_ids(), -1);
  Partitioning result;
  for (NodeId id : created) {
    Node& node = graph.mutable_node(id);
    node.partition = node.device == kHostDevice ? kNoPartition : 0;
    if (node.device == kHostDevice) continue;
    priority[id.value] = id.value;
    if (!serves_updates[id.value] && node.op != "_Fetch") continue;
    int64_t latest = -1;
    for (OutputRef input : node.inputs) latest = std::max(latest, priority[input.node.value]);
    for (NodeId control : node.control_inputs) latest = std::max(latest, priority[control.value]);
    priority[id.value] = latest;
  }
  MR_ASSIGN_OR_RETURN(result.order, TopologicalOrder(graph, priority, lazy_fanout));
  result.num_partitions = 1;
  return result;
}

absl::Status VerifyPartitioning(const Graph& graph, const Partitioning& partitioning) {
  // Of every node, together: its inputs may lie anywhere in a large graph.
  struct Place {
    int32_t position = -1;
    int32_t partition = kNoPartition;
  };
  std::vector<Place> places(graph.num_ids());
  for (size_t i = 0; i < partitioning.order.size(); ++i) places[partitioning.order[i].value].position = static_cast<int32_t>(i);
  for (int32_t i = 0; i < graph.num_ids(); ++i) places[i].partition = graph.node(NodeId{i}).partition;
  for (int32_t i = 0; i < graph.num_ids(); ++i) {
    const Node& node = graph.node(NodeId{i});
    if (node.removed) continue;
    auto check = [&](NodeId from) -> absl::Status {
      if (places[i].position < 0 || places[from.value].position > places[i].position) {
        return absl::InternalError(absl::StrCat("'", node.name, "' is ordered before its input '", graph.node(from).name, "'"));
      }
      if (places[from.value].partition > node.partition && node.partition != kNoPartition) {
        return absl::InternalError(absl::StrCat("'", node.name, "' is in partition ", node.partition, ", its input '",
                                                graph.node(from).name, "' in the later ", places[from.value].partition));
      }
      return absl::OkStatus();
    };
    for (OutputRef input : node.inputs) MR_RETURN_IF_ERROR(check(input.node));
    for (NodeId control : node.control_inputs) MR_RETURN_IF_ERROR(check(control));
  }
  return absl::OkStatus();
}

}  // namespace millrace
