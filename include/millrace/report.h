// What a run did: predicted and measured figures of one strategy on one graph. The program writes it as JSON with --report_out, as
// ReportToJson does, and draws it with --plot_out and --trace_out.
#ifndef MILLRACE_REPORT_H_
#define MILLRACE_REPORT_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "millrace/options.h"
#include "millrace/plan.h"

namespace millrace {

struct GraphSummary {
  int64_t nodes = 0;
  int64_t edges = 0;
  int64_t parameter_bytes = 0;
  std::string largest_node;
  int64_t largest_node_bytes = 0;  // inputs, outputs and scratch: its working set
};

// One step of one lane: seconds since the training step began. Compute events carry the node's name and op.
struct TraceEvent {
  int32_t lane = 0;
  int64_t step = 0;  // index on the lane
  double start_seconds = 0;
  double end_seconds = 0;
};

// One device's part of a run.
struct DeviceReport {
  std::string name;
  int64_t memory_budget_bytes = 0;  // 0: none
  int64_t predicted_peak_bytes = 0;
  int64_t peak_bytes = 0;           // measured, 0 before a step
  int64_t context_bytes = 0;        // its part of RunReport::device_context_bytes
  int64_t partitions = 0;
  int64_t nodes = 0;                // kernels that run there
};

// What a pass of planning took in all its runs, which threads may have had at the same time.
struct PassTime {
  std::string name;
  double seconds = 0;
  int64_t runs = 0;
};

struct RunReport {
  std::string strategy;
  absl::Status status;
  int64_t partition_size = 0;
  int64_t partitions = 0;
  int64_t swap_outs = 0;
  int64_t swap_ins = 0;
  int64_t sends = 0;  // between devices
  int64_t recvs = 0;
  int64_t recomputed_nodes = 0;
  double plan_seconds = 0;
  std::vector<PassTime> passes;  // in order of their first runs; together perhaps more than plan_seconds
  // Budgets and predicted peaks are sums over the devices, the measured peak likewise.
  int64_t device_memory_budget_bytes = 0;
  int64_t predicted_peak_device_bytes = 0;
  int64_t peak_device_bytes = 0;  // measured: highest address that a step touched
  // Measured after the first step that was complete, and after the first of a captured graph: device memory in use beside
  // the arenas. That is the driver's context, code and libraries, and what other processes have on these devices. 0 on the CPU.
  int64_t device_context_bytes = 0;
  std::vector<DeviceReport> devices;
  int64_t peak_host_bytes = 0;
  int64_t bytes_to_host = 0;      // per step
  int64_t bytes_to_device = 0;
  int64_t bytes_to_disk = 0;
  int64_t bytes_from_disk = 0;
  double disk_bytes_per_second = 0;       // planned for, each way; 0: there is no disk tier
  double to_disk_bytes_per_second = 0;    // of the last step, while it transferred; 0: nothing went that way
  double from_disk_bytes_per_second = 0;
  int64_t replans = 0;            // plans made from measured times
  int64_t switched_after = 0;     // steps that ran before the present plan took over; 0: it is the first
  bool measured_times = false;    // the predictions rest on measured times, not on cost rules
  double predicted_step_seconds = 0;
  double lower_bound_seconds = 0;
  std::vector<double> step_seconds;
  double compute_seconds = 0;     // of the last step: all of it but the waits of the busiest compute lane
  double stall_seconds = 0;       // of the last step: that lane waiting for transfers, other lanes or room
  std::vector<double> losses;     // scalar fetches, a value per step (the first scalar fetch)
  // Of a step that failed in the middle: all variables that hold new values already, or perhaps not where the node that writes them failed.
  // Others are as before the step.
  std::vector<std::string> changed_variables;
  std::vector<std::string> notes;   // what the strategy tells of its decisions, a line each
  std::vector<std::string> advice;  // what to do when it does not fit; of the command line, empty from a Session
  std::string fetch_digest;       // xxh3 of the last step's fetches, hex
  std::string variables_digest;   // xxh3 of all variables in name order, hex; of the command line, empty from a Session
  std::shared_ptr<const ExecutionPlan> plan;
  std::vector<TraceEvent> trace;            // measured, last step, when SessionOptions::trace
  std::vector<TraceEvent> simulated_trace;
};

struct Report {
  GraphSummary graph;
  Machine machine;
  std::vector<RunReport> runs;
};

// Protobuf JSON of proto.Report (src/proto/report.proto), every field present, snake_case names. It departs from protobuf's printer in one
// point: 64-bit integers are JSON numbers, exact. NaN and infinities are the strings "NaN" and "Infinity", as in protobuf.
// protobuf's own parser reads the result back.
std::string ReportToJson(const Report& report);

}  // namespace millrace

#endif  // MILLRACE_REPORT_H_
