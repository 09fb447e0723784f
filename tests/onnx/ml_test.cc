// Classic machine learning (ai.onnx.ml), narrow element types, and loops past their conditions. The values are onnxruntime's.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
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
using onnx_proto::AttributeProto;
using onnx_proto::TensorProto;

void SetFloats(onnx_proto::NodeProto& node, const std::string& name, const std::vector<float>& values) {
  AttributeProto* attribute = node.add_attribute();
  attribute->set_name(name);
  attribute->set_type(AttributeProto::FLOATS);
  for (float value : values) attribute->add_floats(value);
}

void SetFloat(onnx_proto::NodeProto& node, const std::string& name, float value) {
  AttributeProto* attribute = node.add_attribute();
  attribute->set_name(name);
  attribute->set_type(AttributeProto::FLOAT);
  attribute->set_f(value);
}

void SetTexts(onnx_proto::NodeProto& node, const std::string& name, const std::vector<std::string>& values) {
  AttributeProto* attribute = node.add_attribute();
  attribute->set_name(name);
  attribute->set_type(AttributeProto::STRINGS);
  for (const std::string& value : values) attribute->add_strings(value);
}

void SetText(onnx_proto::NodeProto& node, const std::string& name, const std::string& value) {
  AttributeProto* attribute = node.add_attribute();
  attribute->set_name(name);
  attribute->set_type(AttributeProto::STRING);
  attribute->set_s(value);
}

onnx_proto::NodeProto& MlNode(ModelMaker& maker, const std::string& op, std::vector<std::string> outputs, int type = TensorProto::FLOAT,
                              std::vector<int64_t> dims = {3, 2}) {
  maker.Input("x", std::move(dims), type);
  for (const std::string& output : outputs) maker.Output(output);
  onnx_proto::NodeProto& node = maker.Node(op, {"x"}, std::move(outputs));
  node.set_domain("ai.onnx.ml");
  return node;
}

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
const Tensor& Rows() {
  static const Tensor& rows = *new Tensor(Floats({3, 2}, {0, 5, 2, 1, kNan, 3}));
  return rows;
}

// Tree 0: x0 <= 1 (or missing) ? node 1 : (x1 > 2 ? node 3 : node 4). Tree 1: a leaf.
void SetNodes(onnx_proto::NodeProto& node) {
  SetInts(node, "nodes_treeids", {0, 0, 0, 0, 0, 1});
  SetInts(node, "nodes_nodeids", {0, 1, 2, 3, 4, 0});
  SetInts(node, "nodes_featureids", {0, 0, 1, 0, 0, 0});
  SetFloats(node, "nodes_values", {1, 0, 2, 0, 0, 0});
  SetInts(node, "nodes_truenodeids", {1, 0, 3, 0, 0, 0});
  SetInts(node, "nodes_falsenodeids", {2, 0, 4, 0, 0, 0});
  SetInts(node, "nodes_missing_value_tracks_true", {1, 0, 0, 0, 0, 0});
  SetTexts(node, "nodes_modes", {"BRANCH_LEQ", "LEAF", "BRANCH_GT", "LEAF", "LEAF", "LEAF"});
}

void SetWeights(onnx_proto::NodeProto& node, const std::string& kind, const std::vector<float>& weights, std::vector<int64_t> ids = {0, 0, 0, 0}) {
  SetInts(node, kind + "_treeids", {0, 0, 0, 1});
  SetInts(node, kind + "_nodeids", {1, 3, 4, 0});
  SetInts(node, kind + "_ids", std::move(ids));
  SetFloats(node, kind + "_weights", weights);
}

TEST(OnnxTrees, RegressorsAggregate) {
  const std::map<std::string, std::vector<float>> expected = {
      {"SUM", {8, 10, 8}}, {"AVERAGE", {4.5f, 5.5f, 4.5f}}, {"MIN", {5, 5, 5}}, {"MAX", {5, 7, 5}}};
  for (const auto& [how, values] : expected) {
    ModelMaker maker;
    onnx_proto::NodeProto& node = MlNode(maker, "TreeEnsembleRegressor", {"y"});
    SetNodes(node);
    SetWeights(node, "target", {3, 100, 5, 4});
    node.mutable_attribute(node.attribute_size() - 1)->set_floats(0, how == "MIN" || how == "MAX" ? 4 : 3);
    if (how == "MAX") node.mutable_attribute(node.attribute_size() - 1)->set_floats(2, 6);
    SetFloats(node, "base_values", {1});
    SetText(node, "aggregate_function", how);
    const absl::StatusOr<Arrays> result = RunOnce(maker.bytes(), {{"x", Rows()}});
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_THAT(result->at("y").as<float>(), Pointwise(FloatNear(1e-6f), values)) << how;
  }
}

TEST(OnnxTrees, TwoClassesOfOneProbability) {
  ModelMaker maker;
  onnx_proto::NodeProto& node = MlNode(maker, "TreeEnsembleClassifier", {"label", "scores"});
  SetNodes(node);
  SetWeights(node, "class", {0.25f, 1, 0.5f, 0.125f});
  SetTexts(node, "classlabels_strings", {"no", "yes"});
  absl::StatusOr<Arrays> result = RunOnce(maker.bytes(), {{"x", Rows()}});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_THAT(result->at("label").strings(), ElementsAre("no", "yes", "no"));
  EXPECT_THAT(result->at("scores").as<float>(), ElementsAre(0.625f, 0.375f, 0.375f, 0.625f, 0.625f, 0.375f));
  SetText(node, "post_transform", "LOGISTIC");
  result = RunOnce(maker.bytes(), {{"x", Rows()}});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_NEAR(result->at("scores").as<float>()[0], 1 / (1 + std::exp(0.375f)), 1e-6f);
}

TEST(OnnxTrees, TheClassOfMostWeightIsTheLabel) {
  ModelMaker maker;
  onnx_proto::NodeProto& node = MlNode(maker, "TreeEnsembleClassifier", {"label", "scores"});
  SetNodes(node);
  SetWeights(node, "class", {-1, 1, 4, -2}, {0, 1, 2, 1});
  SetInts(node, "classlabels_int64s", {5, 9, -3});
  const absl::StatusOr<Arrays> result = RunOnce(maker.bytes(), {{"x", Rows()}});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_THAT(result->at("label").as<int64_t>(), ElementsAre(5, -3, 5)) << "not of the class that no leaf has";
  EXPECT_THAT(result->at("scores").as<float>(), ElementsAre(-1, -2, 0, 0, -2, 4, -1, -2, 0));
}

TEST(OnnxTrees, TreesThatAreNoneAreRefused) {
  ModelMaker maker;
  onnx_proto::NodeProto& node = MlNode(maker, "TreeEnsembleRegressor", {"y"});
  SetNodes(node);
  SetWeights(node, "target", {1, 2, 3, 4});
  node.mutable_attribute(4)->set_ints(2, 1);  // node 1 is the child of two
  EXPECT_THAT(maker.Import().status().message(), HasSubstr("a node of a tree has two parents"));
  node.mutable_attribute(4)->set_ints(2, 7);
  EXPECT_THAT(maker.Import().status().message(), HasSubstr("node 2 of tree 0 has a child that is not there"));
  SetInt(node, "n_targets", int64_t{1} << 62);
  node.mutable_attribute(4)->set_ints(2, 3);
  EXPECT_THAT(maker.Import().status().message(), HasSubstr("n_targets is 4611686018427387904 for 6 nodes"));
}

TEST(OnnxMl, ScalesImputesAndNormalises) {
  ModelMaker maker;
  onnx_proto::NodeProto& imputer = MlNode(maker, "Imputer", {"full"});
  SetFloats(imputer, "imputed_value_floats", {4, 7});
  SetFloat(imputer, "replaced_value_float", kNan);
  onnx_proto::NodeProto& scaler = maker.Output("scaled").Node("Scaler", {"full"}, {"scaled"});
  scaler.set_domain("ai.onnx.ml");
  SetFloats(scaler, "offset", {0, 1});
  SetFloats(scaler, "scale", {2, 3});
  onnx_proto::NodeProto& normalizer = maker.Output("unit").Node("Normalizer", {"scaled"}, {"unit"});
  normalizer.set_domain("ai.onnx.ml");
  SetText(normalizer, "norm", "L1");
  const absl::StatusOr<Arrays> result = RunOnce(maker.bytes(), {{"x", Rows()}});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_THAT(result->at("full").as<float>(), ElementsAre(0, 5, 2, 1, 4, 3));
  EXPECT_THAT(result->at("scaled").as<float>(), ElementsAre(0, 12, 4, 0, 8, 6));
  EXPECT_THAT(result->at("unit").as<float>(), Pointwise(FloatNear(1e-6f), std::vector<float>{0, 1, 1, 0, 8 / 14.0f, 6 / 14.0f}));
}

TEST(OnnxMl, LinearModels) {
  const Tensor rows = Floats({3, 2}, {1, 0, 0, 1, -2, 1});
  ModelMaker regressor;
  onnx_proto::NodeProto& node = MlNode(regressor, "LinearRegressor", {"y"});
  SetFloats(node, "coefficients", {1, 2, 3, 4});
  SetFloats(node, "intercepts", {0.5f, -1});
  SetInt(node, "targets", 2);
  absl::StatusOr<Arrays> result = RunOnce(regressor.bytes(), {{"x", rows}});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_THAT(result->at("y").as<float>(), ElementsAre(1.5f, 2, 2.5f, 3, 0.5f, -3));

  ModelMaker classifier;
  onnx_proto::NodeProto& of_one = MlNode(classifier, "LinearClassifier", {"label", "scores"});
  SetFloats(of_one, "coefficients", {1, 0.5f});
  SetInts(of_one, "classlabels_ints", {4, 6});
  SetText(of_one, "post_transform", "LOGISTIC");
  result = RunOnce(classifier.bytes(), {{"x", rows}});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_THAT(result->at("label").as<int64_t>(), ElementsAre(6, 6, 4));
  EXPECT_NEAR(result->at("scores").as<float>()[1], 1 / (1 + std::exp(-1.0f)), 1e-6f);
}

TEST(OnnxMl, SupportVectors) {
  ModelMaker maker;
  onnx_proto::NodeProto& node = MlNode(maker, "SVMRegressor", {"y"}, TensorProto::FLOAT, {2, 2});
  SetText(node, "kernel_type", "RBF");
  SetFloats(node, "kernel_params", {0.5f, 0, 0});
  SetFloats(node, "support_vectors", {0, 0, 1, 1});
  SetFloats(node, "coefficients", {2, -1});
  SetFloats(node, "rho", {0.25f});
  SetInt(node, "n_supports", 2);
  const absl::StatusOr<Arrays> result = RunOnce(maker.bytes(), {{"x", Floats({2, 2}, {0, 0, 1, 0})}});
  ASSERT_TRUE(result.ok()) << result.status();
  const float half = std::exp(-0.5f), one = std::exp(-1.0f);
  EXPECT_THAT(result->at("y").as<float>(), Pointwise(FloatNear(1e-6f), std::vector<float>{2.25f - one, half + 0.25f}));
}

TEST(OnnxMl, EncodesNumbers) {
  ModelMaker labels;
  onnx_proto::NodeProto& encoder = MlNode(labels, "LabelEncoder", {"y"}, TensorProto::INT64, {3});
  SetInts(encoder, "keys_int64s", {3, -1});
  SetTexts(encoder, "values_strings", {"three", "less"});
  SetText(encoder, "default_string", "?");
  absl::StatusOr<Arrays> result = RunOnce(labels.bytes(), {{"x", Ints({3}, {-1, 8, 3})}});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_THAT(result->at("y").strings(), ElementsAre("less", "?", "three"));

  ModelMaker ones;
  SetInts(MlNode(ones, "OneHotEncoder", {"y"}, TensorProto::INT64, {3}), "cats_int64s", {3, -1});
  result = RunOnce(ones.bytes(), {{"x", Ints({3}, {-1, 8, 3})}});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_THAT(result->at("y").as<float>(), ElementsAre(0, 1, 0, 0, 1, 0));
}

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
std::string LoopThatIgnores(const std::string& condition, const std::string& given) {
  ModelMaker body, maker;
  body.Input("i", {}, TensorProto::INT64).Input("going", {}, TensorProto::BOOL).Input("s", {2});
  body.Output(condition).Output("next").Node("Identity", {"going"}, {"same"});
  body.Node("Not", {"going"}, {"other"});
  body.Node("Add", {"s", "s"}, {"next"});
  maker.Input("x", {2}).IntInitializer("count", {}, {2}).Output("y");
  SetGraph(maker.Node("Loop", {"count", given, "x"}, {"y"}), "body", body);
  return onnx::LoopPastItsCondition(maker.proto());
}

TEST(OnnxLoops, ThoseThatGoOnPastAComputedConditionAreNamed) {
  EXPECT_EQ(LoopThatIgnores("other", ""), "make_y");
  EXPECT_EQ(LoopThatIgnores("same", ""), "");
  EXPECT_EQ(LoopThatIgnores("going", ""), "");
  EXPECT_EQ(LoopThatIgnores("other", "yes"), "") << "it has a condition";
}

}  // namespace
}  // namespace millrace::testing
