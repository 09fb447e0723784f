// Output files that are whole or not there: written without a name, or under a temporary one beside the target where the
// file system needs one, then renamed.
#ifndef MILLRACE_SRC_FILES_ATOMIC_FILE_H_
#define MILLRACE_SRC_FILES_ATOMIC_FILE_H_

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace millrace {

// A file being written. Destroyed before Commit: the temporary is gone and a former file stays as it was.
// Where the target is an open descriptor (/dev/stdout, /dev/fd/3) or not a regular file (a pipe) bytes go straight to it. One
// thread at a time.
class AtomicFile {
 public:
  // Fails when the folder is not there or not writable: before the work whose result the file will hold. A named pipe is opened
  // when it has a reader; Cancelled when `cancelled` (null: never) says that nobody waits for one any more.
  static absl::StatusOr<std::unique_ptr<AtomicFile>> Create(const std::string& path, const std::function<bool()>& cancelled = nullptr);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  absl::Status Append(std::string_view bytes);
  // Makes the file appear under its name, its bytes on disk. Nothing may be appended afterwards.
  absl::Status Commit();
  // The same under another name in the same folder, which is settled only now.
  absl::Status CommitAs(const std::string& path);

 private:
  AtomicFile(std::string path, std::string temporary, int descriptor, bool nameless = false)
      : path_(std::move(path)), temporary_(std::move(temporary)), descriptor_(descriptor), nameless_(nameless) {}
  absl::Status Error(const char* what) const;
  absl::Status GiveName();

  std::string path_;
  std::string temporary_;  // empty when nameless, or written straight to path_
  int descriptor_ = -1;
  bool nameless_ = false;
};

// The file behind symbolic links, also where it is not there yet: what is written when `path` is.
std::string ResolveLinks(const std::string& path);

absl::Status WriteFileAtomically(const std::string& path, std::string_view contents);

}  // namespace millrace

#endif  // MILLRACE_SRC_FILES_ATOMIC_FILE_H_
