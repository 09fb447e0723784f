#include "millrace/report.h"
#include "cli/outputs.h"

#include <glog/logging.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <map>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "cli/exit_status.h"
#include "cli/interrupt.h"
#include "cli/settings.h"
#include "cli/workload.h"
#include "files/model_files.h"
#include "graph/one_line.h"
#include "millrace/status.h"
#include "plan/plan_text.h"
#include "report/chrome_trace.h"
#include "report/html_page.h"
#include "report/image.h"
#include "report/memory_plot.h"

namespace millrace::cli {
namespace {

absl::Status WriteArrays(const Arrays& arrays, const std::string& path, const Environment& environment) {
  MR_ASSIGN_OR_RETURN(const auto reader, AwaitReader(path));
  MR_ASSIGN_OR_RETURN(const std::unique_ptr<TensorWriter> writer, environment.open_arrays(path));
  for (const auto& [name, tensor] : arrays) MR_RETURN_IF_ERROR(writer->Add(name, tensor));
  return writer->Finish();
}

absl::Status WriteProfile(const absl::StatusOr<Profile>& times, const std::string& path) {
  if (!times.ok()) return WithPrefix(times.status(), path);
  MR_ASSIGN_OR_RETURN(const auto reader, AwaitReader(path));
  return SaveProfile(*times, path);
}

constexpr char kData[] = ".data-00000-of-00001";

using FlagFiles = std::vector<std::pair<const char*, std::string>>;

std::string FileOf(const std::string& whole, const char* file) { return whole.empty() ? "" : absl::StrCat(whole, file); }

bool IsRegular(const std::string& path) {
  std::error_code error;
  return std::filesystem::is_regular_file(path, error);
}

// The one name of what is written or read as `path`.
std::filesystem::path Place(const std::string& path) {
  std::error_code error;
  const std::filesystem::path place = std::filesystem::weakly_canonical(std::filesystem::absolute(ResolveLinks(path), error), error);
  return error ? std::filesystem::path(path) : place;
}

class TakenFiles {
 public:
  // Wrong usage where another flag has the file, or the name is none.
  absl::Status Take(const char* flag, const std::string& path) {
    MR_RETURN_IF_ERROR(CheckNoDash(flag, path));
    std::error_code error;
    if (path.empty() || (std::filesystem::exists(path, error) && !IsRegular(path))) return absl::OkStatus();
    const auto [place, fresh] = by_place_.emplace(Place(path).string(), flag);
    if (fresh) return absl::OkStatus();
    return UsageError(absl::StrCat(flag, "=", path, " would overwrite the file of ", place->second, "; expected another name"));
  }

 private:
  std::map<std::string, const char*> by_place_;  // flags
};

// Files whose names begin with `prefix`, a path: the parts of a checkpoint.
std::vector<std::string> FilesBeginningWith(const std::string& prefix) {
  namespace fs = std::filesystem;
  std::vector<std::string> files;
  const fs::path folder = fs::path(prefix).parent_path();
  std::error_code error;
  for (fs::directory_iterator it(folder.empty() ? fs::path(".") : folder, error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    if (absl::StartsWith(name, fs::path(prefix).filename().string())) files.push_back((folder / name).string());
  }
  return files;
}

FlagFiles InputFiles(const Options& options) {
  const InputOptions& in = options.input;
  FlagFiles files = {{"--graph", in.graph},
                     {"--onnx", in.onnx},
                     {"--feeds", in.feeds},
                     {"--saved_model", in.saved_model.empty() ? "" : SavedModelFile(in.saved_model)},
                     {"--machine", MachineFile(options.engine).value_or("")}};
  const auto add_parts = [&](const char* flag, const std::string& prefix) {
    if (prefix.empty()) return;
    for (const std::string& file : FilesBeginningWith(prefix)) files.emplace_back(flag, file);
  };
  add_parts("--saved_model", FileOf(in.saved_model, "/assets/"));
  for (const std::string& path : options.flag_files) files.emplace_back("--flagfile", path);
  // These may be replaced by what becomes of them; they are read whole before.
  if (in.plan_in != options.plan_out) files.emplace_back("--plan_in", in.plan_in);
  if (options.engine.profile_in != options.output.profile_out) files.emplace_back("--profile_in", options.engine.profile_in);
  if (in.checkpoint_in != options.output.checkpoint_out) {
    files.emplace_back("--checkpoint_in", FileOf(in.checkpoint_in, kCheckpointIndex));
    files.emplace_back("--checkpoint_in", FileOf(in.checkpoint_in, kData));
    add_parts("--checkpoint_in", FileOf(in.checkpoint_in, ".data-"));
  }
  const std::string variables = FileOf(in.saved_model, "/variables/variables");
  if (variables.empty() || Place(FileOf(variables, kCheckpointIndex)) != Place(FileOf(options.output.checkpoint_out, kCheckpointIndex))) {
    add_parts("--saved_model", FileOf(variables, "."));
  }
  return files;
}

}  // namespace

absl::Status OutputFile::Open(const std::string& path) {
  if (path.empty()) return absl::OkStatus();
  auto file = AtomicFile::Create(path, Interrupted);
  if (!file.ok()) return absl::IsCancelled(file.status()) ? file.status() : AsUsageError(file.status());
  file_ = *std::move(file);
  return absl::OkStatus();
}

absl::Status OutputFile::Write(std::string_view bytes) {
  MR_RETURN_IF_ERROR(file_->Append(bytes));
  MR_RETURN_IF_ERROR(file_->Commit());
  file_.reset();
  return absl::OkStatus();
}

absl::Status CheckNoDash(absl::string_view flag, const std::string& path) {
  if (path != "-") return absl::OkStatus();
  const bool has_ending = flag == "--plot_out";  // that says of what kind it is
  return UsageError(absl::StrCat(flag, "=-: expected the name of a file", has_ending ? "" : "; standard output is /dev/stdout, the file of this name ./-"));
}

absl::Status CheckWritable(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::is_fifo(path, error)) return OutputFile().Open(path);
  if (access(path.c_str(), W_OK) == 0) return absl::OkStatus();
  return AsUsageError(absl::ErrnoToStatus(errno, absl::StrCat("cannot write ", path)));
}

absl::StatusOr<std::unique_ptr<AtomicFile>> AwaitReader(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::is_fifo(path, error)) return nullptr;
  return AtomicFile::Create(path, Interrupted);
}

absl::Status CheckOutputNames(const Options& options, const std::vector<std::string>& more) {
  const OutputOptions& out = options.output;
  const std::string prefix = std::filesystem::path(out.checkpoint_out).filename();
  if (!out.checkpoint_out.empty() && (out.checkpoint_out == "-" || prefix.empty() || prefix == "." || prefix == "..")) {
    return UsageError(absl::StrCat("--checkpoint_out=", out.checkpoint_out, ": expected a prefix of file names"));
  }
  const FlagFiles outputs = {{"--report_out", out.report_out},
                             {"--trace_out", out.trace_out},
                             {"--plot_out", out.plot_out},
                             {"--html_out", out.html_out},
                             {"--variables_out", out.variables_out},
                             {"--fetches_out", out.fetches_out},
                             {"--profile_out", out.profile_out},
                             {"--csv_out", options.sweep.csv_out},
                             {"--plan_out", options.plan_out},
                             {"--out", options.out == "-" ? "" : options.out},  // of which its command says what it takes
                             {"--checkpoint_out", FileOf(out.checkpoint_out, kCheckpointIndex)},
                             {"--checkpoint_out", FileOf(out.checkpoint_out, kData)}};
  TakenFiles taken;
  for (const auto& [flag, path] : InputFiles(options)) taken.Take(flag, path).IgnoreError();
  for (const std::string& path : more) taken.Take("--onnx", path).IgnoreError();
  for (const auto& [flag, path] : outputs) MR_RETURN_IF_ERROR(taken.Take(flag, path));
  return absl::OkStatus();
}

absl::Status CheckGraphOutput(const std::string& path) {
  if (path.empty()) return UsageError("no output: give --out=FILE.pb, .pbtxt or .dot");
  for (const char* ending : {".pb", ".pbtxt", ".dot"}) {
    if (absl::EndsWith(path, ending)) return CheckWritable(path);
  }
  return UsageError(absl::StrCat("--out=", path, ": expected a name that ends in .pb, .pbtxt or .dot"));
}

namespace {

// Says for which values a plan is, if not for all.
void TellValues(const ExecutionPlan& plan, const std::string& path) {
  std::vector<std::string> of;
  const auto name = [](std::string* out, const auto& value) { out->append(OnOneLine(value.first)); };
  if (!plan.feed_values.empty()) of.push_back(absl::StrCat("these values of the feeds ", absl::StrJoin(plan.feed_values, ", ", name)));
  if (!plan.answers.empty()) of.push_back("what this step computes");
  if (!of.empty()) LOG(INFO) << path << " is for " << absl::StrJoin(of, " and ") << ", which it holds: a run ends at the first step that has others";
}

}  // namespace

absl::Status WritePlan(const ExecutionPlan& plan, const std::string& path, const Environment& environment) {
  if (path.empty()) return absl::OkStatus();
  if (absl::EndsWith(path, ".pb") || absl::EndsWith(path, ".pbtxt")) {  // which --plan_in reads back
    MR_ASSIGN_OR_RETURN(const auto reader, AwaitReader(path));
    MR_RETURN_IF_ERROR(environment.save_plan(plan, path));
    TellValues(plan, path);
    return absl::OkStatus();
  }
  OutputFile file;
  MR_RETURN_IF_ERROR(file.Open(path));
  return file.Write(PlanToText(plan, {.seconds = true, .types = true}));
}

absl::Status RunThenWritten(const absl::Status& run, const absl::Status& written) {
  if (run.ok() || written.ok()) return run.ok() ? written : run;
  return WithMessage(run, absl::StrCat(run.message(), "\nhint: files are missing, too: ", written.message()));
}

absl::StatusOr<Outputs> Outputs::Open(const OutputOptions& options) {
  Outputs outputs;
  outputs.plot_path_ = options.plot_out;
  if (!options.plot_out.empty()) MR_RETURN_IF_ERROR(AsUsageError(CheckImagePath(options.plot_out)));
  MR_RETURN_IF_ERROR(outputs.report_.Open(options.report_out));
  MR_RETURN_IF_ERROR(outputs.trace_.Open(options.trace_out));
  MR_RETURN_IF_ERROR(outputs.plot_.Open(options.plot_out));
  MR_RETURN_IF_ERROR(outputs.html_.Open(options.html_out));
  MR_RETURN_IF_ERROR(CheckWritable(options.variables_out));
  MR_RETURN_IF_ERROR(CheckWritable(options.fetches_out));
  MR_RETURN_IF_ERROR(CheckWritable(options.profile_out));
  outputs.profile_path_ = options.profile_out;
  outputs.fetches_path_ = options.fetches_out;
  if (!options.checkpoint_out.empty()) MR_RETURN_IF_ERROR(CheckWritable(options.checkpoint_out + ".index"));
  return outputs;
}

absl::Status Outputs::WriteReport(const Report& report, const RunReport* unswapped) {
  absl::Status written;  // all errors; what can be written is
  if (report_.wanted()) AddError(report_.Write(ReportToJson(report)), written);
  bool drawable = false, planned = false;
  for (const RunReport& run : report.runs) {
    planned = planned || run.plan != nullptr;
    drawable = drawable || (run.plan != nullptr && !(run.trace.empty() && run.simulated_trace.empty()));
  }
  if (planned && !drawable && (plot_.wanted() || html_.wanted())) LOG(WARNING) << "no picture: the step runs no kernel and copies nothing";
  // Where nothing was planned former files stay.
  if (trace_.wanted() && planned) AddError(trace_.Write(ChromeTrace(report)), written);
  if (plot_.wanted() && drawable) {
    AddError(WritePlot(MemoryPlot(report, unswapped)), written);
  }
  if (html_.wanted() && drawable) {
    const absl::StatusOr<std::string> page = HtmlPage(report, unswapped);
    AddError(page.ok() ? html_.Write(*page) : page.status(), written);
  }
  return written;
}

absl::Status Outputs::WritePlot(const absl::StatusOr<std::string>& svg) {
  MR_RETURN_IF_ERROR(svg.status());
  MR_ASSIGN_OR_RETURN(const std::string image, ImageBytes(plot_path_, *svg));
  return plot_.Write(image);
}

absl::Status Outputs::WriteResults(const TrainResult& result, const Workload& workload, const Environment& environment) {
  absl::Status written;  // all errors; what can be written is
  const bool has_fetches = result.run.status.ok() || !result.run.step_seconds.empty();  // else no step ran
  if (!fetches_path_.empty() && has_fetches) {
    AddError(WriteArrays(NamedFetches(result.fetched, workload.fetch_names), fetches_path_, environment), written);
  }
  if (!profile_path_.empty()) {
    AddError(WriteProfile(result.times, profile_path_), written);
  }
  return written;
}

}  // namespace millrace::cli
