#include "passes/emit/device_lanes.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

#include "glog/logging.h"
#include "millrace/types.h"
#include "passes/access/radix_sort.h"
#include "passes/devices/add_send_recv.h"
#include "passes/rewrite/order_variable_accesses.h"
#include "passes/shapes/infer_shapes.h"
#include "passes/shapes/parts.h"

namespace millrace {
namespace {

// How many of the lane's steps so far belong to partitions before this one.
int64_t CopiesBefore(const Lane& lane, int32_t partition) {
  int64_t count = lane.num_steps();
  while (count > 0 && lane.copies[count - 1].partition >= partition) --count;
  return count;
}

}  // namespace

DeviceLanes::DeviceLanes(const PlanInputs& inputs, int32_t device, PlanUnderWay& shared)
    : in_(inputs),
      my_(inputs.devices[device]),
      access_(my_.device.access),
      shared_(shared),
      device_(device),
      first_lane_(device * kNumLanes),
      progress_(my_.schedule.residences.size()),
      needed_(inputs.devices.size() * kNumLanes, 0) {
  for (std::vector<int64_t>& reached : reached_) reached.assign(needed_.size(), 0);
  first_position_.reserve(my_.schedule.items.size());
  last_position_.reserve(my_.schedule.items.size());
  variable_of_storage_.assign(access_.storages.size(), -1);
  last_access_.assign(access_.storages.size(), -1);
  for (size_t s = 0; s < access_.storages.size(); ++s) {
    if (KindOf(static_cast<int32_t>(s)) != StorageKind::kVariable) continue;
    variable_of_storage_[s] = shared_.variable_index.at(access_.names[s]);
  }
  ListBoundaries();
}

bool DeviceLanes::IsReceived(int32_t storage) const {
  return KindOf(storage) == StorageKind::kFeed && RootOf(storage).op == kRecvOp;
}

void DeviceLanes::ListResidents() {
  constant_of_storage_.assign(access_.storages.size(), -1);
  std::vector<bool> used(access_.storages.size(), false);
  for (const Access& access : access_.accesses) used[access.storage] = true;
  std::vector<PlanConstant>& constants = shared_.plan.constants;
  for (size_t s = 0; s < access_.storages.size(); ++s) {
    if (KindOf(static_cast<int32_t>(s)) != StorageKind::kConstant || !used[s]) continue;
    constant_of_storage_[s] = static_cast<int32_t>(constants.size());
    const Node& node = RootOf(static_cast<int32_t>(s));
    constants.push_back({node.name, node.attrs.GetOr<Tensor>("value", Tensor()), device_, kNoAddress});
  }
  for (size_t r = 0; r < my_.schedule.residences.size(); ++r) {
    const Stay& stay = my_.schedule.residences[r];
    if (!stay.resident) continue;
    const int64_t offset = my_.memory.residence_offsets[r];
    if (constant_of_storage_[stay.storage] >= 0) {
      constants[constant_of_storage_[stay.storage]].resident_offset = offset;
    } else {
      shared_.plan.variables[variable_of_storage_[stay.storage]].resident_offset = offset;
    }
  }
  for (int32_t variable : variable_of_storage_) {
    if (variable >= 0) shared_.plan.variables[variable].device = device_;
  }
}

void DeviceLanes::AddSlots(const std::vector<int64_t>& position) {
  const std::vector<SwapDecision>& decisions = my_.choice.decisions;
  slot_.assign(decisions.size(), -1);
  std::vector<int64_t> item_in(decisions.size(), -1), item_out(decisions.size(), -1);
  for (size_t p = 0; p < my_.schedule.items.size(); ++p) {
    const ScheduleItem& item = my_.schedule.items[p];
    if (item.kind == ScheduleItem::Kind::kCopyIn) item_in[item.index] = static_cast<int64_t>(p);
    if (item.kind == ScheduleItem::Kind::kCopyOut) item_out[item.index] = static_cast<int64_t>(p);
    if (item.kind != ScheduleItem::Kind::kOperation) continue;
    const NodeId node = my_.device.operations[item.index].node();
    if (in_.graph.node(node).op != kSendOp) continue;
    shared_.slot_of_send[node.value] =
        shared_.pool.AddSlot(in_.graph.node(node).outputs[0].size_bytes(), position[p], TimesOf(p));
  }
  for (size_t k = 0; k < decisions.size(); ++k) {
    const SwapDecision& d = decisions[k];
    if (KindOf(d.storage) != StorageKind::kActivation) continue;
    if (d.copy_out) {
      slot_[k] = shared_.pool.AddSlot(access_.storages[d.storage].size_bytes, position[item_out[k]], TimesOf(item_out[k]));
    } else if (d.sent >= 0) {
      slot_[k] = shared_.slot_of_send.at(my_.device.operations[d.sent].node().value);
    } else if (k > 0 && decisions[k - 1].storage == d.storage) {
      slot_[k] = slot_[k - 1];
    }
    if (item_in[k] >= 0 && slot_[k] >= 0) shared_.pool.ExtendSlot(slot_[k], position[item_in[k]], TimesOf(item_in[k]));
  }
}

void DeviceLanes::ExtendSentSlots(const std::vector<int64_t>& position) {
  const std::vector<SwapDecision>& decisions = my_.choice.decisions;
  for (size_t k = 0; k < decisions.size(); ++k) {
    if (IsReceived(decisions[k].storage)) {
      slot_[k] = shared_.slot_of_send.at(RootOf(decisions[k].storage).inputs[0].node.value);
    }
  }
  for (size_t p = 0; p < my_.schedule.items.size(); ++p) {
    const ScheduleItem& item = my_.schedule.items[p];
    if (item.kind != ScheduleItem::Kind::kCopyIn || !IsReceived(decisions[item.index].storage)) continue;
    shared_.pool.ExtendSlot(slot_[item.index], position[p], TimesOf(static_cast<int64_t>(p)));
  }
}

void DeviceLanes::ListBoundaries() {
  const std::vector<Stay>& stays = my_.schedule.residences;
  const auto list = [&](ByItem& by_item, auto&& item_of) {  // -1: none
    by_item.begin.assign(my_.schedule.items.size() + 1, 0);
    for (const Stay& stay : stays) {
      if (item_of(stay) >= 0) ++by_item.begin[item_of(stay) + 1];
    }
    std::partial_sum(by_item.begin.begin(), by_item.begin.end(), by_item.begin.begin());
    by_item.indices.resize(by_item.begin.back());
    std::vector<int32_t> next(by_item.begin.begin(), by_item.begin.end() - 1);
    for (size_t r = 0; r < stays.size(); ++r) {
      if (item_of(stays[r]) >= 0) by_item.indices[next[item_of(stays[r])]++] = static_cast<int32_t>(r);
    }
  };
  list(begins_, [](const Stay& stay) { return stay.resident ? int64_t{-1} : stay.first; });
  list(ends_, [](const Stay& stay) { return stay.last; });
  bytes_.reserve(stays.size());
  for (const Stay& stay : stays) bytes_.push_back(access_.aligned_bytes(stay.storage));
}

int32_t DeviceLanes::NextInstance() {
  const auto next = static_cast<int32_t>(next_instance_++);
  if (shared_.has_instances) return next;
  shared_.plan.instances.push_back(std::move(my_.device.instances[next]));
  return static_cast<int32_t>(shared_.plan.instances.size()) - 1;
}

void DeviceLanes::Need(int kind, int64_t count) {
  needed_[first_lane_ + kind] = std::max(needed_[first_lane_ + kind], count);
}

void DeviceLanes::Need(const LaneCounts& counts) {
  for (int kind = 0; kind < kNumLanes; ++kind) Need(kind, counts[kind]);
}

// Waits for the room of what begins with this item.
void DeviceLanes::ClaimRoom(int64_t item) {
  for (int32_t r : begins_.of(item)) Need(owners_.Claim(my_.memory.residence_offsets[r], bytes_[r]));
}

void DeviceLanes::ReleaseRoom(int64_t item) {
  for (int32_t r : ends_.of(item)) owners_.Release(my_.memory.residence_offsets[r], bytes_[r], progress_[r].touched);
}

// An item takes as many positions of the plan as it has steps.
void DeviceLanes::Emit(int64_t position) {
  const ScheduleItem& item = my_.schedule.items[next_item_];
  first_position_.push_back(shared_.next_position);
  needed_.assign(needed_.size(), 0);
  ClaimRoom(next_item_);
  switch (item.kind) {
    case ScheduleItem::Kind::kOperation: EmitOperation(item.index, position); break;
    case ScheduleItem::Kind::kCopyOut: EmitCopyOut(position, item); break;
    case ScheduleItem::Kind::kCopyIn: EmitCopyIn(position, item); break;
  }
  ReleaseRoom(next_item_);
  last_position_.push_back(std::max(first_position_.back(), shared_.next_position - 1));
  ++next_item_;
}

// The step number `count` of a lane touches residence r; what it must wait for becomes needed.
void DeviceLanes::Touch(int32_t r, int kind, int64_t count, bool reads, bool writes) {
  Progress& progress = progress_[r];
  if (progress.written_lane >= 0) Need(progress.written_lane, progress.written_count);
  if (writes) {
    Need(progress.read);
    progress.read = LaneCounts{};
    progress.written_lane = kind;
    progress.written_count = static_cast<int32_t>(count);
  }
  if (reads) progress.read[kind] = static_cast<int32_t>(count);
  progress.touched[kind] = static_cast<int32_t>(count);
}

// What is needed as waits of the next step of a lane, without those that the lane has already made.
StepWaits DeviceLanes::WaitsFor(int kind) {
  StepWaits waits;
  const int32_t own = first_lane_ + kind;
  for (int32_t other = 0; other < static_cast<int32_t>(needed_.size()); ++other) {
    if (other == own || needed_[other] <= reached_[kind][other]) continue;
    reached_[kind][other] = needed_[other];
    waits.push_back({other, needed_[other]});
  }
  return waits;
}

int64_t DeviceLanes::AddressOf(int32_t operation, int32_t storage) const {
  if (storage == kNoStorage || last_access_[storage] < access_.first_access[operation]) return kNoAddress;
  CHECK_LT(last_access_[storage], access_.first_access[operation + 1]) << "operations are emitted in their order";
  return my_.memory.residence_offsets[my_.schedule.residence_of[last_access_[storage]]];
}

void DeviceLanes::EmitOperation(int32_t i, int64_t position) {
  for (const RemoteWait& wait : my_.remote_waits.of(i)) {
    int64_t& needed = needed_[wait.device * kNumLanes + kComputeLane];
    needed = std::max(needed, shared_.compute_count[wait.device][wait.operation]);
  }
  DeviceOperation& operation = my_.device.operations[i];
  if (operation.is_fetch) {
    if (in_.graph.node(operation.node()).op == kSendOp) {
      EmitSend(i, position);
    } else {
      EmitFetch(i);
    }
    return shared_.compute_count[device_].push_back(LaneOf(kComputeLane).num_steps());
  }
  Need(compute_waits_);
  if (in_.finish_copies_first && access_.partition[i] != partition_) {
    for (int kind : {kToHostLane, kToDeviceLane}) Need(kind, CopiesBefore(LaneOf(kind), access_.partition[i]));
  }
  partition_ = access_.partition[i];
  // Nodes that run at once wait together, and are done together.
  const int64_t count = LaneOf(kComputeLane).num_steps() + static_cast<int64_t>(operation.nodes.size());
  for (int64_t k = access_.first_access[i]; k < access_.first_access[i + 1]; ++k) {
    const Access& access = access_.accesses[k];
    Touch(my_.schedule.residence_of[k], kComputeLane, count, access.reads, access.writes);
    last_access_[access.storage] = k;
  }
  if (access_.scratch_bytes[i] > 0) {
    const int64_t offset = my_.memory.scratch_offsets[i];
    Need(owners_.Claim(offset, access_.scratch_bytes[i]));
    LaneCounts mine{};
    mine[kComputeLane] = static_cast<int32_t>(count);
    owners_.Release(offset, access_.scratch_bytes[i], mine);
  }
  StepWaits waits = WaitsFor(kComputeLane);
  int64_t scratch_offset = my_.memory.scratch_offsets[i];
  for (size_t k = 0; k < operation.nodes.size(); ++k) {
    AddComputeStep(i, operation.nodes[k], scratch_offset, k + 1 < operation.nodes.size() ? waits : std::move(waits));
    scratch_offset += operation.nodes[k].scratch_bytes;
  }
  shared_.compute_count[device_].push_back(count);
}

void DeviceLanes::AddComputeStep(int32_t i, OperationNode& operation, int64_t scratch_offset, StepWaits waits) {
  const Node& node = in_.graph.node(operation.node);
  const OpDef& def = *operation.def;
  ComputeStep& step = LaneOf(kComputeLane).compute.emplace_back();
  step.instance = NextInstance();
  step.partition = node.partition;
  step.group = i;
  step.position = shared_.next_position++;
  step.scratch_bytes = operation.scratch_bytes;
  step.scratch_offset = operation.scratch_bytes > 0 ? scratch_offset : 0;
  step.state_bytes = def.state_bytes;
  step.predicted_seconds = operation.seconds;
  FillAddresses(i, operation, def, step);
  FillVariables(operation.node, def, step);
  if (operation.is_dynamic()) {
    const DynamicNode& dynamic = my_.device.dynamic_nodes[operation.dynamic];
    step.input_shapes.assign(dynamic.input_shapes.begin(), dynamic.input_shapes.end());
    step.output_shapes.assign(dynamic.output_shapes.begin(), dynamic.output_shapes.end());
    step.run_time_values = node.run_time_values;
    step.is_view = operation.is_view;
  }
  step.waits = std::move(waits);
}

// Storages of the node's tensors as they were before copies were wired in.
void DeviceLanes::FillAddresses(int32_t i, const OperationNode& operation, const OpDef& def, ComputeStep& step) const {
  const auto add = [&](int32_t storage, StepOffsets& offsets, StepIndices& owners) {
    offsets.push_back(AddressOf(i, storage));
    owners.push_back(offsets.back() == kNoAddress ? -1 : owner_of_storage_[storage]);
  };
  const Node& node = in_.graph.node(operation.node);
  const std::optional<Part> part = shared_.has_parts ? PartOf(node) : std::nullopt;
  step.inputs.reserve(operation.input_storages.size());
  step.input_owners.reserve(operation.input_storages.size());
  step.outputs.reserve(node.outputs.size());
  step.output_owners.reserve(node.outputs.size());
  for (size_t k = 0; k < operation.input_storages.size(); ++k) {
    add(operation.input_storages[k], step.inputs, step.input_owners);
    if (!part) continue;
    const TensorType& type = in_.graph.type(node.inputs[k]);
    if (TakesPartOf(*part, type)) step.inputs.back() += part->begin * DataTypeSize(type.dtype);
  }
  for (int32_t o = 0; o < static_cast<int32_t>(node.outputs.size()); ++o) {
    add(my_.device.storage({operation.node, o}), step.outputs, step.output_owners);
  }
  if (def.returns_variable && !step.outputs.empty() && !step.inputs.empty()) {
    step.outputs[0] = step.inputs[0];
    step.output_owners[0] = step.input_owners[0];
  }
}

void DeviceLanes::FillVariables(NodeId id, const OpDef& def, ComputeStep& step) const {
  if (def.variables.empty()) return;
  const Node& node = in_.graph.node(id);
  std::vector<int32_t> variables(node.inputs.size(), -1);
  for (const VariableUse& use : def.variables) {
    if (use.input >= static_cast<int>(node.inputs.size())) continue;
    const int32_t variable = VariableIndex(node.inputs[use.input]);
    variables[use.input] = variable;
    if (variable >= 0 && use.writes()) {
      step.writes_variables.push_back(variable);
      shared_.plan.variables[variable].written = true;  // also one without elements, which no access shows
    }
    if (use.access == VariableAccess::kWrite) step.overwrites_variables = true;
  }
  step.input_variables.assign(variables.begin(), variables.end());
}

int32_t DeviceLanes::VariableIndex(OutputRef ref) const {
  // A SwapIn stands for the variable whose home it copies.
  while (in_.graph.node(ref.node).op == "SwapIn" || in_.graph.node(ref.node).op == "SwapOut") {
    ref = in_.graph.node(ref.node).inputs[0];
  }
  const NodeId variable = VariableOf(in_.graph, in_.ops, ref);
  return variable.valid() ? shared_.variable_of_node[variable.value] : -1;
}

void DeviceLanes::EmitFetch(int32_t i) {
  const Node& node = in_.graph.node(my_.device.operations[i].node());
  const int32_t index = static_cast<int32_t>(node.attrs.GetOr<int64_t>("index", 0));
  PlanFetch& fetch = shared_.plan.fetches[index];
  if (!fetch.value.empty()) return;
  const int32_t dynamic = my_.device.operations[i].nodes.front().dynamic;
  if (dynamic >= 0) fetch.shape = my_.device.dynamic_nodes[dynamic].input_shapes[0];
  if (access_.of(i).empty()) return;  // it has no bytes, whatever its shape is
  const int32_t r = my_.schedule.residence_of[access_.first_access[i]];
  CopyStep step;
  step.tensor = fetch.name;
  step.reason = "fetched";
  step.bytes = fetch.type.size_bytes();
  step.host = {HostRef::Kind::kFetch, index, 0};
  step.name = node.name;
  step.partition = node.partition;
  AddCopy(kToHostLane, r, std::move(step));
}

void DeviceLanes::EmitSend(int32_t i, int64_t position) {
  const NodeId id = my_.device.operations[i].node();
  const Node& node = in_.graph.node(id);
  const int64_t k = access_.first_access[i];
  const int32_t slot = shared_.slot_of_send.at(id.value);
  CopyStep step;
  step.tensor = NameOf(access_.accesses[k].storage);
  step.reason = node.reason;
  step.bytes = node.outputs[0].size_bytes();
  step.host = {HostRef::Kind::kPool, 0, shared_.pool.offset(slot)};
  // A shape known only when running may be made after the bytes, by a view.
  if (node.dynamic_outputs != 0) Need(kComputeLane, LaneOf(kComputeLane).num_steps());
  step.name = node.name;
  step.partition = node.partition;
  shared_.pool.Write(slot, first_lane_ + kToHostLane, LaneOf(kToHostLane).num_steps() + 1, position, needed_);
  ++shared_.plan.counts.sends;
  AddCopy(kToHostLane, my_.schedule.residence_of[k], std::move(step));
}

void DeviceLanes::AddCopy(int kind, int32_t r, CopyStep step) {
  const bool to_device = kind == kToDeviceLane;
  const int64_t count = LaneOf(kind).num_steps() + 1;
  Touch(r, kind, count, !to_device, to_device);
  step.position = shared_.next_position++;
  step.device_offset = my_.memory.residence_offsets[r];
  step.waits = WaitsFor(kind);
  const double rate = to_device ? in_.machine.to_device_bytes_per_second : in_.machine.to_host_bytes_per_second;
  step.predicted_seconds = in_.machine.copy_latency_seconds + static_cast<double>(step.bytes) / rate;
  (to_device ? shared_.plan.bytes_to_device : shared_.plan.bytes_to_host) += step.bytes;
  LaneOf(kind).copies.push_back(std::move(step));
}

CopyStep DeviceLanes::SwapStep(NodeId id, const SwapDecision& d) const {
  const Node& node = in_.graph.node(id);
  CopyStep step;
  step.name = node.name;
  step.tensor = NameOf(d.storage);
  step.reason = node.op == kRecvOp ? node.reason : d.reason;
  step.bytes = access_.storages[d.storage].size_bytes;
  step.partition = node.partition;
  return step;
}

// Host side of the copies of decision k.
HostRef DeviceLanes::HostSide(int32_t k, const SwapDecision& d) const {
  switch (KindOf(d.storage)) {
    case StorageKind::kVariable: return {HostRef::Kind::kVariable, variable_of_storage_[d.storage], 0};
    case StorageKind::kConstant: return {HostRef::Kind::kConstant, constant_of_storage_[d.storage], 0};
    case StorageKind::kFeed:
      if (IsReceived(d.storage)) break;
      return {HostRef::Kind::kFeed, shared_.feed_index.at(RootOf(d.storage).attrs.GetOr<std::string>("tensor", "")), 0};
    case StorageKind::kActivation: break;
  }
  return {HostRef::Kind::kPool, 0, shared_.pool.offset(slot_[k])};
}

void DeviceLanes::EmitCopyOut(int64_t position, const ScheduleItem& item) {
  const SwapDecision& d = my_.choice.decisions[item.index];
  CopyStep step = SwapStep(my_.swaps.swap_out[item.index], d);
  step.host = HostSide(item.index, d);
  const int64_t count = LaneOf(kToHostLane).num_steps() + 1;
  if (step.host.kind == HostRef::Kind::kVariable) {
    step.writes_variable = step.host.index;
    home_written_[step.host.index] = count;
    Need(home_read_[step.host.index]);
  } else {
    shared_.pool.Write(slot_[item.index], first_lane_ + kToHostLane, count, position, needed_);
  }
  ++shared_.plan.counts.swap_outs;
  if (d.wait_out) compute_waits_[kToHostLane] = static_cast<int32_t>(count);
  AddCopy(kToHostLane, item.residence, std::move(step));
}

void DeviceLanes::EmitCopyIn(int64_t position, const ScheduleItem& item) {
  const SwapDecision& d = my_.choice.decisions[item.index];
  const NodeId id = my_.swaps.swap_in[item.index];
  CopyStep step = SwapStep(id, d);
  step.host = HostSide(item.index, d);
  const int64_t count = LaneOf(kToDeviceLane).num_steps() + 1;
  if (d.anchor > 0) Need(kComputeLane, LaneOf(kComputeLane).num_steps());
  if (step.host.kind == HostRef::Kind::kVariable) {
    Need(kToHostLane, home_written_[step.host.index]);
    home_read_[step.host.index][kToDeviceLane] = static_cast<int32_t>(count);
  } else if (step.host.kind == HostRef::Kind::kPool) {
    shared_.pool.Read(slot_[item.index], first_lane_ + kToDeviceLane, count, position, needed_);
  }
  if (in_.graph.node(id).op == kRecvOp) {
    ++shared_.plan.counts.recvs;
  } else if (step.host.kind != HostRef::Kind::kFeed) {
    ++shared_.plan.counts.swap_ins;
  }
  AddCopy(kToDeviceLane, item.residence, std::move(step));
}

void DeviceLanes::ForgetEmitted() {
  const auto forget = [](auto&... lists) { (std::exchange(lists, {}), ...); };
  forget(begins_, ends_, bytes_, progress_, owners_, slot_, last_access_, my_.device.operations, my_.device.storage_of, my_.device.first_output,
         my_.schedule.residence_of, my_.schedule.position_of_operation);
}

void DeviceLanes::ListResidences() {
  using Kind = Residence::Kind;
  const std::vector<Stay>& stays = my_.schedule.residences;
  const std::vector<ComputeStep>& steps = LaneOf(kComputeLane).compute;
  // By their first position; scratch (behind the stays here) after what is there.
  const auto first_position = [&](int32_t r) {
    if (static_cast<size_t>(r) < stays.size()) return first_position_[stays[r].first];
    const ComputeStep& step = steps[r - stays.size()];
    return step.scratch_bytes > 0 ? step.position : -1;
  };
  const std::vector<int32_t> order =
      OrderByCounting(static_cast<int32_t>(stays.size() + steps.size()), shared_.next_position + 1, first_position);
  std::vector<Residence>& residences = shared_.plan.residences;
  residences.reserve(residences.size() + order.size());
  for (const int32_t next : order) {
    const size_t r = static_cast<size_t>(next);
    if (r >= stays.size()) {
      const ComputeStep& step = steps[r - stays.size()];
      residences.push_back({shared_.plan.instances[step.instance].name + " scratch", Kind::kScratch, device_,
                            step.scratch_bytes, step.scratch_offset, step.position, step.position,
                            "scratch of the kernel"});
      continue;
    }
    const Stay& stay = stays[r];
    const StorageInfo& info = access_.storages[stay.storage];
    const Kind kind = info.kind == StorageKind::kVariable   ? Kind::kVariable
                      : info.kind == StorageKind::kConstant ? Kind::kConstant
                      : info.kind == StorageKind::kFeed && !IsReceived(stay.storage) ? Kind::kFeed
                                                                                     : Kind::kActivation;
    const bool leaves = stay.last + 1 < static_cast<int64_t>(my_.schedule.items.size());
    residences.push_back({NameOf(stay.storage), kind, device_, access_.aligned_bytes(stay.storage), my_.memory.residence_offsets[r],
                          first_position_[stay.first], last_position_[stay.last],
                          stay.decision >= 0 ? std::move(my_.choice.decisions[stay.decision].reason)  // told for the last time
                          : stay.resident && leaves ? "on the device since the last step, leaves in this one"
                          : stay.resident           ? "stays on the device"
                          : kind == Kind::kActivation && !IsReceived(stay.storage) && !RootOf(stay.storage).reason.empty()
                              ? RootOf(stay.storage).reason  // computed again
                              : "made here"});
  }
}

}  // namespace millrace
