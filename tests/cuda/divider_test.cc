// Division by what is known before a launch, for all dividends and for those below 2^31.
#include <algorithm>
#include <random>

#include <gtest/gtest.h>

#include "cuda/launch/scalar.h"

namespace millrace::cuda {
namespace {

TEST(DividerTest, QuotientsAndRestsAreExact) {
  std::mt19937_64 random(1);
  const auto number = [&] { return static_cast<int64_t>(random() >> 1 >> random() % 63); };
  const auto expect = [](int64_t i, int64_t by) {
    const Divider divider = DivideBy(by, INT64_MAX);
    ASSERT_EQ(divider(i), i / by) << i << " / " << by;
    ASSERT_EQ(divider.Split<false>(i).rest, i % by) << i << " / " << by;
    if (by > INT32_MAX || i > INT32_MAX) return;
    const auto small = DivideBy(by, int64_t{1} << 31).Split<true>(i);
    ASSERT_EQ(small.quotient, i / by) << i << " / " << by;
    ASSERT_EQ(small.rest, i % by) << i << " / " << by;
  };
  for (int round = 0; round < 20000; ++round) {
    const int64_t by = std::max<int64_t>(round < 2000 ? round : number(), 1);
    for (int64_t most : {int64_t{INT64_MAX}, int64_t{INT32_MAX}, number()}) {
      // The largest multiple and what is beside it are where a wrong inverse shows.
      for (int64_t i : {most, most / by * by, std::max<int64_t>(most / by * by - 1, 0)}) expect(i, by);
    }
  }
  EXPECT_EQ(DivideBy(3, (int64_t{1} << 31) + 1).small_magic, 0u);
  EXPECT_EQ(DivideBy(int64_t{1} << 31, 1).small_magic, 0u);
}

}  // namespace
}  // namespace millrace::cuda
