#include "session/run_report.h"

#include <algorithm>
#include <cstdint>
#include <mutex>
#include <set>
#include <utility>

#include "glog/logging.h"
#include "graph/digest.h"

namespace millrace {

RunReport PredictedRun(const ExecutionPlan& plan) {
  RunReport report;
  report.strategy = plan.strategy;
  report.partition_size = plan.partition_size;
  report.swap_outs = plan.counts.swap_outs;
  report.swap_ins = plan.counts.swap_ins;
  report.recomputed_nodes = plan.counts.recomputed_nodes;
  report.sends = plan.counts.sends;
  report.recvs = plan.counts.recvs;
  for (const PlanDevice& device : plan.devices) {
    report.devices.push_back({.name = device.name,
                              .memory_budget_bytes = device.budget_bytes,
                              .predicted_peak_bytes = device.arena_bytes,
                              .partitions = device.num_partitions});
    report.partitions = std::max<int64_t>(report.partitions, device.num_partitions);
    report.device_memory_budget_bytes += device.budget_bytes;
    report.predicted_peak_device_bytes += device.arena_bytes;
  }
  for (const Lane& lane : plan.lanes) {
    report.devices[lane.device].nodes += static_cast<int64_t>(lane.compute.size());
  }
  report.bytes_to_host = plan.bytes_to_host;
  report.bytes_to_device = plan.bytes_to_device;
  report.bytes_to_disk = plan.bytes_to_disk;
  report.bytes_from_disk = plan.bytes_from_disk;
  report.peak_host_bytes = plan.host_bytes;
  report.predicted_step_seconds = plan.predicted_step_seconds;
  report.lower_bound_seconds = plan.lower_bound_seconds;
  report.notes = plan.notes;
  return report;
}

RunReport RunWithoutPlan(const absl::Status& status, const PlanningOptions& planning, std::vector<PassTime> passes) {
  RunReport report;
  report.strategy = planning.strategy;
  for (int32_t d = 0; d < planning.num_devices(); ++d) report.device_memory_budget_bytes += planning.BudgetOf(d);
  report.partition_size = planning.partition_size;
  report.passes = std::move(passes);
  report.status = status;
  return report;
}

void AddMeasuredStep(double seconds, const absl::Status& status, const StepStats& stats,
                     const std::vector<Tensor>& fetched, int64_t alignment, RunReport* report) {
  report->status = status;
  report->step_seconds = {seconds};
  report->compute_seconds = stats.compute_seconds;
  report->stall_seconds = stats.stall_seconds;
  report->bytes_to_host = stats.bytes_to_host;
  report->bytes_to_device = stats.bytes_to_device;
  report->bytes_to_disk = stats.bytes_to_disk;
  report->bytes_from_disk = stats.bytes_from_disk;
  const auto rate = [](int64_t bytes, double seconds) { return seconds > 0 ? static_cast<double>(bytes) / seconds : 0; };
  report->to_disk_bytes_per_second = rate(stats.bytes_to_disk, stats.to_disk_seconds);
  report->from_disk_bytes_per_second = rate(stats.bytes_from_disk, stats.from_disk_seconds);
  // Memory is handed out in these units, so the last one belongs to its tensor as a whole; a plan that was given may have smaller ones.
  report->peak_device_bytes = 0;
  for (size_t d = 0; d < stats.device_peak_bytes.size() && d < report->devices.size(); ++d) {
    const int64_t whole = std::min(AlignUp(stats.device_peak_bytes[d], alignment), report->devices[d].predicted_peak_bytes);
    report->devices[d].peak_bytes = std::max(AlignUp(stats.device_peak_bytes[d]), whole);
    report->peak_device_bytes += report->devices[d].peak_bytes;
  }
  report->peak_host_bytes = stats.peak_host_bytes;
  report->changed_variables = stats.changed_variables;
  report->device_context_bytes = 0;
  for (size_t d = 0; d < stats.device_context_bytes.size() && d < report->devices.size(); ++d) {
    report->devices[d].context_bytes = stats.device_context_bytes[d];
    report->device_context_bytes += stats.device_context_bytes[d];
  }
  if (!status.ok()) return;
  report->fetch_digest = TensorsDigest(fetched);
  for (const Tensor& tensor : fetched) {
    if (tensor.shape().rank() != 0 || !(IsFloating(tensor.dtype()) || IsInteger(tensor.dtype()))) continue;
    report->losses = {tensor.DoubleAt(0)};
    break;
  }
}

void LogOnce(const std::string& note) {
  static std::mutex mutex;
  static std::set<std::string>& told = *new std::set<std::string>;
  const std::lock_guard<std::mutex> lock(mutex);
  if (told.insert(note).second) LOG(INFO) << note;
}

}  // namespace millrace
