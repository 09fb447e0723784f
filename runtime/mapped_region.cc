#include "runtime/mapped_region.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "millrace/types.h"

namespace millrace {
namespace {
constexpr int64_t kHugePageBytes = int64_t{2} << 20;
constexpr int64_t kMaxBytes = int64_t{1} << 46;  // more than any address space here holds

int64_t PageBytes() { return sysconf(_SC_PAGESIZE); }
}  // namespace

MappedRegion& MappedRegion::operator=(MappedRegion&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_bytes_, other.size_bytes_);
  std::swap(kept_, other.kept_);
  return *this;
}

MappedRegion::~MappedRegion() {
  if (data_ != nullptr && !kept_) munmap(data_, size_bytes_);
}

absl::StatusOr<MappedRegion> MappedRegion::Create(int64_t bytes, const char* what) {
  const auto refuse = [&](const char* why) {
    return absl::ResourceExhaustedError(absl::StrCat("cannot map ", bytes, " bytes for ", what, ": ", why));
  };
  if (bytes < 0 || bytes > kMaxBytes) return refuse("more than the address space holds");
  const int64_t size = AlignUp(std::max<int64_t>(bytes, 1), PageBytes());
  // Mapped with room to align, the ends given back.
  const int64_t mapped = size + kHugePageBytes;
  void* start = mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (start == MAP_FAILED) return refuse(strerror(errno));
  char* begin = static_cast<char*>(start);
  char* data = reinterpret_cast<char*>(AlignUp(reinterpret_cast<intptr_t>(begin), kHugePageBytes));
  if (data > begin) munmap(begin, data - begin);
  if (data + size < begin + mapped) munmap(data + size, begin + mapped - (data + size));
  madvise(data, size, MADV_HUGEPAGE);  // a hint: refused where huge pages are off
  MappedRegion region;
  region.data_ = data;
  region.size_bytes_ = size;
  return region;
}

void MappedRegion::Clear(char* begin, char* end, const char* unused_begin, const char* unused_end) {
  const auto page = static_cast<uintptr_t>(PageBytes());
  const auto page_of = [page](char* at) { return at - reinterpret_cast<uintptr_t>(at) % page; };
  char* const first = page_of(begin) >= unused_begin ? page_of(begin) : page_of(begin + page - 1);
  char* const last = page_of(end + page - 1) <= unused_end ? page_of(end + page - 1) : page_of(end);
  // Refused of pages that are locked.
  if (first >= last || madvise(first, last - first, MADV_DONTNEED) != 0) {
    std::memset(begin, 0, end - begin);
    return;
  }
  if (begin < first) std::memset(begin, 0, first - begin);
  if (last < end) std::memset(last, 0, end - last);
}

int64_t HugePageBytes(std::istream& smaps, const void* data, int64_t bytes) {
  const auto begin = reinterpret_cast<uintptr_t>(data), end = begin + static_cast<uintptr_t>(bytes);
  int64_t huge = 0;
  bool holds = false;  // the mapping that is being read
  for (std::string line; std::getline(smaps, line);) {
    uintptr_t from = 0, to = 0;
    int64_t kilobytes = 0;
    if (std::sscanf(line.c_str(), "%" SCNxPTR "-%" SCNxPTR " ", &from, &to) == 2) holds = from < end && begin < to;
    if (holds && std::sscanf(line.c_str(), "AnonHugePages: %" SCNd64 " kB", &kilobytes) == 1) huge += kilobytes << 10;
  }
  return huge;
}

}  // namespace millrace
