// Reports in words and tables, for stdout. Pure functions of the report.
#ifndef MILLRACE_SRC_REPORT_SUMMARY_H_
#define MILLRACE_SRC_REPORT_SUMMARY_H_

#include <string>
#include <vector>

#include "millrace/report.h"

namespace millrace {

// "7,016 nodes, 11,031 edges, 97.5 MiB of parameters; largest node conv1 (Conv2D): 401.41 MiB".
std::string GraphLine(const GraphSummary& graph);

// Median of the measured steps, of an even number the faster of the two in the middle: the first of two steps warms up. The predicted step
// where none was measured.
double TypicalStepSeconds(const RunReport& run);

// One run, a line per figure, predicted beside measured.
std::string RunSummary(const RunReport& run);

// A row of the comparison table.
struct ComparedRun {
  const RunReport* run = nullptr;
  std::string name;  // the strategy, with a mark when the row needs a note
  std::string same;  // "reference", "equal", "DIFFERS: losses, w:0", "-" when nothing ran, ""
};

// Peak device bytes predicted and measured, step, compute and stall time as measured, bytes each way, equal bits. Runs that
// failed say so in their row, the error follows the table.
std::string ComparisonTable(const std::vector<ComparedRun>& runs);

}  // namespace millrace

#endif  // MILLRACE_SRC_REPORT_SUMMARY_H_
