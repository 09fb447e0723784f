#include "plan/resolve_options.h"

#include "absl/strings/str_cat.h"
#include "plan/machine_limits.h"

namespace millrace {

int64_t LimitOf(int64_t asked, int64_t of_machine) {
  if (asked != 0) return asked;
  return of_machine > 0 ? of_machine : PlanningOptions::kNoLimit;
}

void ResolveBudgets(SessionOptions& options) {
  PlanningOptions& planning = options.planning;
  const auto resolve = [](int64_t& bytes, int64_t of_machine) {
    bytes = LimitOf(bytes, of_machine);
    if (bytes == PlanningOptions::kNoLimit) bytes = 0;
  };
  for (int64_t& bytes : planning.device_memory_bytes_of) resolve(bytes, options.machine.device_memory_bytes);
  resolve(planning.device_memory_bytes, planning.device_memory_bytes_of.empty() ? options.machine.device_memory_bytes : 0);
  resolve(planning.host_memory_bytes, options.machine.host_memory_bytes);
}

absl::Status CheckPace(const std::string& option, double gbps) {
  constexpr double kLeastGbps = kLeastRate / 1e9;
  if (gbps == 0 || (gbps >= kLeastGbps && gbps <= kMostGbps)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(option, " is ", gbps, ", expected 0 (not slowed) or GB/s, ", kLeastGbps, " to ", kMostGbps));
}

Machine PacedMachine(const SessionOptions& options) {
  Machine machine = options.machine;
  if (options.link_gbps > 0) machine.to_host_bytes_per_second = machine.to_device_bytes_per_second = options.link_gbps * 1e9;
  if (options.disk_gbps > 0 && !options.disk.empty()) machine.disk_bytes_per_second = options.disk_gbps * 1e9;
  return machine;
}

}  // namespace millrace
