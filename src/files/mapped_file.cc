#include "files/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace millrace {
namespace {

absl::Status FileError(const std::string& path, int error) {
  return absl::ErrnoToStatus(error, absl::StrCat("cannot read ", path));
}

class Descriptor {
 public:
  explicit Descriptor(int value) : value_(value) {}
  ~Descriptor() {
    if (value_ >= 0) close(value_);
  }
  int value() const { return value_; }

 private:
  int value_;
};

}  // namespace

absl::StatusOr<std::shared_ptr<const MappedFile>> MappedFile::Open(const std::string& path) {
  const Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.value() < 0) return FileError(path, errno);
  struct stat info;
  if (fstat(file.value(), &info) != 0) return FileError(path, errno);
  if (S_ISDIR(info.st_mode)) return absl::InvalidArgumentError(absl::StrCat(path, " is a folder, expected a file"));
  // Such as /dev/zero never end.
  if (S_ISBLK(info.st_mode) || (S_ISCHR(info.st_mode) && isatty(file.value()) == 0)) {
    return absl::InvalidArgumentError(absl::StrCat(path, " is a device, expected a file or a pipe"));
  }
  std::shared_ptr<MappedFile> result(new MappedFile());
  if (S_ISREG(info.st_mode)) {
    if (info.st_size == 0) return std::shared_ptr<const MappedFile>(std::move(result));
    const size_t size = static_cast<size_t>(info.st_size);
    void* mapping = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.value(), 0);
    if (mapping == MAP_FAILED) return FileError(path, errno);
    result->mapping_ = mapping;
    result->bytes_ = std::string_view(static_cast<const char*>(mapping), size);
    return std::shared_ptr<const MappedFile>(std::move(result));
  }
  char buffer[1 << 16];
  ssize_t count = 0;
  while ((count = read(file.value(), buffer, sizeof(buffer))) != 0) {
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return FileError(path, errno);
    result->copy_.append(buffer, count);
  }
  result->bytes_ = result->copy_;
  return std::shared_ptr<const MappedFile>(std::move(result));
}

MappedFile::~MappedFile() {
  if (mapping_ != nullptr) munmap(mapping_, bytes_.size());
}

}  // namespace millrace
