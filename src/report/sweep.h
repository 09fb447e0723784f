// Results of `millrace sweep`: partition sizes x budgets x strategies, as CSV and as a picture.
#ifndef MILLRACE_SRC_REPORT_SWEEP_H_
#define MILLRACE_SRC_REPORT_SWEEP_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "millrace/report.h"

namespace millrace {

struct SweepPoint {
  std::string strategy;
  std::string budget;          // as asked for: "50%", "2GiB", "none"
  int64_t partition_size = 0;  // as asked for; 0: the strategy's choice
  RunReport run;
};

// A header line and a line per point, figures in bytes and seconds; figures of a run that failed are empty.
std::string SweepCsv(const std::vector<SweepPoint>& points);

// SVG: step time and peak device memory over the partition size, or over the budget where there is only one
// partition size. FailedPrecondition when no point ran.
absl::StatusOr<std::string> SweepPlot(const std::vector<SweepPoint>& points);

}  // namespace millrace

#endif  // MILLRACE_SRC_REPORT_SWEEP_H_
