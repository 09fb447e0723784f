// TopKV2 without sorting: the order is the one that TensorFlow's heap leaves, here as TensorFlow 2.17 and 2.21 gave it.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernel_testing.h"

namespace millrace::cpu {
namespace {

constexpr int64_t kRows = 3, kColumns = 8;
constexpr float kValues[kRows * kColumns] = {7, 2, 9, 4, 1, 6, 8, 3, 5, 5, 3, 5, 8, 3, 8, 5, 3, 1, 4, 1, 5, 9, 2, 6};

std::vector<int32_t> UnsortedTop(int32_t k) {
  Tensor input(DataType::kFloat, Shape({kRows, kColumns})), count(DataType::kInt32, Shape());
  std::memcpy(input.mutable_data(), kValues, sizeof(kValues));
  std::memcpy(count.mutable_data(), &k, sizeof(k));
  AttrMap attrs;
  attrs.Set("sorted", false);
  const auto outputs = Evaluate({"TopKV2", attrs, {input, count}, {false, true}});
  EXPECT_TRUE(outputs.ok()) << outputs.status();
  if (!outputs.ok()) return {};
  std::vector<int32_t> indices(kRows * k);
  std::memcpy(indices.data(), (*outputs)[1].data(), (*outputs)[1].size_bytes());
  const float* values = static_cast<const float*>((*outputs)[0].data());
  for (int64_t i = 0; i < kRows * k; ++i) EXPECT_EQ(values[i], kValues[i / k * kColumns + indices[i]]);
  return indices;
}

TEST(TopK, WithoutSortingTheOrderIsThatOfAHeap) {
  EXPECT_EQ(UnsortedTop(1), (std::vector<int32_t>{2, 4, 5}));
  EXPECT_EQ(UnsortedTop(3), (std::vector<int32_t>{0, 2, 6, 0, 4, 6, 4, 5, 7}));
  EXPECT_EQ(UnsortedTop(4), (std::vector<int32_t>{5, 0, 2, 6, 1, 6, 0, 4, 2, 4, 5, 7}));
  EXPECT_EQ(UnsortedTop(7), (std::vector<int32_t>{1, 7, 5, 3, 0, 2, 6, 2, 7, 1, 3, 4, 0, 6, 1, 0, 6, 7, 4, 5, 2}));
}

TEST(TopK, AllOfARowAreSortedWhetherAskedForOrNot) {
  EXPECT_EQ(UnsortedTop(8), (std::vector<int32_t>{2, 6, 0, 5, 3, 7, 1, 4, 4, 6, 0, 1, 3, 7, 2, 5, 5, 7, 4, 2, 0, 6, 1, 3}));
}

// Rows without NaN are sorted by other means than those with.
TEST(TopK, NanLeavesTheOrderOfAHeap) {
  constexpr int64_t kLong = 300;
  Tensor input(DataType::kFloat, Shape({2, kLong}));
  float* values = input.mutable_as<float>().data();
  for (int64_t i = 0; i < 2 * kLong; ++i) values[i] = i % 41 == 40 && i < kLong ? std::nanf("") : static_cast<float>(i * 37 % 101);
  const auto outputs = Evaluate({"TopKV2", {}, {input, Tensor::Scalar<int32_t>(kLong)}, {false, true}});
  ASSERT_TRUE(outputs.ok()) << outputs.status();
  for (const float* row : {values, values + kLong}) {
    const auto before = [row](int32_t a, int32_t b) { return row[b] < row[a] || (!(row[a] < row[b]) && a < b); };
    std::vector<int32_t> expected(kLong);
    std::iota(expected.begin(), expected.end(), 0);
    std::make_heap(expected.begin(), expected.end(), before);
    std::sort_heap(expected.begin(), expected.end(), before);
    const int32_t* found = (*outputs)[1].as<int32_t>().data() + (row - values);
    EXPECT_EQ(std::vector<int32_t>(found, found + kLong), expected);
  }
}

// No NaN is the greatest, unless the row has nothing else.
TEST(TopK, OneOfARowIsTheFirstOfTheGreatest) {
  for (int64_t columns : {1, 2, 63, 64, 65, 150}) {
    Tensor input(DataType::kFloat, Shape({3, columns}));
    float* values = input.mutable_as<float>().data();
    for (int64_t i = 0; i < 3 * columns; ++i) values[i] = static_cast<float>(i * 37 % 23);
    values[columns - 1] = values[2 * columns] = std::nanf("");
    const auto outputs = Evaluate({"TopKV2", {}, {input, Tensor::Scalar<int32_t>(1)}, {false, true}});
    ASSERT_TRUE(outputs.ok()) << outputs.status();
    for (int64_t row = 0; row < 3; ++row) {
      int32_t expected = 0;
      const float* const from = values + row * columns;
      for (int32_t i = 1; i < columns; ++i) {
        if (from[expected] < from[i] || (std::isnan(from[expected]) && !std::isnan(from[i]))) expected = i;
      }
      EXPECT_EQ((*outputs)[1].as<int32_t>()[row], expected) << columns;
    }
  }
}

// The kernel is asked of shapes that the rule has not seen where they are known only when running.
TEST(TopK, TheKernelRefusesRowsThatIndicesDoNotReach) {
  AttrMap attrs;
  attrs.Set("index_type", DataType::kInt16);
  auto node = Infer({"TopKV2", attrs, {Tensor(DataType::kFloat, Shape({1, 32767})), Tensor::Scalar<int32_t>(2)}, {false, true}});
  ASSERT_TRUE(node.ok()) << node.status();
  const KernelFactory& make = *CpuKernels().Find("TopKV2");
  EXPECT_TRUE(make(*node).ok());
  node->inputs[0].shape = Shape({1, 32768});
  EXPECT_THAT(make(*node).status().message(), testing::HasSubstr("must be <= 32767, got 32768"));
}

// What rows are sorted in is part of the plan, and as much on any number of threads.
TEST(TopK, RowsAreSortedInScratch) {
  const Tensor input = TestValues(DataType::kFloat, Shape({70, 1500}), 1);
  for (int32_t k : {1, 100, 1500}) {
    const NodeRun run = {"TopKV2", {}, {input, Tensor::Scalar<int32_t>(k)}, {false, true}};
    const auto node = Infer(run);
    ASSERT_TRUE(node.ok()) << node.status();
    const auto kernel = (*CpuKernels().Find("TopKV2"))(*node);
    ASSERT_TRUE(kernel.ok()) << kernel.status();
    const int64_t shards = 12;
    EXPECT_GE((*kernel)->scratch_bytes(), shards * (k == 1500 ? 2 * 1500 * 8 : (k + 1) * 4));
    EXPECT_LE((*kernel)->scratch_bytes(), 16 * (k == 1500 ? 2 * 1500 * 8 : (k + 1) * 4 + 64));
    EvaluateOnThreads(run);
  }
}

}  // namespace
}  // namespace millrace::cpu
