// The planner's memory profile against a plain list of numbers.
#include "passes/planner/segment_tree.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace millrace {
namespace {

int32_t LastAbove(const std::vector<int64_t>& values, int32_t begin, int32_t end, int64_t limit) {
  for (int32_t i = end - 1; i >= begin; --i) {
    if (values[i] > limit) return i;
  }
  return begin - 1;
}

TEST(SegmentTree, AnswersAsAListDoes) {
  std::mt19937 random(7);
  for (const int32_t n : {1, 2, 15, 16, 17, 31, 32, 33, 48, 100, 255, 257, 1000}) {
    std::vector<int64_t> values(n);
    for (int64_t& value : values) value = random() % 100;
    SegmentTree tree(values);
    for (int round = 0; round < 2000; ++round) {
      int32_t begin = static_cast<int32_t>(random() % (n + 1)), end = static_cast<int32_t>(random() % (n + 1));
      if (begin > end) std::swap(begin, end);
      if (random() % 4 == 0) end = std::min(n, begin + static_cast<int32_t>(random() % 20));
      if (random() % 2 == 0) {
        const int64_t value = static_cast<int64_t>(random() % 41) - 20;
        tree.Add(begin, end, value);
        for (int32_t i = begin; i < end; ++i) values[i] += value;
      }
      const int64_t limit = static_cast<int64_t>(random() % 200) - 50;
      ASSERT_EQ(tree.LastAbove(begin, end, limit), LastAbove(values, begin, end, limit)) << n << " " << begin << " " << end;
      if (begin == end) continue;
      ASSERT_EQ(tree.Max(begin, end), *std::max_element(values.begin() + begin, values.begin() + end)) << n;
    }
    std::vector<int64_t> read(n);
    tree.Read(read);
    EXPECT_EQ(read, values);
  }
}

TEST(SegmentTree, EmptyRangesHoldNothing) {
  SegmentTree tree({3, 4});
  tree.Add(1, 1, 100);
  EXPECT_LT(tree.Max(1, 1), 0);
  EXPECT_EQ(tree.Max(0, 2), 4);
  EXPECT_EQ(tree.LastAbove(1, 1, 0), 0);
  EXPECT_EQ(SegmentTree({}).LastAbove(0, 0, 0), -1);
}

}  // namespace
}  // namespace millrace
