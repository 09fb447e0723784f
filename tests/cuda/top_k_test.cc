// The greatest of rows by a sort have the bits of the greatest one after another, for every type of element and index.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <random>
#include <string>
#include <type_traits>
#include <vector>

#include <gtest/gtest.h>

#include "cuda/launch/queue.h"
#include "cuda/launch/scan.h"

namespace millrace::cuda {
namespace {

constexpr int64_t kRows = 2, kColumns = 700, kMany = 300, kFew = 16;  // these few are a pass each

template <typename T, typename Index>
void Compare(Type type) {
  std::mt19937 random(3);
  std::vector<T> x(kRows * kColumns);
  for (T& value : x) {
    const uint32_t word = random() % 5 == 0 ? 0 : static_cast<uint32_t>(random());  // any bits: signs, NaNs, infinities
    std::memcpy(&value, &word, sizeof value);
  }
  Fault fault;
  const Queue queue = {nullptr, &fault, 0};
  std::vector<char> scratch(std::max(TopKScratchBytes(type, kRows, kColumns, kMany), TopKScratchBytes(type, kRows, kColumns, kFew)) + 64);
  constexpr bool kWide = sizeof(Index) == 8;
  std::vector<T> values(kRows * kMany), few_values(kRows * kFew);
  std::vector<Index> indices(kRows * kMany), few_indices(kRows * kFew);
  ASSERT_TRUE(TopKSorts(type, kColumns, kMany));
  ASSERT_FALSE(TopKSorts(type, kColumns, kFew));
  LaunchTopK(queue, type, kWide, kRows, kColumns, kMany, x.data(), values.data(), indices.data(), scratch.data());
  LaunchTopK(queue, type, kWide, kRows, kColumns, kFew, x.data(), few_values.data(), few_indices.data(), scratch.data());
  for (int64_t row = 0; row < kRows; ++row) {
    for (int64_t rank = 0; rank < kFew; ++rank) {
      ASSERT_EQ(indices[row * kMany + rank], few_indices[row * kFew + rank]) << row << ", " << rank;
    }
    for (int64_t rank = 0; rank < kMany; ++rank) {
      const Index column = indices[row * kMany + rank];
      ASSERT_EQ(std::memcmp(&values[row * kMany + rank], &x[row * kColumns + column], sizeof(T)), 0) << row << ", " << rank;
    }
  }
}

TEST(TopKTest, ASortHasTheOrderOfPasses) {
  Compare<float, int32_t>(Type::kFloat);
  Compare<float, int64_t>(Type::kFloat);
  Compare<int32_t, int32_t>(Type::kInt32);
  Compare<uint8_t, int64_t>(Type::kUint8);
  Compare<uint16_t, int32_t>(Type::kHalf);
  Compare<uint16_t, int32_t>(Type::kBfloat16);
}

// Many equal numbers, some of them NaN.
template <typename T, typename Index>
void ExpectGreatestOfLongRows(Type type, int64_t columns, int64_t k) {
  SCOPED_TRACE(std::to_string(columns) + " columns, k " + std::to_string(k));
  constexpr int64_t kLongRows = 3;
  std::mt19937 random(5);
  std::vector<T> x(kLongRows * columns);
  for (T& value : x) value = static_cast<T>(static_cast<int32_t>(random() % 2000) - 1000);
  if constexpr (std::is_same_v<T, float>) {
    for (int64_t i = 0; i < columns; i += 3) x[columns + i] = NAN;  // of the second row, where more numbers than k are none
  }
  ASSERT_TRUE(TopKSorts(type, columns, k));
  Fault fault;
  std::vector<uint64_t> scratch(TopKScratchBytes(type, kLongRows, columns, k) / 8 + 1, 7);
  scratch.back() = 77;
  std::vector<T> values(kLongRows * k);
  std::vector<Index> indices(kLongRows * k);
  LaunchTopK({nullptr, &fault, 0}, type, sizeof(Index) == 8, kLongRows, columns, k, x.data(), values.data(), indices.data(), scratch.data());
  EXPECT_EQ(scratch.back(), 77u);
  for (int64_t row = 0; row < kLongRows; ++row) {
    const T* const from = x.data() + row * columns;
    std::vector<Index> expected(columns);
    std::iota(expected.begin(), expected.end(), Index{0});
    std::stable_sort(expected.begin(), expected.end(), [&](Index a, Index b) {
      const bool a_none = from[a] != from[a], b_none = from[b] != from[b];
      return a_none != b_none ? b_none : from[a] > from[b];
    });
    for (int64_t rank = 0; rank < k; ++rank) {
      ASSERT_EQ(indices[row * k + rank], expected[rank]) << row << ", " << rank;
      ASSERT_EQ(std::memcmp(&values[row * k + rank], &from[expected[rank]], sizeof(T)), 0) << row << ", " << rank;
    }
  }
}

TEST(TopKTest, LongRowsAreSortedPieceByPiece) {
  ExpectGreatestOfLongRows<float, int32_t>(Type::kFloat, 4097, 4096 / 2);
  ExpectGreatestOfLongRows<float, int64_t>(Type::kFloat, 9000, 17);
  ExpectGreatestOfLongRows<float, int32_t>(Type::kFloat, 50'000, 2048);
  ExpectGreatestOfLongRows<float, int32_t>(Type::kFloat, 2500, 2500);
  ExpectGreatestOfLongRows<int32_t, int32_t>(Type::kInt32, 20'000, 1000);
}

TEST(TopKTest, WideElementsFewRanksAndMostOfALongRowAreNotSorted) {
  EXPECT_FALSE(TopKSorts(Type::kDouble, 100, 50));
  EXPECT_FALSE(TopKSorts(Type::kInt64, 100, 50));
  EXPECT_FALSE(TopKSorts(Type::kFloat, 100, 16));
  EXPECT_FALSE(TopKSorts(Type::kFloat, 4097, 2049));
  EXPECT_TRUE(TopKSorts(Type::kFloat, 4097, 2048));
  EXPECT_TRUE(TopKSorts(Type::kFloat, 4096, 4096));
}

}  // namespace
}  // namespace millrace::cuda
