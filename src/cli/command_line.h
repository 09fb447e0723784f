// The words of a command line: the command, its arguments, and flags, which are set in gflags' registry as they are met.
//
// Who links this defines the flags (main.cc) that src/cli/commands.cc names.
#ifndef MILLRACE_SRC_CLI_COMMAND_LINE_H_
#define MILLRACE_SRC_CLI_COMMAND_LINE_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cli/commands.h"

namespace millrace::cli {

// What remains of the command line when the flags are taken out.
struct Arguments {
  std::vector<std::string> words;  // the command, then its arguments
  std::vector<std::string> flags;  // names of the flags given on the command line itself
  std::vector<std::string> flags_of_files;
  bool help = false;
  bool version = false;
};

// Errors are wrong usage: flags that are not known, values of another type, flag files that cannot be read.
absl::StatusOr<Arguments> ParseArguments(const std::vector<std::string>& argv);

// Errors are wrong usage: words that the command does not take, sizes of 0.
absl::Status CheckArguments(const Command& command, const Arguments& arguments);

// Warns of flags that are likely a mistake, since they have no effect on the command, its model or its `strategies`
// (empty: no strategy plans here).
void WarnOfUselessFlags(const Command& command, const Arguments& arguments, const std::vector<std::string>& strategies);

// What --help shows: of the program, of a command.
std::string Usage();
std::string CommandUsage(const Command& command);

}  // namespace millrace::cli

#endif  // MILLRACE_SRC_CLI_COMMAND_LINE_H_
