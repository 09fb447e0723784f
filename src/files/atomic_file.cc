#include "files/atomic_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <system_error>
#include <thread>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "millrace/status.h"

namespace millrace {
namespace {

constexpr int kAttempts = 100;
constexpr int kMostLinks = 40;  // as the kernel has it

absl::Status FileError(const std::string& path, const char* what, int error) {
  return absl::ErrnoToStatus(error, absl::StrCat("cannot ", what, " ", path));
}

// The open descriptor that a path names (/dev/stdout, /dev/fd/3), whatever it was opened on; -1: none.
int DescriptorOf(const std::string& path) {
  std::error_code error;
  const std::filesystem::path descriptors = std::filesystem::canonical("/proc/self/fd", error);
  std::filesystem::path resolved = path;
  for (int i = 0; i < kMostLinks && !error; ++i) {
    int descriptor = -1;
    const bool is_number = absl::SimpleAtoi(resolved.filename().string(), &descriptor);
    if (is_number && std::filesystem::canonical(resolved.parent_path(), error) == descriptors) return descriptor;
    const std::filesystem::path behind = std::filesystem::read_symlink(resolved, error);
    resolved = resolved.parent_path() / behind;
  }
  return -1;
}

// A named pipe, which cannot be opened before it has a reader. A wait inside open() would outlast a signal whose handler goes on.
absl::StatusOr<int> OpenPipe(const std::string& path, const std::function<bool()>& cancelled) {
  constexpr auto kBetweenTries = std::chrono::milliseconds(20);
  int descriptor = -1;
  while ((descriptor = open(path.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC)) < 0) {
    if (errno != ENXIO) return FileError(path, "write", errno);
    if (cancelled && cancelled()) return absl::CancelledError(absl::StrCat("interrupted while the pipe ", path, " had no reader"));
    std::this_thread::sleep_for(kBetweenTries);
  }
  fcntl(descriptor, F_SETFL, O_WRONLY);  // a full pipe is waited for
  return descriptor;
}

std::string ProcName(int descriptor) { return absl::StrCat("/proc/self/fd/", descriptor); }

// A file in `target`'s folder that has no name yet, so that nothing is left of a process that is killed; -1 where the
// file system has no such files or they could not be named.
int OpenNameless(const std::string& target) {
  const std::filesystem::path folder = std::filesystem::path(target).parent_path();
  const int descriptor = open(folder.empty() ? "." : folder.c_str(), O_WRONLY | O_TMPFILE | O_CLOEXEC, 0666);
  if (descriptor < 0 || access(ProcName(descriptor).c_str(), F_OK) == 0) return descriptor;
  close(descriptor);
  return -1;
}

// The first temporary name in `target`'s folder that `make`, called with it, does not find taken; what `make` returned, with errno.
// It does not hold the target's name, which may be as long as a name can be.
template <typename Make>
std::pair<std::string, int> NextFree(const std::string& target, const Make& make) {
  const std::filesystem::path folder = std::filesystem::path(target).parent_path();
  std::string name;
  int result = -1;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    name = (folder / absl::StrCat(".millrace.", getpid(), ".", attempt, ".part")).string();
    result = make(name.c_str());
    if (result >= 0 || errno != EEXIST) break;
  }
  return {name, result};
}

}  // namespace

// So that a link is written through instead of replaced.
std::string ResolveLinks(const std::string& path) {
  std::filesystem::path resolved = path;
  for (int i = 0; i < kMostLinks; ++i) {
    std::error_code error;
    const std::filesystem::path behind = std::filesystem::read_symlink(resolved, error);
    if (error) break;
    resolved = resolved.parent_path() / behind;
  }
  return resolved.string();
}

absl::StatusOr<std::unique_ptr<AtomicFile>> AtomicFile::Create(const std::string& path, const std::function<bool()>& cancelled) {
  // What a shell redirected to a file is not replaced: others write there, too.
  if (const int named = DescriptorOf(path); named >= 0) {
    const int flags = fcntl(named, F_GETFL);
    if (flags < 0 || (flags & O_ACCMODE) == O_RDONLY) return FileError(path, "write", EBADF);
    const int descriptor = fcntl(named, F_DUPFD_CLOEXEC, 0);
    if (descriptor < 0) return FileError(path, "write", errno);
    return std::unique_ptr<AtomicFile>(new AtomicFile(path, "", descriptor));
  }
  struct stat existing;
  const bool exists = stat(path.c_str(), &existing) == 0;
  if (!exists && errno != ENOENT) return FileError(path, "write", errno);
  if (exists && S_ISDIR(existing.st_mode)) return FileError(path, "write", EISDIR);
  if (exists && S_ISFIFO(existing.st_mode)) {
    MR_ASSIGN_OR_RETURN(const int descriptor, OpenPipe(path, cancelled));
    return std::unique_ptr<AtomicFile>(new AtomicFile(path, "", descriptor));
  }
  if (exists && !S_ISREG(existing.st_mode)) {
    const int descriptor = open(path.c_str(), O_WRONLY | O_CLOEXEC);
    if (descriptor < 0) return FileError(path, "write", errno);
    return std::unique_ptr<AtomicFile>(new AtomicFile(path, "", descriptor));
  }
  if (exists && access(path.c_str(), W_OK) != 0) return FileError(path, "write", errno);
  const std::string target = ResolveLinks(path);
  std::unique_ptr<AtomicFile> file;
  if (const int nameless = OpenNameless(target); nameless >= 0) {
    file.reset(new AtomicFile(target, "", nameless, /*nameless=*/true));
  } else {
    const auto [temporary, descriptor] = NextFree(target, [](const char* name) {
      return open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    });
    if (descriptor < 0) return FileError(path, "write", errno);
    file.reset(new AtomicFile(target, temporary, descriptor));
  }
  // Who could not read the former file cannot read the new one.
  if (exists && fchmod(file->descriptor_, existing.st_mode & 07777) != 0) return FileError(path, "write", errno);
  return file;
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

absl::Status AtomicFile::GiveName() {
  const std::string from = ProcName(descriptor_);
  const auto [temporary, result] = NextFree(path_, [&](const char* name) {
    return linkat(AT_FDCWD, from.c_str(), AT_FDCWD, name, AT_SYMLINK_FOLLOW);
  });
  if (result != 0) return Error("write");
  temporary_ = temporary;
  nameless_ = false;
  return absl::OkStatus();
}

absl::Status AtomicFile::Commit() {
  const bool renamed = nameless_ || !temporary_.empty();
  if (renamed && fsync(descriptor_) != 0) return Error("write");
  if (nameless_) MR_RETURN_IF_ERROR(GiveName());
  const int descriptor = descriptor_;
  descriptor_ = -1;
  if (close(descriptor) != 0) return Error("write");
  if (renamed && rename(temporary_.c_str(), path_.c_str()) != 0) return Error("write");
  temporary_.clear();
  return absl::OkStatus();
}

absl::Status AtomicFile::CommitAs(const std::string& path) {
  path_ = ResolveLinks(path);
  return Commit();
}

absl::Status WriteFileAtomically(const std::string& path, std::string_view contents) {
  MR_ASSIGN_OR_RETURN(std::unique_ptr<AtomicFile> file, AtomicFile::Create(path));
  MR_RETURN_IF_ERROR(file->Append(contents));
  return file->Commit();
}

}  // namespace millrace
