#include "files/atomic_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "millrace/status.h"

namespace millrace {
namespace {

constexpr int kOpenAttempts = 100;

absl::Status FileError(const std::string& path, const char* what, int error) {
  return absl::ErrnoToStatus(error, absl::StrCat("cannot ", what, " ", path));
}

// The file behind symbolic links, so that a link is written through instead of replaced.
std::string ResolveLinks(const std::string& path) {
  std::error_code error;
  const auto resolved = std::filesystem::weakly_canonical(path, error);
  return error ? path : resolved.string();
}

}  // namespace

absl::StatusOr<std::unique_ptr<AtomicFile>> AtomicFile::Create(const std::string& path) {
  struct stat existing;
  const bool exists = stat(path.c_str(), &existing) == 0;
  if (exists && S_ISDIR(existing.st_mode)) return FileError(path, "write", EISDIR);
  if (exists && !S_ISREG(existing.st_mode)) {
    const int descriptor = open(path.c_str(), O_WRONLY | O_CLOEXEC);
    if (descriptor < 0) return FileError(path, "write", errno);
    return std::unique_ptr<AtomicFile>(new AtomicFile(path, "", descriptor));
  }
  const std::string target = ResolveLinks(path);
  for (int attempt = 0; attempt < kOpenAttempts; ++attempt) {
    const std::string temporary = absl::StrCat(target, ".", getpid(), ".", attempt, ".part");
    const int descriptor = open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (descriptor >= 0) return std::unique_ptr<AtomicFile>(new AtomicFile(target, temporary, descriptor));
    if (errno != EEXIST) return FileError(path, "write", errno);
  }
  return FileError(path, "write", EEXIST);
}

AtomicFile::~AtomicFile() {
  if (descriptor_ >= 0) close(descriptor_);
  if (!temporary_.empty()) unlink(temporary_.c_str());
}

absl::Status AtomicFile::Error(const char* what) const { return FileError(path_, what, errno); }

absl::Status AtomicFile::Append(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = write(descriptor_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return Error("write");
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return absl::OkStatus();
}

absl::Status AtomicFile::Commit() {
  if (!temporary_.empty() && fsync(descriptor_) != 0) return Error("write");
  const int descriptor = descriptor_;
  descriptor_ = -1;
  if (close(descriptor) != 0) return Error("write");
  if (!temporary_.empty() && rename(temporary_.c_str(), path_.c_str()) != 0) return Error("write");
  temporary_.clear();
  return absl::OkStatus();
}

absl::Status WriteFileAtomically(const std::string& path, std::string_view contents) {
  MR_ASSIGN_OR_RETURN(std::unique_ptr<AtomicFile> file, AtomicFile::Create(path));
  MR_RETURN_IF_ERROR(file->Append(contents));
  return file->Commit();
}

}  // namespace millrace
