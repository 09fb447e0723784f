#include "passes/storage.h"

#include <algorithm>
#include <map>

#include "absl/strings/str_cat.h"
#include "millrace/status.h"
#include "passes/add_send_recv.h"
#include "passes/order_variable_accesses.h"

namespace millrace {
namespace {

class Builder {
 public:
  Builder(Graph& graph, const OpRegistry& ops, KernelOracle& oracle, const Machine& machine,
          const DeviceOrder& order, const std::vector<uint64_t>& by_value, int64_t max_joined_bytes)
      : graph_(graph),
        ops_(ops),
        oracle_(oracle),
        machine_(machine),
        order_(order.nodes),
        others_before_(order.others_before),
        by_value_(by_value),
        max_joined_bytes_(max_joined_bytes) {}

  absl::StatusOr<DeviceGraph> Run() {
    NumberOutputs();
    FindLastUses();
    for (size_t position = 0; position < order_.size(); ++position) {
      const NodeId id = order_[position];
      others_ = others_before_.empty() ? 0 : others_before_[position];
      PlaceOutputs(id, static_cast<int32_t>(position));
      if (IsOperation(id)) MR_RETURN_IF_ERROR(AddOperation(id));
    }
    result_.access.first_access.push_back(static_cast<int64_t>(result_.access.accesses.size()));
    return std::move(result_);
  }

 private:
  const OpDef& Def(NodeId id) const { return *ops_.Find(graph_.node(id).op); }

  // Whether input i of the node is an access of the producer's memory.
  bool UsesMemory(NodeId id, size_t i) const {
    if (i < 64 && (by_value_[id.value] >> i & 1) != 0 &&
        graph_.node(graph_.node(id).inputs[i].node).op == "Const") {
      return false;
    }
    for (const VariableUse& use : Def(id).variables) {
      if (use.input == static_cast<int>(i) && use.access == VariableAccess::kPresence) return false;
    }
    return true;
  }

  static bool CopiesToHost(const Node& node) { return node.op == "_Fetch" || node.op == kSendOp; }

  bool IsOperation(NodeId id) const {
    const Node& node = graph_.node(id);
    if (CopiesToHost(node)) return true;
    if (node.op == "Const" || node.op == "_Feed" || node.op == kRecvOp) return false;
    const OpDef& def = Def(id);
    return !def.is_view && !def.is_no_op && !def.is_variable;
  }

  void NumberOutputs() {
    int32_t next = 0;
    for (int32_t i = 0; i < graph_.num_ids(); ++i) {
      result_.first_output.push_back(next);
      next += static_cast<int32_t>(graph_.node(NodeId{i}).outputs.size());
    }
    result_.storage_of.assign(next, kNoStorage);
    last_use_of_output_.assign(next, -1);
  }

  int32_t OutputIndex(OutputRef ref) const { return result_.first_output[ref.node.value] + ref.index; }

  void FindLastUses() {
    for (size_t position = 0; position < order_.size(); ++position) {
      const Node& node = graph_.node(order_[position]);
      for (size_t i = 0; i < node.inputs.size(); ++i) {
        if (!UsesMemory(order_[position], i)) continue;
        int32_t& last = last_use_of_output_[OutputIndex(node.inputs[i])];
        last = std::max(last, static_cast<int32_t>(position));
      }
    }
  }

  int32_t NewStorage(OutputRef root, StorageKind kind, std::string name) {
    result_.root.push_back(root);
    result_.access.storages.push_back({std::move(name), kind, graph_.type(root).size_bytes()});
    last_use_.push_back(-1);
    return static_cast<int32_t>(result_.root.size()) - 1;
  }

  void Join(OutputRef ref, int32_t storage) {
    const int32_t output = OutputIndex(ref);
    result_.storage_of[output] = storage;
    if (storage != kNoStorage) last_use_[storage] = std::max(last_use_[storage], last_use_of_output_[output]);
  }

  void PlaceOutputs(NodeId id, int32_t position) {
    Node& node = graph_.mutable_node(id);
    const OpDef& def = Def(id);
    if (CopiesToHost(node)) return;
    for (int32_t o = 0; o < static_cast<int32_t>(node.outputs.size()); ++o) {
      const OutputRef ref{id, o};
      if (def.is_variable) {
        Join(ref, VariableStorage(ref));
      } else if (o == 0 && (def.is_view || def.returns_variable)) {
        Join(ref, result_.storage(node.inputs[0]));
      } else if (node.outputs[o].size_bytes() == 0) {
        continue;
      } else if (node.op == "Const") {
        Join(ref, NewStorage(ref, StorageKind::kConstant, node.name));
      } else if (node.op == "_Feed") {
        Join(ref, NewStorage(ref, StorageKind::kFeed, node.name));
      } else if (node.op == kRecvOp) {
        Join(ref, NewStorage(ref, StorageKind::kFeed, node.name));
        result_.access.storages.back().available_from = static_cast<int32_t>(result_.operations.size());
      } else {
        const int32_t reused = InPlaceStorage(node, def, o, position);
        Join(ref, reused != kNoStorage ? reused : NewStorage(ref, StorageKind::kActivation, graph_.TensorName(ref)));
      }
    }
  }

  int32_t VariableStorage(OutputRef ref) {
    const std::string name = VariableName(graph_.node(ref.node));
    auto found = variables_.find(name);
    if (found != variables_.end()) return found->second;
    if (!graph_.type(ref).shape.fully_known() || graph_.type(ref).size_bytes() == 0) return kNoStorage;
    return variables_[name] = NewStorage(ref, StorageKind::kVariable, name);
  }

  // The storage of an input that output `o` may overwrite: an activation whose last use is here.
  int32_t InPlaceStorage(Node& node, const OpDef& def, int32_t o, int32_t position) {
    for (auto [output, input] : def.in_place) {
      if (output != o || input >= static_cast<int>(node.inputs.size())) continue;
      const int32_t storage = result_.storage(node.inputs[input]);
      if (storage == kNoStorage || result_.access.storages[storage].kind != StorageKind::kActivation) continue;
      if (last_use_[storage] != position) continue;
      if (result_.access.storages[storage].size_bytes != node.outputs[o].size_bytes()) continue;
      const bool taken = std::any_of(node.in_place.begin(), node.in_place.end(),
                                     [&](const InPlace& other) { return other.input == input; });
      bool shared = false;
      for (size_t i = 0; i < node.inputs.size(); ++i) {
        shared = shared || (static_cast<int>(i) != input && result_.storage(node.inputs[i]) == storage);
      }
      if (taken || shared) continue;
      node.in_place.push_back({o, static_cast<int32_t>(input)});
      return storage;
    }
    return kNoStorage;
  }

  absl::Status AddOperation(NodeId id) {
    const Node& node = graph_.node(id);
    const OpDef& def = Def(id);
    OperationNode added;
    added.node = id;
    if (!CopiesToHost(node)) {
      added.instance = MakeInstance(graph_, id, by_value_[id.value]);
      MR_ASSIGN_OR_RETURN(added.scratch_bytes, oracle_.ScratchBytes(added.instance));
      added.scratch_bytes = AlignUp(added.scratch_bytes);
      added.seconds = oracle_.MeasuredSeconds(added.instance).value_or(PredictSeconds(def, added.instance, machine_));
    }
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      added.input_storages.push_back(UsesMemory(id, i) ? result_.storage(node.inputs[i]) : kNoStorage);
    }
    const std::vector<Access> accesses = AccessesOf(id, def);
    AccessGraph& graph = result_.access;
    if (Joins(node, def, added, accesses)) {
      graph.seconds.back() += added.seconds;
      graph.scratch_bytes.back() += added.scratch_bytes;
    } else {
      graph.first_access.push_back(static_cast<int64_t>(graph.accesses.size()));
      graph.seconds.push_back(added.seconds);
      graph.scratch_bytes.push_back(added.scratch_bytes);
      graph.partition.push_back(node.partition);
      result_.operations.push_back({CopiesToHost(node), {}});
      others_at_last_ = others_;
    }
    for (const Access& access : accesses) Merge(access);
    result_.operations.back().nodes.push_back(std::move(added));
    return absl::OkStatus();
  }

  // Whether the node may run at once with the nodes of the last operation.
  bool Joins(const Node& node, const OpDef& def, const OperationNode& added, const std::vector<Access>& accesses) const {
    if (result_.operations.empty() || CopiesToHost(node) || def.stateful || !node.control_inputs.empty() ||
        others_ != others_at_last_) {
      return false;
    }
    const Operation& last = result_.operations.back();
    auto in_range = [](double seconds) { return seconds >= kMinJoinedSeconds && seconds <= kMaxJoinedSeconds; };
    if (last.is_fetch || last.nodes.size() >= kMaxJoinedNodes || !in_range(added.seconds) ||
        !in_range(last.nodes.back().seconds) || Def(last.node()).stateful ||
        result_.access.partition.back() != node.partition) {
      return false;
    }
    int64_t bytes = result_.access.scratch_bytes.back() + added.scratch_bytes;
    for (const Access& access : accesses) bytes += AlignUp(result_.access.storages[access.storage].size_bytes);
    for (size_t k = result_.access.first_access.back(); k < result_.access.accesses.size(); ++k) {
      const Access& other = result_.access.accesses[k];
      bytes += AlignUp(result_.access.storages[other.storage].size_bytes);
      for (const Access& access : accesses) {
        if (access.storage == other.storage && (access.writes || other.writes)) return false;
      }
    }
    return bytes <= max_joined_bytes_;
  }

  std::vector<Access> AccessesOf(NodeId id, const OpDef& def) const {
    std::vector<Access> accesses;
    const Node& node = graph_.node(id);
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (!UsesMemory(id, i)) continue;
      Access made{result_.storage(node.inputs[i]), true, false};
      for (const VariableUse& use : def.variables) {
        if (use.input != static_cast<int>(i)) continue;
        made.reads = use.access != VariableAccess::kWrite;
        made.writes = use.access != VariableAccess::kRead;
      }
      if (made.storage != kNoStorage) accesses.push_back(made);
    }
    for (int32_t o = 0; o < static_cast<int32_t>(node.outputs.size()); ++o) {
      if (CopiesToHost(node) || (o == 0 && def.returns_variable)) continue;
      const int32_t storage = result_.storage({id, o});
      if (storage != kNoStorage) accesses.push_back({storage, false, true});
    }
    return accesses;
  }

  void Merge(const Access& made) {
    AccessGraph& access = result_.access;
    for (size_t k = access.first_access.back(); k < access.accesses.size(); ++k) {
      Access& old = access.accesses[k];
      if (old.storage != made.storage) continue;
      old.reads = old.reads || made.reads;
      old.writes = old.writes || made.writes;
      return;
    }
    access.accesses.push_back(made);
  }

  Graph& graph_;
  const OpRegistry& ops_;
  KernelOracle& oracle_;
  const Machine& machine_;
  const std::vector<NodeId>& order_;
  const std::vector<int32_t>& others_before_;
  const std::vector<uint64_t>& by_value_;
  const int64_t max_joined_bytes_;
  std::vector<int32_t> last_use_of_output_;  // position of the last node that takes it
  std::vector<int32_t> last_use_;            // per storage
  std::map<std::string, int32_t> variables_;
  int32_t others_ = 0, others_at_last_ = 0;  // others_before of this node, of the last operation's
  DeviceGraph result_;
};

}  // namespace

double PredictSeconds(const OpDef& def, const OpInstance& instance, const Machine& machine) {
  Cost cost;
  if (def.cost) {
    cost = def.cost(instance);
  } else {
    for (const TensorType& type : instance.inputs) cost.bytes += static_cast<double>(type.size_bytes());
    for (const TensorType& type : instance.outputs) {
      cost.bytes += static_cast<double>(type.size_bytes());
      cost.flops += static_cast<double>(type.shape.num_elements());
    }
  }
  return std::max(cost.flops / machine.flops_per_second, cost.bytes / machine.memory_bytes_per_second) +
         machine.launch_seconds;
}

absl::StatusOr<DeviceGraph> BuildDeviceGraph(Graph& graph, const OpRegistry& ops, KernelOracle& oracle,
                                             const Machine& machine, const DeviceOrder& order,
                                             const std::vector<uint64_t>& by_value, int64_t max_joined_bytes) {
  return Builder(graph, ops, oracle, machine, order, by_value, max_joined_bytes).Run();
}

std::vector<DeviceOrder> SplitByDevice(const Graph& graph, const std::vector<NodeId>& order, int32_t num_devices) {
  std::vector<DeviceOrder> result(num_devices);
  if (num_devices == 1) {
    result[0].nodes = order;
    return result;
  }
  // What has its home in host memory is seen by every device that uses it.
  std::vector<std::vector<bool>> uses(num_devices, std::vector<bool>(graph.num_ids(), false));
  for (const NodeId id : order) {
    const Node& node = graph.node(id);
    if (node.device == kHostDevice) continue;
    for (const OutputRef input : node.inputs) uses[node.device][input.node.value] = true;
  }
  int32_t seen = 0;
  std::vector<int32_t> own(num_devices, 0);
  for (const NodeId id : order) {
    const int32_t device = graph.node(id).device;
    for (int32_t d = 0; d < num_devices; ++d) {
      if (device != d && !(device == kHostDevice && uses[d][id.value])) continue;
      result[d].nodes.push_back(id);
      result[d].others_before.push_back(seen - own[d]);
    }
    if (device == kHostDevice) continue;
    ++seen;
    ++own[device];
  }
  return result;
}

void NameReceived(const Graph& graph, std::vector<DeviceGraph*> devices) {
  for (DeviceGraph* device : devices) {
    for (size_t s = 0; s < device->root.size(); ++s) {
      const Node& recv = graph.node(device->root[s].node);
      if (recv.op != kRecvOp) continue;
      const Node& send = graph.node(recv.inputs[0].node);
      const DeviceGraph& sender = *devices[send.device];
      device->access.storages[s].name = sender.access.storages[sender.storage(send.inputs[0])].name;
    }
  }
}

}  // namespace millrace
