// What one training step did, as measured.
#ifndef MILLRACE_RUNTIME_STEP_STATS_H_
#define MILLRACE_RUNTIME_STEP_STATS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "millrace/report.h"

namespace millrace {

struct StepStats {
  double seconds = 0;          // of the whole step; virtual on a device without data
  double compute_seconds = 0;  // seconds less stall_seconds
  bool replayed = false;       // as a graph of the device's, without events between its nodes
  double stall_seconds = 0;    // the busiest compute lane waiting, the wait for the last copies included
  int64_t bytes_to_host = 0;
  int64_t bytes_to_device = 0;
  int64_t bytes_to_disk = 0;
  int64_t bytes_from_disk = 0;
  double to_disk_seconds = 0;     // of transfers, without waits
  double from_disk_seconds = 0;
  int64_t peak_device_bytes = 0;  // sum of the devices'
  std::vector<int64_t> device_peak_bytes;  // per device: highest end of an address that a step was handed
  int64_t peak_host_bytes = 0;    // homes of all variables, this plan's constants, highest end of a pool slot
  // Per device: memory in use beside the arena (DeviceDriver::FreeBytes); none where devices have no driver.
  std::vector<int64_t> device_context_bytes;
  std::vector<std::string> changed_variables;  // of a step that failed, which fills nothing else: in the plan's order
  std::vector<TraceEvent> trace;  // by lane and step; only when asked for
};

}  // namespace millrace

#endif  // MILLRACE_RUNTIME_STEP_STATS_H_
