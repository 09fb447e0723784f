// The step as a Chrome trace (opens in Perfetto): a process per run, measured and predicted apart; lanes as
// threads, partitions on a thread of their own, device memory as a counter.
#ifndef MILLRACE_SRC_REPORT_CHROME_TRACE_H_
#define MILLRACE_SRC_REPORT_CHROME_TRACE_H_

#include <string>

#include "millrace/report.h"

namespace millrace {

std::string ChromeTrace(const Report& report);

}  // namespace millrace

#endif  // MILLRACE_SRC_REPORT_CHROME_TRACE_H_
