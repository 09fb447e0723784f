#include "report/machine_file.h"

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "files/mapped_file.h"
#include "graph/with_message.h"
#include "millrace/status.h"
#include "millrace/proto/machine.pb.h"
#include "plan/machine_limits.h"
#include "proto/parse.h"

namespace millrace {
namespace {

absl::Status SetSize(const char* field, bool given, const std::string& text, int64_t& bytes) {
  if (!given) return absl::OkStatus();
  const auto size = ParseSize(text);
  if (!size.ok()) return absl::InvalidArgumentError(absl::StrCat(field, ": ", std::string(size.status().message())));
  bytes = *size;
  return absl::OkStatus();
}

absl::Status SetRate(const char* field, bool given, double value, double& rate) {
  if (!given) return absl::OkStatus();
  if (!(value >= kLeastRate && value <= kMostRate)) {
    return absl::InvalidArgumentError(absl::StrCat(field, ": ", value, " is not a rate; expected ", kLeastRate, " to ", kMostRate));
  }
  rate = value;
  return absl::OkStatus();
}

absl::Status SetSeconds(const char* field, bool given, double value, double& seconds) {
  if (!given) return absl::OkStatus();
  if (!(value >= 0 && value <= kMostMachineSeconds)) {
    return absl::InvalidArgumentError(absl::StrCat(field, ": ", value, " is not a time; expected 0 to ", kMostMachineSeconds, " seconds"));
  }
  seconds = value;
  return absl::OkStatus();
}

absl::Status SetAlignment(bool given, int64_t value, int64_t& alignment) {
  if (!given) return absl::OkStatus();
  if (!IsAlignment(value)) {
    return absl::InvalidArgumentError(absl::StrCat("tensor_alignment_bytes: ", value, ", expected a power of two from ", kTensorAlignment, " to ",
                                                   kMostAlignment));
  }
  alignment = value;
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Machine> ParseMachine(const std::string& text) {
  proto::Machine in;
  MR_RETURN_IF_ERROR(ParseText(text, /*skip_unknown_fields=*/false, &in));

  Machine machine;
  if (in.has_name()) machine.name = in.name();
  MR_RETURN_IF_ERROR(
      SetSize("device_memory", in.has_device_memory(), in.device_memory(), machine.device_memory_bytes));
  MR_RETURN_IF_ERROR(SetSize("host_memory", in.has_host_memory(), in.host_memory(), machine.host_memory_bytes));
  MR_RETURN_IF_ERROR(SetRate("flops_per_second", in.has_flops_per_second(), in.flops_per_second(),
                             machine.flops_per_second));
  MR_RETURN_IF_ERROR(SetRate("convolution_flops_per_second", in.has_convolution_flops_per_second(), in.convolution_flops_per_second(),
                             machine.convolution_flops_per_second));
  MR_RETURN_IF_ERROR(SetRate("memory_bytes_per_second", in.has_memory_bytes_per_second(),
                             in.memory_bytes_per_second(), machine.memory_bytes_per_second));
  MR_RETURN_IF_ERROR(SetRate("to_host_bytes_per_second", in.has_to_host_bytes_per_second(),
                             in.to_host_bytes_per_second(), machine.to_host_bytes_per_second));
  MR_RETURN_IF_ERROR(SetRate("to_device_bytes_per_second", in.has_to_device_bytes_per_second(),
                             in.to_device_bytes_per_second(), machine.to_device_bytes_per_second));
  MR_RETURN_IF_ERROR(SetSeconds("copy_latency_seconds", in.has_copy_latency_seconds(),
                                in.copy_latency_seconds(), machine.copy_latency_seconds));
  MR_RETURN_IF_ERROR(
      SetSeconds("launch_seconds", in.has_launch_seconds(), in.launch_seconds(), machine.launch_seconds));
  MR_RETURN_IF_ERROR(SetSeconds("copy_launch_seconds", in.has_copy_launch_seconds(), in.copy_launch_seconds(),
                                machine.copy_launch_seconds));
  MR_RETURN_IF_ERROR(SetRate("disk_bytes_per_second", in.has_disk_bytes_per_second(), in.disk_bytes_per_second(),
                             machine.disk_bytes_per_second));
  MR_RETURN_IF_ERROR(SetSeconds("disk_latency_seconds", in.has_disk_latency_seconds(), in.disk_latency_seconds(),
                                machine.disk_latency_seconds));
  MR_RETURN_IF_ERROR(SetAlignment(in.has_tensor_alignment_bytes(), in.tensor_alignment_bytes(), machine.tensor_alignment_bytes));
  return machine;
}

std::string MachineToText(const Machine& machine) {
  std::string text = absl::StrCat("name: \"", absl::CEscape(machine.name), "\"\n");
  if (machine.device_memory_bytes > 0) absl::StrAppend(&text, "device_memory: \"", machine.device_memory_bytes, "\"\n");
  if (machine.host_memory_bytes > 0) absl::StrAppend(&text, "host_memory: \"", machine.host_memory_bytes, "\"\n");
  const auto add = [&](const char* field, double value) { absl::StrAppendFormat(&text, "%s: %.4g\n", field, value); };
  add("flops_per_second", machine.flops_per_second);
  if (machine.convolution_flops_per_second > 0) add("convolution_flops_per_second", machine.convolution_flops_per_second);
  add("memory_bytes_per_second", machine.memory_bytes_per_second);
  add("to_host_bytes_per_second", machine.to_host_bytes_per_second);
  add("to_device_bytes_per_second", machine.to_device_bytes_per_second);
  add("copy_latency_seconds", machine.copy_latency_seconds);
  add("launch_seconds", machine.launch_seconds);
  add("copy_launch_seconds", machine.copy_launch_seconds);
  const Machine usual;
  if (machine.disk_bytes_per_second != usual.disk_bytes_per_second) add("disk_bytes_per_second", machine.disk_bytes_per_second);
  if (machine.disk_latency_seconds != usual.disk_latency_seconds) add("disk_latency_seconds", machine.disk_latency_seconds);
  if (machine.tensor_alignment_bytes != usual.tensor_alignment_bytes) {
    absl::StrAppend(&text, "tensor_alignment_bytes: ", machine.tensor_alignment_bytes, "\n");
  }
  return text;
}

absl::StatusOr<Machine> LoadMachine(const std::string& path) {
  MR_ASSIGN_OR_RETURN(const auto file, MappedFile::Open(path));
  auto machine = ParseMachine(std::string(file->bytes()));
  if (!machine.ok()) return WithPrefix(machine.status(), path);
  return machine;
}

}  // namespace millrace
