#include "cli/exit_status.h"

#include <unistd.h>

#include <filesystem>
#include <string>
#include <system_error>

#include "absl/strings/cord.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "files/mapped_file.h"

namespace millrace::cli {
namespace {

constexpr char kPayload[] = "millrace/exit_status";

absl::Status Marked(absl::Status status, const char* exit_status) {
  status.SetPayload(kPayload, absl::Cord(exit_status));
  return status;
}

}  // namespace

absl::Status UsageError(std::string_view message) {
  return AsUsageError(absl::InvalidArgumentError(std::string(message)));
}

absl::Status AsUsageError(const absl::Status& status) { return status.ok() ? status : Marked(status, "2"); }

absl::Status AsPlanningError(const absl::Status& status) {
  return absl::IsResourceExhausted(status) ? Marked(status, "3") : status;
}

absl::Status AsInputError(const absl::Status& status, const std::string& path) {
  std::error_code error;
  // What came through a pipe was read, and is gone.
  const bool is_pipe = std::filesystem::is_fifo(path, error) && access(path.c_str(), R_OK) == 0;
  const bool readable = std::filesystem::is_regular_file(path, error) ? MappedFile::Open(path).ok() : is_pipe;
  return readable ? status : AsUsageError(status);
}

void AddError(const absl::Status& another, absl::Status& status) {
  if (status.ok()) {
    status = another;
  } else if (!another.ok()) {
    status = WithMessage(status, absl::StrCat(status.message(), "; ", another.message()));
  }
}

int ExitStatus(const absl::Status& status) {
  if (status.ok()) return kExitDone;
  const auto payload = status.GetPayload(kPayload);
  int exit_status = kExitFailed;
  if (payload.has_value() && absl::SimpleAtoi(std::string(*payload), &exit_status)) return exit_status;
  return kExitFailed;
}

}  // namespace millrace::cli
