// The bytes of an input file, mapped rather than copied where the file allows it.
#ifndef MILLRACE_SRC_FILES_MAPPED_FILE_H_
#define MILLRACE_SRC_FILES_MAPPED_FILE_H_

#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace millrace {

// Immutable; any thread may read it. Blocks on the disk (and, for a pipe, on its writer) in Open and on first reads.
class MappedFile {
 public:
  // NotFound, PermissionDenied or InvalidArgument (a folder, a device) name the path.
  static absl::StatusOr<std::shared_ptr<const MappedFile>> Open(const std::string& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::string_view bytes() const { return bytes_; }

 private:
  MappedFile() = default;

  std::string_view bytes_;
  void* mapping_ = nullptr;  // nullptr: the bytes are in copy_
  std::string copy_;
};

}  // namespace millrace

#endif  // MILLRACE_SRC_FILES_MAPPED_FILE_H_
