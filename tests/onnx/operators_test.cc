// Single operators where the text of an opset and a simple lowering part: checked by hand.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/float16.h"
#include "model_maker.h"

namespace millrace::testing {
namespace {

using ::testing::ElementsAre;
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

}  // namespace
}  // namespace millrace::testing
