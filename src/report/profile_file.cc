#include <google/protobuf/text_format.h>

#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "files/atomic_file.h"
#include "files/mapped_file.h"
#include "millrace/profile.h"
#include "millrace/status.h"
#include "plan/machine_limits.h"
#include "proto/parse.h"
#include "millrace/proto/profile.pb.h"

namespace millrace {
namespace {

absl::Status CheckCount(const char* field, int64_t value) {
  if (value >= 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(field, ": ", value, ", expected 0 or more"));
}

absl::Status CheckSeconds(const std::string& field, double value) {
  if (value >= 0 && value <= kMostMachineSeconds) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(field, ": ", value, ", expected 0 to ", kMostMachineSeconds, " seconds"));
}

// 0: not known.
absl::Status CheckRate(const char* field, double value) {
  if (value == 0 || (value >= kLeastRate && value <= kMostRate)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(field, ": ", value, ", expected 0 or ", kLeastRate, " to ", kMostRate));
}

// It is only compared with the session's.
absl::Status CheckGbps(double value) {
  if (value >= 0 && value <= kMostGbps) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("link_gbps: ", value, ", expected 0 to ", kMostGbps));
}

absl::StatusOr<Profile> FromProto(const proto::Profile& in) {
  Profile profile;
  profile.threads = in.threads();
  profile.steps = in.steps();
  profile.link_gbps = in.link_gbps();
  profile.to_host_bytes_per_second = in.to_host_bytes_per_second();
  profile.to_device_bytes_per_second = in.to_device_bytes_per_second();
  profile.copy_latency_seconds = in.copy_latency_seconds();
  profile.wake_seconds = in.wake_seconds();
  profile.step_overhead_seconds = in.step_overhead_seconds();
  MR_RETURN_IF_ERROR(CheckCount("threads", profile.threads));
  MR_RETURN_IF_ERROR(CheckCount("steps", profile.steps));
  MR_RETURN_IF_ERROR(CheckGbps(profile.link_gbps));
  MR_RETURN_IF_ERROR(CheckRate("to_host_bytes_per_second", profile.to_host_bytes_per_second));
  MR_RETURN_IF_ERROR(CheckRate("to_device_bytes_per_second", profile.to_device_bytes_per_second));
  MR_RETURN_IF_ERROR(CheckSeconds("copy_latency_seconds", profile.copy_latency_seconds));
  MR_RETURN_IF_ERROR(CheckSeconds("wake_seconds", profile.wake_seconds));
  MR_RETURN_IF_ERROR(CheckSeconds("step_overhead_seconds", profile.step_overhead_seconds));
  for (const proto::Profile::Node& node : in.node()) {
    if (node.name().empty() || node.op().empty()) {
      return absl::InvalidArgumentError("a node has no name or no op");
    }
    MR_RETURN_IF_ERROR(CheckSeconds(node.name(), node.seconds()));
    if (!profile.nodes.emplace(node.name(), NodeTime{node.op(), node.types(), node.seconds()}).second) {
      return absl::InvalidArgumentError(absl::StrCat("node '", node.name(), "' is there twice"));
    }
  }
  if (profile.nodes.empty()) return absl::InvalidArgumentError("it has times of no node");
  return profile;
}

}  // namespace

absl::StatusOr<Profile> LoadProfile(const std::string& path) {
  MR_ASSIGN_OR_RETURN(const auto file, MappedFile::Open(path));
  proto::Profile in;
  if (const absl::Status status = ParseText(file->bytes(), /*skip_unknown_fields=*/false, &in); !status.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": not a profile: ", std::string(status.message())));
  }
  auto profile = FromProto(in);
  if (profile.ok()) return profile;
  return absl::InvalidArgumentError(absl::StrCat(path, ": ", std::string(profile.status().message())));
}

absl::Status SaveProfile(const Profile& profile, const std::string& path) {
  proto::Profile out;
  out.set_threads(profile.threads);
  out.set_steps(profile.steps);
  out.set_link_gbps(profile.link_gbps);
  if (profile.to_host_bytes_per_second > 0) out.set_to_host_bytes_per_second(profile.to_host_bytes_per_second);
  if (profile.to_device_bytes_per_second > 0) out.set_to_device_bytes_per_second(profile.to_device_bytes_per_second);
  out.set_copy_latency_seconds(profile.copy_latency_seconds);
  out.set_wake_seconds(profile.wake_seconds);
  out.set_step_overhead_seconds(profile.step_overhead_seconds);
  for (const auto& [name, time] : profile.nodes) {
    proto::Profile::Node& node = *out.add_node();
    node.set_name(name);
    node.set_op(time.op);
    node.set_types(time.types);
    node.set_seconds(time.seconds);
  }
  std::string text;
  if (!google::protobuf::TextFormat::PrintToString(out, &text)) {
    return absl::InternalError(absl::StrCat(path, ": a profile that cannot be printed"));
  }
  return WriteFileAtomically(path, text);
}

}  // namespace millrace
