#include "cli/reuse_memory.h"

#include <algorithm>
#include <cstdlib>
#include <utility>
#include <vector>

#ifdef __GLIBC__
#include <malloc.h>
#include <sys/mman.h>
#endif

namespace millrace::cli {

namespace {

std::vector<std::shared_ptr<const void>>& Kept() {
  static std::vector<std::shared_ptr<const void>>& kept = *new std::vector<std::shared_ptr<const void>>;
  return kept;
}

#ifdef __GLIBC__
// Takes memory from the end of the heap in pieces, gives the kernel `advice` on it, and leaves it free: the heap keeps it.
void GrowHeap(int64_t bytes, int advice) {
  constexpr int64_t kLittle = 16 << 20, kPiece = int64_t{512} << 20;
  constexpr uintptr_t kPage = 4096;
  if (bytes < kLittle) return;
  std::vector<void*> pieces;
  for (; bytes > 0; bytes -= kPiece) {
    const int64_t size = std::min(bytes, kPiece);
    pieces.push_back(std::malloc(size));
    if (pieces.back() == nullptr) break;
    const auto begin = reinterpret_cast<uintptr_t>(pieces.back());
    const uintptr_t first = (begin + kPage - 1) / kPage * kPage, end = (begin + size) / kPage * kPage;
    if (madvise(reinterpret_cast<void*>(first), end - first, advice) != 0) break;
  }
  for (void* piece : pieces) std::free(piece);
}
#endif

}  // namespace

void KeepUntilTheEnd(std::shared_ptr<const void> result) { Kept().push_back(std::move(result)); }

void ReuseFreedMemory() {
  Kept().clear();
#ifdef __GLIBC__
  constexpr int kNever = -1;  // the largest int would be 2 GiB, which is little here
  constexpr int kAtOnceBytes = 64 << 20;
  mallopt(M_MMAP_MAX, 0);
  mallopt(M_TRIM_THRESHOLD, kNever);
  mallopt(M_TOP_PAD, kAtOnceBytes);
#endif
}

void UseHugePages(int64_t bytes) {
#if defined(__GLIBC__) && defined(MADV_HUGEPAGE)
  constexpr int64_t kMost = int64_t{16} << 30;
  GrowHeap(std::min(bytes, kMost), MADV_HUGEPAGE);
#endif
}

void ExpectToAllocate(int64_t bytes) {
#if defined(__GLIBC__) && defined(MADV_POPULATE_WRITE)
  GrowHeap(bytes, MADV_POPULATE_WRITE);
#endif
}

}  // namespace millrace::cli
