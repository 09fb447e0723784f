// Nodes whose inputs are not those of their op: how many, of what types and ranks, and what attributes say of them.
#include <limits>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "millrace/op.h"
#include "millrace/quantized_types.h"

namespace millrace {
namespace {

constexpr DataType kFloat = DataType::kFloat, kInt32 = DataType::kInt32, kInt64 = DataType::kInt64;

struct Node {
  const char* op;
  AttrMap attrs;
  std::vector<TensorType> inputs;
  std::vector<Tensor> values = {};  // of the inputs, as far as they are known: empty ones are not
};

// The message of the node's rule, "" where it takes the node.
std::string Inferred(const Node& node) {
  std::vector<const Tensor*> values(node.inputs.size(), nullptr);
  for (size_t i = 0; i < node.values.size(); ++i) values[i] = node.values[i].empty() ? nullptr : &node.values[i];
  InferenceContext context("n", node.op, node.attrs, node.inputs, values);
  return std::string(OpRegistry::Builtin().Find(node.op)->InferShapes(context).message());
}

using Types = std::vector<DataType>;

TEST(InputTypes, OnesThatContradictTheNodeAreRefused) {
  const TensorType row{kFloat, Shape({3})}, matrix{kFloat, Shape({2, 3})}, ints{kInt32, Shape({3})};
  const struct {
    Node node;
    const char* message;
  } cases[] = {
      {{"Neg", {{"T", kInt32}}, {row}}, "node 'n' (Neg): input 0 has type float, expected int32 by attribute T"},
      {{"ApproximateEqual", {}, {row, ints}}, "node 'n' (ApproximateEqual): input 1 has type int32, input 0 type float; both are T"},
      {{"Pack", {{"T", kFloat}, {"N", int64_t{3}}}, {row, row}}, "node 'n' (Pack): has 2 inputs, expected 3"},
      {{"AddN", {{"T", kFloat}, {"N", int64_t{1}}}, {row, row}}, "node 'n' (AddN): has 2 inputs, expected 1"},
      {{"IdentityN", {{"T", Types{kFloat, kInt32}}}, {row, row}}, "node 'n' (IdentityN): input 1 has type float, expected int32 by attribute T"},
      {{"IdentityN", {{"T", Types{kFloat}}}, {row, row}}, "node 'n' (IdentityN): has 2 inputs, expected 1"},
      {{"RealDiv", {{"T", kFloat}}, {row, row, row}}, "node 'n' (RealDiv): has 3 inputs, expected 2"},
      {{"RandomUniform", {{"dtype", kFloat}, {"T", kInt32}}, {{kInt32, Shape({1, 2})}}, {Tensor(kInt32, Shape({1, 2}))}},
       "node 'n' (RandomUniform): input 0 is int32[1,2], expected a vector"},
      {{"ArgMax", {{"T", kFloat}, {"Tidx", kInt32}}, {matrix, {kInt32, Shape({1})}}, {Tensor(), Tensor::Vector<int32_t>({0})}},
       "node 'n' (ArgMax): input 1 is int32[1], expected a scalar"},
      {{"All", {{"Tidx", kInt32}}, {{DataType::kBool, Shape({2})}, {kInt32, Shape({1, 1})}}, {Tensor(), Tensor(kInt32, Shape({1, 1}))}},
       "node 'n' (All): input 1 is int32[1,1], expected at most rank 1"},
      {{"Cumsum", {{"T", kFloat}, {"Tidx", kInt32}}, {row, {kInt32, Shape({1})}}, {Tensor(), Tensor::Vector<int32_t>({0})}},
       "node 'n' (Cumsum): input 1 is int32[1], expected a scalar"},
  };
  for (const auto& test : cases) EXPECT_EQ(Inferred(test.node), test.message);
}

TEST(InputTypes, WhatIsNotSaidOrNotKnownIsTaken) {
  const TensorType row{kFloat, Shape({3})};
  const std::vector<Node> nodes = {
      {"Neg", {}, {row}},
      {"AddN", {}, {row, row}},
      {"CheckNumerics", {{"_guarded", true}, {"T", kFloat}}, {row, {DataType::kBool, Shape()}}},
      {"Neg", {{"T", DataType::kVariant}}, {row}},  // a list of tensors has become one
      {"EnsureShape", {{"shape", Shape({3})}}, {row}},
      // -1: of any shape
      {"RaggedTensorToTensor", {{"T", kFloat}, {"Tindex", kInt64}, {"Tshape", kInt64}, {"num_row_partition_tensors", int64_t{1}},
                                {"row_partition_types", std::vector<std::string>{"ROW_SPLITS"}}},
       {{kInt64, Shape()}, {kFloat, Shape({5})}, {kFloat, Shape()}, {kInt64, Shape({3})}},
       {Tensor::Scalar<int64_t>(-1), Tensor(), Tensor(), Tensor::Vector<int64_t>({0, 2, 5})}},
      {"SoftmaxCrossEntropyWithLogits", {{"T", kFloat}}, {{kFloat, Shape({2, 3})}, {kFloat, Shape({2, 3})}}},
  };
  for (const Node& node : nodes) EXPECT_EQ(Inferred(node), "") << node.op;
}

// What TensorFlow's shape functions and kernels ask for beside that.
TEST(InputTypes, WhatRulesAskForIsHeld) {
  const TensorType row{kFloat, Shape({3})}, rows{kFloat, Shape({2, 3})}, scalar{kFloat, Shape()}, index{kInt64, Shape({4, 2})};
  const Tensor one = Tensor::Scalar<int32_t>(1), less = Tensor::Scalar<int32_t>(-1);
  const std::vector<int64_t> small = {1, 1, 1, 1}, large = {1, 3, 1, 1};
  const TensorType picture{kFloat, Shape({1, 2, 2, 3})}, bytes{kQuint8, Shape({3})};
  const struct {
    Node node;
    const char* message;
  } cases[] = {
      {{"ComputeAccidentalHits", {{"num_true", int64_t{3}}}, {{kInt64, Shape({4, 2})}, {kInt64, Shape({5})}}}, "expected 3 columns by num_true"},
      {{"ParallelConcat", {{"N", int64_t{2}}, {"shape", Shape({3, 3})}}, {{kFloat, Shape({1, 3})}, rows}}, "expected a first dimension of 1"},
      {{"ParallelConcat", {{"N", int64_t{1}}, {"shape", Shape({2, 3})}}, {{kFloat, Shape({1, 3})}}}, "attribute 'shape' is [2,3]"},
      {{"ResourceGather", {{"dtype", kInt32}}, {rows, {kInt32, Shape({2})}}}, "reads a variable of float, attribute 'dtype' is int32"},
      {{"ResourceGatherNd", {{"dtype", kInt32}}, {rows, {kInt32, Shape({2, 1})}}}, "reads a variable of float, attribute 'dtype' is int32"},
      {{"ResourceGather", {{"batch_dims", int64_t{-1}}}, {rows, {kInt32, Shape({2})}}}, "batch_dims is negative (-1)"},
      {{"TensorScatterAdd", {}, {{kFloat, Shape({0, 3})}, {kInt32, Shape({2, 1})}, rows}}, "Indices and updates specified for empty input"},
      {{"OneHot", {{"axis", int64_t{-2}}}, {{kInt32, Shape({2})}, one.type(), scalar, scalar}, {Tensor(), one}}, "axis must be >= -1"},
      {{"NonMaxSuppression", {}, {{kFloat, Shape({5, 4})}, {kFloat, Shape({5})}, less.type()}, {Tensor(), Tensor(), less}}, "must be non-negative"},
      {{"SparseReshape", {}, {index, {kInt64, Shape({3})}, {kInt64, Shape({1})}}}, "Input tensor rank must match input shape length"},
      {{"FakeQuantWithMinMaxArgs", {{"min", std::numeric_limits<float>::quiet_NaN()}}, {row}}, "min has to be smaller than max"},
      {{"FakeQuantWithMinMaxArgsGradient", {{"min", 7.0f}}, {row, row}}, "min has to be smaller than max"},
      {{"DenseCountSparseOutput", {}, {{kInt32, Shape({2, 3})}, row}}, "Weights and values must have the same shape"},
      {{"DenseBincount", {}, {{kInt32, Shape({2, 3})}, one.type(), row}, {Tensor(), one}}, "must be the same shape as `arr`"},
      {{"DataFormatVecPermute", {}, {{kInt32, Shape({4, 1})}}}, "Second dimension of 2D input must be of size 2"},
      {{"TridiagonalSolve", {{"partial_pivoting", false}, {"perturb_singular", true}}, {rows, rows}}, "requires also setting partial_pivoting"},
      {{"MaxPool", {{"ksize", small}, {"strides", small}, {"padding", std::string("VALID")}, {"explicit_paddings", small}}, {{kFloat, Shape({1, 2, 2, 1})}}},
       "explicit_paddings must be empty where padding is VALID"},
      {{"MaxPoolWithArgmax", {{"ksize", large}, {"strides", small}, {"padding", std::string("VALID")}}, {{kFloat, Shape({1, 2, 2, 1})}}}, "has no window in [1,2,2,1]"},
      {{"BiasAddGrad", {{"data_format", std::string("NCHW")}}, {rows}}, "expected a rank of at least 3"},
      {{"FractionalMaxPool", {{"pooling_ratio", std::vector<float>{1, 1, 1, 1}}, {"seed", int64_t{1}}}, {{kFloat, Shape({1, 2, 2, 1})}}},
       "Both seed and seed2 should be 0"},
      {{"FixedUnigramCandidateSampler", {{"range_max", int64_t{4}}, {"num_reserved_ids", int64_t{1} << 40}}, {{kInt64, Shape({2, 1})}}},
       "must be equal to weights size 1099511627776"},  // at once
      {{"UnicodeScript", {}, {row}}, "input 0 is float[3], expected int32"},
      {{"DrawBoundingBoxes", {}, {picture, {DataType::kHalf, Shape({1, 1, 4})}}}, "input 1 is half[1,1,4], expected float"},
      {{"DrawBoundingBoxesV2", {}, {picture, {kFloat, Shape({1, 1, 4})}, {DataType::kDouble, Shape({1, 3})}}}, "input 2 is double[1,3], expected float"},
      {{"QuantizedReshape", {{"T", kQint32}}, {bytes, {kInt32, Shape({1})}, scalar, scalar}, {Tensor(), Tensor::Vector<int32_t>({3})}},
       "input 0 is quint8[3], expected qint32 by attribute T"},
      {{"QuantizedConcat", {{"T", kQint32}}, {one.type(), bytes, bytes, scalar, scalar, scalar, scalar}, {Tensor::Scalar<int32_t>(0)}},
       "input 1 is quint8[3], expected qint32 by attribute T"},
      {{"QuantizedMaxPool", {{"T", kQint32}, {"ksize", small}, {"strides", small}, {"padding", std::string("VALID")}},
        {{kQuint8, Shape({1, 2, 2, 1})}, scalar, scalar}},
       "input 0 is quint8[1,2,2,1], expected qint32 by attribute T"},
      {{"QuantizedConv2D", {{"strides", small}, {"padding", std::string("EXPLICIT")}},
        {{kQuint8, Shape({1, 2, 2, 1})}, {kQuint8, Shape({1, 1, 1, 1})}, scalar, scalar, scalar, scalar}},
       "padding is EXPLICIT, expected SAME or VALID"},
  };
  for (const auto& test : cases) EXPECT_THAT(Inferred(test.node), ::testing::HasSubstr(test.message)) << test.node.op;
}

}  // namespace
}  // namespace millrace
