#include "passes/access/storage.h"

#include <algorithm>
#include <map>

#include "absl/strings/str_cat.h"
#include "graph/variable_name.h"
#include "millrace/status.h"
#include "passes/access/run_cost.h"
#include "passes/devices/add_send_recv.h"
#include "passes/rewrite/order_variable_accesses.h"
#include "passes/shapes/alike_nodes.h"
#include "passes/shapes/per_op.h"

namespace millrace {
namespace {

bool CopiesToHost(const Node& node) { return node.op == "_Fetch" || node.op == kSendOp; }

// Whether the node needs no kernel whatever its shapes are.
bool NeverRuns(const Node& node, const OpDef& def) {
  return node.op == "Const" || node.op == "_Feed" || node.op == kRecvOp || def.is_no_op || def.is_variable;
}

using AccessList = absl::InlinedVector<Access, 8>;

NodeRole RoleOfNode(const Node& node, const OpDef& def) {
  if (node.op == "Const") return NodeRole::kConst;
  if (node.op == "_Feed") return NodeRole::kFeed;
  if (node.op == kRecvOp) return NodeRole::kRecv;
  if (CopiesToHost(node)) return NodeRole::kCopiesToHost;
  if (NeverRuns(node, def)) return NodeRole::kNeverRuns;
  return def.is_view ? NodeRole::kView : NodeRole::kRuns;
}

// A node beside which something is kept touches at most so many times the largest of that.
constexpr int64_t kRoomOfNode = 8;

class Builder {
 public:
  Builder(Graph& graph, const DeviceOrder& order, const InferenceResult& inferred,
          const DeviceGraphOptions& options)
      : graph_(graph),
        order_(order.nodes),
        others_before_(order.others_before),
        inferred_(inferred),
        options_(options),
        storage_of_variable_(inferred.num_variables, kNoStorage) {}

  DeviceGraph Run() {
    NumberOutputs();
    FindLastUses();
    result_.operations.reserve(order_.size());
    AccessGraph& access = result_.access;
    access.alignment = options_.alignment;
    access.accesses.reserve(3 * order_.size());
    access.first_access.reserve(order_.size() + 1);
    access.seconds.reserve(order_.size());
    access.scratch_bytes.reserve(order_.size());
    access.partition.reserve(order_.size());
    for (size_t position = 0; position < order_.size(); ++position) {
      const NodeId id = order_[position];
      others_ = others_before_.empty() ? 0 : others_before_[position];
      PlaceOutputs(id, static_cast<int32_t>(position));
      if (IsOperation(id)) AddOperation(id);
    }
    access.first_access.push_back(static_cast<int64_t>(access.accesses.size()));
    if (options_.names) NameStorages(graph_, result_);
    return std::move(result_);
  }

 private:
  const OpDef& Def(NodeId id) const { return *inferred_.defs[id.value]; }

  // Whether input i of the node is an access of the producer's memory.
  bool UsesMemory(NodeId id, size_t i) const {
    if (RoleOf(graph_.node(id).inputs[i].node) == NodeRole::kConst &&
        TakenByValue(graph_.node(id), i, inferred_.by_value[id.value])) {
      return false;
    }
    for (const VariableUse& use : Def(id).variables) {
      if (use.input == static_cast<int>(i) && use.access == VariableAccess::kPresence) return false;
    }
    return true;
  }

  NodeRole RoleOf(NodeId id) const { return inferred_.roles[id.value]; }
  bool ToHost(NodeId id) const { return RoleOf(id) == NodeRole::kCopiesToHost; }

  bool IsOperation(NodeId id) const {
    const NodeRole role = RoleOf(id);
    return role == NodeRole::kRuns || role == NodeRole::kCopiesToHost || (role == NodeRole::kView && IsDynamic(id));
  }

  // Whether shapes or values that the node needs are known only when it runs.
  bool IsDynamic(NodeId id) const {
    if (!any_dynamic_) return false;
    const Node& node = graph_.node(id);
    return node.dynamic_outputs != 0 || node.run_time_values != 0 ||
           std::any_of(node.inputs.begin(), node.inputs.end(),
                       [&](OutputRef in) { return graph_.node(in.node).dynamic_output(in.index); });
  }

  // The input's real shape is the output's, whatever they are: the op does not broadcast that input.
  bool NeverBroadcasts(NodeId id, int input, int output) const {
    OpInstance probe = MakeInstance(graph_, id, inferred_.by_value[id.value]);
    std::vector<const Tensor*> values(probe.inputs.size(), nullptr);
    for (size_t i = 0; i < probe.inputs.size(); ++i) {
      Shape& shape = probe.inputs[i].shape;
      for (int d = 0; d < shape.rank(); ++d) shape.set_dim(d, static_cast<int>(i) == input ? 1 : 2);
      if (i < probe.input_values.size() && !probe.input_values[i].empty()) values[i] = &probe.input_values[i];
    }
    InferenceContext context(probe.name, probe.op, probe.attrs, probe.inputs, values);
    return !Def(id).InferShapes(context).ok() || context.outputs()[output].shape == probe.inputs[input].shape;
  }

  void NumberOutputs() {
    int32_t next = 0;
    result_.first_output.reserve(graph_.num_ids());
    for (int32_t i = 0; i < graph_.num_ids(); ++i) {
      const Node& node = graph_.node(NodeId{i});
      result_.first_output.push_back(next);
      next += static_cast<int32_t>(node.outputs.size());
      any_dynamic_ = any_dynamic_ || node.dynamic_outputs != 0 || node.run_time_values != 0;
    }
    result_.storage_of.assign(next, kNoStorage);
    NumberDynamicTensors();
    last_use_of_output_.assign(next, -1);
    result_.root.reserve(next);
    result_.access.storages.reserve(next);
    last_use_.reserve(next);
    last_access_.reserve(next);
    copied_at_.reserve(next);
  }

  // The same numbers on every device; what is received has the shape of what was sent.
  void NumberDynamicTensors() {
    if (!any_dynamic_) return;
    dynamic_tensor_of_output_.assign(result_.storage_of.size(), -1);
    for (bool received : {false, true}) {
      for (int32_t i = 0; i < graph_.num_ids(); ++i) {
        const Node& node = graph_.node(NodeId{i});
        if (node.removed || node.dynamic_outputs == 0 || CopiesToHost(node) || (node.op == kRecvOp) != received) continue;
        for (int32_t o = 0; o < static_cast<int32_t>(node.outputs.size()); ++o) {
          int32_t& tensor = dynamic_tensor_of_output_[OutputIndex({NodeId{i}, o})];
          if (received) {
            tensor = dynamic_tensor_of_output_[OutputIndex(graph_.node(node.inputs[0].node).inputs[0])];
          } else if (node.dynamic_output(o)) {
            tensor = static_cast<int32_t>(result_.dynamic_tensors.size());
            result_.dynamic_tensors.push_back(graph_.TensorName({NodeId{i}, o}));
          }
        }
      }
    }
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

  int32_t NewStorage(OutputRef root, StorageKind kind) {
    result_.root.push_back(root);
    result_.access.storages.push_back({.kind = kind, .size_bytes = graph_.type(root).size_bytes()});
    last_use_.push_back(-1);
    last_access_.push_back(-1);
    copied_at_.push_back(0);
    return static_cast<int32_t>(result_.root.size()) - 1;
  }

  void Join(OutputRef ref, int32_t storage) {
    const int32_t output = OutputIndex(ref);
    result_.storage_of[output] = storage;
    if (storage != kNoStorage) last_use_[storage] = std::max(last_use_[storage], last_use_of_output_[output]);
  }

  void PlaceOutputs(NodeId id, int32_t position) {
    Node& node = graph_.mutable_node(id);
    node.in_place.clear();  // the graph may have been looked at in another order
    const OpDef& def = Def(id);
    if (ToHost(id)) return;
    for (int32_t o = 0; o < static_cast<int32_t>(node.outputs.size()); ++o) {
      const OutputRef ref{id, o};
      if (def.is_variable) {
        Join(ref, VariableStorage(ref));
      } else if (o == 0 && (def.is_view || def.returns_variable)) {
        Join(ref, result_.storage(node.inputs[0]));
      } else if (node.outputs[o].size_bytes() == 0) {
        continue;
      } else if (RoleOf(id) == NodeRole::kConst) {
        Join(ref, NewStorage(ref, StorageKind::kConstant));
      } else if (RoleOf(id) == NodeRole::kFeed) {
        Join(ref, NewStorage(ref, StorageKind::kFeed));
      } else if (RoleOf(id) == NodeRole::kRecv) {
        Join(ref, NewStorage(ref, StorageKind::kFeed));
        result_.access.storages.back().available_from = static_cast<int32_t>(result_.operations.size());
      } else {
        const int32_t reused = InPlaceStorage(id, def, o, position);
        Join(ref, reused != kNoStorage ? reused : NewStorage(ref, StorageKind::kActivation));
      }
    }
  }

  int32_t VariableStorage(OutputRef ref) {
    int32_t& storage = storage_of_variable_[inferred_.variable[ref.node.value]];
    if (storage != kNoStorage) return storage;
    if (!graph_.type(ref).shape.fully_known() || graph_.type(ref).size_bytes() == 0) return kNoStorage;
    return storage = NewStorage(ref, StorageKind::kVariable);
  }

  // Whether an input that output `o` may overwrite can stay beside it: the node has much more than that.
  bool HasRoomBeside(NodeId id, int32_t o) const {
    const Node& node = graph_.node(id);
    int64_t touched = inferred_.estimates[id.value].scratch_bytes;
    for (OutputRef input : node.inputs) touched += graph_.type(input).size_bytes();
    for (const TensorType& output : node.outputs) touched += output.size_bytes();
    return node.outputs[o].size_bytes() <= options_.max_kept_bytes && touched <= kRoomOfNode * options_.max_kept_bytes;
  }

  // The storage of an input that output `o` may overwrite: an activation whose last use is here.
  int32_t InPlaceStorage(NodeId id, const OpDef& def, int32_t o, int32_t position) {
    Node& node = graph_.mutable_node(id);
    for (auto [output, input] : def.in_place) {
      if (output != o || input >= static_cast<int>(node.inputs.size())) continue;
      const int32_t storage = result_.storage(node.inputs[input]);
      if (storage == kNoStorage || result_.access.storages[storage].kind != StorageKind::kActivation) continue;
      if (last_use_[storage] != position) continue;
      if (result_.access.storages[storage].size_bytes != node.outputs[o].size_bytes()) continue;
      if (copied_at_[storage] > seconds_ && HasRoomBeside(id, o)) continue;
      if (IsDynamic(id) && !NeverBroadcasts(id, input, o)) continue;
      const bool taken = std::any_of(node.in_place.begin(), node.in_place.end(),
                                     [&](const InPlace& other) { return other.input == input; });
      bool shared = false;
      for (size_t i = 0; i < node.inputs.size(); ++i) {
        shared = shared || (static_cast<int>(i) != input && result_.storage(node.inputs[i]) == storage);
      }
      if (taken || shared) continue;
      node.in_place.push_back({o, static_cast<int32_t>(input)});
      result_.in_place.emplace_back(id, node.in_place.back());
      return storage;
    }
    return kNoStorage;
  }

  void AddOperation(NodeId id) {
    const Node& node = graph_.node(id);
    const OpDef& def = Def(id);
    OperationNode added;
    added.node = id;
    added.def = &def;
    if (!ToHost(id)) {
      added.is_view = def.is_view;
      added.seconds = inferred_.estimates[id.value].seconds;
      added.scratch_bytes = inferred_.estimates[id.value].scratch_bytes;
    }
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      // The plan has the value of a constant that is fetched.
      const bool known = node.op == "_Fetch" && graph_.node(node.inputs[i].node).op == "Const";
      added.input_storages.push_back(!known && UsesMemory(id, i) ? result_.storage(node.inputs[i]) : kNoStorage);
    }
    if (IsDynamic(id)) AddDynamicTensors(id, added);
    const AccessList accesses = AccessesOf(id, def, added);
    AccessGraph& graph = result_.access;
    if (Joins(id, def, added, accesses)) {
      graph.seconds.back() += added.seconds;
      graph.scratch_bytes.back() += added.scratch_bytes;
    } else {
      graph.first_access.push_back(static_cast<int64_t>(graph.accesses.size()));
      graph.seconds.push_back(added.seconds);
      graph.scratch_bytes.push_back(added.scratch_bytes);
      graph.partition.push_back(node.partition);
      if (ToHost(id)) graph.fetches.push_back(static_cast<int32_t>(result_.operations.size()));
      result_.operations.push_back({ToHost(id), {}});
      others_at_last_ = others_;
    }
    for (const Access& access : accesses) Merge(access);
    seconds_ += added.seconds;
    if (ToHost(id)) CopyToHost(accesses);
    result_.operations.back().nodes.push_back(std::move(added));
  }

  // If nothing else is copied, and no operation waits.
  void CopyToHost(const AccessList& accesses) {
    for (const Access& access : accesses) {
      const auto bytes = static_cast<double>(result_.access.storages[access.storage].size_bytes);
      lane_free_at_ = std::max(lane_free_at_, seconds_) + options_.copy_latency_seconds + bytes / options_.to_host_bytes_per_second;
      copied_at_[access.storage] = lane_free_at_;
    }
  }

  void AddDynamicTensors(NodeId id, OperationNode& added) {
    const Node& node = graph_.node(id);
    DynamicNode dynamic;
    for (OutputRef input : node.inputs) dynamic.input_shapes.push_back(dynamic_tensor_of_output_[OutputIndex(input)]);
    for (int32_t o = 0; o < static_cast<int32_t>(node.outputs.size()); ++o) {
      dynamic.output_shapes.push_back(ToHost(id) ? -1 : dynamic_tensor_of_output_[OutputIndex({id, o})]);
    }
    added.dynamic = static_cast<int32_t>(result_.dynamic_nodes.size());
    result_.dynamic_nodes.push_back(std::move(dynamic));
  }

  // Whether the node may run at once with the nodes of the last operation.
  bool Joins(NodeId id, const OpDef& def, const OperationNode& added, const AccessList& accesses) const {
    const Node& node = graph_.node(id);
    if (result_.operations.empty() || ToHost(id) || def.stateful || !node.control_inputs.empty() ||
        others_ != others_at_last_) {
      return false;
    }
    const DeviceOperation& last = result_.operations.back();
    if (added.is_dynamic() || last.nodes.back().is_dynamic()) return false;
    auto in_range = [](double seconds) { return seconds >= kMinJoinedSeconds && seconds <= kMaxJoinedSeconds; };
    if (last.is_fetch || last.nodes.size() >= kMaxJoinedNodes || !in_range(added.seconds) ||
        !in_range(last.nodes.back().seconds) || Def(last.node()).stateful ||
        result_.access.partition.back() != node.partition) {
      return false;
    }
    int64_t bytes = result_.access.scratch_bytes.back() + added.scratch_bytes;
    for (const Access& access : accesses) {
      bytes += result_.access.aligned_bytes(access.storage);
      const Access* const other = OfThisOperation(access.storage);
      if (other != nullptr && (access.writes || other->writes)) return false;
    }
    for (size_t k = result_.access.first_access.back(); k < result_.access.accesses.size(); ++k) {
      bytes += result_.access.aligned_bytes(result_.access.accesses[k].storage);
    }
    return bytes <= options_.max_joined_bytes;
  }

  AccessList AccessesOf(NodeId id, const OpDef& def, const OperationNode& added) const {
    AccessList accesses;
    const Node& node = graph_.node(id);
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (added.input_storages[i] == kNoStorage) continue;
      Access made{added.input_storages[i], true, false};
      for (const VariableUse& use : def.variables) {
        if (use.input != static_cast<int>(i)) continue;
        made.reads = use.access != VariableAccess::kWrite;
        made.writes = use.access != VariableAccess::kRead;
      }
      accesses.push_back(made);
    }
    for (int32_t o = 0; o < static_cast<int32_t>(node.outputs.size()); ++o) {
      if (ToHost(id) || def.is_view || (o == 0 && def.returns_variable)) continue;
      const int32_t storage = result_.storage({id, o});
      if (storage != kNoStorage) accesses.push_back({storage, false, true});
    }
    return accesses;
  }

  // The last operation's access of that storage so far; null where there is none.
  const Access* OfThisOperation(int32_t storage) const {
    const int64_t k = last_access_[storage];
    return k >= result_.access.first_access.back() ? &result_.access.accesses[k] : nullptr;
  }

  void Merge(const Access& made) {
    AccessGraph& access = result_.access;
    if (OfThisOperation(made.storage) == nullptr) {
      last_access_[made.storage] = static_cast<int64_t>(access.accesses.size());
      access.accesses.push_back(made);
      return;
    }
    Access& old = access.accesses[last_access_[made.storage]];
    old.reads = old.reads || made.reads;
    old.writes = old.writes || made.writes;
  }

  Graph& graph_;
  const std::vector<NodeId>& order_;
  const std::vector<int32_t>& others_before_;
  const InferenceResult& inferred_;
  const DeviceGraphOptions options_;
  bool any_dynamic_ = false;  // nodes
  std::vector<int32_t> dynamic_tensor_of_output_;
  std::vector<int32_t> last_use_of_output_;  // position of the last node that takes it
  std::vector<int32_t> last_use_;            // per storage
  std::vector<int64_t> last_access_;         // per storage: into accesses; -1
  std::vector<double> copied_at_;            // per storage: when its copy to the host is over
  double seconds_ = 0, lane_free_at_ = 0;    // of operations so far; when the lane of copies out is free
  std::vector<int32_t> storage_of_variable_;
  int32_t others_ = 0, others_at_last_ = 0;  // others_before of this node, of the last operation's
  DeviceGraph result_;
};

constexpr int64_t kMostTensorBytes = int64_t{1} << 56;  // sums of sizes stay far from overflow

int64_t LargestOutput(const OpInstance& instance) {
  int64_t bytes = 0;
  for (const TensorType& type : instance.outputs) bytes = std::max(bytes, type.size_bytes());
  return bytes;
}

// What nodes take when they run, once for all that are alike.
class Estimator {
 public:
  Estimator(const Graph& graph, KernelOracle& oracle, const Machine& machine, const PlanningOptions& options,
            const InferenceResult& inferred)
      : graph_(graph),
        oracle_(oracle),
        machine_(machine),
        options_(options),
        inferred_(inferred),
        alike_count_(!oracle.GoesByName()),
        builtin_def_of_(OpRegistry::Builtin()) {}

  absl::StatusOr<RunEstimate> Estimate(NodeId id, const OpDef& def) {
    const Node& node = graph_.node(id);
    const auto possible = inferred_.possible.empty() ? inferred_.possible.end() : inferred_.possible.find(node.name);
    if (possible != inferred_.possible.end() && !possible->second.empty()) return EstimateDynamic(node, def, possible->second);
    // Inputs by value are not part of a key; rules of other registries may go by anything.
    if (!alike_count_ || inferred_.by_value[id.value] != 0 || node.inputs.size() > kKnownByValue || builtin_def_of_(node.op) != &def) {
      return EstimateOne(node, def, MakeInstance(graph_, id, inferred_.by_value[id.value]));
    }
    types_.clear();
    for (const OutputRef input : node.inputs) types_.push_back(&graph_.type(input));
    for (const TensorType& type : node.outputs) types_.push_back(&type);
    const AlikeNodes<RunEstimate>::Key key{node.op, node.attrs, types_, node.device};
    if (const RunEstimate* known = alike_.Find(key); known != nullptr) return *known;
    MR_ASSIGN_OR_RETURN(const RunEstimate estimate, EstimateOne(node, def, MakeInstance(graph_, id, 0)));
    alike_.Add(key, estimate);
    return estimate;
  }

 private:
  // Far less than nothing: the kernel's own sum has overflown.
  static absl::Status CheckScratch(const Node& node, int64_t bytes) {
    if (bytes >= 0 && bytes <= kMostTensorBytes) return absl::OkStatus();
    if (bytes < 0 && bytes >= -kMostTensorBytes) {
      return absl::InternalError(absl::StrCat("node '", node.name, "' (", node.op, ") needs scratch memory of ", bytes,
                                              " bytes, as its kernel or cost rule says, expected 0 or more"));
    }
    return absl::ResourceExhaustedError(absl::StrCat("does not fit: the kernel of node '", node.name, "' (", node.op, ") needs scratch memory of ",
                                                     FormatBytes(kMostTensorBytes), " or more"));
  }

  // Of a node's largest possible shapes. None where it is refused later.
  absl::StatusOr<RunEstimate> EstimateOne(const Node& node, const OpDef& def, const OpInstance& largest) {
    RunEstimate estimate;
    // A kernel that can never run is not made: tables of its own may be as large as its output.
    const int64_t budget = node.device == kHostDevice ? 0 : options_.BudgetOf(node.device);
    const int64_t output_bytes = LargestOutput(largest);
    if (output_bytes > kMostTensorBytes) {
      return absl::ResourceExhaustedError(absl::StrCat("does not fit: node '", node.name, "' has an output of ",
                                                       FormatBytes(output_bytes), " or more"));
    }
    if (budget > 0 && output_bytes > budget) return estimate;
    MR_ASSIGN_OR_RETURN(estimate.scratch_bytes, oracle_.ScratchBytes(largest));
    MR_RETURN_IF_ERROR(CheckScratch(node, estimate.scratch_bytes));
    estimate.scratch_bytes = AlignUp(estimate.scratch_bytes);
    MR_ASSIGN_OR_RETURN(const double predicted, PredictSeconds(def, largest, machine_));
    estimate.seconds = oracle_.MeasuredSeconds(largest).value_or(predicted);
    return estimate;
  }

  absl::StatusOr<RunEstimate> EstimateDynamic(const Node& node, const OpDef& def, const std::vector<OpInstance>& possible) {
    MR_ASSIGN_OR_RETURN(RunEstimate estimate, EstimateOne(node, def, possible[0]));
    const int64_t budget = node.device == kHostDevice ? 0 : options_.BudgetOf(node.device);
    if (budget > 0 && LargestOutput(possible[0]) > budget) return estimate;
    for (size_t k = 1; k < possible.size(); ++k) {
      const absl::StatusOr<int64_t> bytes = oracle_.ScratchBytes(possible[k]);
      if (!bytes.ok()) continue;
      MR_RETURN_IF_ERROR(CheckScratch(node, *bytes));
      estimate.scratch_bytes = std::max(estimate.scratch_bytes, AlignUp(*bytes));
    }
    return estimate;
  }

  const Graph& graph_;
  KernelOracle& oracle_;
  const Machine& machine_;
  const PlanningOptions& options_;
  const InferenceResult& inferred_;
  const bool alike_count_;
  OpFinder builtin_def_of_;
  AlikeNodes<RunEstimate> alike_;
  std::vector<const TensorType*> types_;  // of the node that is looked at
};

}  // namespace

absl::Status EstimateRuns(const Graph& graph, const OpRegistry& ops, KernelOracle& oracle, const Machine& machine,
                          const PlanningOptions& options, InferenceResult& inferred) {
  inferred.estimates.assign(graph.num_ids(), {});
  inferred.defs.assign(graph.num_ids(), nullptr);
  inferred.roles.assign(graph.num_ids(), NodeRole::kNeverRuns);
  inferred.variable.assign(graph.num_ids(), -1);
  std::map<std::string, int32_t> variables;
  OpFinder def_of(ops);
  Estimator estimator(graph, oracle, machine, options, inferred);
  for (int32_t i = 0; i < graph.num_ids(); ++i) {
    const Node& node = graph.node(NodeId{i});
    if (node.removed) continue;
    inferred.defs[i] = def_of(node.op);
    const OpDef& def = *inferred.defs[i];
    const NodeRole role = inferred.roles[i] = RoleOfNode(node, def);
    if (def.is_variable) {
      inferred.variable[i] = variables.emplace(VariableName(node), static_cast<int32_t>(variables.size())).first->second;
      if (!node.outputs.empty() && node.outputs[0].size_bytes() > kMostTensorBytes) {
        return absl::ResourceExhaustedError(absl::StrCat("does not fit: variable '", VariableName(node), "' is ", node.outputs[0].ToString()));
      }
    }
    if (role != NodeRole::kRuns) continue;
    MR_ASSIGN_OR_RETURN(inferred.estimates[i], estimator.Estimate(NodeId{i}, def));
  }
  inferred.num_variables = static_cast<int32_t>(variables.size());
  return absl::OkStatus();
}

DeviceGraph BuildDeviceGraph(Graph& graph, const DeviceOrder& order, const InferenceResult& inferred,
                             const DeviceGraphOptions& options) {
  return Builder(graph, order, inferred, options).Run();
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

void NameAndCut(Graph& graph, DeviceGraph& device) {
  for (int32_t i = 0; i < graph.num_ids(); ++i) graph.mutable_node(NodeId{i}).in_place.clear();
  for (const auto& [id, in_place] : device.in_place) graph.mutable_node(id).in_place.push_back(in_place);
  for (size_t i = 0; i < device.operations.size(); ++i) {
    device.access.partition[i] = graph.node(device.operations[i].node()).partition;
  }
  NameStorages(graph, device);
}

void NameStorages(const Graph& graph, DeviceGraph& device) {
  std::vector<std::string>& names = device.access.names;
  names.resize(device.root.size());
  for (size_t s = 0; s < device.root.size(); ++s) {
    const OutputRef root = device.root[s];
    const Node& node = graph.node(root.node);
    const StorageKind kind = device.access.storages[s].kind;
    names[s] = kind == StorageKind::kVariable     ? VariableName(node)
               : kind == StorageKind::kActivation ? graph.TensorName(root)
                                                  : node.name;
  }
}

void MakeInstances(const Graph& graph, const InferenceResult& inferred, DeviceGraph& device) {
  size_t nodes = 0;
  for (const DeviceOperation& operation : device.operations) nodes += operation.is_fetch ? 0 : operation.nodes.size();
  device.instances.reserve(nodes);
  for (const DeviceOperation& operation : device.operations) {
    if (operation.is_fetch) continue;
    for (const OperationNode& node : operation.nodes) {
      device.instances.push_back(MakeInstance(graph, node.node, inferred.by_value[node.node.value]));
    }
  }
}

void NameReceived(const Graph& graph, std::vector<DeviceGraph*> devices) {
  if (devices.size() < 2) return;
  for (DeviceGraph* device : devices) {
    for (size_t s = 0; s < device->root.size(); ++s) {
      const Node& recv = graph.node(device->root[s].node);
      if (recv.op != kRecvOp) continue;
      const Node& send = graph.node(recv.inputs[0].node);
      const DeviceGraph& sender = *devices[send.device];
      if (!sender.access.names.empty()) device->access.names[s] = sender.access.names[sender.storage(send.inputs[0])];
    }
  }
}

}  // namespace millrace
