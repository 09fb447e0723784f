// What a feed may say of rows that are not there, where TensorFlow reads memory that is nobody's or fills what it likes.
#include <cstdint>
#include <limits>

#include <gmock/gmock.h>

#include "kernel_testing.h"

namespace millrace::cpu {
namespace {

using ::testing::HasSubstr;

std::string Refusal(const std::vector<std::vector<int64_t>>& splits) {
  NodeRun run{"RaggedTensorToTensor", {}, {Tensor::Vector<int64_t>(std::vector<int64_t>(splits.size() + 1, -1)), Tensor::Vector<float>({0, 1, 2, 3, 4}), Tensor::Scalar(0.0f)}};
  run.known = {true};
  for (const std::vector<int64_t>& each : splits) run.inputs.push_back(Tensor::Vector<int64_t>(each));
  run.attrs.Set("row_partition_types", std::vector<std::string>(splits.size(), "ROW_SPLITS"));
  run.attrs.Set("num_row_partition_tensors", static_cast<int64_t>(splits.size()));
  const absl::StatusOr<OpInstance> instance = Infer(run);
  if (!instance.ok()) return std::string(instance.status().message());
  return std::string(EvaluateOp(*OpRegistry::Builtin().Find(run.op), CpuKernels(), *instance, run.inputs).status().message());
}

TEST(RaggedRows, WhatASplitSaysMustBeThere) {
  EXPECT_EQ(Refusal({{0, 2, 5}}), "");
  EXPECT_EQ(Refusal({{0, 1, 3}, {0, 2, 2, 5}}), "");
  EXPECT_THAT(Refusal({{0, 1, 100}}), HasSubstr("row_splits hold 100 rows or values, where 5 are"));
  EXPECT_THAT(Refusal({{0, 1, 100}, {0, 2, 2, 5}}), HasSubstr("row_splits hold 100 rows or values, where 3 are"));
  EXPECT_THAT(Refusal({{0, std::numeric_limits<int64_t>::min(), 5}}), HasSubstr("row_splits are not sorted"));
  EXPECT_THAT(Refusal({{0, std::numeric_limits<int64_t>::max()}}), HasSubstr("row_splits hold"));
  EXPECT_THAT(Refusal({{0, 1, 4}}), HasSubstr("row partitions hold 4 values of 5"));
}

TEST(StitchedRows, ThoseThatNoIndexNamesAreZeroThoughOthersAreNamedTwice) {
  NodeRun run{"DynamicStitch", {}, {Tensor::Vector<int32_t>({3, 1}), Tensor::Vector<int32_t>({1, 0}), Tensor::Vector<float>({1, 2}), Tensor::Vector<float>({3, 4})}};
  run.attrs.Set("N", int64_t{2});
  run.known = {true, true};
  const absl::StatusOr<OpInstance> instance = Infer(run);
  ASSERT_TRUE(instance.ok()) << instance.status();
  const auto outputs = EvaluateOp(*OpRegistry::Builtin().Find(run.op), CpuKernels(), *instance, run.inputs);
  ASSERT_TRUE(outputs.ok()) << outputs.status();
  EXPECT_THAT((*outputs)[0].as<float>(), ::testing::ElementsAre(4, 3, 0, 1));
}

}  // namespace
}  // namespace millrace::cpu
