#include "passes/emit/insert_swaps.h"

#include <map>

#include "absl/strings/str_cat.h"
#include "passes/devices/add_send_recv.h"
#include "passes/shapes/per_op.h"

namespace millrace {
namespace {

class Inserter {
 public:
  Inserter(Graph& graph, const DeviceGraph& device, const SwapChoice& choice, const Schedule& schedule)
      : graph_(graph),
        device_(device),
        decisions_(choice.decisions),
        schedule_(schedule),
        current_(device.root),
        came_in_(device.root.size(), false),
        swap_out_of_(device.root.size()) {
    nodes_.swap_out.resize(decisions_.size());
    nodes_.swap_in.resize(decisions_.size());
  }

  SwapNodes Run() {
    for (const ScheduleItem& item : schedule_.items) {
      switch (item.kind) {
        case ScheduleItem::Kind::kOperation: Rewire(item.index); break;
        case ScheduleItem::Kind::kCopyOut: AddSwapOut(item.index); break;
        case ScheduleItem::Kind::kCopyIn: AddSwapIn(item.index); break;
      }
    }
    return std::move(nodes_);
  }

 private:
  int32_t PartitionOf(int32_t operation) const { return device_.access.partition[operation]; }

  // Copies of equal types share theirs.
  const AttrMap& CopyAttrs(DataType dtype, int64_t bytes) {
    const auto [it, added] = attrs_.try_emplace({dtype, bytes});
    if (added) it->second = AttrMap({{"T", dtype}, {"bytes", bytes}});
    return it->second;
  }

  Node CopyNode(const SwapDecision& d, const char* op, const char* suffix, OutputRef input, int32_t partition) {
    const OutputRef root = device_.root[d.storage];
    Node node;
    node.name = absl::StrCat(graph_.node(root.node).name, root.index > 0 ? absl::StrCat("_", root.index) : "", suffix);
    node.op = op;
    node.attrs = CopyAttrs(graph_.type(root).dtype, device_.access.storages[d.storage].size_bytes);
    node.inputs.push_back(input);
    node.outputs.push_back(graph_.type(root));
    node.device = graph_.node(device_.operations[0].node()).device;
    node.partition = partition;
    node.reason = d.reason;
    return node;
  }

  void AddSwapOut(int32_t index) {
    const SwapDecision& d = decisions_[index];
    const int32_t after = std::max(d.out_after, 0);
    Node node = CopyNode(d, "SwapOut", "/swap_out", current_[d.storage], PartitionOf(after));
    const NodeId writer = device_.operations[after].nodes.back().node;
    if (writer != current_[d.storage].node && d.out_after >= 0) node.control_inputs.push_back(writer);
    nodes_.swap_out[index] = graph_.AddUnique(std::move(node));
    swap_out_of_[d.storage] = nodes_.swap_out[index];
  }

  void AddSwapIn(int32_t index) {
    const SwapDecision& d = decisions_[index];
    if (d.sent >= 0) swap_out_of_[d.storage] = device_.operations[d.sent].node();
    const NodeId out = swap_out_of_[d.storage];
    OutputRef source = out.valid() ? OutputRef{out, 0} : device_.root[d.storage];
    const Node& root = graph_.node(device_.root[d.storage].node);
    if (root.op == kRecvOp && d.after == SwapDecision::kFromHost) return ComeIn(index, source.node);
    if (root.op == kRecvOp) source = root.inputs[0];
    Node node = CopyNode(d, "SwapIn", "/swap_in", source, PartitionOf(d.anchor));
    if (d.anchor > 0) node.control_inputs.push_back(device_.operations[d.anchor - 1].nodes.back().node);
    SetCurrent(index, graph_.AddUnique(std::move(node)));
  }

  // What another device sent comes for the first time, by its Recv.
  void ComeIn(int32_t index, NodeId recv) {
    const SwapDecision& d = decisions_[index];
    Node& node = graph_.mutable_node(recv);
    node.partition = PartitionOf(d.anchor);
    if (d.anchor > 0) node.control_inputs.push_back(device_.operations[d.anchor - 1].nodes.back().node);
    SetCurrent(index, recv);
  }

  void SetCurrent(int32_t index, NodeId copy) {
    nodes_.swap_in[index] = copy;
    current_[decisions_[index].storage] = {copy, 0};
    came_in_[decisions_[index].storage] = true;
  }

  // Inputs of the operation whose storage came in by a copy now come from that copy.
  void Rewire(int32_t operation) {
    for (const OperationNode& node : device_.operations[operation].nodes) RewireNode(node.node);
  }

  void RewireNode(NodeId id) {
    for (size_t i = 0; i < graph_.node(id).inputs.size(); ++i) {
      const OutputRef input = graph_.node(id).inputs[i];
      if (static_cast<size_t>(input.node.value) >= device_.first_output.size()) continue;
      const int32_t storage = device_.storage(input);
      if (storage == kNoStorage || !came_in_[storage]) continue;
      const OutputRef source = ViewOf(current_[storage], graph_.type(input));
      graph_.mutable_node(id).inputs[i] = source;
    }
    // A result in the storage of an input replaces it.
    for (int32_t o = 0; o < static_cast<int32_t>(graph_.node(id).outputs.size()); ++o) {
      const int32_t storage = device_.storage({id, o});
      if (storage == kNoStorage) continue;
      if (device_.access.storages[storage].kind == StorageKind::kVariable) {
        if (!came_in_[storage]) current_[storage] = {id, o};
        continue;
      }
      current_[storage] = {id, o};
      came_in_[storage] = false;
    }
  }

  // The copy under the type that the consumer expects.
  OutputRef ViewOf(OutputRef copy, const TensorType& type) {
    if (graph_.type(copy) == type) return copy;
    auto key = std::make_pair(copy, type.ToString());
    auto found = views_.find(key);
    if (found != views_.end()) return {found->second, 0};
    Node view;
    view.name = absl::StrCat(graph_.node(copy.node).name, "/view");
    view.op = "_View";
    view.attrs.Set("T", type.dtype);
    view.attrs.Set("shape", type.shape);
    view.inputs.push_back(copy);
    view.outputs.push_back(type);
    view.device = graph_.node(copy.node).device;
    view.partition = graph_.node(copy.node).partition;
    const NodeId id = graph_.AddUnique(std::move(view));
    views_.emplace(std::move(key), id);
    return {id, 0};
  }

  Graph& graph_;
  const DeviceGraph& device_;
  const std::vector<SwapDecision>& decisions_;
  const Schedule& schedule_;
  std::vector<OutputRef> current_;   // per storage: the tensor that holds its bytes now
  std::vector<bool> came_in_;        // per storage: current_ is a copy
  std::vector<NodeId> swap_out_of_;  // per storage: the SwapOut of its present value
  std::map<std::pair<OutputRef, std::string>, NodeId> views_;
  std::map<std::pair<DataType, int64_t>, AttrMap> attrs_;
  SwapNodes nodes_;
};

}  // namespace

SwapNodes InsertSwaps(Graph& graph, const DeviceGraph& device, const SwapChoice& choice, const Schedule& schedule) {
  return Inserter(graph, device, choice, schedule).Run();
}

absl::Status VerifySwapNodes(const Graph& graph, const OpRegistry& ops) {
  OpFinder def_of(ops);
  for (int32_t i = 0; i < graph.num_ids(); ++i) {
    const Node& node = graph.node(NodeId{i});
    if (node.removed || (node.op != "SwapIn" && node.op != "SwapOut" && node.op != kRecvOp)) continue;
    const Node& source = graph.node(node.inputs[0].node);
    if (source.partition > node.partition) {
      return absl::InternalError(absl::StrCat("'", node.name, "' in partition ", node.partition,
                                              " copies from the later partition ", source.partition));
    }
    const bool at_home = source.op == "SwapOut" || source.op == kSendOp || source.op == "_Feed" || source.op == "Const" ||
                         def_of(source.op)->is_variable;
    if (node.op != "SwapOut" && !at_home) {
      return absl::InternalError(absl::StrCat("'", node.name, "' copies in '", source.name, "' (", source.op,
                                              "), which is not in host memory"));
    }
  }
  return absl::OkStatus();
}

}  // namespace millrace
