#include "stream/step_faults.h"

#include <algorithm>
#include <utility>

#include "millrace/status.h"

namespace millrace {

absl::Status StepFaults::Take(DeviceDriver& driver, DeviceStream stream, DeviceDriver::NodeAt node_at) {
  MR_ASSIGN_OR_RETURN(KernelFault fault, driver.TakeFault(stream, node_at));
  if (fault.position >= 0) faults_.emplace(&driver, std::move(fault));
  return absl::OkStatus();
}

VariableMarks::Stop StepFaults::StopOf(const DeviceDriver* driver) const {
  const auto fault = faults_.find(driver);
  if (fault == faults_.end()) return {};
  return {fault->second.position, !fault->second.elsewhere};
}

StepFaults::First StepFaults::first() const {
  const auto first = std::min_element(faults_.begin(), faults_.end(), [](const auto& a, const auto& b) {
    return std::pair(a.second.elsewhere, a.second.position) < std::pair(b.second.elsewhere, b.second.position);
  });
  return {first->first, first->second};
}

}  // namespace millrace
