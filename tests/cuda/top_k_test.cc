// The greatest of rows by a sort have the bits of the greatest one after another, for every type of element and index.
#include <cstring>
#include <random>
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
  std::vector<char> scratch(TopKScratchBytes(kRows, kColumns) + 64);
  constexpr bool kWide = sizeof(Index) == 8;
  std::vector<T> values(kRows * kMany), few_values(kRows * kFew);
  std::vector<Index> indices(kRows * kMany), few_indices(kRows * kFew);
  ASSERT_TRUE(TopKSorts(type, kColumns));
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

TEST(TopKTest, WideElementsAndLongRowsAreNotSorted) {
  EXPECT_FALSE(TopKSorts(Type::kDouble, 10));
  EXPECT_FALSE(TopKSorts(Type::kInt64, 10));
  EXPECT_FALSE(TopKSorts(Type::kFloat, 4097));
  EXPECT_TRUE(TopKSorts(Type::kFloat, 4096));
}

}  // namespace
}  // namespace millrace::cuda
