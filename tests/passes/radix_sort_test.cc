#include "passes/access/radix_sort.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>
#include <vector>

#include "passes/planner/gaps.h"

namespace millrace {
namespace {

TEST(RadixSort, OrdersAsAStableSortDoes) {
  std::mt19937_64 random(1);
  for (const size_t count : {0, 1, 100, 128, 5000, 40000}) {
    for (const uint64_t mask : {uint64_t{7}, uint64_t{0xff00}, uint64_t{0xff00000000000003}, ~uint64_t{0}}) {
      std::vector<Keyed> items(count);
      for (size_t i = 0; i < count; ++i) items[i] = {random() & mask, static_cast<int32_t>(i)};
      std::vector<Keyed> expected = items;
      std::stable_sort(expected.begin(), expected.end(), [](const Keyed& a, const Keyed& b) { return a.key < b.key; });
      SortByKey(items);
      for (size_t i = 0; i < count; ++i) ASSERT_EQ(items[i].index, expected[i].index) << count << " items, at " << i;
    }
  }
}

TEST(RadixSort, CountingOrdersAsAStableSortDoesAndLeavesOutWhatHasNoKey) {
  std::mt19937_64 random(3);
  for (const int32_t count : {0, 1, 5000}) {
    std::vector<int64_t> keys(count);
    for (int64_t& key : keys) key = static_cast<int64_t>(random() % 701) - 1;
    std::vector<int32_t> expected;
    for (int32_t i = 0; i < count; ++i) {
      if (keys[i] >= 0) expected.push_back(i);
    }
    std::stable_sort(expected.begin(), expected.end(), [&](int32_t a, int32_t b) { return keys[a] < keys[b]; });
    EXPECT_EQ(OrderByCounting(count, 700, [&](int32_t i) { return keys[i]; }), expected) << count;
  }
}

TEST(RadixSort, KeysAreInTheOrderOfWhatTheyStandFor) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const double numbers[] = {-kInfinity, -1e300, -2.5, -1e-310, 0.0, 1e-310, 1.0, 1.5, 1e300, kInfinity};
  for (size_t i = 1; i < std::size(numbers); ++i) EXPECT_LT(KeyOf(numbers[i - 1]), KeyOf(numbers[i])) << numbers[i];
  EXPECT_EQ(KeyOf(-0.0), KeyOf(0.0));
  EXPECT_LT(KeyOf(-1, 5), KeyOf(0, -7));
  EXPECT_LT(KeyOf(3, -1), KeyOf(3, 0));
  EXPECT_LT(KeyOf(3, INT32_MAX), KeyOf(4, INT32_MIN));
}

// Operations of no length, of very different ones, and moments on their borders.
TEST(GapGraph, FindsTheOperationOfAMoment) {
  std::mt19937 random(2);
  AccessGraph graph;
  for (int i = 0; i < 3000; ++i) {
    const int kind = static_cast<int>(random() % 4);
    graph.seconds.push_back(kind == 0 ? 0 : kind == 1 ? 1e-3 : kind == 2 ? 1e-7 * static_cast<double>(random() % 100) : 0.1);
    graph.scratch_bytes.push_back(0);
    graph.first_access.push_back(0);
  }
  graph.first_access.push_back(0);
  GapGraph gaps = FindGaps(graph, Machine());
  OrderGaps(gaps);
  const auto expect = [&](double t) {
    const auto after = std::upper_bound(gaps.start.begin(), gaps.start.end(), t);
    ASSERT_EQ(gaps.OperationAt(t), std::clamp<int64_t>(after - gaps.start.begin() - 1, 0, gaps.num_operations())) << t;
  };
  for (double t : gaps.start) {
    expect(t);
    expect(t - 1e-9);
    expect(t * (1 + 1e-15));
  }
  expect(-1);
  expect(2 * gaps.compute_seconds());
}

}  // namespace
}  // namespace millrace
