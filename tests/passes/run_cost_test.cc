// Seconds of nodes by the rates of a machine, before anything is measured.
#include "passes/access/run_cost.h"

#include <string>

#include "gtest/gtest.h"
#include "millrace/op.h"

namespace millrace {
namespace {

constexpr double kConvFlops = 2.0 * (3 * 3 * 8) * (2 * 16 * 16 * 8);  // of 2 x 16 x 16 x 8 by 3 x 3 x 8 x 8

OpInstance ConvNode(const std::string& op, Shape filter) {
  OpInstance node;
  node.name = "node";
  node.op = op;
  node.attrs.Set("T", DataType::kFloat);
  node.attrs.Set("strides", std::vector<int64_t>{1, 1, 1, 1});
  node.attrs.Set("padding", std::string("SAME"));
  node.inputs = {{DataType::kFloat, Shape({2, 16, 16, 8})}, {DataType::kFloat, std::move(filter)}};
  node.outputs = {{DataType::kFloat, Shape({2, 16, 16, 8})}};
  return node;
}

double Seconds(const OpInstance& node, double flops_per_second, double convolution_flops_per_second) {
  Machine machine;
  machine.flops_per_second = flops_per_second;
  machine.convolution_flops_per_second = convolution_flops_per_second;
  machine.memory_bytes_per_second = 1e18;
  machine.launch_seconds = 0;
  const absl::StatusOr<double> seconds = PredictSeconds(*OpRegistry::Builtin().Find(node.op), node, machine);
  EXPECT_TRUE(seconds.ok()) << seconds.status();
  return seconds.value_or(-1);
}

TEST(RunCost, ConvolutionsHaveARateOfTheirOwnWhereTheMachineNamesOne) {
  const OpInstance node = ConvNode("Conv2D", Shape({3, 3, 8, 8}));
  EXPECT_DOUBLE_EQ(Seconds(node, 1e9, 0), kConvFlops / 1e9);
  EXPECT_DOUBLE_EQ(Seconds(node, 1e9, 5e8), kConvFlops / 5e8);
}

TEST(RunCost, DepthwiseConvolutionsDoNot) {
  const OpInstance node = ConvNode("DepthwiseConv2dNative", Shape({3, 3, 8, 1}));
  EXPECT_DOUBLE_EQ(Seconds(node, 1e9, 5e8), kConvFlops / 8 / 1e9);
}

}  // namespace
}  // namespace millrace
