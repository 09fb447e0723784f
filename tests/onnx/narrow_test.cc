// Narrow element types, and loops past their conditions.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "model_maker.h"
#include "onnx/importer.h"
#include "onnx/narrow.h"

namespace millrace::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::FloatNear;
using ::testing::HasSubstr;
using ::testing::Pointwise;
using onnx_proto::TensorProto;

TensorProto* AddRaw(ModelMaker& maker, const std::string& name, int type, int64_t count, const std::string& bytes) {
  TensorProto* tensor = maker.graph().add_initializer();
  tensor->set_name(name);
  tensor->set_data_type(type);
  tensor->add_dims(count);
  tensor->set_raw_data(bytes);
  return tensor;
}

constexpr int kFloat8E4M3FN = 17, kFloat8E5M2 = 19, kUint4 = 21, kInt4 = 22;

TEST(OnnxNarrow, FourBitWeightsAreUnpacked) {
  for (const auto& [type, expected] : std::map<int, std::vector<float>>{{kInt4, {-4, 0.5f, 3.5f}}, {kUint4, {4, 0.5f, 3.5f}}}) {
    ModelMaker maker(21);
    AddRaw(maker, "w", type, 3, "\x18\x07");  // low halves first: 8, 1, 7
    maker.Input("x", {3}).Initializer("scale", {}, {0.5f}).Output("y").Node("DequantizeLinear", {"w", "scale"}, {"wide"});
    maker.Node("Add", {"x", "wide"}, {"y"});
    const absl::StatusOr<Arrays> result = RunOnce(maker.bytes(), {{"x", Floats({3}, {0, 0, 0})}});
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_THAT(result->at("y").as<float>(), Pointwise(FloatNear(0), expected));
  }
}

TEST(OnnxNarrow, EightBitFloatsAreWidened) {
  const Tensor bits = [] {
    Tensor tensor(DataType::kUint8, {5});
    const uint8_t values[] = {0x01, 0x38, 0xC0, 0x7E, 0x7C};
    std::copy(std::begin(values), std::end(values), tensor.mutable_as<uint8_t>().begin());
    return tensor;
  }();
  EXPECT_THAT(onnx::Widen(kFloat8E4M3FN, bits, {5}).as<float>(), ElementsAre(0.001953125f, 1, -2, 448, 384));
  EXPECT_THAT(onnx::Widen(kFloat8E5M2, bits, {5}).as<float>(),
              ElementsAre(1.52587890625e-5f, 0.5f, -2, ::testing::IsNan(), std::numeric_limits<float>::infinity()));
}

TEST(OnnxNarrow, OtherReadersAreRefusedByTheTypesName) {
  ModelMaker maker(21);
  AddRaw(maker, "w", kInt4, 3, "\x18\x07");
  maker.Output("y").Node("Identity", {"w"}, {"y"});
  EXPECT_THAT(maker.Import().status().message(), HasSubstr("initialiser 'w' of element type INT4"));
  ModelMaker input(21);
  input.Input("x", {2}, kFloat8E4M3FN).Output("y").Node("Identity", {"x"}, {"y"});
  EXPECT_THAT(input.Import().status().message(), HasSubstr("element type FLOAT8E4M3FN"));
}

// A loop over the count of 2 whose body gives `condition`.
std::string LoopThatIgnores(const std::string& condition, const std::string& given, const std::vector<std::string>& outputs = {"y"},
                            const std::string& domain = "") {
  ModelMaker body, maker;
  body.Input("i", {}, TensorProto::INT64).Input("going", {}, TensorProto::BOOL).Input("s", {2});
  body.Output(condition).Output("next").Node("Identity", {"going"}, {"same"});
  body.Node("Not", {"going"}, {"other"});
  body.Node("Add", {"s", "s"}, {"next"});
  maker.Input("x", {2}).IntInitializer("count", {}, {2}).Output("y");
  onnx_proto::NodeProto& loop = maker.Node("Loop", {"count", given, "x"}, outputs);
  loop.set_domain(domain);
  if (outputs.size() > 1 || outputs[0].empty()) loop.clear_name();
  SetGraph(loop, "body", body);
  return onnx::LoopPastItsCondition(maker.proto());
}

TEST(OnnxLoops, ThoseThatGoOnPastAComputedConditionAreNamed) {
  EXPECT_EQ(LoopThatIgnores("other", ""), "make_y");
  EXPECT_EQ(LoopThatIgnores("same", ""), "");
  EXPECT_EQ(LoopThatIgnores("going", ""), "");
  EXPECT_EQ(LoopThatIgnores("other", "yes"), "") << "it has a condition";
  EXPECT_EQ(LoopThatIgnores("other", "", {"", "z"}), "z");
  EXPECT_EQ(LoopThatIgnores("other", "", {""}), "(unnamed)");
  EXPECT_EQ(LoopThatIgnores("other", "", {"y"}, "mine"), "") << "another operator";
}

}  // namespace
}  // namespace millrace::testing
