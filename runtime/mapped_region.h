// Anonymous memory straight from the system: zeroed, on huge pages where there are any, and not resident until
// it is touched.
#ifndef MILLRACE_RUNTIME_MAPPED_REGION_H_
#define MILLRACE_RUNTIME_MAPPED_REGION_H_

#include <cstdint>
#include <istream>

#include "absl/status/statusor.h"

namespace millrace {

class MappedRegion {
 public:
  MappedRegion() = default;
  MappedRegion(MappedRegion&& other) noexcept { *this = std::move(other); }
  MappedRegion& operator=(MappedRegion&& other) noexcept;
  ~MappedRegion();

  // Maps `bytes`, rounded up to whole pages, at an address aligned to a huge page. ResourceExhausted names `what`.
  static absl::StatusOr<MappedRegion> Create(int64_t bytes, const char* what);

  char* data() const { return data_; }
  int64_t size_bytes() const { return size_bytes_; }
  // Nothing else is mapped there before the process ends: a device may use it still.
  void KeepForever() { kept_ = true; }
  // Mapped memory is zero from `begin` to `end` then. Pages of it that lie within what is unused, which is zero where this is not, are not
  // resident any more.
  static void Clear(char* begin, char* end, const char* unused_begin, const char* unused_end);

 private:
  char* data_ = nullptr;
  int64_t size_bytes_ = 0;
  bool kept_ = false;
};

// Of [data, data + bytes), or of mappings that go beyond it: how much lies on huge pages now, by the text of /proc/self/smaps.
int64_t HugePageBytes(std::istream& smaps, const void* data, int64_t bytes);

}  // namespace millrace

#endif  // MILLRACE_RUNTIME_MAPPED_REGION_H_
