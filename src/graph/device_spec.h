// Device strings, as TensorFlow writes them on nodes: "/job:worker/replica:0/task:1/device:GPU:0", "/gpu:1", "CPU:0".
#ifndef MILLRACE_SRC_GRAPH_DEVICE_SPEC_H_
#define MILLRACE_SRC_GRAPH_DEVICE_SPEC_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace millrace {

// A device, or what is asked of one: what is not said (empty, -1) may be anything.
struct DeviceSpec {
  std::string job;
  int32_t replica = -1;
  int32_t task = -1;
  std::string type;  // in capitals: "GPU"
  int32_t index = -1;

  // Names no device of its own: "", "/job:worker".
  bool any_device() const { return type.empty() && index < 0; }
  friend bool operator==(const DeviceSpec&, const DeviceSpec&) = default;
  friend auto operator<=>(const DeviceSpec&, const DeviceSpec&) = default;
};

// InvalidArgument quotes what is not understood. Letters' case does not matter in types and keys.
absl::StatusOr<DeviceSpec> ParseDeviceSpec(std::string_view text);

// Finds the device that a request means among those there are. What is not there is mapped softly: to the device of
// the same index (modulo their number) while the requests of the graph speak of one job and task, else in the order
// of the requested names.
class DeviceMatcher {
 public:
  // `devices` names those there are ("cpu:0"); `requests` are all device strings of the graph. InvalidArgument for a
  // string that is not one.
  static absl::StatusOr<DeviceMatcher> Create(const std::vector<std::string>& devices,
                                              const std::vector<std::string>& requests);
  // -1 when the request names none.
  int32_t Find(std::string_view request) const;
  // Whether that request means a device that is not there.
  bool IsSoft(std::string_view request) const;

 private:
  struct Match {
    std::string request;
    int32_t device = -1;
    bool soft = false;
  };
  const Match* FindMatch(std::string_view request) const;
  std::vector<Match> matches_;  // by request
};

}  // namespace millrace

#endif  // MILLRACE_SRC_GRAPH_DEVICE_SPEC_H_
