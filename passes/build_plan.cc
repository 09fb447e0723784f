#include "passes/build_plan.h"

#include <algorithm>
#include <array>
#include <map>
#include <numeric>

#include "millrace/types.h"
#include "passes/order_variable_accesses.h"
#include "passes/owner_map.h"

namespace millrace {
namespace {

constexpr int kComputeLane = 0, kToHostLane = 1, kToDeviceLane = 2, kNumLanes = 3;

class PlanBuilder {
 public:
  explicit PlanBuilder(PlanInputs inputs) : in_(inputs), access_(inputs.device.access) {}

  ExecutionPlan Run() {
    ListFeedsAndFetches();
    ListVariables();
    ListConstants();
    AssignHostPool();
    plan_.lanes.resize(kNumLanes);
    plan_.dynamic_tensors = in_.device.dynamic_tensors;
    plan_.lanes[kComputeLane].kind = LaneKind::kCompute;
    plan_.lanes[kToHostLane].kind = LaneKind::kToHost;
    plan_.lanes[kToDeviceLane].kind = LaneKind::kToDevice;
    progress_.resize(in_.schedule.residences.size());
    for (const StorageInfo& storage : access_.storages) plan_.tensors.push_back(storage.name);
    ListBoundaries();
    for (int64_t p = 0; p < static_cast<int64_t>(in_.schedule.items.size()); ++p) Emit(p);
    ListResidences();
    Summarize();
    return std::move(plan_);
  }

 private:
  // What happened to a residence so far.
  struct Progress {
    LaneCounts touched{};          // last step of each lane that touched its bytes
    LaneCounts read{};             // … that read them since the last write
    int written_lane = -1;
    int64_t written_count = 0;
  };

  StorageKind KindOf(int32_t storage) const { return access_.storages[storage].kind; }

  void ListFeedsAndFetches() {
    for (const auto& [name, type] : in_.signature.feeds) {
      feed_index_[name] = static_cast<int32_t>(plan_.feeds.size());
      plan_.feeds.push_back({name, type});
    }
    plan_.fetches.resize(in_.signature.fetches.size());
    for (int32_t i = 0; i < in_.graph.num_ids(); ++i) {
      const Node& node = in_.graph.node(NodeId{i});
      if (node.removed || node.op != "_Fetch") continue;
      PlanFetch& fetch = plan_.fetches[node.attrs.GetOr<int64_t>("index", 0)];
      fetch.type = in_.graph.type(node.inputs[0]);
      const Node& producer = in_.graph.node(node.inputs[0].node);
      if (producer.op == "Const") fetch.value = producer.attrs.GetOr<Tensor>("value", Tensor());
    }
    for (size_t i = 0; i < plan_.fetches.size(); ++i) plan_.fetches[i].name = in_.signature.fetches[i];
  }

  void ListVariables() {
    for (int32_t i = 0; i < in_.graph.num_ids(); ++i) {
      const Node& node = in_.graph.node(NodeId{i});
      if (node.removed || node.outputs.size() != 1) continue;
      const OpDef* def = in_.ops.Find(node.op);
      if (def == nullptr || !def->is_variable) continue;
      auto [it, inserted] = variable_index_.emplace(VariableName(node), static_cast<int32_t>(plan_.variables.size()));
      if (!inserted) continue;
      PlanVariable variable;
      variable.name = it->first;
      variable.type = node.outputs[0];
      plan_.variables.push_back(std::move(variable));
    }
    variable_of_storage_.assign(access_.storages.size(), -1);
    for (size_t s = 0; s < access_.storages.size(); ++s) {
      if (KindOf(static_cast<int32_t>(s)) != StorageKind::kVariable) continue;
      variable_of_storage_[s] = variable_index_.at(access_.storages[s].name);
    }
    std::vector<bool> seen(plan_.variables.size(), false);
    for (int32_t i = 0; i < access_.num_operations(); ++i) {
      for (const Access& access : access_.of(i)) {
        const int32_t v = variable_of_storage_[access.storage];
        if (v < 0) continue;
        PlanVariable& variable = plan_.variables[v];
        if (!seen[v] && access.reads) {
          variable.read_before_write = true;
          variable.first_reader = in_.graph.node(in_.device.operations[i].node()).name;
        }
        seen[v] = true;
        variable.written = variable.written || access.writes;
      }
    }
  }

  void ListConstants() {
    constant_of_storage_.assign(access_.storages.size(), -1);
    std::vector<bool> used(access_.storages.size(), false);
    for (const Access& access : access_.accesses) used[access.storage] = true;
    for (size_t s = 0; s < access_.storages.size(); ++s) {
      if (KindOf(static_cast<int32_t>(s)) != StorageKind::kConstant || !used[s]) continue;
      constant_of_storage_[s] = static_cast<int32_t>(plan_.constants.size());
      const Node& node = in_.graph.node(in_.device.root[s].node);
      plan_.constants.push_back({node.name, node.attrs.GetOr<Tensor>("value", Tensor()), 0, kNoAddress});
    }
    for (size_t r = 0; r < in_.schedule.residences.size(); ++r) {
      const Stay& stay = in_.schedule.residences[r];
      if (!stay.resident) continue;
      const int64_t offset = in_.memory.residence_offsets[r];
      if (constant_of_storage_[stay.storage] >= 0) {
        plan_.constants[constant_of_storage_[stay.storage]].resident_offset = offset;
      } else {
        plan_.variables[variable_of_storage_[stay.storage]].resident_offset = offset;
      }
    }
  }

  // A slot of the host pool per swapped-out value, from its copy out to its last copy in.
  void AssignHostPool() {
    const std::vector<SwapDecision>& decisions = in_.choice.decisions;
    host_slot_.assign(decisions.size(), -1);
    std::vector<int64_t> position_in(decisions.size(), -1), position_out(decisions.size(), -1);
    for (size_t p = 0; p < in_.schedule.items.size(); ++p) {
      const ScheduleItem& item = in_.schedule.items[p];
      if (item.kind == ScheduleItem::Kind::kCopyIn) position_in[item.index] = static_cast<int64_t>(p);
      if (item.kind == ScheduleItem::Kind::kCopyOut) position_out[item.index] = static_cast<int64_t>(p);
    }
    std::vector<MemoryBlock> slots;
    for (size_t k = 0; k < decisions.size(); ++k) {
      const SwapDecision& d = decisions[k];
      if (KindOf(d.storage) != StorageKind::kActivation) continue;
      if (d.copy_out) {
        host_slot_[k] = static_cast<int32_t>(slots.size());
        slots.push_back({AlignUp(access_.storages[d.storage].size_bytes), position_out[k], position_out[k]});
      } else if (k > 0 && decisions[k - 1].storage == d.storage) {
        host_slot_[k] = host_slot_[k - 1];
      }
      if (position_in[k] >= 0 && host_slot_[k] >= 0) slots[host_slot_[k]].last = position_in[k];
    }
    const Packing packing = PackBlocks(slots, 0);
    host_slot_offset_ = packing.offsets;
    host_slot_last_.clear();
    for (const MemoryBlock& slot : slots) host_slot_last_.push_back(slot.last);
    host_read_.assign(slots.size(), LaneCounts{});
    host_written_.assign(slots.size(), 0);
    plan_.host_pool_bytes = packing.heap_bytes;
  }

  void ListBoundaries() {
    const size_t n = in_.schedule.items.size();
    begins_.resize(n);
    ends_.resize(n);
    for (size_t r = 0; r < in_.schedule.residences.size(); ++r) {
      const Stay& stay = in_.schedule.residences[r];
      if (!stay.resident) begins_[stay.first].push_back(static_cast<int32_t>(r));
      ends_[stay.last].push_back(static_cast<int32_t>(r));
    }
  }

  int64_t BytesOf(int32_t residence) const {
    return AlignUp(access_.storages[in_.schedule.residences[residence].storage].size_bytes);
  }

  // Waits of the step at position p for the room of what begins there.
  LaneCounts ClaimRoom(int64_t p) {
    LaneCounts needed{};
    for (int32_t r : begins_[p]) {
      Raise(needed, owners_.Claim(in_.memory.residence_offsets[r], BytesOf(r)));
    }
    return needed;
  }

  void ReleaseRoom(int64_t p) {
    for (int32_t r : ends_[p]) {
      owners_.Release(in_.memory.residence_offsets[r], BytesOf(r), progress_[r].touched);
    }
  }

  // An item takes as many positions of the plan as it has steps.
  void Emit(int64_t p) {
    first_position_.push_back(next_position_);
    EmitItem(p);
    last_position_.push_back(std::max(first_position_.back(), next_position_ - 1));
  }

  void EmitItem(int64_t p) {
    const ScheduleItem& item = in_.schedule.items[p];
    LaneCounts needed = ClaimRoom(p);
    switch (item.kind) {
      case ScheduleItem::Kind::kOperation: EmitOperation(item.index, needed); break;
      case ScheduleItem::Kind::kCopyOut: EmitCopyOut(p, item, needed); break;
      case ScheduleItem::Kind::kCopyIn: EmitCopyIn(p, item, needed); break;
    }
    ReleaseRoom(p);
  }

  // The step number `count` of `lane` touches residence r; what it must wait for is added to `needed`.
  void Touch(int32_t r, int lane, int64_t count, bool reads, bool writes, LaneCounts& needed) {
    Progress& progress = progress_[r];
    if (progress.written_lane >= 0) {
      needed[progress.written_lane] = std::max(needed[progress.written_lane], progress.written_count);
    }
    if (writes) {
      Raise(needed, progress.read);
      progress.read = LaneCounts{};
      progress.written_lane = lane;
      progress.written_count = count;
    }
    if (reads) progress.read[lane] = count;
    progress.touched[lane] = count;
  }

  // `needed` as waits of the next step of `lane`, without those that the lane has already made.
  std::vector<Wait> WaitsFor(int lane, const LaneCounts& needed) {
    std::vector<Wait> waits;
    for (int other = 0; other < kNumLanes; ++other) {
      if (other == lane || needed[other] <= reached_[lane][other]) continue;
      reached_[lane][other] = needed[other];
      waits.push_back({other, needed[other]});
    }
    return waits;
  }

  int32_t ResidenceAt(int32_t operation, int32_t storage) const {
    for (int64_t k = access_.first_access[operation]; k < access_.first_access[operation + 1]; ++k) {
      if (access_.accesses[k].storage == storage) return in_.schedule.residence_of[k];
    }
    return -1;
  }

  int64_t AddressOf(int32_t operation, int32_t storage) const {
    const int32_t r = storage == kNoStorage ? -1 : ResidenceAt(operation, storage);
    return r < 0 ? kNoAddress : in_.memory.residence_offsets[r];
  }

  void EmitOperation(int32_t i, LaneCounts& needed) {
    Operation& operation = in_.device.operations[i];
    if (operation.is_fetch) return EmitFetch(i, needed);
    Raise(needed, compute_waits_);
    if (in_.finish_copies_first && access_.partition[i] != partition_) {
      for (int lane : {kToHostLane, kToDeviceLane}) needed[lane] = std::max(needed[lane], plan_.lanes[lane].num_steps());
    }
    partition_ = access_.partition[i];
    // Nodes that run at once wait together, and are done together.
    const int64_t count = plan_.lanes[kComputeLane].num_steps() + static_cast<int64_t>(operation.nodes.size());
    for (int64_t k = access_.first_access[i]; k < access_.first_access[i + 1]; ++k) {
      const Access& access = access_.accesses[k];
      Touch(in_.schedule.residence_of[k], kComputeLane, count, access.reads, access.writes, needed);
    }
    if (access_.scratch_bytes[i] > 0) {
      const int64_t offset = in_.memory.scratch_offsets[i];
      Raise(needed, owners_.Claim(offset, access_.scratch_bytes[i]));
      LaneCounts mine{};
      mine[kComputeLane] = count;
      owners_.Release(offset, access_.scratch_bytes[i], mine);
    }
    const std::vector<Wait> waits = WaitsFor(kComputeLane, needed);
    int64_t scratch_offset = in_.memory.scratch_offsets[i];
    for (OperationNode& node : operation.nodes) {
      AddComputeStep(i, node, scratch_offset, waits);
      scratch_offset += node.scratch_bytes;
    }
  }

  void AddComputeStep(int32_t i, OperationNode& operation, int64_t scratch_offset, std::vector<Wait> waits) {
    const Node& node = in_.graph.node(operation.node);
    const OpDef& def = *in_.ops.Find(node.op);
    ComputeStep step;
    step.instance = static_cast<int32_t>(plan_.instances.size());
    step.partition = node.partition;
    step.group = i;
    step.position = next_position_++;
    step.scratch_bytes = operation.scratch_bytes;
    step.scratch_offset = operation.scratch_bytes > 0 ? scratch_offset : 0;
    step.state_bytes = def.state_bytes;
    step.predicted_seconds = operation.seconds;
    FillAddresses(i, operation, def, step);
    FillVariables(operation.node, def, step);
    if (operation.is_dynamic) {
      step.input_shapes = operation.input_shapes;
      step.output_shapes = operation.output_shapes;
      step.run_time_values = node.run_time_values;
      step.is_view = operation.is_view;
    }
    step.waits = std::move(waits);
    plan_.instances.push_back(std::move(operation.instance));
    plan_.lanes[kComputeLane].compute.push_back(std::move(step));
  }

  // Storages of the node's tensors as they were before copies were wired in.
  void FillAddresses(int32_t i, const OperationNode& operation, const OpDef& def, ComputeStep& step) const {
    const auto add = [&](int32_t storage, std::vector<int64_t>& offsets, std::vector<int32_t>& owners) {
      offsets.push_back(AddressOf(i, storage));
      owners.push_back(offsets.back() == kNoAddress ? -1 : storage);
    };
    for (int32_t storage : operation.input_storages) add(storage, step.inputs, step.input_owners);
    const Node& node = in_.graph.node(operation.node);
    for (int32_t o = 0; o < static_cast<int32_t>(node.outputs.size()); ++o) {
      add(in_.device.storage({operation.node, o}), step.outputs, step.output_owners);
    }
    if (def.returns_variable && !step.outputs.empty() && !step.inputs.empty()) {
      step.outputs[0] = step.inputs[0];
      step.output_owners[0] = step.input_owners[0];
    }
  }

  void FillVariables(NodeId id, const OpDef& def, ComputeStep& step) const {
    if (def.variables.empty()) return;
    const Node& node = in_.graph.node(id);
    step.input_variables.assign(node.inputs.size(), -1);
    for (const VariableUse& use : def.variables) {
      if (use.input >= static_cast<int>(node.inputs.size())) continue;
      const int32_t variable = VariableIndex(node.inputs[use.input]);
      step.input_variables[use.input] = variable;
      const bool writes = use.access == VariableAccess::kWrite || use.access == VariableAccess::kReadWrite;
      if (variable >= 0 && writes) step.writes_variables.push_back(variable);
      if (use.access == VariableAccess::kWrite) step.overwrites_variables = true;
    }
  }

  int32_t VariableIndex(OutputRef ref) const {
    // A SwapIn stands for the variable whose home it copies.
    while (in_.graph.node(ref.node).op == "SwapIn" || in_.graph.node(ref.node).op == "SwapOut") {
      ref = in_.graph.node(ref.node).inputs[0];
    }
    const NodeId variable = VariableOf(in_.graph, in_.ops, ref);
    return variable.valid() ? variable_index_.at(VariableName(in_.graph.node(variable))) : -1;
  }

  void EmitFetch(int32_t i, LaneCounts& needed) {
    const Operation& operation = in_.device.operations[i];
    const Node& node = in_.graph.node(operation.node());
    const int32_t index = static_cast<int32_t>(node.attrs.GetOr<int64_t>("index", 0));
    if (access_.of(i).empty() || !plan_.fetches[index].value.empty()) return;
    const int32_t r = in_.schedule.residence_of[access_.first_access[i]];
    const std::vector<int32_t>& shapes = operation.nodes.front().input_shapes;
    if (!shapes.empty()) plan_.fetches[index].shape = shapes[0];
    CopyStep step;
    step.tensor = plan_.fetches[index].name;
    step.reason = "fetched";
    step.bytes = plan_.fetches[index].type.size_bytes();
    step.host = {HostRef::Kind::kFetch, index, 0};
    step.name = node.name;
    step.partition = node.partition;
    AddCopy(kToHostLane, r, std::move(step), needed);
  }

  void AddCopy(int lane, int32_t r, CopyStep step, LaneCounts& needed) {
    const bool to_device = lane == kToDeviceLane;
    const int64_t count = plan_.lanes[lane].num_steps() + 1;
    Touch(r, lane, count, !to_device, to_device, needed);
    step.position = next_position_++;
    step.device_offset = in_.memory.residence_offsets[r];
    step.waits = WaitsFor(lane, needed);
    const double rate = to_device ? in_.machine.to_device_bytes_per_second : in_.machine.to_host_bytes_per_second;
    step.predicted_seconds = in_.machine.copy_latency_seconds + static_cast<double>(step.bytes) / rate;
    (to_device ? plan_.bytes_to_device : plan_.bytes_to_host) += step.bytes;
    plan_.lanes[lane].copies.push_back(std::move(step));
  }

  CopyStep SwapStep(NodeId id, const SwapDecision& d) const {
    const Node& node = in_.graph.node(id);
    CopyStep step;
    step.name = node.name;
    step.tensor = access_.storages[d.storage].name;
    step.reason = d.reason;
    step.bytes = access_.storages[d.storage].size_bytes;
    step.partition = node.partition;
    return step;
  }

  // Host side of the copies of decision k.
  HostRef HostSide(int32_t k, const SwapDecision& d) const {
    switch (KindOf(d.storage)) {
      case StorageKind::kVariable: return {HostRef::Kind::kVariable, variable_of_storage_[d.storage], 0};
      case StorageKind::kConstant: return {HostRef::Kind::kConstant, constant_of_storage_[d.storage], 0};
      case StorageKind::kFeed: {
        const Node& feed = in_.graph.node(in_.device.root[d.storage].node);
        return {HostRef::Kind::kFeed, feed_index_.at(feed.attrs.GetOr<std::string>("tensor", "")), 0};
      }
      case StorageKind::kActivation: break;
    }
    return {HostRef::Kind::kPool, 0, host_slot_offset_[host_slot_[k]]};
  }

  void EmitCopyOut(int64_t p, const ScheduleItem& item, LaneCounts& needed) {
    const SwapDecision& d = in_.choice.decisions[item.index];
    CopyStep step = SwapStep(in_.swaps.swap_out[item.index], d);
    step.host = HostSide(item.index, d);
    const int64_t count = plan_.lanes[kToHostLane].num_steps() + 1;
    if (step.host.kind == HostRef::Kind::kVariable) {
      step.writes_variable = step.host.index;
      home_written_[step.host.index] = count;
      Raise(needed, home_read_[step.host.index]);
    } else {
      const int32_t slot = host_slot_[item.index];
      Raise(needed, host_owners_.Claim(host_slot_offset_[slot], AlignUp(step.bytes)));
      host_written_[slot] = count;
      host_read_[slot][kToHostLane] = count;
      if (host_slot_last_[slot] == p) host_owners_.Release(host_slot_offset_[slot], AlignUp(step.bytes), host_read_[slot]);
    }
    ++plan_.counts.swap_outs;
    if (d.wait_out) compute_waits_[kToHostLane] = count;
    AddCopy(kToHostLane, item.residence, std::move(step), needed);
  }

  void EmitCopyIn(int64_t p, const ScheduleItem& item, LaneCounts& needed) {
    const SwapDecision& d = in_.choice.decisions[item.index];
    CopyStep step = SwapStep(in_.swaps.swap_in[item.index], d);
    step.host = HostSide(item.index, d);
    const int64_t count = plan_.lanes[kToDeviceLane].num_steps() + 1;
    if (d.anchor > 0) needed[kComputeLane] = std::max(needed[kComputeLane], plan_.lanes[kComputeLane].num_steps());
    if (step.host.kind == HostRef::Kind::kVariable) {
      needed[kToHostLane] = std::max(needed[kToHostLane], home_written_[step.host.index]);
      home_read_[step.host.index][kToDeviceLane] = count;
    } else if (step.host.kind == HostRef::Kind::kPool) {
      const int32_t slot = host_slot_[item.index];
      needed[kToHostLane] = std::max(needed[kToHostLane], host_written_[slot]);
      host_read_[slot][kToDeviceLane] = count;
      if (host_slot_last_[slot] == p) host_owners_.Release(host_slot_offset_[slot], AlignUp(step.bytes), host_read_[slot]);
    }
    if (step.host.kind != HostRef::Kind::kFeed) ++plan_.counts.swap_ins;
    AddCopy(kToDeviceLane, item.residence, std::move(step), needed);
  }

  void ListResidences() {
    using Kind = Residence::Kind;
    for (size_t r = 0; r < in_.schedule.residences.size(); ++r) {
      const Stay& stay = in_.schedule.residences[r];
      const StorageInfo& info = access_.storages[stay.storage];
      const Kind kind = info.kind == StorageKind::kVariable   ? Kind::kVariable
                        : info.kind == StorageKind::kConstant ? Kind::kConstant
                        : info.kind == StorageKind::kFeed     ? Kind::kFeed
                                                              : Kind::kActivation;
      const std::string reason = stay.decision >= 0 ? in_.choice.decisions[stay.decision].reason
                                 : stay.resident    ? "stays on the device"
                                                    : "made here";
      plan_.residences.push_back({info.name, kind, 0, AlignUp(info.size_bytes), in_.memory.residence_offsets[r],
                                  first_position_[stay.first], last_position_[stay.last], reason});
    }
    for (const ComputeStep& step : plan_.lanes[kComputeLane].compute) {
      if (step.scratch_bytes == 0) continue;
      plan_.residences.push_back({plan_.instances[step.instance].name + " scratch", Kind::kScratch, 0,
                                  step.scratch_bytes, step.scratch_offset, step.position, step.position,
                                  "scratch of the kernel"});
    }
    std::stable_sort(plan_.residences.begin(), plan_.residences.end(),
                     [](const Residence& a, const Residence& b) { return a.first < b.first; });
  }

  void Summarize() {
    PlanDevice device;
    device.arena_bytes = in_.memory.arena_bytes;
    device.peak_live_bytes = in_.memory.peak_bytes;
    int32_t last_partition = -1;
    for (int32_t partition : access_.partition) last_partition = std::max(last_partition, partition);
    device.num_partitions = last_partition + 1;
    plan_.devices.push_back(std::move(device));
    plan_.counts.nodes = in_.graph.num_nodes() - plan_.counts.swap_ins - plan_.counts.swap_outs;
    plan_.host_bytes = plan_.host_pool_bytes;
    for (const PlanVariable& variable : plan_.variables) plan_.host_bytes += AlignUp(variable.type.size_bytes());
    for (const PlanConstant& constant : plan_.constants) plan_.host_bytes += AlignUp(constant.value.size_bytes());
    for (const ComputeStep& step : plan_.lanes[kComputeLane].compute) {
      plan_.predicted_compute_seconds += step.predicted_seconds;
    }
  }

  PlanInputs in_;
  const AccessGraph& access_;
  ExecutionPlan plan_;
  std::map<std::string, int32_t> feed_index_;
  std::map<std::string, int32_t> variable_index_;
  std::vector<int32_t> variable_of_storage_, constant_of_storage_;
  std::vector<int32_t> host_slot_;         // per decision, into the vectors below; -1 for none
  std::vector<int64_t> host_slot_offset_, host_slot_last_, host_written_;
  std::vector<LaneCounts> host_read_;
  std::map<int32_t, int64_t> home_written_;   // per variable: to-host steps that wrote its home
  std::map<int32_t, LaneCounts> home_read_;
  std::vector<std::vector<int32_t>> begins_, ends_;
  int64_t next_position_ = 0;
  std::vector<int64_t> first_position_, last_position_;  // of the plan, per item of the schedule
  std::vector<Progress> progress_;
  OwnerMap owners_, host_owners_;
  std::array<LaneCounts, kNumLanes> reached_{};
  LaneCounts compute_waits_{};  // what every compute step from here on waits for
  int32_t partition_ = -1;      // of the last operation
};

}  // namespace

ExecutionPlan BuildPlan(PlanInputs inputs) { return PlanBuilder(inputs).Run(); }

}  // namespace millrace
