// millrace machine: the rates that plans are made for, as a file says or as measured here.
#include <fstream>
#include <string>
#include <thread>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "cli/commands.h"
#include "cli/exit_status.h"
#include "cli/measure.h"
#include "cli/outputs.h"
#include "cli/settings.h"
#include "millrace/status.h"
#include "report/machine_file.h"

namespace millrace::cli {
namespace {

// "AMD EPYC", as the kernel names the processor; empty where it does not.
std::string ProcessorName() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (!absl::StartsWith(line, "model name")) continue;
    return std::string(absl::StripAsciiWhitespace(line.substr(line.find(':') + 1)));
  }
  return "";
}

}  // namespace

absl::Status MachineCommand(const Options& options, const Environment& environment) {
  MR_RETURN_IF_ERROR(CheckNoDash("--out", options.out));
  MR_ASSIGN_OR_RETURN(SessionOptions session, MakeSessionOptions(options, "baseline"));
  if (options.measure && session.device == "null") return UsageError("--measure: the null device has no rates; use --device=cpu");
  if (options.measure && !options.engine.machine.empty()) {
    return UsageError("--measure finds the rates of this machine, --machine reads those of another: give one of them");
  }
  MR_ASSIGN_OR_RETURN(Outputs outputs, Outputs::Open(options.output));
  OutputFile file;
  MR_RETURN_IF_ERROR(file.Open(options.out));
  Machine machine = session.machine;
  std::string comment;
  if (options.measure) {
    MR_ASSIGN_OR_RETURN(machine, MeasureMachine(session, environment));
    machine.name = session.device;
    const unsigned threads = session.threads > 0 ? session.threads : std::thread::hardware_concurrency();
    const std::string processor = ProcessorName();
    comment = absl::StrCat("# Measured by millrace machine --measure on the device ", session.device, " with ", threads, " threads",
                           processor.empty() ? "" : absl::StrCat(" (host: ", processor, ")"),
                           session.link_gbps > 0 ? absl::StrCat(" and a link of ", session.link_gbps, " GB/s") : "",
                           ": kernels of MatMul, Conv2D and AddV2, copies of 64 MiB and of 64 bytes.\n");
  }
  absl::Status written = outputs.WriteReport({.machine = machine}, nullptr);
  const std::string text = comment + MachineToText(machine);
  if (!file.wanted()) {
    *environment.out << text;
    return written;
  }
  AddError(file.Write(text), written);
  *environment.out << options.out << ": " << machine.name << "\n" << text;
  return written;
}

}  // namespace millrace::cli
