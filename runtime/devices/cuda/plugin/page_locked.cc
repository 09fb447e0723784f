#include "cuda/plugin/page_locked.h"

#include <iterator>
#include <map>
#include <mutex>

namespace millrace::cuda {
namespace {

struct Ranges {
  std::mutex mutex;
  std::map<const char*, int64_t> bytes;  // by where they begin
};
Ranges& All() {
  static auto* const ranges = new Ranges;
  return *ranges;
}

}  // namespace

void AddPageLocked(const void* memory, int64_t bytes) {
  const std::lock_guard<std::mutex> lock(All().mutex);
  All().bytes[static_cast<const char*>(memory)] = bytes;
}

void RemovePageLocked(const void* memory) {
  const std::lock_guard<std::mutex> lock(All().mutex);
  All().bytes.erase(static_cast<const char*>(memory));
}

bool IsPageLocked(const void* at, int64_t bytes) {
  const char* const begin = static_cast<const char*>(at);
  const std::lock_guard<std::mutex> lock(All().mutex);
  const auto behind = All().bytes.upper_bound(begin);
  if (behind == All().bytes.begin()) return false;
  const auto& [first, size] = *std::prev(behind);
  return begin + bytes <= first + size;
}

}  // namespace millrace::cuda
