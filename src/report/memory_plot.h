// The picture of a step: device memory over time, without and with swapping, predicted and measured, under the
// budget line; below it the lanes, the stalls and the partitions.
#ifndef MILLRACE_SRC_REPORT_MEMORY_PLOT_H_
#define MILLRACE_SRC_REPORT_MEMORY_PLOT_H_

#include <string>

#include "absl/status/statusor.h"
#include "millrace/report.h"

namespace millrace {

// SVG, one panel per run and device. `unswapped` (may be null) is a run or plan without swapping, drawn behind the
// others. FailedPrecondition when no run has a trace (nothing was planned).
absl::StatusOr<std::string> MemoryPlot(const Report& report, const RunReport* unswapped);

}  // namespace millrace

#endif  // MILLRACE_SRC_REPORT_MEMORY_PLOT_H_
