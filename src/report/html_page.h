// One self-contained page of a report: a timeline to zoom, the memory map with the life of every tensor, the largest
// holders at any moment. No network, no other file.
#ifndef MILLRACE_SRC_REPORT_HTML_PAGE_H_
#define MILLRACE_SRC_REPORT_HTML_PAGE_H_

#include <string>

#include "absl/status/statusor.h"
#include "millrace/report.h"

namespace millrace {

// A view per run and device, on the measured trace where there is one, else on the simulated. `unswapped` (may be null) is
// one more curve of memory. Only the tensors that hold most bytes for longest and, of many thousand, the longest steps
// are listed one by one: the page of a million nodes has some megabytes.
// FailedPrecondition when no run has a plan and a trace.
absl::StatusOr<std::string> HtmlPage(const Report& report, const RunReport* unswapped);

}  // namespace millrace

#endif  // MILLRACE_SRC_REPORT_HTML_PAGE_H_
