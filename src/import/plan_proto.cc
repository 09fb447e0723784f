#include "import/plan_proto.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "graph/one_line.h"
#include "import/tensor_proto.h"
#include "millrace/status.h"

namespace millrace {
namespace {

// ---- To the message

void TypeToProto(const TensorType& type, proto::PlanType* message) {
  message->set_dtype(static_cast<proto::DataType>(type.dtype));
  ShapeToProto(type.shape, message->mutable_shape());
}

void WaitsToProto(const StepWaits& waits, google::protobuf::RepeatedPtrField<proto::PlanWait>* messages) {
  for (const Wait& wait : waits) {
    proto::PlanWait* message = messages->Add();
    message->set_lane(wait.lane);
    message->set_count(wait.count);
  }
}

// A message is the same after a way through text when it has the one NaN of text; the bits of others are kept beside it.
void KeepBitsOfNans(proto::PlanInstance* message) {
  const auto is_nan = [](float value) { return std::isnan(value); };
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  for (proto::AttrEntry& attr : *message->mutable_attrs()) {
    proto::AttrValue& value = *attr.mutable_value();
    std::vector<float> floats(value.list().f().begin(), value.list().f().end());
    if (value.has_f()) floats = {value.f()};
    if (std::none_of(floats.begin(), floats.end(), is_nan)) continue;
    proto::PlanInstance::FloatBits* kept = message->add_float_bits();
    kept->set_key(attr.key());
    for (const float each : floats) kept->add_bits(std::bit_cast<uint32_t>(each));
    if (value.has_f()) {
      value.set_f(kNan);
    } else {
      google::protobuf::RepeatedField<float>& list = *value.mutable_list()->mutable_f();
      std::replace_if(list.begin(), list.end(), is_nan, kNan);
    }
  }
}

void InstanceToProto(const OpInstance& instance, proto::PlanInstance* message) {
  message->set_name(instance.name);
  message->set_op(instance.op);
  AttrMapToProto(instance.attrs, message->mutable_attrs());
  KeepBitsOfNans(message);
  for (const TensorType& type : instance.inputs) TypeToProto(type, message->add_inputs());
  for (const TensorType& type : instance.outputs) TypeToProto(type, message->add_outputs());
  message->set_has_input_values(!instance.input_values.empty());
  for (size_t i = 0; i < instance.input_values.size(); ++i) {
    if (instance.input_values[i].empty()) continue;
    proto::PlanInstance::Value* value = message->add_input_values();
    value->set_input(static_cast<int32_t>(i));
    TensorToProto(instance.input_values[i], value->mutable_value());
  }
}

template <typename Values, typename Messages>
void Append(const Values& values, Messages* messages) {
  for (const auto& value : values) messages->Add(value);
}

void ComputeToProto(const ComputeStep& step, proto::PlanComputeStep* message) {
  message->set_instance(step.instance);
  message->set_partition(step.partition);
  message->set_group(step.group);
  message->set_position(step.position);
  Append(step.inputs, message->mutable_inputs());
  Append(step.outputs, message->mutable_outputs());
  Append(step.input_owners, message->mutable_input_owners());
  Append(step.output_owners, message->mutable_output_owners());
  message->set_scratch_offset(step.scratch_offset);
  message->set_scratch_bytes(step.scratch_bytes);
  WaitsToProto(step.waits, message->mutable_waits());
  Append(step.writes_variables, message->mutable_writes_variables());
  Append(step.input_variables, message->mutable_input_variables());
  message->set_overwrites_variables(step.overwrites_variables);
  message->set_state_bytes(step.state_bytes);
  message->set_predicted_seconds(step.predicted_seconds);
  Append(step.input_shapes, message->mutable_input_shapes());
  Append(step.output_shapes, message->mutable_output_shapes());
  message->set_run_time_values(step.run_time_values);
  message->set_is_view(step.is_view);
}

void CopyToProto(const CopyStep& copy, proto::PlanCopyStep* message) {
  message->set_name(copy.name);
  message->set_tensor(copy.tensor.str());
  message->set_reason(copy.reason.str());
  message->set_bytes(copy.bytes);
  message->set_device_offset(copy.device_offset);
  message->set_host(static_cast<proto::PlanCopyStep::Host>(copy.host.kind));
  message->set_host_index(copy.host.index);
  message->set_host_offset(copy.host.offset_bytes);
  message->set_disk_variable(copy.disk.variable);
  message->set_disk_offset(copy.disk.offset_bytes);
  message->set_partition(copy.partition);
  message->set_position(copy.position);
  WaitsToProto(copy.waits, message->mutable_waits());
  message->set_writes_variable(copy.writes_variable);
  message->set_predicted_seconds(copy.predicted_seconds);
}

void LaneToProto(const Lane& lane, proto::PlanLane* message) {
  message->set_kind(static_cast<proto::PlanLane::Kind>(lane.kind));
  message->set_device(lane.device);
  for (const ComputeStep& step : lane.compute) ComputeToProto(step, message->add_compute());
  for (const CopyStep& copy : lane.copies) CopyToProto(copy, message->add_copies());
}

void ResidenceToProto(const Residence& residence, proto::PlanResidence* message) {
  message->set_tensor(residence.tensor.str());
  message->set_kind(static_cast<proto::PlanResidence::Kind>(residence.kind));
  message->set_device(residence.device);
  message->set_bytes(residence.bytes);
  message->set_offset(residence.offset);
  message->set_first(residence.first);
  message->set_last(residence.last);
  message->set_reason(residence.reason.str());
}

void VariableToProto(const PlanVariable& variable, proto::PlanVariable* message) {
  message->set_name(variable.name);
  TypeToProto(variable.type, message->mutable_type());
  message->set_device(variable.device);
  message->set_resident_offset(variable.resident_offset);
  message->set_host_offset(variable.host_offset);
  message->set_read_before_write(variable.read_before_write);
  message->set_written(variable.written);
  message->set_first_reader(variable.first_reader);
  if (variable.whole.empty()) return;
  message->set_whole(variable.whole);
  TypeToProto(variable.whole_type, message->mutable_whole_type());
  message->set_home_offset(variable.home_offset);
}

void ValuesToProto(const std::map<std::string, Tensor>& values, google::protobuf::RepeatedPtrField<proto::PlanValue>* messages) {
  for (const auto& [name, value] : values) {
    proto::PlanValue* message = messages->Add();
    message->set_name(name);
    TensorToProto(value, message->mutable_value());
  }
}

// ---- From the message

absl::Status CheckIndex(int64_t index, int64_t count, int64_t least, const char* what) {
  if (index >= least && index < count) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("the plan names ", what, " ", index, ", of which it has ", count));
}

absl::Status CheckEnum(int value, bool valid, const char* what) {
  return valid ? absl::OkStatus() : absl::InvalidArgumentError(absl::StrCat(what, " ", value, " is not known"));
}

absl::StatusOr<TensorType> TypeFromProto(const proto::PlanType& message) {
  MR_RETURN_IF_ERROR(CheckEnum(message.dtype(), proto::DataType_IsValid(message.dtype()), "element type"));
  TensorType type;
  type.dtype = static_cast<DataType>(message.dtype());
  MR_ASSIGN_OR_RETURN(type.shape, ShapeFromProto(message.shape()));
  return type;
}

absl::StatusOr<std::vector<TensorType>> TypesFromProto(const google::protobuf::RepeatedPtrField<proto::PlanType>& messages) {
  std::vector<TensorType> types;
  for (const proto::PlanType& message : messages) {
    MR_ASSIGN_OR_RETURN(TensorType type, TypeFromProto(message));
    types.push_back(std::move(type));
  }
  return types;
}

absl::Status TakeBitsOfNans(const proto::PlanInstance& message, AttrMap& attrs) {
  for (const proto::PlanInstance::FloatBits& kept : message.float_bits()) {
    std::vector<float> floats;
    for (const uint32_t bits : kept.bits()) floats.push_back(std::bit_cast<float>(bits));
    const AttrValue* value = attrs.Find(kept.key());
    const auto* list = value == nullptr ? nullptr : std::get_if<std::vector<float>>(value);
    if (value != nullptr && std::holds_alternative<float>(*value) && floats.size() == 1) {
      attrs.Set(kept.key(), floats[0]);
    } else if (list != nullptr && list->size() == floats.size()) {
      attrs.Set(kept.key(), std::move(floats));
    } else {
      return absl::InvalidArgumentError(absl::StrCat("node '", message.name(), "' has bits of ", floats.size(), " floats of its attribute '", kept.key(),
                                                     "', which has other values"));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<OpInstance> InstanceFromProto(const proto::PlanInstance& message) {
  OpInstance instance;
  instance.name = message.name();
  instance.op = message.op();
  MR_ASSIGN_OR_RETURN(instance.attrs, AttrMapFromProto(message.attrs()));
  MR_RETURN_IF_ERROR(TakeBitsOfNans(message, instance.attrs));
  MR_ASSIGN_OR_RETURN(instance.inputs, TypesFromProto(message.inputs()));
  MR_ASSIGN_OR_RETURN(instance.outputs, TypesFromProto(message.outputs()));
  if (message.has_input_values()) instance.input_values.resize(instance.inputs.size());
  for (const proto::PlanInstance::Value& value : message.input_values()) {
    MR_RETURN_IF_ERROR(CheckIndex(value.input(), static_cast<int64_t>(instance.input_values.size()), 0, "input"));
    MR_ASSIGN_OR_RETURN(instance.input_values[value.input()], TensorFromProto(value.value()));
  }
  return instance;
}

class Reader {
 public:
  explicit Reader(const proto::Plan& message) : message_(message) {}

  absl::StatusOr<ExecutionPlan> Run() {
    ReadFigures();
    MR_RETURN_IF_ERROR(ReadTables());
    for (const proto::PlanLane& message : message_.lanes()) steps_ += message.compute_size() + message.copies_size();
    for (const proto::PlanLane& message : message_.lanes()) MR_RETURN_IF_ERROR(ReadLane(message));
    for (const proto::PlanResidence& message : message_.residences()) MR_RETURN_IF_ERROR(ReadResidence(message));
    return std::move(plan_);
  }

 private:
  void ReadFigures() {
    plan_.strategy = message_.strategy();
    plan_.graph_fingerprint = message_.graph_fingerprint();
    plan_.targets.assign(message_.targets().begin(), message_.targets().end());
    plan_.partition_size = message_.partition_size();
    for (const proto::PlanDevice& device : message_.devices()) {
      plan_.devices.push_back({device.name(), device.budget_bytes(), device.arena_bytes(), device.peak_live_bytes(),
                               device.num_partitions()});
    }
    plan_.tensors.assign(message_.tensors().begin(), message_.tensors().end());
    plan_.dynamic_tensors.assign(message_.dynamic_tensors().begin(), message_.dynamic_tensors().end());
    plan_.notes.assign(message_.notes().begin(), message_.notes().end());
    plan_.host_pool_bytes = message_.host_pool_bytes();
    plan_.host_bytes = message_.host_bytes();
    plan_.tiered = message_.tiered();
    plan_.host_budget_bytes = message_.host_budget_bytes();
    plan_.disk_scratch_bytes = message_.disk_scratch_bytes();
    plan_.bytes_to_disk = message_.bytes_to_disk();
    plan_.bytes_from_disk = message_.bytes_from_disk();
    const proto::PlanCounts& counts = message_.counts();
    plan_.counts = {counts.swap_outs(), counts.swap_ins(), counts.recomputed_nodes(), counts.sends(), counts.recvs(), counts.nodes()};
    plan_.predicted_step_seconds = message_.predicted_step_seconds();
    plan_.predicted_compute_seconds = message_.predicted_compute_seconds();
    plan_.lower_bound_seconds = message_.lower_bound_seconds();
    plan_.bytes_to_host = message_.bytes_to_host();
    plan_.bytes_to_device = message_.bytes_to_device();
  }

  absl::Status ReadTables() {
    for (const proto::PlanInstance& message : message_.instances()) {
      MR_ASSIGN_OR_RETURN(OpInstance instance, InstanceFromProto(message));
      plan_.instances.push_back(std::move(instance));
    }
    for (const proto::PlanVariable& message : message_.variables()) {
      PlanVariable variable;
      variable.name = message.name();
      MR_ASSIGN_OR_RETURN(variable.type, TypeFromProto(message.type()));
      variable.device = message.device();
      variable.resident_offset = message.resident_offset();
      variable.host_offset = message.host_offset();
      variable.read_before_write = message.read_before_write();
      variable.written = message.written();
      variable.first_reader = message.first_reader();
      variable.whole = message.whole();
      variable.home_offset = message.home_offset();
      if (!variable.whole.empty()) {
        MR_ASSIGN_OR_RETURN(variable.whole_type, TypeFromProto(message.whole_type()));
      }
      MR_RETURN_IF_ERROR(CheckDevice(variable.device));
      plan_.variables.push_back(std::move(variable));
    }
    for (const proto::PlanConstant& message : message_.constants()) {
      MR_ASSIGN_OR_RETURN(Tensor value, TensorFromProto(message.value()));
      MR_RETURN_IF_ERROR(CheckDevice(message.device()));
      plan_.constants.push_back({message.name(), std::move(value), message.device(), message.resident_offset()});
    }
    for (const proto::PlanFeed& message : message_.feeds()) {
      MR_ASSIGN_OR_RETURN(TensorType type, TypeFromProto(message.type()));
      plan_.feeds.push_back({message.name(), std::move(type)});
    }
    MR_ASSIGN_OR_RETURN(plan_.feed_values, ReadValues(message_.feed_values(), "feed"));
    MR_ASSIGN_OR_RETURN(plan_.answers, ReadValues(message_.answers(), "answer"));
    for (const proto::PlanFetch& message : message_.fetches()) {
      PlanFetch fetch;
      fetch.name = message.name();
      MR_ASSIGN_OR_RETURN(fetch.type, TypeFromProto(message.type()));
      if (message.has_value()) {
        MR_ASSIGN_OR_RETURN(fetch.value, TensorFromProto(message.value()));
      }
      fetch.shape = message.dynamic_tensor() - 1;
      MR_RETURN_IF_ERROR(CheckDynamic(fetch.shape));
      plan_.fetches.push_back(std::move(fetch));
    }
    return absl::OkStatus();
  }

  static absl::StatusOr<std::map<std::string, Tensor>> ReadValues(const google::protobuf::RepeatedPtrField<proto::PlanValue>& messages,
                                                                  const char* what) {
    std::map<std::string, Tensor> values;
    for (const proto::PlanValue& message : messages) {
      if (message.name().empty()) return absl::InvalidArgumentError(absl::StrCat("the plan has a value of a ", what, " without a name"));
      const std::string of_what = absl::StrCat(what, " '", OnOneLine(message.name()), "'");
      MR_ASSIGN_OR_RETURN(Tensor value, TensorFromProto(message.value()));
      if (value.dtype() == DataType::kResource || value.dtype() == DataType::kVariant) {
        return absl::InvalidArgumentError(absl::StrCat("the plan has a value of ", of_what, " of type ", value.type().ToString(),
                                                       ", expected numbers, bools or strings"));
      }
      if (!values.emplace(message.name(), std::move(value)).second) return absl::InvalidArgumentError(absl::StrCat("the plan has two values of ", of_what));
    }
    return values;
  }

  absl::Status CheckDevice(int32_t device) const {
    return CheckIndex(device, static_cast<int64_t>(plan_.devices.size()), 0, "device");
  }
  absl::Status CheckDynamic(int32_t tensor) const {
    return CheckIndex(tensor, static_cast<int64_t>(plan_.dynamic_tensors.size()), -1, "dynamic tensor");
  }
  absl::Status CheckVariable(int32_t variable) const {
    return CheckIndex(variable, static_cast<int64_t>(plan_.variables.size()), -1, "variable");
  }

  absl::StatusOr<StepWaits> ReadWaits(const google::protobuf::RepeatedPtrField<proto::PlanWait>& messages) const {
    StepWaits waits;
    for (const proto::PlanWait& message : messages) {
      MR_RETURN_IF_ERROR(CheckIndex(message.lane(), message_.lanes_size(), 0, "lane"));
      waits.push_back({message.lane(), message.count()});
    }
    return waits;
  }

  absl::Status ReadLane(const proto::PlanLane& message) {
    MR_RETURN_IF_ERROR(CheckEnum(message.kind(), proto::PlanLane::Kind_IsValid(message.kind()), "lane kind"));
    MR_RETURN_IF_ERROR(CheckDevice(message.device()));
    Lane lane;
    lane.kind = static_cast<LaneKind>(message.kind());
    lane.device = message.device();
    for (const proto::PlanComputeStep& step : message.compute()) {
      MR_ASSIGN_OR_RETURN(ComputeStep compute, ReadCompute(step));
      lane.compute.push_back(std::move(compute));
    }
    for (const proto::PlanCopyStep& step : message.copies()) {
      MR_ASSIGN_OR_RETURN(CopyStep copy, ReadCopy(step));
      lane.copies.push_back(std::move(copy));
    }
    plan_.lanes.push_back(std::move(lane));
    return absl::OkStatus();
  }

  absl::StatusOr<ComputeStep> ReadCompute(const proto::PlanComputeStep& message) const {
    ComputeStep step;
    step.instance = message.instance();
    MR_RETURN_IF_ERROR(CheckIndex(step.instance, static_cast<int64_t>(plan_.instances.size()), 0, "instance"));
    step.partition = message.partition();
    step.group = message.group();
    step.position = message.position();
    MR_RETURN_IF_ERROR(CheckIndex(step.position, kPositionsPerStep * steps_, 0, "position"));
    step.inputs.assign(message.inputs().begin(), message.inputs().end());
    step.outputs.assign(message.outputs().begin(), message.outputs().end());
    step.input_owners.assign(message.input_owners().begin(), message.input_owners().end());
    step.output_owners.assign(message.output_owners().begin(), message.output_owners().end());
    for (const auto* owners : {&step.input_owners, &step.output_owners}) {
      for (int32_t owner : *owners) {
        MR_RETURN_IF_ERROR(CheckIndex(owner, static_cast<int64_t>(plan_.tensors.size()), -1, "tensor"));
      }
    }
    step.scratch_offset = message.scratch_offset();
    step.scratch_bytes = message.scratch_bytes();
    MR_ASSIGN_OR_RETURN(step.waits, ReadWaits(message.waits()));
    step.writes_variables.assign(message.writes_variables().begin(), message.writes_variables().end());
    step.input_variables.assign(message.input_variables().begin(), message.input_variables().end());
    for (int32_t variable : step.input_variables) MR_RETURN_IF_ERROR(CheckVariable(variable));
    for (int32_t variable : step.writes_variables) {
      MR_RETURN_IF_ERROR(CheckIndex(variable, static_cast<int64_t>(plan_.variables.size()), 0, "variable"));
    }
    step.overwrites_variables = message.overwrites_variables();
    step.state_bytes = message.state_bytes();
    step.predicted_seconds = message.predicted_seconds();
    MR_RETURN_IF_ERROR(ReadShapes(message, step));
    return step;
  }

  absl::Status ReadShapes(const proto::PlanComputeStep& message, ComputeStep& step) const {
    step.input_shapes.assign(message.input_shapes().begin(), message.input_shapes().end());
    step.output_shapes.assign(message.output_shapes().begin(), message.output_shapes().end());
    step.run_time_values = message.run_time_values();
    step.is_view = message.is_view();
    if (!step.is_dynamic()) return absl::OkStatus();
    if (step.input_shapes.size() != step.inputs.size() || step.output_shapes.size() != step.outputs.size()) {
      return absl::InvalidArgumentError("a step has other numbers of shapes than of inputs and outputs");
    }
    for (const auto* shapes : {&step.input_shapes, &step.output_shapes}) {
      for (int32_t tensor : *shapes) MR_RETURN_IF_ERROR(CheckDynamic(tensor));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<CopyStep> ReadCopy(const proto::PlanCopyStep& message) const {
    MR_RETURN_IF_ERROR(CheckEnum(message.host(), proto::PlanCopyStep::Host_IsValid(message.host()), "side of a copy"));
    CopyStep copy;
    copy.name = message.name();
    copy.tensor = message.tensor();
    copy.reason = message.reason();
    copy.bytes = message.bytes();
    copy.device_offset = message.device_offset();
    copy.host = {static_cast<HostRef::Kind>(message.host()), message.host_index(), message.host_offset()};
    const int64_t tables[] = {1, message_.variables_size(), message_.constants_size(), message_.feeds_size(),
                              message_.fetches_size()};
    MR_RETURN_IF_ERROR(CheckIndex(copy.host.index, tables[static_cast<int>(copy.host.kind)], 0, "host side"));
    copy.disk = {message.disk_variable(), message.disk_offset()};
    MR_RETURN_IF_ERROR(CheckVariable(copy.disk.variable));
    copy.partition = message.partition();
    copy.position = message.position();
    MR_RETURN_IF_ERROR(CheckIndex(copy.position, kPositionsPerStep * steps_, 0, "position"));
    MR_ASSIGN_OR_RETURN(copy.waits, ReadWaits(message.waits()));
    copy.writes_variable = message.writes_variable();
    MR_RETURN_IF_ERROR(CheckVariable(copy.writes_variable));
    copy.predicted_seconds = message.predicted_seconds();
    return copy;
  }

  absl::Status ReadResidence(const proto::PlanResidence& message) {
    MR_RETURN_IF_ERROR(CheckEnum(message.kind(), proto::PlanResidence::Kind_IsValid(message.kind()), "kind of residence"));
    MR_RETURN_IF_ERROR(CheckDevice(message.device()));
    plan_.residences.push_back({message.tensor(), static_cast<Residence::Kind>(message.kind()), message.device(), message.bytes(),
                                message.offset(), message.first(), message.last(), message.reason()});
    return absl::OkStatus();
  }

  // Positions may have gaps, but tables by position must stay small.
  static constexpr int64_t kPositionsPerStep = 4;
  const proto::Plan& message_;
  int64_t steps_ = 0;
  ExecutionPlan plan_;
};

}  // namespace

void PlanToProto(const ExecutionPlan& plan, proto::Plan* message) {
  message->set_strategy(plan.strategy);
  message->set_graph_fingerprint(plan.graph_fingerprint);
  for (const std::string& target : plan.targets) message->add_targets(target);
  ValuesToProto(plan.feed_values, message->mutable_feed_values());
  ValuesToProto(plan.answers, message->mutable_answers());
  message->set_partition_size(plan.partition_size);
  for (const PlanDevice& device : plan.devices) {
    proto::PlanDevice* to = message->add_devices();
    to->set_name(device.name);
    to->set_budget_bytes(device.budget_bytes);
    to->set_arena_bytes(device.arena_bytes);
    to->set_peak_live_bytes(device.peak_live_bytes);
    to->set_num_partitions(device.num_partitions);
  }
  for (const OpInstance& instance : plan.instances) InstanceToProto(instance, message->add_instances());
  for (const SharedText& tensor : plan.tensors) message->add_tensors(tensor.str());
  for (const std::string& tensor : plan.dynamic_tensors) message->add_dynamic_tensors(tensor);
  for (const Lane& lane : plan.lanes) LaneToProto(lane, message->add_lanes());
  for (const PlanVariable& variable : plan.variables) VariableToProto(variable, message->add_variables());
  for (const PlanConstant& constant : plan.constants) {
    proto::PlanConstant* to = message->add_constants();
    to->set_name(constant.name);
    TensorToProto(constant.value, to->mutable_value());
    to->set_device(constant.device);
    to->set_resident_offset(constant.resident_offset);
  }
  for (const PlanFeed& feed : plan.feeds) {
    proto::PlanFeed* to = message->add_feeds();
    to->set_name(feed.name);
    TypeToProto(feed.type, to->mutable_type());
  }
  for (const PlanFetch& fetch : plan.fetches) {
    proto::PlanFetch* to = message->add_fetches();
    to->set_name(fetch.name);
    TypeToProto(fetch.type, to->mutable_type());
    if (!fetch.value.empty()) TensorToProto(fetch.value, to->mutable_value());
    to->set_dynamic_tensor(fetch.shape + 1);
  }
  for (const Residence& residence : plan.residences) ResidenceToProto(residence, message->add_residences());
  message->set_host_pool_bytes(plan.host_pool_bytes);
  message->set_host_bytes(plan.host_bytes);
  message->set_tiered(plan.tiered);
  message->set_host_budget_bytes(plan.host_budget_bytes);
  message->set_disk_scratch_bytes(plan.disk_scratch_bytes);
  message->set_bytes_to_disk(plan.bytes_to_disk);
  message->set_bytes_from_disk(plan.bytes_from_disk);
  proto::PlanCounts* counts = message->mutable_counts();
  counts->set_swap_outs(plan.counts.swap_outs);
  counts->set_swap_ins(plan.counts.swap_ins);
  counts->set_recomputed_nodes(plan.counts.recomputed_nodes);
  counts->set_sends(plan.counts.sends);
  counts->set_recvs(plan.counts.recvs);
  counts->set_nodes(plan.counts.nodes);
  for (const std::string& note : plan.notes) message->add_notes(note);
  message->set_predicted_step_seconds(plan.predicted_step_seconds);
  message->set_predicted_compute_seconds(plan.predicted_compute_seconds);
  message->set_lower_bound_seconds(plan.lower_bound_seconds);
  message->set_bytes_to_host(plan.bytes_to_host);
  message->set_bytes_to_device(plan.bytes_to_device);
}

absl::StatusOr<ExecutionPlan> PlanFromProto(const proto::Plan& message) { return Reader(message).Run(); }

}  // namespace millrace
