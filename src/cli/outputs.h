// The output files of a command. They are opened before the work, so that a folder that is not there is found
// then, and appear under their names only when they are whole.
#ifndef MILLRACE_SRC_CLI_OUTPUTS_H_
#define MILLRACE_SRC_CLI_OUTPUTS_H_

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "cli/environment.h"
#include "cli/options.h"
#include "cli/train.h"
#include "files/atomic_file.h"
#include "millrace/report.h"

namespace millrace::cli {

class OutputFile {
 public:
  // Nothing to do for an empty path. Errors are wrong usage, but for Cancelled: an interrupt while a pipe had no reader.
  absl::Status Open(const std::string& path);
  bool wanted() const { return file_ != nullptr; }
  // The whole file at once. Requires wanted().
  absl::Status Write(std::string_view bytes);

 private:
  std::unique_ptr<AtomicFile> file_;
};

// Refuses outputs that would overwrite one another or an input, files of SavedModels among them. Profiles, plans and
// checkpoints, a SavedModel's too, may replace the ones that were read. `more`: what an --onnx model is found to consist of, too.
absl::Status CheckOutputNames(const Options& options, const std::vector<std::string>& more = {});

// Wrong usage where `path` is "-": standard output has a name, like other files.
absl::Status CheckNoDash(absl::string_view flag, const std::string& path);

// Whether a file can be written there, found out before the work; nothing is left behind. OK for an empty path. A pipe is not
// opened: its reader would find the end of it.
absl::Status CheckWritable(const std::string& path);

// Waits until the pipe `path` has a reader or an interrupt comes, and keeps the pipe open, so that whoever opens it next need not
// wait. Nothing for other files.
absl::StatusOr<std::unique_ptr<AtomicFile>> AwaitReader(const std::string& path);

// The same for a graph file, whose name must end in .pb, .pbtxt or .dot.
absl::Status CheckGraphOutput(const std::string& path);

// Nothing for an empty path.
absl::Status WritePlan(const ExecutionPlan& plan, const std::string& path, const Environment& environment);

// What became of the run, then of its files: that these could not be written must not hide that it did not fit.
absl::Status RunThenWritten(const absl::Status& run, const absl::Status& written);

class Outputs {
 public:
  // Errors are wrong usage.
  static absl::StatusOr<Outputs> Open(const OutputOptions& options);

  // Report, trace and plot of a command, whether its runs went well or not. `unswapped` (may be null) is drawn
  // beside the runs: the plan without swapping.
  absl::Status WriteReport(const Report& report, const RunReport* unswapped);
  absl::Status WritePlot(const absl::StatusOr<std::string>& svg);
  bool wants_report() const { return report_.wanted(); }
  bool wants_plot() const { return plot_.wanted(); }
  bool wants_picture() const { return plot_.wanted() || html_.wanted(); }
  // Fetches and measured times of a run.
  absl::Status WriteResults(const TrainResult& result, const Workload& workload, const Environment& environment);

 private:
  std::string plot_path_;
  OutputFile report_;
  OutputFile trace_;
  OutputFile plot_;
  OutputFile html_;
  std::string fetches_path_;
  std::string profile_path_;
};

}  // namespace millrace::cli

#endif  // MILLRACE_SRC_CLI_OUTPUTS_H_
