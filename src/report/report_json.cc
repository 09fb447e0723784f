#include "millrace/report.h"

#include <google/protobuf/message.h>

#include "absl/strings/str_cat.h"
#include "millrace/proto/report.pb.h"
#include "report/decisions.h"
#include "report/json.h"

namespace millrace {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

std::string MessageToJson(const Message& message, const std::string& indent);

std::string FieldToJson(const Message& message, const FieldDescriptor& field, const std::string& indent) {
  const Reflection& reflection = *message.GetReflection();
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT64:
      return absl::StrCat(reflection.GetInt64(message, &field));
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return JsonNumber(reflection.GetDouble(message, &field));
    case FieldDescriptor::CPPTYPE_STRING:
      return JsonString(reflection.GetString(message, &field));
    default:
      return MessageToJson(reflection.GetMessage(message, &field), indent);
  }
}

std::string RepeatedFieldToJson(const Message& message, const FieldDescriptor& field, const std::string& indent) {
  const Reflection& reflection = *message.GetReflection();
  const int size = reflection.FieldSize(message, &field);
  std::string out = "[";
  for (int i = 0; i < size; ++i) {
    out += i == 0 ? "" : ", ";
    switch (field.cpp_type()) {
      case FieldDescriptor::CPPTYPE_MESSAGE:
        out += MessageToJson(reflection.GetRepeatedMessage(message, &field, i), indent);
        break;
      case FieldDescriptor::CPPTYPE_STRING:
        out += JsonString(reflection.GetRepeatedString(message, &field, i));
        break;
      default:
        out += JsonNumber(reflection.GetRepeatedDouble(message, &field, i));
    }
  }
  return out + "]";
}

std::string MessageToJson(const Message& message, const std::string& indent) {
  const google::protobuf::Descriptor& type = *message.GetDescriptor();
  const std::string inner = indent + " ";
  std::string out = "{";
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor& field = *type.field(i);
    absl::StrAppend(&out, i == 0 ? "\n" : ",\n", inner, "\"", field.name(), "\": ",
                    field.is_repeated() ? RepeatedFieldToJson(message, field, inner)
                                        : FieldToJson(message, field, inner));
  }
  return absl::StrCat(out, "\n", indent, "}");
}

proto::ReportMachine MachineToProto(const Machine& machine) {
  proto::ReportMachine out;
  out.set_name(machine.name);
  out.set_device_memory_bytes(machine.device_memory_bytes);
  out.set_host_memory_bytes(machine.host_memory_bytes);
  out.set_flops_per_second(machine.flops_per_second);
  out.set_convolution_flops_per_second(machine.convolution_flops_per_second);
  out.set_memory_bytes_per_second(machine.memory_bytes_per_second);
  out.set_to_host_bytes_per_second(machine.to_host_bytes_per_second);
  out.set_to_device_bytes_per_second(machine.to_device_bytes_per_second);
  out.set_copy_latency_seconds(machine.copy_latency_seconds);
  out.set_launch_seconds(machine.launch_seconds);
  out.set_copy_launch_seconds(machine.copy_launch_seconds);
  out.set_disk_bytes_per_second(machine.disk_bytes_per_second);
  out.set_disk_latency_seconds(machine.disk_latency_seconds);
  return out;
}

void AddDecisions(const ExecutionPlan& plan, proto::ReportRun& out) {
  for (const Decision& decision : DecisionsOf(plan)) {
    proto::ReportDecision& made = *out.add_decisions();
    made.set_kind(decision.kind);
    made.set_node(decision.node);
    made.set_tensor(decision.tensor);
    made.set_device(decision.device);
    made.set_partition(decision.partition);
    made.set_reason(decision.reason);
  }
}

void RunToProto(const RunReport& run, proto::ReportRun& out) {
  out.set_strategy(run.strategy);
  out.set_status(absl::StatusCodeToString(run.status.code()));
  out.set_error(std::string(run.status.message()));
  out.set_partition_size(run.partition_size);
  out.set_partitions(run.partitions);
  out.set_swap_outs(run.swap_outs);
  out.set_swap_ins(run.swap_ins);
  out.set_recomputed_nodes(run.recomputed_nodes);
  out.set_plan_seconds(run.plan_seconds);
  for (const PassTime& pass : run.passes) {
    proto::ReportPass& made = *out.add_passes();
    made.set_name(pass.name);
    made.set_seconds(pass.seconds);
    made.set_runs(pass.runs);
  }
  out.set_device_memory_budget_bytes(run.device_memory_budget_bytes);
  out.set_predicted_peak_device_bytes(run.predicted_peak_device_bytes);
  out.set_peak_device_bytes(run.peak_device_bytes);
  out.set_peak_host_bytes(run.peak_host_bytes);
  out.set_bytes_to_host(run.bytes_to_host);
  out.set_bytes_to_device(run.bytes_to_device);
  out.set_predicted_step_seconds(run.predicted_step_seconds);
  for (double seconds : run.step_seconds) out.add_step_seconds(seconds);
  out.set_compute_seconds(run.compute_seconds);
  out.set_stall_seconds(run.stall_seconds);
  out.set_lower_bound_seconds(run.lower_bound_seconds);
  for (double loss : run.losses) out.add_losses(loss);
  out.set_fetch_digest(run.fetch_digest);
  out.set_variables_digest(run.variables_digest);
  for (const DeviceReport& device : run.devices) {
    proto::ReportDevice& made = *out.add_devices();
    made.set_name(device.name);
    made.set_memory_budget_bytes(device.memory_budget_bytes);
    made.set_predicted_peak_bytes(device.predicted_peak_bytes);
    made.set_peak_bytes(device.peak_bytes);
    made.set_partitions(device.partitions);
    made.set_nodes(device.nodes);
    made.set_context_bytes(device.context_bytes);
  }
  out.set_sends(run.sends);
  out.set_recvs(run.recvs);
  for (const std::string& note : run.notes) out.add_notes(note);
  for (const std::string& line : run.advice) out.add_advice(line);
  out.set_bytes_to_disk(run.bytes_to_disk);
  out.set_bytes_from_disk(run.bytes_from_disk);
  out.set_disk_bytes_per_second(run.disk_bytes_per_second);
  out.set_to_disk_bytes_per_second(run.to_disk_bytes_per_second);
  out.set_from_disk_bytes_per_second(run.from_disk_bytes_per_second);
  out.set_replans(run.replans);
  out.set_switched_after(run.switched_after);
  out.set_device_context_bytes(run.device_context_bytes);
  for (const std::string& name : run.changed_variables) out.add_changed_variables(name);
  out.set_measured_times(run.measured_times ? 1 : 0);
  if (run.plan != nullptr) AddDecisions(*run.plan, out);
}

}  // namespace

std::string ReportToJson(const Report& report) {
  proto::Report out;
  proto::ReportGraph& graph = *out.mutable_graph();
  graph.set_nodes(report.graph.nodes);
  graph.set_edges(report.graph.edges);
  graph.set_parameter_bytes(report.graph.parameter_bytes);
  graph.set_largest_node(report.graph.largest_node);
  graph.set_largest_node_bytes(report.graph.largest_node_bytes);
  *out.mutable_machine() = MachineToProto(report.machine);
  for (const RunReport& run : report.runs) RunToProto(run, *out.add_runs());
  return MessageToJson(out, "") + "\n";
}

}  // namespace millrace
