// Writes a zip archive front to back, so that an AtomicFile (or a pipe) can hold it.
#ifndef MILLRACE_SRC_FILES_ZIP_WRITER_H_
#define MILLRACE_SRC_FILES_ZIP_WRITER_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "files/atomic_file.h"

namespace millrace {

// Members are stored, not deflated, carry no time of day, and may be larger than 4 GiB (zip64 throughout).
class ZipWriter {
 public:
  // `file` must outlive the writer; the caller commits it after Finish.
  explicit ZipWriter(AtomicFile& file) : file_(file) {}

  // Adds a member that holds the parts one after another. InvalidArgument when the name is longer than 65535 bytes.
  absl::Status Add(const std::string& name, const std::vector<std::string_view>& parts);
  absl::Status Finish();

 private:
  absl::Status Append(std::string_view bytes);

  AtomicFile& file_;
  uint64_t offset_ = 0;
  uint64_t members_ = 0;
  std::string directory_;
};

}  // namespace millrace

#endif  // MILLRACE_SRC_FILES_ZIP_WRITER_H_
