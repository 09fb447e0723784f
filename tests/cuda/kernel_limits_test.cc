// What kernels of the device leave to the host.
#include <cstdint>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cuda/emulated/host_services.h"
#include "cuda/kernels/register.h"

namespace millrace::cuda {
namespace {

class KernelLimitsTest : public ::testing::Test {
 protected:
  KernelLimitsTest() { RegisterCudaKernels(kernels_, services_); }
  absl::Status StatusOf(const OpInstance& node) { return (*kernels_.Find(node.op))(node).status(); }
  HostServices services_{/*written_out=*/true};
  KernelRegistry kernels_;
};

OpInstance NodeOf(const char* op, std::vector<TensorType> inputs, std::vector<TensorType> outputs) {
  OpInstance node;
  node.name = node.op = op;
  node.inputs = std::move(inputs);
  node.outputs = std::move(outputs);
  node.input_values.resize(node.inputs.size());
  return node;
}

// The boxes of an image's gradient are chained by 32 bits.
TEST_F(KernelLimitsTest, GradientsOfImagesAloneCountBoxes) {
  constexpr int64_t kBoxes = int64_t{1} << 31;
  const TensorType images = {DataType::kFloat, Shape({1, 4, 4, 1})}, crops = {DataType::kFloat, Shape({kBoxes, 2, 2, 1})};
  const TensorType boxes = {DataType::kFloat, Shape({kBoxes, 4})}, owners = {DataType::kInt32, Shape({kBoxes})}, size = {DataType::kInt32, Shape({4})};
  EXPECT_EQ(StatusOf(NodeOf("CropAndResize", {images, boxes, owners, size}, {crops})), absl::OkStatus());
  EXPECT_EQ(StatusOf(NodeOf("CropAndResizeGradBoxes", {crops, images, boxes, owners}, {boxes})), absl::OkStatus());
  EXPECT_THAT(StatusOf(NodeOf("CropAndResizeGradImage", {crops, boxes, owners, size}, {images})).message(), testing::HasSubstr("so many boxes"));
}

TEST_F(KernelLimitsTest, ManyRanksAreTheHostsWhereNothingIsSorted) {
  const auto status = [&](DataType dtype, int64_t columns, int64_t k, bool sorted) {
    const TensorType values = {dtype, Shape({3, k})}, indices = {DataType::kInt32, Shape({3, k})};
    OpInstance node = NodeOf("TopKV2", {{dtype, Shape({3, columns})}, {DataType::kInt32, Shape()}}, {values, indices});
    node.attrs.Set("sorted", sorted);
    return StatusOf(node);
  };
  EXPECT_EQ(status(DataType::kFloat, 3000, 2000, true), absl::OkStatus());
  EXPECT_EQ(status(DataType::kFloat, 3000, 3000, false), absl::OkStatus());
  EXPECT_EQ(status(DataType::kFloat, 3000, 256, false), absl::OkStatus());
  EXPECT_EQ(status(DataType::kDouble, 3000, 256, true), absl::OkStatus());
  EXPECT_THAT(status(DataType::kFloat, 3000, 257, false).message(), testing::HasSubstr("so many ranks"));
  EXPECT_THAT(status(DataType::kDouble, 3000, 257, true).message(), testing::HasSubstr("so many ranks"));
  EXPECT_THAT(status(DataType::kFloat, 9000, 2049, true).message(), testing::HasSubstr("so many ranks"));
}

}  // namespace
}  // namespace millrace::cuda
