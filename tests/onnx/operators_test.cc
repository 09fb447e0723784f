// Single operators where the text of an opset and a simple lowering part: checked by hand.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <numeric>

#include "graph/float16.h"
#include "model_maker.h"

namespace millrace::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using onnx_proto::TensorProto;

void SetString(onnx_proto::NodeProto& node, const std::string& name, const std::string& value) {
  onnx_proto::AttributeProto* attribute = node.add_attribute();
  attribute->set_name(name);
  attribute->set_type(onnx_proto::AttributeProto::STRING);
  attribute->set_s(value);
}

// One node of all feeds, in the order of their names.
absl::StatusOr<Tensor> Result(const std::string& op, const Arrays& feeds, int type, const std::map<std::string, int64_t>& ints,
                              const std::string& direction = "") {
  ModelMaker maker(28);
  std::vector<std::string> inputs;
  for (const auto& [name, value] : feeds) {
    maker.Input(name, {value.shape().dims().begin(), value.shape().dims().end()}, name == "a" ? type : TensorProto::FLOAT);
    inputs.push_back(name);
  }
  for (auto& input : *maker.graph().mutable_input()) {
    if (op == "BitShift" || op == "Range") input.mutable_type()->mutable_tensor_type()->set_elem_type(type);
  }
  onnx_proto::NodeProto& node = maker.Output("y").Node(op, inputs, {"y"});
  for (const auto& [name, value] : ints) SetInt(node, name, value);
  if (!direction.empty()) SetString(node, "direction", direction);
  absl::StatusOr<Arrays> arrays = RunOnce(maker.bytes(), feeds);
  if (!arrays.ok()) return arrays.status();
  return arrays->at("y");
}

TEST(OnnxOperators, ShiftsBeyondTheNumbersBitsLeaveTheSign) {
  const Arrays feeds = {{"a", Ints({4}, {-8, -8, 3, 3})}, {"b", Ints({4}, {1, 70, 64, -1})}};
  absl::StatusOr<Tensor> right = Result("BitShift", feeds, TensorProto::INT64, {}, "RIGHT");
  ASSERT_TRUE(right.ok()) << right.status();
  EXPECT_THAT(right->as<int64_t>(), ElementsAre(-4, -1, 0, 0));
  absl::StatusOr<Tensor> left = Result("BitShift", feeds, TensorProto::INT64, {}, "LEFT");
  ASSERT_TRUE(left.ok()) << left.status();
  EXPECT_THAT(left->as<int64_t>(), ElementsAre(-16, 0, 0, 0));
  Tensor bytes(DataType::kUint8, Shape({2})), amounts(DataType::kUint8, Shape({2}));
  bytes.mutable_as<uint8_t>()[0] = bytes.mutable_as<uint8_t>()[1] = 200;
  amounts.mutable_as<uint8_t>()[0] = 3;
  amounts.mutable_as<uint8_t>()[1] = 8;
  right = Result("BitShift", {{"a", bytes}, {"b", amounts}}, TensorProto::UINT8, {}, "RIGHT");
  ASSERT_TRUE(right.ok()) << right.status();
  EXPECT_THAT(right->as<uint8_t>(), ElementsAre(25, 0));
}

TEST(OnnxOperators, ModOfFloatsHasTheDivisorsSign) {
  const absl::StatusOr<Tensor> y =
      Result("Mod", {{"a", Floats({3}, {-5.5f, 5.5f, 7})}, {"b", Floats({3}, {2, -2, 4})}}, TensorProto::FLOAT, {});
  ASSERT_TRUE(y.ok()) << y.status();
  EXPECT_THAT(y->as<float>(), ElementsAre(0.5f, -0.5f, 3));
}

TEST(OnnxOperators, RangesOfHalvesAreRoundedOnce) {
  const auto half = [](float value) {
    Tensor tensor(DataType::kHalf, Shape());
    *static_cast<uint16_t*>(tensor.mutable_data()) = FloatToHalf(value);
    return tensor;
  };
  const absl::StatusOr<Tensor> y = Result("Range", {{"a", half(1)}, {"b", half(9)}, {"c", half(0.1f)}}, TensorProto::FLOAT16, {});
  ASSERT_TRUE(y.ok()) << y.status();
  ASSERT_GT(y->num_elements(), 70);
  const float step = HalfToFloat(FloatToHalf(0.1f));
  for (int64_t i = 0; i < y->num_elements(); ++i) {
    EXPECT_EQ(static_cast<const uint16_t*>(y->data())[i], FloatToHalf(1 + static_cast<float>(i) * step)) << i;
  }
}

// Blocks of two columns, the last one of one.
TEST(OnnxOperators, QuantisationByBlocks) {
  const Tensor scales = Floats({2, 2}, {1, 2, 4, 0.5f});
  const absl::StatusOr<Tensor> y = Result("QuantizeLinear", {{"a", Floats({2, 3}, {1, 2, 1000, 8, -8, -1})}, {"b", scales}}, TensorProto::FLOAT,
                                          {{"axis", 1}, {"block_size", 2}, {"output_dtype", TensorProto::INT16}});
  ASSERT_TRUE(y.ok()) << y.status();
  ASSERT_EQ(y->dtype(), DataType::kInt16);
  EXPECT_THAT(y->as<int16_t>(), ElementsAre(1, 2, 500, 2, -2, -2));
  const absl::StatusOr<Tensor> x = Result("DequantizeLinear", {{"a", *y}, {"b", scales}}, TensorProto::INT16,
                                          {{"axis", 1}, {"block_size", 2}, {"output_dtype", TensorProto::FLOAT16}});
  ASSERT_TRUE(x.ok()) << x.status();
  ASSERT_EQ(x->dtype(), DataType::kHalf);
  for (int i = 0; i < 6; ++i) EXPECT_EQ(x->DoubleAt(i), (std::vector<double>{1, 2, 1000, 8, -8, -1})[i]) << i;
}

TEST(OnnxOperators, TheLargestOfNoneIsTheTypesLowest) {
  const Tensor none(DataType::kInt8, Shape({0, 2}));
  const absl::StatusOr<Tensor> most = Result("ReduceMax", {{"a", none}}, TensorProto::INT8, {{"keepdims", 0}});
  ASSERT_TRUE(most.ok()) << most.status();
  EXPECT_EQ(most->IntAt(0), -128);
  const absl::StatusOr<Tensor> least = Result("ReduceMin", {{"a", none}}, TensorProto::INT8, {{"keepdims", 0}});
  ASSERT_TRUE(least.ok()) << least.status();
  EXPECT_EQ(least->IntAt(0), 127);
}

TEST(OnnxOperators, SpaceToDepthKeepsChannelsFirstWhereAsked) {
  ModelMaker maker(28);
  maker.Input("x", {1, 2, 2, 2}).Output("y");
  onnx_proto::NodeProto& node = maker.Node("SpaceToDepth", {"x"}, {"y"});
  SetInt(node, "blocksize", 2);
  const Arrays feeds = {{"x", Floats({1, 2, 2, 2}, {0, 1, 2, 3, 4, 5, 6, 7})}};
  absl::StatusOr<Arrays> result = RunOnce(maker.bytes(), feeds);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_THAT(result->at("y").as<float>(), ElementsAre(0, 4, 1, 5, 2, 6, 3, 7));
  SetString(node, "mode", "CRD");
  result = RunOnce(maker.bytes(), feeds);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_THAT(result->at("y").as<float>(), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
}

// ---- One node with one result y, of inputs in the order of their names and of their types

using Attributes = std::function<void(onnx_proto::NodeProto&)>;

int OnnxType(DataType dtype) {
  switch (dtype) {
    case DataType::kDouble: return TensorProto::DOUBLE;
    case DataType::kUint8: return TensorProto::UINT8;
    case DataType::kInt8: return TensorProto::INT8;
    case DataType::kUint16: return TensorProto::UINT16;
    case DataType::kInt32: return TensorProto::INT32;
    case DataType::kInt64: return TensorProto::INT64;
    case DataType::kUint32: return TensorProto::UINT32;
    case DataType::kUint64: return TensorProto::UINT64;
    default: return TensorProto::FLOAT;
  }
}

absl::StatusOr<Tensor> OfNode(const std::string& op, const Arrays& feeds, const Attributes& attributes = {}, int64_t opset = 28) {
  ModelMaker maker(opset);
  std::vector<std::string> inputs;
  for (const auto& [name, value] : feeds) {
    maker.Input(name, {value.shape().dims().begin(), value.shape().dims().end()}, OnnxType(value.dtype()));
    inputs.push_back(name);
  }
  onnx_proto::NodeProto& node = maker.Output("y").Node(op, inputs, {"y"});
  if (attributes) attributes(node);
  absl::StatusOr<Arrays> arrays = RunOnce(maker.bytes(), feeds);
  if (!arrays.ok()) return arrays.status();
  return arrays->at("y");
}

Attributes WithInts(const std::map<std::string, int64_t>& ints, const std::map<std::string, std::string>& strings = {}) {
  return [=](onnx_proto::NodeProto& node) {
    for (const auto& [name, value] : ints) SetInt(node, name, value);
    for (const auto& [name, value] : strings) SetString(node, name, value);
  };
}

template <typename T>
Tensor Of(DataType dtype, Shape shape, std::vector<T> values) {
  Tensor tensor(dtype, std::move(shape));
  std::copy(values.begin(), values.end(), tensor.mutable_as<T>().begin());
  return tensor;
}
Tensor Bytes(Shape shape, std::vector<uint8_t> values) { return Of<uint8_t>(DataType::kUint8, std::move(shape), std::move(values)); }
Tensor Longs(Shape shape, std::vector<uint64_t> values) { return Of<uint64_t>(DataType::kUint64, std::move(shape), std::move(values)); }

template <typename T>
void ExpectElements(const absl::StatusOr<Tensor>& y, const Shape& shape, const std::vector<T>& values) {
  ASSERT_TRUE(y.ok()) << y.status();
  ASSERT_EQ(y->shape(), shape);
  EXPECT_THAT(y->as<T>(), ::testing::ElementsAreArray(values));
}

TEST(OnnxOperators, IndicesBeyondTheirDimensionTouchNobodyElsesElements) {
  const Tensor data = Floats({2, 3}, {0, 1, 2, 3, 4, 5});
  const Attributes along = WithInts({{"axis", 1}});
  ExpectElements<float>(OfNode("GatherElements", {{"a", data}, {"b", Ints({2, 1}, {-1, 0})}}, along), {2, 1}, {2, 3});
  EXPECT_FALSE(OfNode("GatherElements", {{"a", data}, {"b", Ints({2, 1}, {4, 0})}}, along).ok());
  EXPECT_FALSE(OfNode("GatherElements", {{"a", data}, {"b", Ints({2, 1}, {0, -4})}}, along).ok());
  EXPECT_FALSE(OfNode("GatherElements", {{"a", Floats({2, 2}, {0, 1, 2, 3})}, {"b", Ints({1, 3}, {0, 0, 0})}}).ok());
  ExpectElements<float>(OfNode("GatherND", {{"a", data}, {"b", Ints({1, 2}, {-1, 1})}}), {1}, {4});
  EXPECT_FALSE(OfNode("GatherND", {{"a", data}, {"b", Ints({1, 2}, {0, 4})}}).ok());
  EXPECT_FALSE(OfNode("GatherND", {{"a", data}, {"b", Ints({2, 1}, {3, 0})}}, WithInts({{"batch_dims", 1}})).ok());
  for (const char* reduction : {"none", "add", "mul"}) {
    const Arrays tuples = {{"a", data}, {"b", Ints({1, 2}, {0, 4})}, {"c", Floats({1}, {9})}};
    EXPECT_FALSE(OfNode("ScatterND", tuples, WithInts({}, {{"reduction", reduction}})).ok()) << reduction;
    const Arrays elements = {{"a", data}, {"b", Ints({2, 1}, {4, 0})}, {"c", Floats({2, 1}, {9, 9})}};
    EXPECT_FALSE(OfNode("ScatterElements", elements, WithInts({{"axis", 1}}, {{"reduction", reduction}})).ok()) << reduction;
  }
  ModelMaker maker;
  maker.Input("x", {2, 3}).IntInitializer("at", {2, 1}, {4, 0}).Output("y");
  SetInt(maker.Node("GatherElements", {"x", "at"}, {"y"}), "axis", 1);
  EXPECT_THAT(std::string(maker.Import().status().message()), HasSubstr("an index of 4 along a dimension of 3"));
}

TEST(OnnxOperators, LabelsBeyondTheClassesTakeNoOtherRows) {
  const Tensor rows = Floats({2, 3}, {0, 1, 2, 3, 4, 5}), doubles = Of<double>(DataType::kDouble, {2, 3}, {0, 1, 2, 3, 4, 5});
  ExpectElements<float>(OfNode("NegativeLogLikelihoodLoss", {{"a", rows}, {"b", Ints({2}, {2, 1})}}), {}, {-3});
  for (int64_t label : {4, -1}) {
    EXPECT_FALSE(OfNode("NegativeLogLikelihoodLoss", {{"a", rows}, {"b", Ints({2}, {1, label})}}).ok()) << label;
    EXPECT_FALSE(OfNode("NegativeLogLikelihoodLoss", {{"a", rows}, {"b", Ints({2}, {label, 1})}}).ok()) << label;
    EXPECT_FALSE(OfNode("SoftmaxCrossEntropyLoss", {{"a", doubles}, {"b", Ints({2}, {label, 1})}}).ok()) << label;
  }
}

TEST(OnnxOperators, CachesAreNotWrittenIntoTheNextSample) {
  const auto written = [](std::vector<int64_t> from) {
    return OfNode("TensorScatter", {{"a", Floats({2, 4, 1}, {0, 0, 0, 0, 0, 0, 0, 0})}, {"b", Floats({2, 2, 1}, {1, 2, 3, 4})}, {"c", Ints({2}, from)}});
  };
  ExpectElements<float>(written({1, 2}), {2, 4, 1}, {0, 1, 2, 0, 0, 0, 3, 4});
  EXPECT_FALSE(written({3, 2}).ok());
  EXPECT_FALSE(written({0, -1}).ok());
}

TEST(OnnxOperators, BeforeOpset7TheSecondOperandIsLaidAlongAnAxis) {
  const Attributes rows = WithInts({{"broadcast", 1}, {"axis", 0}});
  const Tensor x = Floats({2, 2}, {1, 2, 3, 4}), y = Floats({2}, {1, 3});
  ExpectElements<float>(OfNode("Sub", {{"a", x}, {"b", y}}, rows, 6), {2, 2}, {0, 1, 0, 1});
  ExpectElements<float>(OfNode("Sub", {{"a", x}, {"b", y}}, WithInts({{"broadcast", 1}}), 6), {2, 2}, {0, -1, 2, 1});
  ExpectElements<float>(OfNode("Pow", {{"a", x}, {"b", y}}, rows, 6), {2, 2}, {1, 2, 27, 64});
  ExpectElements<bool>(OfNode("Greater", {{"a", x}, {"b", y}}, rows, 6), {2, 2}, {false, true, false, true});
  const Tensor below = Floats({1, 2, 2}, {-1, -1, -1, -1});
  ExpectElements<float>(OfNode("PRelu", {{"a", below}, {"b", Floats({2}, {2, 3})}}, {}, 6), {1, 2, 2}, {-2, -2, -3, -3});
  ExpectElements<float>(OfNode("PRelu", {{"a", below}, {"b", Floats({2}, {2, 3})}}), {1, 2, 2}, {-2, -3, -2, -3});
}

TEST(OnnxOperators, ConcatGoesAlongAxis1BeforeOpset4AndSaysTheAxisSince) {
  const Arrays feeds = {{"a", Floats({1, 1}, {1})}, {"b", Floats({1, 1}, {2})}};
  ExpectElements<float>(OfNode("Concat", feeds, {}, 3), {1, 2}, {1, 2});
  EXPECT_THAT(std::string(OfNode("Concat", feeds).status().message()), HasSubstr("axis is missing"));
}

TEST(OnnxOperators, BeforeOpset7TrainingIsWhatIsNoTest) {
  const Arrays feeds = {{"a", Floats({2, 1}, {0, 2})}, {"b", Floats({1}, {1})}, {"c", Floats({1}, {0})}, {"d", Floats({1}, {5})}, {"e", Floats({1}, {1})}};
  const auto expect = [&](const Attributes& attributes, int64_t opset, std::vector<float> values) {
    const absl::StatusOr<Tensor> y = OfNode("BatchNormalization", feeds, attributes, opset);
    ASSERT_TRUE(y.ok()) << y.status();
    EXPECT_THAT(y->as<float>(), ::testing::Pointwise(::testing::FloatNear(1e-4f), values));
  };
  expect({}, 6, {-1, 1});
  expect(WithInts({{"is_test", 1}}), 6, {-5, -3});
  expect({}, 9, {-5, -3});
  const Arrays ones = {{"a", Floats({100}, std::vector<float>(100, 1))}};
  const absl::StatusOr<Tensor> dropped = OfNode("Dropout", ones, {}, 6);
  ASSERT_TRUE(dropped.ok()) << dropped.status();
  EXPECT_THAT(dropped->as<float>(), ::testing::Contains(0));
  ExpectElements<float>(OfNode("Dropout", ones, WithInts({{"is_test", 1}}), 6), {100}, std::vector<float>(100, 1));
  ExpectElements<float>(OfNode("Dropout", ones, {}, 7), {100}, std::vector<float>(100, 1));
}

TEST(OnnxOperators, BeforeOpset9BatchNormsMayBeOfEveryElementOfAChannel) {
  const Arrays feeds = {{"a", Floats({2, 1, 2}, {0, 2, 4, 6})}, {"b", Floats({1, 2}, {1, 2})}, {"c", Floats({1, 2}, {0, 1})},
                        {"d", Floats({1, 2}, {1, 2})}, {"e", Floats({1, 2}, {1, 4})}};
  const auto expect = [&](int64_t opset, std::vector<float> values) {
    const absl::StatusOr<Tensor> y = OfNode("BatchNormalization", feeds, WithInts({{"spatial", 0}}), opset);
    ASSERT_TRUE(y.ok()) << y.status();
    EXPECT_EQ(y->shape(), Shape({2, 1, 2}));
    EXPECT_THAT(y->as<float>(), ::testing::Pointwise(::testing::FloatNear(1e-4f), values));
  };
  expect(8, {-1, 1, 3, 5});
  expect(6, {-1, -1, 1, 3});  // of the batch
  const absl::Status refused = OfNode("BatchNormalization", feeds, {}, 8).status();
  EXPECT_THAT(std::string(refused.message()), HasSubstr("expected a value for each channel"));
}

TEST(OnnxOperators, LargeNumbersWithoutASignAreNotNegative) {
  constexpr uint64_t kLarge = uint64_t{1} << 63;
  const Tensor x = Longs({2}, {kLarge, 1}), y = Longs({2}, {10, kLarge});
  ExpectElements<uint64_t>(OfNode("Max", {{"a", x}, {"b", y}}), {2}, {kLarge, kLarge});
  ExpectElements<uint64_t>(OfNode("Min", {{"a", x}, {"b", y}}), {2}, {10, 1});
  ExpectElements<uint64_t>(OfNode("Div", {{"a", x}, {"b", y}}), {2}, {kLarge / 10, 0});
  ExpectElements<uint64_t>(OfNode("Mod", {{"a", x}, {"b", y}}), {2}, {8, 1});
  ExpectElements<bool>(OfNode("Less", {{"a", x}, {"b", y}}), {2}, {false, true});
  ExpectElements<uint64_t>(OfNode("ReduceMax", {{"a", x}}), {1}, {kLarge});
  ExpectElements<uint64_t>(OfNode("ReduceMin", {{"a", x}}), {1}, {1});
  ExpectElements<uint64_t>(OfNode("Clip", {{"a", x}, {"b", Longs({}, {7})}}), {2}, {kLarge, 7});
  ExpectElements<uint64_t>(OfNode("Relu", {{"a", x}}), {2}, {kLarge, 1});
}

// TensorFlow's own ops are of none of these types.
template <typename T>
void ExpectOpsWithoutASign(DataType dtype) {
  constexpr T kMost = std::numeric_limits<T>::max();
  const Tensor x = Of<T>(dtype, {3}, {0, 7, kMost}), y = Of<T>(dtype, {3}, {2, 4, kMost});
  ExpectElements<T>(OfNode("Abs", {{"a", x}}), {3}, {0, 7, kMost});
  ExpectElements<T>(OfNode("Sign", {{"a", x}}), {3}, {0, 1, 1});
  ExpectElements<T>(OfNode("ReduceL1", {{"a", Of<T>(dtype, {3}, {1, 7, kMost - 9})}}), {1}, {kMost - 1});
  for (const int64_t like_c : {0, 1}) ExpectElements<T>(OfNode("Mod", {{"a", x}, {"b", y}}, WithInts({{"fmod", like_c}})), {3}, {0, 3, 0});
}

TEST(OnnxOperators, IntegersWithoutASignHaveOpsThatAskForIt) {
  ExpectOpsWithoutASign<uint8_t>(DataType::kUint8);
  ExpectOpsWithoutASign<uint16_t>(DataType::kUint16);
  ExpectOpsWithoutASign<uint32_t>(DataType::kUint32);
  ExpectOpsWithoutASign<uint64_t>(DataType::kUint64);
}

TEST(OnnxOperators, PoolsOfThreeDimensionsMayBeOfDoubles) {
  const Tensor x = Of<double>(DataType::kDouble, {1, 1, 2, 2, 2}, {0, 1, 2, 3, 4, 7, 6, 5});
  const auto pool = [&](const char* op) {
    return OfNode(op, {{"a", x}}, [](onnx_proto::NodeProto& node) { SetInts(node, "kernel_shape", {2, 2, 2}); });
  };
  ExpectElements<double>(pool("MaxPool"), {1, 1, 1, 1, 1}, {7});
  ExpectElements<double>(pool("AveragePool"), {1, 1, 1, 1, 1}, {3.5});

  // Those of floats, which have an operation of their own.
  const Shape shape({2, 3, 5, 6, 18});
  std::vector<float> numbers(shape.num_elements());
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<float>(i * 7919 % 1009);
  const auto windows = [](onnx_proto::NodeProto& node) {
    SetInts(node, "kernel_shape", {3, 2, 17});
    SetInts(node, "strides", {2, 1, 3});
    SetInts(node, "pads", {1, 0, 4, 2, 1, 9});
  };
  const absl::StatusOr<Tensor> floats = OfNode("MaxPool", {{"a", Floats(shape, numbers)}}, windows);
  ASSERT_TRUE(floats.ok()) << floats.status();
  const auto expected = floats->as<float>();
  ExpectElements<double>(OfNode("MaxPool", {{"a", Of<double>(DataType::kDouble, shape, {numbers.begin(), numbers.end()})}}, windows), floats->shape(),
                         {expected.begin(), expected.end()});
  const auto large = [](onnx_proto::NodeProto& node) { SetInts(node, "kernel_shape", {17, 17, 17}); };
  ExpectElements<double>(OfNode("MaxPool", {{"a", Of<double>(DataType::kDouble, {1, 1, 17, 17, 17}, std::vector<double>(17 * 17 * 17, 2))}}, large),
                         {1, 1, 1, 1, 1}, {2});
}

// a, b, y: scale and zero point each; a's and y's are of rows.
TEST(OnnxOperators, QuantisedProductsHaveScalesOfRows) {
  const Arrays feeds = {{"a", Bytes({2, 2}, {10, 20, 30, 40})}, {"b", Floats({2}, {0.5f, 0.1f})}, {"c", Bytes({}, {0})}, {"d", Bytes({2, 2}, {1, 2, 3, 4})},
                        {"e", Floats({}, {1})}, {"f", Bytes({}, {0})}, {"g", Floats({2}, {1, 0.5f})}, {"h", Bytes({2}, {0, 1})}};
  ExpectElements<uint8_t>(OfNode("QLinearMatMul", feeds), {2, 2}, {35, 50, 31, 45});
}

TEST(OnnxOperators, IntegerProductsMayBeOfVectors) {
  ExpectElements<int32_t>(OfNode("MatMulInteger", {{"a", Bytes({2}, {1, 2})}, {"b", Bytes({2}, {3, 4})}}), {}, {11});
  ExpectElements<int32_t>(OfNode("MatMulInteger", {{"a", Bytes({2}, {1, 2})}, {"b", Bytes({2, 1}, {3, 4})}}), {1}, {11});
  EXPECT_FALSE(OfNode("MatMulInteger", {{"a", Bytes({2}, {1, 2})}, {"b", Bytes({3}, {3, 4, 5})}}).ok());
  const Arrays feeds = {{"a", Of<uint32_t>(DataType::kUint32, {1, 2}, {1, 2})}, {"b", Of<uint32_t>(DataType::kUint32, {2, 1}, {3, 4})}};
  ExpectElements<uint32_t>(OfNode("Gemm", feeds), {1, 1}, {11});
}

// An integer has no half, but it is compared with one.
TEST(OnnxOperators, IntegersMeetFractions) {
  const auto with = [](const char* name, float value) -> Attributes {
    return [=](onnx_proto::NodeProto& node) {
      onnx_proto::AttributeProto* attribute = node.add_attribute();
      attribute->set_name(name);
      attribute->set_type(onnx_proto::AttributeProto::FLOAT);
      attribute->set_f(value);
    };
  };
  const Arrays feeds = {{"a", Ints({4}, {-2, 0, 1, 2})}};
  ExpectElements<int64_t>(OfNode("Shrink", feeds), {4}, {-2, 0, 1, 2});
  ExpectElements<int64_t>(OfNode("Shrink", feeds, with("lambd", 1.5f)), {4}, {-2, 0, 0, 2});
  const Arrays products = {{"a", Ints({1, 2}, {1, 2})}, {"b", Ints({2, 1}, {3, 5})}};
  ExpectElements<int64_t>(OfNode("Gemm", products, with("alpha", 0.5f)), {1, 1}, {6});
}

// Odd sums beyond 2^24 are no floats.
TEST(OnnxOperators, IntegerConvolutionsAreExactHoweverLongAndOfAnyRank) {
  const Tensor most = Bytes({1, 29, 3, 3}, std::vector<uint8_t>(261, 255));
  ExpectElements<int32_t>(OfNode("ConvInteger", {{"a", most}, {"b", most}}), {1, 1, 1, 1}, {261 * 255 * 255});
  ExpectElements<int32_t>(OfNode("ConvInteger", {{"a", Bytes({1, 1, 3}, {1, 2, 3})}, {"b", Bytes({1, 1, 2}, {1, 10})}}), {1, 1, 2}, {21, 32});
  ExpectElements<int32_t>(OfNode("ConvInteger", {{"a", Bytes({1, 1, 1, 1, 2}, {1, 2})}, {"b", Bytes({1, 1, 1, 1, 2}, {3, 4})}}), {1, 1, 1, 1, 1}, {11});
}

TEST(OnnxOperators, ABlockMayBeLongerThanItsDimension) {
  const Arrays feeds = {{"a", Bytes({1, 4}, {1, 2, 3, 4})}, {"b", Floats({1, 1}, {2})}};
  ExpectElements<float>(OfNode("DequantizeLinear", feeds, WithInts({{"axis", 1}, {"block_size", 8}})), {1, 4}, {2, 4, 6, 8});
}

TEST(OnnxOperators, ZerosAloneAreQuantisedWithAStepThatIsNoZero) {
  ModelMaker maker;
  maker.Input("x", {2}).Output("y").Output("scale").Output("zero");
  maker.Node("DynamicQuantizeLinear", {"x"}, {"y", "scale", "zero"});
  const absl::StatusOr<Arrays> result = RunOnce(maker.bytes(), {{"x", Floats({2}, {0, 0})}});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_THAT(result->at("y").as<uint8_t>(), ElementsAre(0, 0));
  EXPECT_EQ(result->at("scale").as<float>()[0], 1 / 255.0f);
  EXPECT_EQ(result->at("zero").as<uint8_t>()[0], 0);
}

TEST(OnnxOperators, PowersOfIntegersAreExactWhateverTheExponentsType) {
  const Arrays feeds = {{"a", Ints({1}, {3})}, {"b", Of<int32_t>(DataType::kInt32, {1}, {35})}};
  ExpectElements<int64_t>(OfNode("Pow", feeds), {1}, {50031545098999707});
}

TEST(OnnxOperators, RangesOfLargeIntegersAreCounted) {
  constexpr int64_t kLarge = int64_t{1} << 60;
  const auto range = [](int64_t start, int64_t limit, int64_t delta) {
    return OfNode("Range", {{"a", Ints({}, {start})}, {"b", Ints({}, {limit})}, {"c", Ints({}, {delta})}});
  };
  ExpectElements<int64_t>(range(kLarge, kLarge + 3, 1), {3}, {kLarge, kLarge + 1, kLarge + 2});
  ExpectElements<int64_t>(range(kLarge + 3, kLarge, -2), {2}, {kLarge + 3, kLarge + 1});
  ExpectElements<int64_t>(range(5, 5, 1), {0}, {});
  ExpectElements<int64_t>(range(INT64_MIN, INT64_MAX, INT64_MAX), {3}, {INT64_MIN, -1, INT64_MAX - 1});
}

TEST(OnnxOperators, NotANumberIsOneUniqueValueBehindTheNumbers) {
  ModelMaker maker;
  maker.Input("x", {4}).Output("values").Output("counts");
  maker.Node("Unique", {"x"}, {"values", "", "", "counts"});
  const absl::StatusOr<Arrays> result = RunOnce(maker.bytes(), {{"x", Floats({4}, {2, NAN, 1, NAN})}});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_THAT(result->at("values").as<float>(), ElementsAre(1, 2, ::testing::IsNan()));
  EXPECT_THAT(result->at("counts").as<int64_t>(), ElementsAre(1, 1, 2));
}

TEST(OnnxOperators, EinsumRepeatsADimensionOf1) {
  const auto sums = [](const Tensor& a, const Tensor& b, const char* equation) {
    return OfNode("Einsum", {{"a", a}, {"b", b}}, WithInts({}, {{"equation", equation}}));
  };
  const Tensor four = Floats({4}, {1, 2, 3, 4});
  ExpectElements<float>(sums(Floats({1}, {2}), four, "i,i->i"), {4}, {2, 4, 6, 8});
  ExpectElements<float>(sums(four, Floats({1}, {2}), "i,i"), {}, {20});
  ExpectElements<float>(sums(Floats({2, 1}, {1, 10}), four, "...i,i->...i"), {2, 4}, {1, 2, 3, 4, 10, 20, 30, 40});
}

// Resize of x along its last dimension by sizes.
absl::StatusOr<Tensor> Resized(int64_t length, const char* coordinates, const std::vector<float>& roi) {
  ModelMaker maker(19);
  maker.Input("x", {1, 1, 1, length}).IntInitializer("sizes", {4}, {1, 1, 1, 1}).Output("y");
  if (!roi.empty()) maker.Initializer("roi", {8}, roi);
  onnx_proto::NodeProto& node = maker.Node("Resize", {"x", roi.empty() ? "" : "roi", "", "sizes"}, {"y"});
  SetString(node, "mode", "linear");
  SetString(node, "coordinate_transformation_mode", coordinates);
  std::vector<float> values(length);
  std::iota(values.begin(), values.end(), 0.0f);
  absl::StatusOr<Arrays> arrays = RunOnce(maker.bytes(), {{"x", Floats({1, 1, 1, length}, values)}});
  if (!arrays.ok()) return arrays.status();
  return arrays->at("y");
}

// 49 times 1/49 is a little less than one in doubles.
TEST(OnnxOperators, ASizeOf1IsOneWhateverTheLengthWas) {
  for (int64_t length : {48, 49, 98, 103}) {
    ExpectElements<float>(Resized(length, "pytorch_half_pixel", {}), {1, 1, 1, 1}, {0});
    ExpectElements<float>(Resized(length, "align_corners", {}), {1, 1, 1, 1}, {0});
  }
  ExpectElements<float>(Resized(49, "tf_crop_and_resize", {0, 0, 0, 0.25f, 1, 1, 1, 1}), {1, 1, 1, 1}, {30});
}

// Numbers 0, 1, … along a line, resized; `more` sets the node's attributes.
absl::StatusOr<Tensor> ResizedLine(int64_t opset, int64_t length, float scale, const std::function<void(onnx_proto::NodeProto&)>& more) {
  ModelMaker maker(opset);
  maker.Input("x", {length}).Initializer("scale", {1}, {scale}).Output("y");
  more(maker.Node("Resize", opset < 11 ? std::vector<std::string>{"x", "scale"} : std::vector<std::string>{"x", "", "scale"}, {"y"}));
  std::vector<float> values(length);
  std::iota(values.begin(), values.end(), 0.0f);
  absl::StatusOr<Arrays> arrays = RunOnce(maker.bytes(), {{"x", Floats({length}, values)}});
  if (!arrays.ok()) return arrays.status();
  return arrays->at("y");
}

// The expected values are onnxruntime's. 10 times 0.7 are 7 in float.
TEST(OnnxOperators, LengthsAndPlacesOfResizeAreThoseOfFloats) {
  const auto floor = [](onnx_proto::NodeProto& node) {
    SetString(node, "coordinate_transformation_mode", "asymmetric");
    SetString(node, "nearest_mode", "floor");
  };
  ExpectElements<float>(ResizedLine(13, 10, 0.7f, floor), {7}, {0, 1, 2, 4, 5, 7, 8});
  const auto defaults = [](onnx_proto::NodeProto&) {};
  ExpectElements<float>(ResizedLine(10, 4, 0.6f, defaults), {2}, {0, 2});
  ExpectElements<float>(ResizedLine(10, 2, 2, defaults), {4}, {0, 0, 1, 1});
}

// Place 8 of 11 over 0.2 to 1.2 of six elements is the last element in float, and a little beyond it in double.
TEST(OnnxOperators, CropsThatEndAtAnElementHaveIt) {
  ModelMaker maker(19);
  maker.Input("x", {6}).IntInitializer("size", {1}, {11}).Initializer("roi", {2}, {0.2f, 1.2f}).Output("y");
  onnx_proto::NodeProto& node = maker.Node("Resize", {"x", "roi", "", "size"}, {"y"});
  SetString(node, "mode", "linear");
  SetString(node, "coordinate_transformation_mode", "tf_crop_and_resize");
  const absl::StatusOr<Arrays> got = RunOnce(maker.bytes(), {{"x", Floats({6}, {1, 2, 3, 4, 5, 6})}});
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_NEAR(got->at("y").as<float>()[8], 6, 1e-5);
  EXPECT_EQ(got->at("y").as<float>()[9], 0);
}

TEST(OnnxOperators, RegionsAreSampledByTheirSize) {
  ModelMaker maker(16);
  std::vector<float> values(16);
  std::iota(values.begin(), values.end(), 0.0f);
  maker.Input("x", {1, 1, 4, 4}).Initializer("rois", {3, 4}, {0, 0, 4, 4, 1, 1, 2, 2, 0, 0, 4, 4}).IntInitializer("batch", {3}, {0, 0, 0}).Output("y");
  maker.Node("RoiAlign", {"x", "rois", "batch"}, {"y"});
  const absl::StatusOr<Arrays> got = RunOnce(maker.bytes(), {{"x", Floats({1, 1, 4, 4}, values)}});
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_EQ(got->at("y").shape(), Shape({3, 1, 1, 1}));
  // Of 16 samples, which are the pixels, and of one pixel.
  EXPECT_THAT(got->at("y").as<float>(), ElementsAre(7.5f, 5, 7.5f));
}

TEST(OnnxOperators, TheFirstOpsetsHaveAttributesForInputs) {
  ModelMaker maker(1);
  maker.Input("x", {1, 1, 1, 2}).Output("y");
  SetInts(maker.Node("Reshape", {"x"}, {"flat"}), "shape", {1, 1, 2, 1});
  onnx_proto::NodeProto& upsample = maker.Node("Upsample", {"flat"}, {"wide"});
  for (const auto& [name, scale] : {std::pair<const char*, float>{"height_scale", 1}, {"width_scale", 2}}) {
    onnx_proto::AttributeProto* attribute = upsample.add_attribute();
    attribute->set_name(name);
    attribute->set_type(onnx_proto::AttributeProto::FLOAT);
    attribute->set_f(scale);
  }
  SetInts(maker.Node("Pad", {"wide"}, {"padded"}), "paddings", {0, 0, 0, 0, 0, 0, 1, 0});
  SetString(maker.Node("Cast", {"padded"}, {"y"}), "to", "INT64");
  const absl::StatusOr<Arrays> got = RunOnce(maker.bytes(), {{"x", Floats({1, 1, 1, 2}, {3, 4})}});
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_EQ(got->at("y").shape(), Shape({1, 1, 3, 2}));
  EXPECT_THAT(got->at("y").as<int64_t>(), ElementsAre(3, 3, 4, 4, 0, 0));
}

TEST(OnnxOperators, ABatchOfNoneIsResizedToNone) {
  ModelMaker maker(19);
  maker.Input("x", {0, 1, 2, 2}).Initializer("scales", {4}, {1, 1, 2, 2}).Output("y");
  maker.Node("Resize", {"x", "", "scales"}, {"y"});
  const absl::StatusOr<Arrays> result = RunOnce(maker.bytes(), {{"x", Floats({0, 1, 2, 2}, {})}});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->at("y").shape(), Shape({0, 1, 4, 4}));
}

TEST(OnnxOperators, AttentionHoldsNoPlacesOfEveryPair) {
  constexpr int64_t kLength = 300;
  for (int64_t causal : {0, 1}) {
    ModelMaker maker(23);
    for (const char* name : {"q", "k", "v"}) maker.Input(name, {1, 1, kLength, 4});
    SetInt(maker.Output("y").Node("Attention", {"q", "k", "v"}, {"y"}), "is_causal", causal);
    const absl::StatusOr<OnnxModel> model = maker.Import();
    ASSERT_TRUE(model.ok()) << model.status();
    for (int32_t i = 0; i < model->graph.num_ids(); ++i) {
      const Node& node = model->graph.node(NodeId{i});
      const TensorType* type = node.outputs.empty() ? nullptr : &node.outputs[0];
      const bool numbers = type != nullptr && (node.op == "Const" || type->dtype == DataType::kInt64);
      EXPECT_LE(numbers ? type->shape.num_elements() : 0, kLength) << node.name;
    }
  }
}

TEST(OnnxOperators, AbsurdRegionsAndPadsAreErrorsOfTheirNode) {
  const Arrays feeds = {{"a", Floats({1, 1, 2, 2}, {1, 2, 3, 4})}, {"b", Floats({1, 4}, {0, 0, 1, 1})}, {"c", Ints({1}, {0})}};
  for (const Attributes& absurd : {WithInts({{"sampling_ratio", int64_t{1} << 62}}), WithInts({{"sampling_ratio", 1}, {"output_height", 1'000'000'000'000}})}) {
    const absl::Status status = OfNode("RoiAlign", feeds, absurd).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    EXPECT_THAT(std::string(status.message()), ::testing::AllOf(HasSubstr("node 'make_y'"), HasSubstr("absurd")));
  }
  const absl::Status pads = OfNode("Pad", {{"a", Floats({1}, {1})}, {"b", Ints({2}, {INT64_MIN, 0})}}).status();
  EXPECT_THAT(std::string(pads.message()), HasSubstr("pads are absurd"));
}

}  // namespace
}  // namespace millrace::testing
