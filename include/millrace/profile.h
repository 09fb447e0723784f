// Measured times: what nodes and links took in training steps, to plan with instead of cost rules. Kept in files as
// the text form of src/proto/profile.proto by --profile_out, read by --profile_in.
//
// A node's time belongs to its name, op and types: a profile of another graph, or of the same one at another batch
// size, is noticed.
#ifndef MILLRACE_PROFILE_H_
#define MILLRACE_PROFILE_H_

#include <cstdint>
#include <map>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace millrace {

struct NodeTime {
  std::string op;
  std::string types;   // "float[8,64];float[64,10]->float[8,10]": inputs and outputs
  double seconds = 0;  // median over the measured steps
};

struct Profile {
  int32_t threads = 0;  // of kernels when it was measured
  int64_t steps = 0;    // measured
  double link_gbps = 0; // SessionOptions::link_gbps then; rates are of use under the same one only
  std::map<std::string, NodeTime> nodes;  // by name
  // 0: nothing was copied that way.
  double to_host_bytes_per_second = 0;
  double to_device_bytes_per_second = 0;
  double copy_latency_seconds = 0;
  // From the end of what a lane waits for to its next step.
  double wake_seconds = 0;
  // Of a step before its first and after its last node or copy.
  double step_overhead_seconds = 0;
};

// Errors name the file and what is wrong with it.
absl::StatusOr<Profile> LoadProfile(const std::string& path);
// The file is whole or not there.
absl::Status SaveProfile(const Profile& profile, const std::string& path);

}  // namespace millrace

#endif  // MILLRACE_PROFILE_H_
