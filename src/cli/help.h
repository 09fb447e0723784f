// What --help shows, and what is offered in place of names that are not there.
#ifndef MILLRACE_SRC_CLI_HELP_H_
#define MILLRACE_SRC_CLI_HELP_H_

#include <string>
#include <vector>

#include "cli/command_line.h"
#include "cli/commands.h"

namespace millrace::cli {

// Of the program: its commands.
std::string Usage();
// Of a command: its flags under headings, with their defaults.
std::string CommandUsage(const Command& command, const FlagRegistry& registry);

// "; nearest: --graph" for up to three of `names` that look like `name`, each behind `before`; empty where none does.
std::string NearestText(const std::string& name, const std::vector<std::string>& names, const std::string& before);

}  // namespace millrace::cli

#endif  // MILLRACE_SRC_CLI_HELP_H_
