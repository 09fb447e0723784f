// onnxruntime's LSTM of 8-bit weights, against its results on one thread.
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model_maker.h"

namespace millrace::testing {
namespace {

using ::testing::FloatNear;
using ::testing::HasSubstr;
using ::testing::Pointwise;
using onnx_proto::TensorProto;

void AddBytes(ModelMaker& maker, const std::string& name, const std::vector<int64_t>& dims, const std::vector<int>& values) {
  TensorProto* bytes = maker.graph().add_initializer();
  bytes->set_name(name);
  bytes->set_data_type(TensorProto::INT8);
  for (int64_t dim : dims) bytes->add_dims(dim);
  for (int value : values) bytes->add_int32_data(value);
}

ModelMaker BothDirections(std::vector<float> scales, const std::string& lengths = "") {
  ModelMaker maker;
  maker.Input("x", {3, 2, 2}).Output("y").Output("h").Output("c");
  AddBytes(maker, "w", {2, 2, 8}, {62, -83, -65, -53, -64, 60, 73, 16, -93, -82, -34, -14, 24, -5, -48, -69,
                                   38, 46, -94, -78, -10, -22, 77, 3, -16, -14, 33, 17, -66, 47, 51, 91});
  AddBytes(maker, "r", {2, 2, 8}, {57, -44, -37, 29, 30, 39, 73, -42, 87, -100, -85, 94, 88, -41, -73, -38,
                                   -92, 78, 32, 17, -52, -6, -62, 54, -6, -94, -50, 41, 3, -26, -50, -82});
  maker.Initializer("b", {2, 16}, {-0.3, 0.9, 0.6, 0.1, 0.7, -2.8, 1.0, -1.0, -1.7, 0.3, 0.7, -0.4, -1.1, 0.0, -0.1, 1.4,
                                   0.7, 0.2, 1.1, -0.2, -0.9, 0.6, 0.6, -0.2, -0.8, 0.2, -2.5, 0.7, 0.5, -1.6, 0.1, -1.0});
  const auto count = static_cast<int64_t>(scales.size());
  maker.Initializer("w_scale", {count}, std::move(scales)).Initializer("r_scale", {2}, {0.015, 0.01});
  AddBytes(maker, "zero", {2}, {0, 0});
  if (!lengths.empty()) maker.Input(lengths, {2}, TensorProto::INT32);
  onnx_proto::NodeProto& node =
      maker.Node("DynamicQuantizeLSTM", {"x", "w", "r", "b", lengths, "", "", "", "w_scale", "zero", "r_scale", "zero"}, {"y", "h", "c"});
  node.set_domain("com.microsoft");
  onnx_proto::AttributeProto* direction = node.add_attribute();
  direction->set_name("direction");
  direction->set_s("bidirectional");
  SetInt(node, "hidden_size", 2);
  return maker;
}

TEST(OnnxDynamicQuantizeLstm, RoundsWhatItMultipliesByItsRangeAtTheTime) {
  const absl::StatusOr<Arrays> got =
      RunOnce(BothDirections({0.01, 0.02}).bytes(), {{"x", Floats({3, 2, 2}, {0.8, -2.0, -0.9, 0.7, 1.2, -2.2, -0.5, 0.3, -0.6, 1.6, -1.2, 0.4})}});
  ASSERT_TRUE(got.ok()) << got.status();
  const std::vector<float> y = {0.4234217f, 0.271343f, -0.002893786f, -0.09109332f, 0.002834528f, -0.1330669f, 0.03920949f, -0.06474221f,
                                0.4932964f, 0.3345176f, 0.0221183f, 0.05686868f, 0.001392972f, -0.08426312f, 0.03621513f, -0.2471882f,
                                0.3671727f, -0.1812519f, 0.006164046f, -0.05626543f, 0.1531625f, 0.2804024f, -0.1148673f, -0.1381947f};
  const std::vector<float> c = {0.6970693f, -0.3023944f, 0.00711948f, -0.09534909f, 0.1919627f, -0.8893326f, 0.05555768f, -0.07330817f};
  EXPECT_EQ(got->at("y").shape(), Shape({3, 2, 2, 2}));
  EXPECT_THAT(got->at("y").as<float>(), Pointwise(FloatNear(1e-5), y));
  EXPECT_THAT(got->at("c").as<float>(), Pointwise(FloatNear(1e-5), c));
}

TEST(OnnxDynamicQuantizeLstm, StepsBeyondLengthsAreNotInTheRange) {
  const absl::StatusOr<Arrays> got =
      RunOnce(BothDirections({0.01, 0.02}, "lengths").bytes(),
              {{"x", Floats({3, 2, 2}, {0.8, -2.0, -0.9, 0.7, 1.2, -2.2, -0.5, 0.3, -9.6, 1.6, -1.2, 9.4})}, {"lengths", Tensor::Vector<int32_t>({1, 2})}});
  ASSERT_TRUE(got.ok()) << got.status();
  const std::vector<float> y = {0.4237317f, 0.2719648f, -0.003082264f, -0.09062182f, -0.001175787f, -0.1331425f, 0.03145557f, -0.05830371f,
                                0, 0, 0.02210363f, 0.05854046f, 0, 0, 0.03374796f, -0.2176035f, 0, 0, 0, 0, 0, 0, 0, 0};
  const std::vector<float> c = {0.5792741f, 0.8593819f, 0.02636507f, 0.1309479f, -0.0816704f, -0.8448952f, 0.04450902f, -0.0657812f};
  EXPECT_THAT(got->at("y").as<float>(), Pointwise(FloatNear(1e-5), y));
  EXPECT_THAT(got->at("c").as<float>(), Pointwise(FloatNear(1e-5), c));
}

TEST(OnnxDynamicQuantizeLstm, ScalesOfAnotherShapeAreAnError) {
  EXPECT_THAT(std::string(BothDirections({0.01, 0.02, 0.03}).Import().status().message()), HasSubstr("input 8 is float[3], the weights are int8[2,2,8]"));
}

}  // namespace
}  // namespace millrace::testing
