#include "cli/outputs.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "cli/exit_status.h"
#include "cli/workload.h"
#include "millrace/status.h"
#include "report/chrome_trace.h"
#include "report/image.h"
#include "report/memory_plot.h"
#include "report/report_json.h"

namespace millrace::cli {

absl::Status OutputFile::Open(const std::string& path) {
  if (path.empty()) return absl::OkStatus();
  auto file = AtomicFile::Create(path);
  if (!file.ok()) return AsUsageError(file.status());
  file_ = *std::move(file);
  return absl::OkStatus();
}

absl::Status OutputFile::Write(std::string_view bytes) {
  MR_RETURN_IF_ERROR(file_->Append(bytes));
  MR_RETURN_IF_ERROR(file_->Commit());
  file_.reset();
  return absl::OkStatus();
}

absl::Status CheckWritable(const std::string& path) { return OutputFile().Open(path); }

absl::Status CheckGraphOutput(const std::string& path) {
  if (path.empty()) return UsageError("no output: give --out=FILE.pb, .pbtxt or .dot");
  for (const char* ending : {".pb", ".pbtxt", ".dot"}) {
    if (absl::EndsWith(path, ending)) return CheckWritable(path);
  }
  return UsageError(absl::StrCat("--out=", path, ": expected a name that ends in .pb, .pbtxt or .dot"));
}

absl::StatusOr<Outputs> Outputs::Open(const OutputOptions& options) {
  Outputs outputs;
  outputs.plot_path_ = options.plot_out;
  if (!options.plot_out.empty()) MR_RETURN_IF_ERROR(AsUsageError(CheckImagePath(options.plot_out)));
  MR_RETURN_IF_ERROR(outputs.report_.Open(options.report_out));
  MR_RETURN_IF_ERROR(outputs.trace_.Open(options.trace_out));
  MR_RETURN_IF_ERROR(outputs.plot_.Open(options.plot_out));
  MR_RETURN_IF_ERROR(CheckWritable(options.variables_out));
  MR_RETURN_IF_ERROR(CheckWritable(options.fetches_out));
  MR_RETURN_IF_ERROR(CheckWritable(options.profile_out));
  outputs.profile_path_ = options.profile_out;
  outputs.variables_path_ = options.variables_out;
  outputs.fetches_path_ = options.fetches_out;
  if (!options.checkpoint_out.empty()) MR_RETURN_IF_ERROR(CheckWritable(options.checkpoint_out + ".index"));
  outputs.checkpoint_prefix_ = options.checkpoint_out;
  return outputs;
}

absl::Status Outputs::WriteReport(const Report& report, const RunReport* unswapped) {
  if (report_.wanted()) MR_RETURN_IF_ERROR(report_.Write(ReportToJson(report)));
  if (trace_.wanted()) MR_RETURN_IF_ERROR(trace_.Write(ChromeTrace(report)));
  bool drawable = false;
  for (const RunReport& run : report.runs) drawable = drawable || run.plan != nullptr;
  if (plot_.wanted() && drawable) {
    MR_ASSIGN_OR_RETURN(const std::string svg, MemoryPlot(report, unswapped));
    MR_RETURN_IF_ERROR(WritePlot(svg));
  }
  return absl::OkStatus();
}

absl::Status Outputs::WritePlot(const std::string& svg) {
  MR_ASSIGN_OR_RETURN(const std::string image, ImageBytes(plot_path_, svg));
  return plot_.Write(image);
}

absl::Status Outputs::WriteResults(const TrainResult& result, const Workload& workload, const Environment& environment) {
  if (!variables_path_.empty()) MR_RETURN_IF_ERROR(environment.save_arrays(result.variables, variables_path_));
  if (!fetches_path_.empty()) {
    MR_RETURN_IF_ERROR(environment.save_arrays(NamedFetches(result.fetched, workload.fetch_names), fetches_path_));
  }
  if (!profile_path_.empty()) {
    MR_RETURN_IF_ERROR(result.times.status());
    MR_RETURN_IF_ERROR(SaveProfile(*result.times, profile_path_));
  }
  if (checkpoint_prefix_.empty()) return absl::OkStatus();
  Arrays tensors = workload.checkpoint_extras;
  for (const auto& [name, value] : result.variables) {
    const auto key = workload.checkpoint_keys.find(name);
    tensors[key == workload.checkpoint_keys.end() ? name : key->second] = value;
  }
  for (const auto& [node, state] : result.node_states) tensors[absl::StrCat(kNodeStatePrefix, node)] = state;
  return environment.write_checkpoint(checkpoint_prefix_, tensors);
}

}  // namespace millrace::cli
