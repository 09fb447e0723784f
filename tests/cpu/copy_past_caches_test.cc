// Every byte and no other, wherever both ends lie in their lines.
#include "cpu/copy_past_caches.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

namespace millrace::cpu {
namespace {

constexpr int64_t kMargin = 128, kMost = 300;

std::vector<uint8_t> Pattern(int64_t bytes) {
  std::vector<uint8_t> pattern(bytes);
  for (int64_t i = 0; i < bytes; ++i) pattern[i] = static_cast<uint8_t>(1 + i % 251);
  return pattern;
}

TEST(CopyPastCachesTest, CopiesAllBytesAndLeavesTheRest) {
  const std::vector<uint8_t> source = Pattern(kMargin + kMost);
  for (int64_t from : {0, 1, 17, 64}) {
    for (int64_t to = 0; to < 64; to += 7) {
      for (int64_t bytes = 0; bytes <= kMost; ++bytes) {
        std::vector<uint8_t> destination(2 * kMargin + kMost, 0), expected = destination;
        std::copy_n(source.begin() + from, bytes, expected.begin() + kMargin + to);
        CopyPastCaches(destination.data() + kMargin + to, source.data() + from, bytes);
        ASSERT_EQ(destination, expected) << bytes << " bytes from " << from << " to " << to;
      }
    }
  }
}

TEST(CopyPastCachesTest, CopiesMegabytes) {
  const std::vector<uint8_t> source = Pattern((4 << 20) + 3);
  std::vector<uint8_t> destination(source.size());
  CopyPastCaches(destination.data(), source.data(), static_cast<int64_t>(source.size()));
  EXPECT_EQ(destination, source);
}

}  // namespace
}  // namespace millrace::cpu
