#include "passes/devices/add_send_recv.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "passes/rewrite/order_variable_accesses.h"

namespace millrace {
namespace {

class Adder {
 public:
  Adder(Graph& graph, const OpRegistry& ops, const DevicePlacement& placement, const SendRecvOptions& options,
        std::vector<uint64_t>& by_value)
      : graph_(graph), ops_(ops), placement_(placement), options_(options), by_value_(by_value) {}

  bool Run() {
    const int32_t count = graph_.num_ids();
    for (int32_t i = 0; i < count; ++i) {
      if (graph_.node(NodeId{i}).removed || graph_.node(NodeId{i}).device == kHostDevice) continue;
      uses_ = {NodeId{i}, graph_.node(NodeId{i}).inputs};
      for (size_t k = 0; k < uses_.inputs.size(); ++k) Reach(NodeId{i}, k);
    }
    by_value_.resize(graph_.num_ids(), 0);
    return graph_.num_ids() != count;
  }

 private:
  // Device whose memory holds the tensor; kHostDevice for constants and feeds.
  int32_t MemoryOf(OutputRef ref) const {
    const Node& node = graph_.node(ref.node);
    const bool variable = static_cast<size_t>(ref.node.value) < placement_.variable_device.size() &&
                          placement_.variable_device[ref.node.value] >= 0;
    return variable ? placement_.variable_device[ref.node.value] : node.device;
  }

  // Follows views from a tensor; whether they end at a constant or feed.
  bool ViewsHome(OutputRef ref) const {
    while (ops_.Find(graph_.node(ref.node).op)->is_view && ref.index == 0 && !graph_.node(ref.node).inputs.empty()) {
      ref = graph_.node(ref.node).inputs[0];
    }
    return MemoryOf(ref) == kHostDevice;
  }

  // Input k of the node comes to be on the node's device.
  void Reach(NodeId id, size_t k) {
    const OutputRef input = graph_.node(id).inputs[k];
    const int32_t from = MemoryOf(input), to = graph_.node(id).device;
    if (from == kHostDevice || from == to || graph_.type(input).size_bytes() == 0) return;
    const OutputRef local = ViewsHome(input) ? ViewOn(input, to) : Received(input, id);
    graph_.mutable_node(id).inputs[k] = local;
  }

  // The same view of a constant or feed, on another device.
  OutputRef ViewOn(OutputRef ref, int32_t device) {
    if (graph_.node(ref.node).device == kHostDevice) return ref;
    const auto key = std::make_pair(ref, device);
    if (const auto found = views_.find(key); found != views_.end()) return {found->second, ref.index};
    Node view = graph_.node(ref.node);
    view.name = absl::StrCat(view.name, "/on_", device);
    view.inputs[0] = ViewOn(view.inputs[0], device);
    view.device = device;
    view.reason = absl::StrCat("a view of what ", options_.devices[device], " takes from host memory itself");
    const NodeId id = graph_.AddUnique(std::move(view));
    by_value_.resize(graph_.num_ids(), 0);
    by_value_[id.value] = by_value_[ref.node.value];
    views_.emplace(key, id);
    return {id, ref.index};
  }

  OutputRef Received(OutputRef ref, NodeId consumer) {
    const int32_t to = graph_.node(consumer).device;
    const NodeId send = SendOf(ref, WritesBefore(ref));
    const auto key = std::make_tuple(send, to, options_.share_recv ? -1 : consumer.value);
    if (const auto found = recvs_.find(key); found != recvs_.end()) return {found->second, 0};
    Node recv = CopyNode(ref, kRecvOp, "/recv", {send, 0}, to);
    recv.reason = options_.share_recv ? absl::StrCat("all uses on ", options_.devices[to])
                                      : absl::StrCat("used by '", graph_.node(consumer).name, "'");
    const NodeId id = graph_.AddUnique(std::move(recv));
    recvs_.emplace(key, id);
    return {id, 0};
  }

  // What a node finds in a reference variable is what these have written: it comes after the last of them by an edge of its own. Of writes
  // that follow one another, the last.
  const std::vector<NodeId>& WritesBefore(OutputRef ref) {
    static const auto& none = *new std::vector<NodeId>();
    const NodeId variable = ReferenceOf(graph_, ops_, ref);
    if (!variable.valid()) return none;
    const auto [found, inserted] = uses_.writes.try_emplace(variable);
    std::vector<NodeId>& writes = found->second;
    if (!inserted) return writes;
    for (const OutputRef input : uses_.inputs) {
      if (Writes(input.node, variable)) writes.push_back(input.node);
    }
    for (const NodeId before : graph_.node(uses_.node).control_inputs) {
      if (Writes(before, variable)) writes.push_back(before);
    }
    std::sort(writes.begin(), writes.end());
    writes.erase(std::unique(writes.begin(), writes.end()), writes.end());
    const std::vector<NodeId> all = writes;
    std::erase_if(writes, [&](NodeId write) { return std::any_of(all.begin(), all.end(), [&](NodeId later) { return Follows(later, write); }); });
    return writes;
  }

  // By an edge from one to the other: accesses of a variable that conflict have one.
  bool Follows(NodeId later, NodeId earlier) const {
    const Node& node = graph_.node(later);
    return std::any_of(node.inputs.begin(), node.inputs.end(), [&](OutputRef input) { return input.node == earlier; }) ||
           std::find(node.control_inputs.begin(), node.control_inputs.end(), earlier) != node.control_inputs.end();
  }

  bool Writes(NodeId id, NodeId variable) const {
    const Node& node = graph_.node(id);
    const std::vector<VariableUse>& uses = ops_.Find(node.op)->variables;
    return std::any_of(uses.begin(), uses.end(), [&](const VariableUse& use) {
      return use.writes() && VariableOf(graph_, ops_, node.inputs[use.input]) == variable;
    });
  }

  // The Send of what the tensor holds once these have written it. What writes it next waits for the consumer, and so for the Send.
  NodeId SendOf(OutputRef ref, const std::vector<NodeId>& writes) {
    const auto key = std::make_pair(ref, writes);
    if (const auto found = sends_.find(key); found != sends_.end()) return found->second;
    Node send = CopyNode(ref, kSendOp, "/send", ref, MemoryOf(ref));
    send.control_inputs.assign(writes.begin(), writes.end());
    send.reason = writes.empty() ? "used on another device" : absl::StrCat("used on another device after '", graph_.node(writes.back()).name, "'");
    const NodeId id = graph_.AddUnique(std::move(send));
    sends_.emplace(key, id);
    return id;
  }

  Node CopyNode(OutputRef ref, const char* op, const char* suffix, OutputRef input, int32_t device) const {
    Node node;
    node.name = absl::StrCat(graph_.node(ref.node).name, ref.index > 0 ? absl::StrCat("_", ref.index) : "", suffix);
    node.op = op;
    node.attrs.Set("T", graph_.type(ref).dtype);
    node.attrs.Set("tensor_name", graph_.TensorName(ref));
    node.attrs.Set(op == kSendOp ? "send_device" : "recv_device", options_.devices[device]);
    node.inputs.push_back(input);
    node.outputs.push_back(graph_.type(ref));
    node.dynamic_outputs = graph_.node(ref.node).dynamic_output(ref.index) ? 1 : 0;
    node.device = device;
    return node;
  }

  Graph& graph_;
  const OpRegistry& ops_;
  const DevicePlacement& placement_;
  const SendRecvOptions& options_;
  std::vector<uint64_t>& by_value_;
  // The node whose inputs are being reached: these as they came, since they tell what it comes after; its writes by variable.
  struct Uses {
    NodeId node;
    absl::InlinedVector<OutputRef, 3> inputs;
    std::map<NodeId, std::vector<NodeId>> writes = {};
  } uses_;
  std::map<std::pair<OutputRef, std::vector<NodeId>>, NodeId> sends_;  // by tensor and the writes that it comes after
  std::map<std::tuple<NodeId, int32_t, int32_t>, NodeId> recvs_;       // by Send, device and (unless shared) consumer
  std::map<std::pair<OutputRef, int32_t>, NodeId> views_;
};

}  // namespace

bool AddSendRecv(Graph& graph, const OpRegistry& ops, const DevicePlacement& placement, const SendRecvOptions& options,
                 std::vector<uint64_t>& by_value) {
  return Adder(graph, ops, placement, options, by_value).Run();
}

absl::Status VerifySendRecv(const Graph& graph, const OpRegistry& ops, const DevicePlacement& placement) {
  for (int32_t i = 0; i < graph.num_ids(); ++i) {
    const Node& node = graph.node(NodeId{i});
    if (node.removed || node.device == kHostDevice || node.op == kRecvOp) continue;
    for (const OutputRef input : node.inputs) {
      const Node& producer = graph.node(input.node);
      const bool variable = ops.Find(producer.op)->is_variable;
      const int32_t from = variable ? placement.variable_device[input.node.value] : producer.device;
      if (from == kHostDevice || from == node.device || graph.type(input).size_bytes() == 0) continue;
      return absl::InternalError(absl::StrCat("'", node.name, "' on device ", node.device, " takes '", producer.name,
                                              "' of device ", from, " without Send and Recv"));
    }
  }
  return absl::OkStatus();
}

}  // namespace millrace
