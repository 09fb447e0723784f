#include "cli/reuse_memory.h"

#include <cstdlib>
#include <limits>
#include <utility>
#include <vector>

#ifdef __GLIBC__
#include <malloc.h>
#endif

namespace millrace::cli {

namespace {

std::vector<std::shared_ptr<const void>>& Kept() {
  static std::vector<std::shared_ptr<const void>>& kept = *new std::vector<std::shared_ptr<const void>>;
  return kept;
}

}  // namespace

void KeepUntilTheEnd(std::shared_ptr<const void> result) { Kept().push_back(std::move(result)); }

void ReuseFreedMemory() {
  Kept().clear();
#ifdef __GLIBC__
  constexpr int kNever = std::numeric_limits<int>::max();
  constexpr int kAtOnceBytes = 64 << 20;
  mallopt(M_MMAP_THRESHOLD, kNever);
  mallopt(M_TRIM_THRESHOLD, kNever);
  mallopt(M_TOP_PAD, kAtOnceBytes);
#endif
}

}  // namespace millrace::cli
