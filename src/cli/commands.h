// The commands of the program. Each returns OK or an error whose exit status exit_status.h tells; results go to
// environment.out, files under their names only when they are whole.
#ifndef MILLRACE_SRC_CLI_COMMANDS_H_
#define MILLRACE_SRC_CLI_COMMANDS_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "cli/environment.h"
#include "cli/options.h"

namespace millrace::cli {

absl::Status RunCommand(const Options& options, const Environment& environment);
absl::Status CompareCommand(const Options& options, const Environment& environment);
absl::Status SweepCommand(const Options& options, const Environment& environment);
absl::Status PlanCommand(const Options& options, const Environment& environment);
absl::Status InspectCommand(const Options& options, const Environment& environment);
absl::Status ExportCommand(const Options& options, const Environment& environment);
absl::Status ExplainCommand(const Options& options, const Environment& environment);
absl::Status FitCommand(const Options& options, const Environment& environment);
absl::Status MachineCommand(const Options& options, const Environment& environment);
absl::Status ModelCommand(const Options& options, const Environment& environment);

struct Command {
  const char* name;
  const char* arguments;  // after the name: "NAME" for model
  const char* summary;
  absl::Status (*run)(const Options&, const Environment&);
  std::vector<const char*> flags;  // that have a meaning for it
  const char* example;
  const char* note = "";  // behind the flags in its help
};

// Flags that commands share: what is run; what generated models are; how steps are planned.
const std::vector<const char*>& InputFlags();
const std::vector<const char*>& SizeFlags();
const std::vector<const char*>& PlanningFlags();

absl::Span<const Command> Commands();
// nullptr when there is none of that name.
const Command* FindCommand(std::string_view name);

}  // namespace millrace::cli

#endif  // MILLRACE_SRC_CLI_COMMANDS_H_
