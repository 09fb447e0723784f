#include "graph/device_spec.h"

#include <algorithm>
#include <map>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "millrace/status.h"

namespace millrace {
namespace {

absl::Status Malformed(const std::string& text) {
  return absl::InvalidArgumentError(absl::StrCat(
      "'", text, "' is not a device, expected something like /job:worker/task:0/device:GPU:1, /gpu:1 or cpu:0"));
}

// "0" or "*" (any).
bool ParseIndex(const std::string& text, int32_t* index) {
  if (text == "*") return true;
  return absl::SimpleAtoi(text, index) && *index >= 0;
}

// One part between slashes: "job:worker", "task:1", "device:GPU:0", "gpu:0", "GPU".
bool ParsePart(const std::string& part, DeviceSpec* spec) {
  const std::vector<std::string> words = absl::StrSplit(part, ':');
  const std::string key = absl::AsciiStrToLower(words[0]);
  if (key == "job") {
    if (words.size() == 2) spec->job = words[1];
    return words.size() == 2 && !words[1].empty();
  }
  if (key == "replica") return words.size() == 2 && ParseIndex(words[1], &spec->replica);
  if (key == "task") return words.size() == 2 && ParseIndex(words[1], &spec->task);
  const size_t first = key == "device" ? 1 : 0;
  if (words.size() <= first || words.size() > first + 2 || words[first].empty()) return false;
  if (words[first] != "*") spec->type = absl::AsciiStrToUpper(words[first]);
  return words.size() == first + 1 || ParseIndex(words[first + 1], &spec->index);
}

// Whether nothing that one of them says contradicts the other. A type without index means index 0 of a request.
bool Matches(const DeviceSpec& request, const DeviceSpec& device) {
  const auto agree = [](int32_t a, int32_t b) { return a < 0 || b < 0 || a == b; };
  return (request.job.empty() || device.job.empty() || request.job == device.job) &&
         agree(request.replica, device.replica) && agree(request.task, device.task) &&
         (request.type.empty() || request.type == device.type) && std::max(request.index, 0) == device.index;
}

}  // namespace

absl::StatusOr<DeviceSpec> ParseDeviceSpec(std::string_view text) {
  DeviceSpec spec;
  const std::string whole(text);
  const std::vector<std::string> parts = absl::StrSplit(whole, '/', absl::SkipEmpty());
  for (const std::string& part : parts) {
    if (!ParsePart(part, &spec)) return Malformed(whole);
  }
  return spec;
}

absl::StatusOr<DeviceMatcher> DeviceMatcher::Create(const std::vector<std::string>& devices,
                                                    const std::vector<std::string>& requests) {
  std::vector<DeviceSpec> there;
  for (const std::string& name : devices) {
    // A machine may be named anything.
    DeviceSpec spec = ParseDeviceSpec(name).value_or(DeviceSpec{.type = name});
    spec.index = std::max(spec.index, 0);
    if (spec.type.substr(0, 4) == "CUDA") spec.type = "GPU";
    there.push_back(std::move(spec));
  }
  DeviceMatcher matcher;
  std::map<DeviceSpec, int32_t> missing;  // device that a request that is not there means
  std::map<std::string, DeviceSpec> specs;
  for (const std::string& request : requests) {
    if (specs.count(request) > 0) continue;
    MR_ASSIGN_OR_RETURN(const DeviceSpec spec, ParseDeviceSpec(request));
    specs.emplace(request, spec);
    const bool found = std::any_of(there.begin(), there.end(), [&](const DeviceSpec& d) { return Matches(spec, d); });
    if (!spec.any_device() && !found) missing.emplace(spec, 0);
  }
  bool one_task = true;
  for (const auto& [spec, device] : missing) {
    const DeviceSpec& first = missing.begin()->first;
    one_task = one_task && spec.job == first.job && spec.replica == first.replica && spec.task == first.task;
  }
  int32_t rank = 0;
  for (auto& [spec, device] : missing) {
    device = (one_task ? std::max(spec.index, 0) : rank++) % static_cast<int32_t>(devices.size());
  }
  for (const auto& [request, spec] : specs) {
    Match match{request, -1, false};
    if (const auto soft = missing.find(spec); soft != missing.end()) {
      match.device = soft->second;
      match.soft = true;
    } else if (!spec.any_device()) {
      const auto found = std::find_if(there.begin(), there.end(), [&](const DeviceSpec& d) { return Matches(spec, d); });
      match.device = static_cast<int32_t>(found - there.begin());
    }
    matcher.matches_.push_back(std::move(match));
  }
  return matcher;
}

const DeviceMatcher::Match* DeviceMatcher::FindMatch(std::string_view request) const {
  const auto found = std::lower_bound(matches_.begin(), matches_.end(), request,
                                      [](const Match& match, std::string_view text) { return match.request < text; });
  return found != matches_.end() && found->request == request ? &*found : nullptr;
}

int32_t DeviceMatcher::Find(std::string_view request) const {
  const Match* match = FindMatch(request);
  return match == nullptr ? -1 : match->device;
}

bool DeviceMatcher::IsSoft(std::string_view request) const {
  const Match* match = FindMatch(request);
  return match != nullptr && match->soft;
}

}  // namespace millrace
