#include "cli/reuse_memory.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

namespace millrace::cli {
namespace {

#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
constexpr bool kSystemHeap = true;
#else
constexpr bool kSystemHeap = false;
#endif

// Whether the kernel was asked for huge pages where `address` is: "hg" among the flags of its mapping.
bool IsAdvisedHuge(const void* address) {
  std::ifstream maps("/proc/self/smaps");
  const auto at = reinterpret_cast<uintptr_t>(address);
  bool inside = false;
  for (std::string line; std::getline(maps, line);) {
    uintptr_t begin = 0, end = 0;
    if (std::sscanf(line.c_str(), "%lx-%lx ", &begin, &end) == 2) inside = begin <= at && at < end;
    if (inside && line.starts_with("VmFlags:")) return line.find(" hg") != std::string::npos;
  }
  return false;
}

TEST(ReuseMemoryTest, WhatIsAllocatedNextLiesOnHugePages) {
  if (!kSystemHeap) GTEST_SKIP() << "another allocator than the C library's";
  if (!std::filesystem::exists("/sys/kernel/mm/transparent_hugepage")) GTEST_SKIP() << "a kernel without huge pages";
  constexpr int64_t kBytes = 64 << 20;
  ReuseFreedMemory();
  const std::unique_ptr<void, decltype(&std::free)> before(std::malloc(kBytes), &std::free);
  EXPECT_FALSE(IsAdvisedHuge(static_cast<char*>(before.get()) + kBytes / 2));
  UseHugePages(4 * kBytes);
  const std::unique_ptr<void, decltype(&std::free)> after(std::malloc(kBytes), &std::free);
  EXPECT_TRUE(IsAdvisedHuge(static_cast<char*>(after.get()) + kBytes / 2));
}

TEST(ReuseMemoryTest, TheHeapKeepsWhatItGrewByAlsoAboveTwoGiB) {
  if (!kSystemHeap) GTEST_SKIP() << "another allocator than the C library's";
  constexpr int64_t kBytes = int64_t{3} << 30;
  ReuseFreedMemory();
  const auto* before = static_cast<const char*>(sbrk(0));
  UseHugePages(kBytes);
  const int64_t grown = static_cast<const char*>(sbrk(0)) - before;
  if (grown == 0) GTEST_SKIP() << "the system gives the heap no " << kBytes << " bytes of addresses";
  EXPECT_GE(grown, kBytes / 2);  // the heap's free end counts
}

TEST(ReuseMemoryTest, LittleMemoryIsLeftAlone) {
  ReuseFreedMemory();
  const void* before = sbrk(0);
  UseHugePages(1 << 20);
  ExpectToAllocate(1 << 20);
  EXPECT_EQ(sbrk(0), before);
}

}  // namespace
}  // namespace millrace::cli
