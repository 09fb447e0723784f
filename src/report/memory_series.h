// Device memory over time: a plan's residences laid on the clock of a trace.
#ifndef MILLRACE_SRC_REPORT_MEMORY_SERIES_H_
#define MILLRACE_SRC_REPORT_MEMORY_SERIES_H_

#include <cstdint>
#include <vector>

#include "millrace/plan.h"
#include "millrace/report.h"
#include "plan/simulator.h"

namespace millrace {

// Bytes held on `device`. A residence begins when the step at its first position starts and ends when the step at
// its last position ends, as `trace` saw them. Points are in time order, one per time; empty without a trace.
std::vector<MemoryPoint> MemoryOverTime(const ExecutionPlan& plan, const std::vector<TraceEvent>& trace, int32_t device);

// Bytes that host memory holds for all devices: variables and constants all the time, swapped tensors from the start of
// the copy out to the end of the last copy back. With a disk tier the whole pool, which is there all the time, whatever is
// in it. Empty without a trace, and when there is nothing.
std::vector<MemoryPoint> HostMemoryOverTime(const ExecutionPlan& plan, const std::vector<TraceEvent>& trace);

// When `device`'s compute lanes wait: between the end of all steps so far and the start of the next.
struct Interval {
  double start_seconds = 0;
  double end_seconds = 0;
};
std::vector<Interval> StallsOf(const ExecutionPlan& plan, const std::vector<TraceEvent>& trace, int32_t device);

// First start to last end of each partition's compute steps on `device`, in order.
struct PartitionSpan {
  int32_t partition = 0;
  Interval when;
};
std::vector<PartitionSpan> PartitionSpans(const ExecutionPlan& plan, const std::vector<TraceEvent>& trace,
                                          int32_t device);

// When the last event ends; 0 without a trace.
double TraceEnd(const std::vector<TraceEvent>& trace);

}  // namespace millrace

#endif  // MILLRACE_SRC_REPORT_MEMORY_SERIES_H_
