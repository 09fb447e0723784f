#include "cli/reuse_memory.h"

#include <cstdlib>
#include <limits>

#ifdef __GLIBC__
#include <malloc.h>
#endif

namespace millrace::cli {

void ReuseFreedMemory() {
#ifdef __GLIBC__
  constexpr int kNever = std::numeric_limits<int>::max();
  constexpr int kAtOnceBytes = 64 << 20;
  mallopt(M_MMAP_THRESHOLD, kNever);
  mallopt(M_TRIM_THRESHOLD, kNever);
  mallopt(M_TOP_PAD, kAtOnceBytes);
#endif
}

}  // namespace millrace::cli
