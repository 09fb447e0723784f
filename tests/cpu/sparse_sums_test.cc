// Kernels that add up entries of sparse tensors: 16-bit floats as floats, in memory that the plan knows of.
#include <algorithm>
#include <cstdint>
#include <iterator>
#include <memory>
#include <string>

#include <gtest/gtest.h>

#include "kernel_testing.h"

namespace millrace::cpu {
namespace {

int64_t ScratchOf(const NodeRun& run) {
  const absl::StatusOr<OpInstance> instance = Infer(run);
  EXPECT_TRUE(instance.ok()) << instance.status();
  if (!instance.ok()) return -1;
  const absl::StatusOr<std::unique_ptr<Kernel>> kernel = (*CpuKernels().Find(run.op))(*instance);
  EXPECT_TRUE(kernel.ok()) << kernel.status();
  return kernel.ok() ? (*kernel)->scratch_bytes() : -1;
}

Tensor Places() {
  Tensor places(DataType::kInt64, Shape({3, 2}));
  const int64_t values[] = {0, 0, 0, 2, 1, 1};
  std::copy(std::begin(values), std::end(values), places.mutable_as<int64_t>().begin());
  return places;
}

TEST(SparseSums, OfProductsAreInScratchWhereTheyAreWider) {
  const auto product = [](DataType type) {
    return NodeRun{"SparseTensorDenseMatMul", {}, {Places(), TestValues(type, Shape({3}), 1), Tensor::Vector<int64_t>({2, 3}),
                   TestValues(type, Shape({3, 40000}), 2)}, {false, false, true}};
  };
  EXPECT_EQ(ScratchOf(product(DataType::kHalf)), 2 * 40000 * 4);
  EXPECT_EQ(ScratchOf(product(DataType::kBfloat16)), 0);
  EXPECT_EQ(ScratchOf(product(DataType::kFloat)), 0);
  EvaluateOnThreads(product(DataType::kHalf));
}

TEST(SparseSums, OfDimensionsAreInScratchWhereTheyAreWider) {
  const auto reduction = [](const std::string& op, DataType type) {
    return NodeRun{op, {}, {Places(), TestValues(type, Shape({3}), 1), Tensor::Vector<int64_t>({2, 3}), Tensor::Vector<int32_t>({1})},
                   {false, false, true, true}};
  };
  for (DataType type : {DataType::kHalf, DataType::kBfloat16}) {
    EXPECT_EQ(ScratchOf(reduction("SparseReduceSum", type)), 2 * 4);
    EXPECT_EQ(ScratchOf(reduction("SparseReduceMax", type)), 0);
  }
  EXPECT_EQ(ScratchOf(reduction("SparseReduceSum", DataType::kFloat)), 0);
}

}  // namespace
}  // namespace millrace::cpu
