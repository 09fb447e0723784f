// Every function that emits an op refuses shapes that do not go together, at the call, naming the node and both shapes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "millrace/gradients.h"
#include "millrace/graph_builder.h"
#include "millrace/graph_ops.h"
#include "millrace/optimizers.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;

struct Refusal {
  std::string function;
  std::function<void(GraphBuilder&)> call;
  std::vector<std::string> named;  // shapes and values that the message has to name
};

void PrintTo(const Refusal& refusal, std::ostream* out) { *out << refusal.function; }

Output In(GraphBuilder& b, Shape shape, DataType dtype = DataType::kFloat) { return b.Placeholder("in", dtype, shape); }
Output Ids(GraphBuilder& b, Shape shape) { return In(b, shape, DataType::kInt32); }

std::vector<Refusal> ElementwiseAndProducts() {
  using namespace ops;
  return {
      {"Fill",
       [](auto& b) {
         Fill(b.Ints({2, -3}), b.Scalar(DataType::kFloat, 1), "here");
       },
       {"(2 -3)"}},
      {"Range",
       [](auto& b) {
         Range(b.Int(0), b.Ints({4, 5}), b.Int(1), "here");
       },
       {"int32[2]"}},
      {"Binary",
       [](auto& b) {
         Binary("Mul", In(b, {2, 3}), In(b, {4}), "here");
       },
       {"float[2,3]", "float[4]"}},
      {"Add",
       [](auto& b) {
         Add(In(b, {2, 3}), In(b, {3, 2}), "here");
       },
       {"float[2,3]", "float[3,2]"}},
      {"AddTypes", [](auto& b) { Add(In(b, {2}), Ids(b, {2}), "here"); }, {"float[2]", "int32[2]"}},
      {"Select",
       [](auto& b) {
         Select(In(b, {5}, DataType::kBool), In(b, {2, 3}), In(b, {3}), "here");
       },
       {"bool[5]", "float[2,3]"}},
      {"AddN",
       [](auto& b) {
         AddN({In(b, {2, 3}), In(b, {3, 2})}, "here");
       },
       {"float[2,3]", "float[3,2]"}},
      {"MatMul",
       [](auto& b) {
         MatMul(In(b, {8, 4}), In(b, {5, 3}), {}, "here");
       },
       {"float[8,4]", "float[5,3]"}},
      {"MatMulRank",
       [](auto& b) {
         MatMul(In(b, {8, 4, 2}), In(b, {2, 3}), {}, "here");
       },
       {"float[8,4,2]", "float[2,3]"}},
      {"BatchMatMul",
       [](auto& b) {
         BatchMatMul(In(b, {2, 8, 4}), In(b, {3, 4, 3}), {}, "here");
       },
       {"float[2,8,4]", "float[3,4,3]"}},
      {"Einsum",
       [](auto& b) {
         Einsum({In(b, {2, 3}), In(b, {4, 5})}, "ij,jk->ik", "here");
       },
       {"float[2,3]", "float[4,5]"}},
      {"Reduce",
       [](auto& b) {
         Reduce("Max", In(b, {2, 3}), {2}, false, "here");
       },
       {"float[2,3]", "(2)"}},
      {"Sum",
       [](auto& b) {
         Sum(In(b, {2, 3}), {-3}, false, "here");
       },
       {"float[2,3]", "(-3)"}},
      {"ArgMax",
       [](auto& b) {
         ArgMax(In(b, {2, 3}), 2, DataType::kInt64, "here");
       },
       {"float[2,3]", "(2)"}},
      {"Cumsum",
       [](auto& b) {
         Cumsum(In(b, {2, 3}), 5, false, false, "here");
       },
       {"float[2,3]", "(5)"}},
  };
}

std::vector<Refusal> Moves() {
  using namespace ops;
  return {
      {"Reshape",
       [](auto& b) {
         Reshape(In(b, {8, 4}), {7, -1}, "here");
       },
       {"float[8,4]", "(7 -1)"}},
      {"ExpandDims",
       [](auto& b) {
         ExpandDims(In(b, {8, 4}), 3, "here");
       },
       {"float[8,4]", "(3)"}},
      {"Squeeze",
       [](auto& b) {
         Squeeze(In(b, {8, 4}), {1}, "here");
       },
       {"float[8,4]", "1"}},
      {"Transpose",
       [](auto& b) {
         Transpose(In(b, {8, 4}), {1, 1}, "here");
       },
       {"float[8,4]", "(1 1)"}},
      {"BroadcastTo",
       [](auto& b) {
         BroadcastTo(In(b, {8, 4}), {8, 5}, "here");
       },
       {"[8,4]", "(8 5)"}},
      {"Concat",
       [](auto& b) {
         Concat({In(b, {8, 4}), In(b, {7, 4})}, 1, "here");
       },
       {"float[8,4]", "float[7,4]"}},
      {"Split",
       [](auto& b) {
         Split(In(b, {8, 4}), 3, 1, "here");
       },
       {"float[8,4]", "3"}},
      {"SplitV",
       [](auto& b) {
         SplitV(In(b, {8, 4}), {3, 2}, 1, "here");
       },
       {"float[8,4]", "(3 2)"}},
      {"Pack",
       [](auto& b) {
         Pack({In(b, {8, 4}), In(b, {4})}, 0, "here");
       },
       {"float[8,4]", "float[4]"}},
      {"Unpack",
       [](auto& b) {
         Unpack(In(b, {8, 4}), 2, "here");
       },
       {"float[8,4]", "2"}},
      {"Slice",
       [](auto& b) {
         Slice(In(b, {8, 4}), {2, 0}, {7, 4}, "here");
       },
       {"float[8,4]", "(2 0)", "(7 4)"}},
      {"Index",
       [](auto& b) {
         Index(In(b, {8, 4}), 9, 0, "here");
       },
       {"float[8,4]", "9"}},
      {"Pad",
       [](auto& b) {
         Pad(In(b, {8, 4}), {{{1, 1}}}, "here");
       },
       {"float[8,4]", "(1 1)"}},
      {"Tile",
       [](auto& b) {
         Tile(In(b, {8, 4}), {2}, "here");
       },
       {"float[8,4]", "(2)"}},
      {"Reverse",
       [](auto& b) {
         Reverse(In(b, {8, 4}), {2}, "here");
       },
       {"float[8,4]", "(2)"}},
      {"Gather",
       [](auto& b) {
         Gather(In(b, {8, 4}), Ids(b, {3}), 2, "here");
       },
       {"float[8,4]", "int32[3]", "(2)"}},
      {"UnsortedSegmentSum",
       [](auto& b) {
         UnsortedSegmentSum(In(b, {8, 4}), Ids(b, {3}), 2, "here");
       },
       {"float[8,4]", "int32[3]"}},
      {"TopK",
       [](auto& b) {
         TopK(In(b, {8, 4}), 5, "here");
       },
       {"float[8,4]", "5"}},
  };
}

std::vector<Refusal> Networks() {
  using namespace ops;
  const WindowOptions valid{.padding = "VALID"};
  return {
      {"Conv2D",
       [](auto& b) {
         Conv2D(In(b, {1, 8, 8, 3}), In(b, {3, 3, 4, 8}), {}, "here");
       },
       {"float[1,8,8,3]", "float[3,3,4,8]"}},
      {"Conv2DTooSmall",
       [=](auto& b) {
         Conv2D(In(b, {1, 2, 2, 3}), In(b, {5, 5, 3, 8}), valid, "here");
       },
       {"float[1,2,2,3]", "float[5,5,3,8]"}},
      {"Conv3D",
       [](auto& b) {
         Conv3D(In(b, {1, 8, 8, 3}), In(b, {3, 3, 3, 8}), {}, "here");
       },
       {"float[1,8,8,3]", "float[3,3,3,8]"}},
      {"DepthwiseConv2D",
       [](auto& b) {
         DepthwiseConv2D(In(b, {1, 8, 8, 3}), In(b, {3, 3, 4, 1}), {}, "here");
       },
       {"float[1,8,8,3]", "float[3,3,4,1]"}},
      {"ConvTranspose2D",
       [](auto& b) {
         ConvTranspose2D(In(b, {1, 8, 8, 3}), In(b, {3, 3, 5, 4}), {1, 8, 8, 5}, {}, "here");
       },
       {"float[1,8,8,3]", "float[3,3,5,4]"}},
      {"ConvTranspose3D",
       [](auto& b) {
         ConvTranspose3D(In(b, {1, 8, 8, 8, 3}), In(b, {3, 3, 3, 5, 4}), {1, 8, 8, 8, 5}, {}, "here");
       },
       {"float[1,8,8,8,3]", "float[3,3,3,5,4]"}},
      {"MaxPool",
       [=](auto& b) {
         MaxPool(In(b, {1, 2, 2, 3}), {5}, valid, "here");
       },
       {"float[1,2,2,3]", "5"}},
      {"AvgPool",
       [](auto& b) {
         AvgPool(In(b, {1, 8, 8}), {3}, {}, "here");
       },
       {"float[1,8,8]"}},
      {"MaxPool3D",
       [](auto& b) {
         Pool("MaxPool3D", In(b, {1, 8, 8, 3}), {2}, {}, "here");
       },
       {"float[1,8,8,3]"}},
      {"AvgPool3D",
       [](auto& b) {
         Pool("AvgPool3D", In(b, {1, 8, 8, 3}), {2}, {}, "here");
       },
       {"float[1,8,8,3]"}},
      {"BiasAdd",
       [](auto& b) {
         BiasAdd(In(b, {8, 4}), In(b, {3}), "here");
       },
       {"float[8,4]", "float[3]"}},
      {"Softmax", [](auto& b) { Softmax(In(b, {}), "here"); }, {"float[]"}},
      {"LogSoftmax", [](auto& b) { LogSoftmax(In(b, {}), "here"); }, {"float[]"}},
      {"Lrn",
       [](auto& b) {
         Lrn(In(b, {8, 4}), 2, 1, 1, 1, "here");
       },
       {"float[8,4]"}},
      {"FusedBatchNorm",
       [](auto& b) {
         FusedBatchNorm(In(b, {1, 8, 8, 3}), In(b, {4}), In(b, {4}), 1e-3f, "here");
       },
       {"float[1,8,8,3]", "float[4]"}},
      {"SparseSoftmaxCrossEntropy",
       [](auto& b) {
         SparseSoftmaxCrossEntropy(In(b, {8, 4}), Ids(b, {7}), "here");
       },
       {"float[8,4]", "int32[7]"}},
      {"SoftmaxCrossEntropy",
       [](auto& b) {
         SoftmaxCrossEntropy(In(b, {8, 4}), In(b, {8, 5}), "here");
       },
       {"float[8,4]", "float[8,5]"}},
      {"ResizeBilinear",
       [](auto& b) {
         ResizeBilinear(In(b, {8, 8, 3}), 4, 4, true, "here");
       },
       {"float[8,8,3]", "(4 4)"}},
  };
}

// A variable 'here' is the second shape.
std::vector<Refusal> Variables() {
  const auto variable = [](GraphBuilder& b) { return b.AddVariable("here", {8, 4}, init::Zeros()); };
  return {
      {"InitialValue",
       [](auto& b) {
         b.AddVariable("here", {8, 4}, init::Value(Tensor(DataType::kFloat, {4, 8})));
       },
       {"float[8,4]", "float[4,8]"}},
      {"Assign",
       [=](auto& b) {
         variable(b).Assign(In(b, {4, 8}), "here");
       },
       {"float[8,4]", "float[4,8]"}},
      {"AssignAdd",
       [=](auto& b) {
         variable(b).AssignAdd(In(b, {4, 8}), "here");
       },
       {"float[8,4]", "float[4,8]"}},
      {"AssignSub",
       [=](auto& b) {
         variable(b).AssignSub(In(b, {4, 8}), "here");
       },
       {"float[8,4]", "float[4,8]"}},
      {"Sgd",
       [=](auto& b) {
         Sgd(0.1)->Apply(b, variable(b), In(b, {4, 8}));
       },
       {"float[8,4]", "float[4,8]"}},
      {"Momentum",
       [=](auto& b) {
         Momentum(0.1, 0.9)->Apply(b, variable(b), In(b, {4, 8}));
       },
       {"float[8,4]", "float[4,8]"}},
      {"Adam",
       [=](auto& b) {
         Adam(0.1)->Apply(b, variable(b), In(b, {4, 8}));
       },
       {"float[8,4]", "float[4,8]"}},
      {"AdamW",
       [=](auto& b) {
         AdamW(0.1, 0.01)->Apply(b, variable(b), In(b, {4, 8}));
       },
       {"float[8,4]", "float[4,8]"}},
      {"RmsProp",
       [=](auto& b) {
         RmsProp(0.1)->Apply(b, variable(b), In(b, {4, 8}));
       },
       {"float[8,4]", "float[4,8]"}},
      {"Adagrad",
       [=](auto& b) {
         Adagrad(0.1)->Apply(b, variable(b), In(b, {4, 8}));
       },
       {"float[8,4]", "float[4,8]"}},
  };
}

std::vector<Refusal> Refusals() {
  std::vector<Refusal> all;
  for (const auto& family : {ElementwiseAndProducts(), Moves(), Networks(), Variables()}) {
    all.insert(all.end(), family.begin(), family.end());
  }
  return all;
}

class ShapeError : public ::testing::TestWithParam<Refusal> {};

TEST_P(ShapeError, NamesTheNodeAndBothShapesAtTheCall) {
  GraphBuilder b;
  GetParam().call(b);
  ASSERT_EQ(b.status().code(), absl::StatusCode::kInvalidArgument) << b.status();
  const std::string message(b.status().message());
  EXPECT_THAT(message, HasSubstr("here"));
  for (const std::string& shape : GetParam().named) EXPECT_THAT(message, HasSubstr(shape));
}

INSTANTIATE_TEST_SUITE_P(Functions, ShapeError, ::testing::ValuesIn(Refusals()),
                         [](const ::testing::TestParamInfo<Refusal>& info) { return info.param.function; });

}  // namespace
}  // namespace millrace
