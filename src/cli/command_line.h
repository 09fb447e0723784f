// The words of a command line: the command, its arguments, and flags, which are set as they are met.
#ifndef MILLRACE_SRC_CLI_COMMAND_LINE_H_
#define MILLRACE_SRC_CLI_COMMAND_LINE_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cli/commands.h"

namespace millrace::cli {

// The program's flags by name: main.cc has them.
class FlagRegistry {
 public:
  struct Flag {
    std::string type;  // "bool", "string", "int64", ...
    std::string default_value;
    std::string description;
  };
  virtual ~FlagRegistry() = default;
  virtual std::optional<Flag> Find(const std::string& name) const = 0;
  // False when the value is none of the flag's type.
  virtual bool Set(const std::string& name, const std::string& value) = 0;
  virtual std::string Value(const std::string& name) const = 0;
};

// What remains of the command line when the flags are taken out.
struct Arguments {
  std::vector<std::string> words;  // the command, then its arguments; without a leading "help", which is --help
  std::vector<std::string> flags;  // names of the flags given on the command line itself
  std::vector<std::string> flags_of_files;
  std::vector<std::string> flag_files;  // that were read
  bool help = false;
  bool version = false;
};

// Errors are wrong usage: flags that are not known, values of another type, flag files that cannot be read.
absl::StatusOr<Arguments> ParseArguments(const std::vector<std::string>& argv, FlagRegistry& registry);

// Errors are wrong usage: no such command, the message has those that there are.
absl::StatusOr<const Command*> ExpectCommand(const std::string& name);

// Errors are wrong usage: words that the command does not take, sizes of 0.
absl::Status CheckArguments(const Command& command, const Arguments& arguments, const FlagRegistry& registry);

// Sets flags back that the command does not take, and warns of them: they are likely a mistake, but scripts share flags among
// commands. Files of flags are made for several: they are not warned of.
void DropUnusedFlags(const Command& command, const Arguments& arguments, FlagRegistry& registry);

// Warns of flags that are likely a mistake, since they have no effect on the command's model or its `strategies` (empty: no
// strategy plans here).
void WarnOfUselessFlags(const Command& command, const Arguments& arguments, const std::vector<std::string>& strategies,
                        const FlagRegistry& registry);

}  // namespace millrace::cli

#endif  // MILLRACE_SRC_CLI_COMMAND_LINE_H_
