#include "passes/emit/build_plan.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "graph/variable_name.h"
#include "millrace/types.h"
#include "passes/emit/device_lanes.h"
#include "passes/emit/merge_schedules.h"
#include "passes/shapes/parts.h"
#include "passes/shapes/per_op.h"

namespace millrace {
namespace {

// What the value is of, behind the nodes that only pass it on.
OutputRef Source(const Graph& graph, OutputRef ref) {
  const auto passes = [](const std::string& op) {
    return op == "Identity" || op == "ReadVariableOp" || op == "SwapIn" || op == "SwapOut";
  };
  while (passes(graph.node(ref.node).op) && !graph.node(ref.node).inputs.empty()) ref = graph.node(ref.node).inputs[0];
  return ref;
}

// Whether the node selects by whether this variable is initialised, and takes the variable only where it is.
bool SelectsByPresence(const Graph& graph, NodeId id, const std::string& variable) {
  const Node& select = graph.node(id);
  if (select.op != "Select" && select.op != "SelectV2") return false;
  size_t if_not = 2;
  OutputRef asked = Source(graph, select.inputs[0]);
  while (graph.node(asked.node).op == "LogicalNot") {
    asked = Source(graph, graph.node(asked.node).inputs[0]);
    if_not = 3 - if_not;
  }
  const Node& question = graph.node(asked.node);
  if (question.op != "VarIsInitializedOp" && question.op != "IsVariableInitialized") return false;
  const auto is_variable = [&](OutputRef ref) { return VariableName(graph.node(Source(graph, ref).node)) == variable; };
  return is_variable(question.inputs[0]) && !is_variable(select.inputs[if_not]);
}

class PlanBuilder {
 public:
  explicit PlanBuilder(const PlanInputs& inputs) : in_(inputs), num_devices_(static_cast<int32_t>(in_.devices.size())) {}

  ExecutionPlan Run() {
    ListFeedsAndFetches();
    ListVariables();
    MakeLanes();
    ReserveSteps();
    device_of_item_ = MergeSchedules(in_.graph, in_.order, in_.devices);
    for (size_t p = 0; p < device_of_item_.size(); ++p) position_[device_of_item_[p]].push_back(static_cast<int64_t>(p));
    for (int32_t d = 0; d < num_devices_; ++d) lanes_[d].AddSlots(position_[d]);
    for (int32_t d = 0; d < num_devices_; ++d) lanes_[d].ExtendSentSlots(position_[d]);
    plan_.host_pool_bytes = shared_.pool.AssignAddresses(static_cast<int32_t>(plan_.lanes.size()));
    for (size_t p = 0; p < device_of_item_.size(); ++p) lanes_[device_of_item_[p]].Emit(static_cast<int64_t>(p));
    for (DeviceLanes& lanes : lanes_) lanes.ForgetEmitted();
    for (DeviceLanes& lanes : lanes_) lanes.ListResidences();
    Summarize();
    return std::move(plan_);
  }

 private:
  void ListFeedsAndFetches() {
    for (const auto& [name, type] : in_.signature.feeds) {
      shared_.feed_index[name] = static_cast<int32_t>(plan_.feeds.size());
      plan_.feeds.push_back({name, type});
    }
    plan_.fetches.resize(in_.signature.fetches.size());
    for (int32_t i = 0; i < in_.graph.num_ids(); ++i) {
      const Node& node = in_.graph.node(NodeId{i});
      if (node.removed || node.op != "_Fetch") continue;
      PlanFetch& fetch = plan_.fetches[node.attrs.GetOr<int64_t>("index", 0)];
      fetch.type = in_.graph.type(node.inputs[0]);
      const Node* producer = &in_.graph.node(node.inputs[0].node);
      while (producer->op == "SwapIn" || producer->op == "SwapOut") producer = &in_.graph.node(producer->inputs[0].node);
      if (producer->op == "Const") fetch.value = producer->attrs.GetOr<Tensor>("value", Tensor());
    }
    for (size_t i = 0; i < plan_.fetches.size(); ++i) plan_.fetches[i].name = in_.signature.fetches[i];
  }

  void ListVariables() {
    shared_.variable_of_node.assign(in_.graph.num_ids(), -1);
    OpFinder def_of(in_.ops);
    for (int32_t i = 0; i < in_.graph.num_ids(); ++i) {
      const Node& node = in_.graph.node(NodeId{i});
      if (node.removed || node.outputs.size() != 1) continue;
      const OpDef* def = def_of(node.op);
      if (def == nullptr || !def->is_variable) continue;
      auto [it, inserted] =
          shared_.variable_index.emplace(VariableName(node), static_cast<int32_t>(plan_.variables.size()));
      shared_.variable_of_node[i] = it->second;
      if (!inserted) continue;
      PlanVariable variable;
      variable.name = it->first;
      variable.type = node.outputs[0];
      if (const std::optional<WholeVariable> whole = WholeOf(node)) {
        shared_.has_parts = true;
        variable.whole = whole->name;
        variable.whole_type = whole->type;
        variable.home_offset = PartOf(node)->begin * DataTypeSize(variable.type.dtype);
      }
      plan_.variables.push_back(std::move(variable));
    }
  }

  void MakeLanes() {
    plan_.dynamic_tensors = in_.devices[0].device.dynamic_tensors;  // the same on every device
    plan_.lanes.resize(num_devices_ * kNumLanes);
    shared_.compute_count.resize(num_devices_);
    for (int32_t d = 0; d < num_devices_; ++d) shared_.compute_count[d].reserve(in_.devices[d].device.operations.size());
    lanes_.reserve(num_devices_);
    for (int32_t d = 0; d < num_devices_; ++d) {
      Lane* lanes = &plan_.lanes[d * kNumLanes];
      lanes[kComputeLane].kind = LaneKind::kCompute;
      lanes[kToHostLane].kind = LaneKind::kToHost;
      lanes[kToDeviceLane].kind = LaneKind::kToDevice;
      for (int kind = 0; kind < kNumLanes; ++kind) lanes[kind].device = d;
      lanes_.emplace_back(in_, d, shared_);
      lanes_[d].ListResidents();
      ListAccesses(d);
      ListOwners(d);
    }
  }

  // Steps are large: vectors that grow would hold them twice.
  void ReserveSteps() {
    size_t instances = 0;
    for (int32_t d = 0; d < num_devices_; ++d) {
      size_t nodes = 0;
      for (const DeviceOperation& operation : in_.devices[d].device.operations) nodes += operation.nodes.size();
      Lane* lanes = &plan_.lanes[d * kNumLanes];
      lanes[kComputeLane].compute.reserve(nodes);
      size_t outs = 0, ins = 0;
      for (const ScheduleItem& item : in_.devices[d].schedule.items) {
        outs += item.kind == ScheduleItem::Kind::kCopyOut ? 1 : 0;
        ins += item.kind == ScheduleItem::Kind::kCopyIn ? 1 : 0;
      }
      lanes[kToHostLane].copies.reserve(outs);
      lanes[kToDeviceLane].copies.reserve(ins);
      instances += nodes;
    }
    shared_.has_instances = num_devices_ == 1;
    if (shared_.has_instances) plan_.instances = std::move(in_.devices[0].device.instances);
    else plan_.instances.reserve(instances);
  }

  // What the step does with the variables of device d.
  void ListAccesses(int32_t d) {
    const DeviceGraph& device = in_.devices[d].device;
    std::vector<bool> seen(plan_.variables.size(), false);
    for (int32_t i = 0; i < device.access.num_operations(); ++i) {
      for (const Access& access : device.access.of(i)) {
        const int32_t v = lanes_[d].variable_of(access.storage);
        if (v < 0) continue;
        PlanVariable& variable = plan_.variables[v];
        if (!seen[v] && access.reads) {
          const NodeId node = device.operations[i].node();
          variable.read_before_write = true;
          if (!access.writes && SelectsByPresence(in_.graph, node, variable.name)) continue;
          variable.first_reader = in_.graph.node(node).name;
        }
        seen[v] = true;
        variable.written = variable.written || access.writes;
      }
    }
  }

  // Each name once: what is received has the name of what was sent. Names are the plan's from here on.
  void ListOwners(int32_t d) {
    std::vector<std::string> names = std::move(in_.devices[d].device.access.names);
    plan_.tensors.reserve(plan_.tensors.size() + names.size());
    lanes_[d].owner_of_storage().reserve(names.size());
    for (std::string& name : names) {
      const int32_t next = static_cast<int32_t>(plan_.tensors.size());
      const int32_t owner = num_devices_ == 1 ? next : owner_index_.emplace(name, next).first->second;
      if (owner == next) plan_.tensors.push_back(std::move(name));
      lanes_[d].owner_of_storage().push_back(owner);
    }
  }

  void Summarize() {
    for (const DevicePlan& planned : in_.devices) {
      PlanDevice device;
      device.arena_bytes = planned.memory.arena_bytes;
      device.peak_live_bytes = planned.memory.peak_bytes;
      int32_t last_partition = -1;
      for (int32_t partition : planned.device.access.partition) last_partition = std::max(last_partition, partition);
      device.num_partitions = last_partition + 1;
      plan_.devices.push_back(std::move(device));
    }
    PlanCounts& counts = plan_.counts;
    counts.nodes = in_.graph.num_nodes() - counts.swap_ins - counts.swap_outs - counts.sends - counts.recvs;
    plan_.host_bytes = plan_.host_pool_bytes;
    for (const PlanVariable& variable : plan_.variables) plan_.host_bytes += AlignUp(variable.type.size_bytes());
    std::set<std::string> constants;  // several devices may take the same one
    for (const PlanConstant& constant : plan_.constants) {
      if (num_devices_ > 1 && !constants.insert(constant.name).second) continue;
      plan_.host_bytes += AlignUp(constant.value.size_bytes());
    }
    for (const Lane& lane : plan_.lanes) {
      for (const ComputeStep& step : lane.compute) plan_.predicted_compute_seconds += step.predicted_seconds;
    }
  }

  const PlanInputs& in_;
  const int32_t num_devices_;
  PlanUnderWay shared_;
  ExecutionPlan& plan_ = shared_.plan;
  std::vector<DeviceLanes> lanes_;
  std::map<std::string, int32_t> owner_index_;
  std::vector<int32_t> device_of_item_;  // in the order of all items
  std::vector<std::vector<int64_t>> position_ = std::vector<std::vector<int64_t>>(num_devices_);  // of its items, there
};

}  // namespace

ExecutionPlan BuildPlan(const PlanInputs& inputs) { return PlanBuilder(inputs).Run(); }

}  // namespace millrace
