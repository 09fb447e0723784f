// Exit statuses of the program: 0 done, 1 the run failed, 2 wrong usage, 3 does not fit the budget.
//
// Which one an error gives is decided where it is found, not by its code: an InvalidArgument from a flag is
// wrong usage, the same code from a graph is a failed run. So errors of kinds 2 and 3 are marked. A file that a flag names (of a
// SavedModel its graph, of a checkpoint its index) and that cannot be read is wrong usage, whichever flag it is; what is wrong in it is
// a failed run, but for files of settings (--flagfile, --machine, --profile_in), which count as flags.
#ifndef MILLRACE_SRC_CLI_EXIT_STATUS_H_
#define MILLRACE_SRC_CLI_EXIT_STATUS_H_

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "graph/with_message.h"  // WithMessage keeps these marks

namespace millrace::cli {

inline constexpr int kExitDone = 0;
inline constexpr int kExitFailed = 1;
inline constexpr int kExitUsage = 2;
inline constexpr int kExitDoesNotFit = 3;

// An InvalidArgument marked as wrong usage.
absl::Status UsageError(std::string_view message);
// The same error marked as wrong usage.
absl::Status AsUsageError(const absl::Status& status);
// The same error; a ResourceExhausted is marked as "does not fit". For errors of planning: of what runs it may be the disk that is full.
absl::Status AsPlanningError(const absl::Status& status);

// The same error of reading `path`, which a flag names: marked as wrong usage where that is no file that can be read.
absl::Status AsInputError(const absl::Status& status, const std::string& path);
template <typename T>
absl::StatusOr<T> ReadFrom(const std::string& path, absl::StatusOr<T> read) {
  if (read.ok()) return read;
  return AsInputError(read.status(), path);
}

// Adds an error to one that may be there already: the first one's kind, the messages of both.
void AddError(const absl::Status& another, absl::Status& status);

int ExitStatus(const absl::Status& status);

}  // namespace millrace::cli

#endif  // MILLRACE_SRC_CLI_EXIT_STATUS_H_
