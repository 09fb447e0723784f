// Classic machine learning (ai.onnx.ml). The values are onnxruntime's.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "model_maker.h"

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

void SetTensor(onnx_proto::NodeProto& node, const std::string& name, int type, const std::vector<float>& values) {
  AttributeProto* attribute = node.add_attribute();
  attribute->set_name(name);
  attribute->set_type(AttributeProto::TENSOR);
  attribute->mutable_t()->set_data_type(type);
  attribute->mutable_t()->add_dims(static_cast<int64_t>(values.size()));
  for (float value : values) {
    if (type == TensorProto::FLOAT) attribute->mutable_t()->add_float_data(value);
    if (type != TensorProto::FLOAT) attribute->mutable_t()->add_int32_data(static_cast<int32_t>(value));
  }
}

// Three trees: node 0 and below it 1; 2, of the set {2, 9}; 3. Leaf 2 is below two nodes.
onnx_proto::NodeProto& SetEnsemble(ModelMaker& maker) {
  onnx_proto::NodeProto& node = MlNode(maker, "TreeEnsemble", {"y"}, TensorProto::FLOAT, {4, 2});
  SetInt(node, "n_targets", 2);
  SetInts(node, "tree_roots", {0, 2, 3});
  SetInts(node, "nodes_featureids", {0, 1, 0, 1});
  SetTensor(node, "nodes_modes", TensorProto::UINT8, {0, 3, 6, 5});
  SetTensor(node, "nodes_splits", TensorProto::FLOAT, {1, 2, 0, 5});
  SetTensor(node, "membership_values", TensorProto::FLOAT, {2, 9, kNan});
  SetInts(node, "nodes_missing_value_tracks_true", {1, 0, 0, 0});
  SetInts(node, "nodes_truenodeids", {0, 1, 3, 2});
  SetInts(node, "nodes_trueleafs", {1, 1, 1, 1});
  SetInts(node, "nodes_falsenodeids", {1, 2, 0, 3});
  SetInts(node, "nodes_falseleafs", {0, 1, 1, 1});
  SetInts(node, "leaf_targetids", {0, 1, 0, 1});
  SetTensor(node, "leaf_weights", TensorProto::FLOAT, {1.5f, -2, 3, 0.5f});
  return node;
}

TEST(OnnxTrees, EnsemblesOfOneOperator) {
  ModelMaker maker;
  SetEnsemble(maker);
  const absl::StatusOr<Arrays> result = RunOnce(maker.bytes(), {{"x", Floats({4, 2}, {0, 5, 2, 1, 2, 3, kNan, 7})}});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_THAT(result->at("y").as<float>(), ElementsAre(3, 0.5f, 6, 0.5f, 3, -1.5f, 6, 0));
}

// The numbers of post_transform are the specification's: 1 is SOFTMAX, which onnxruntime has as 2.
TEST(OnnxTrees, EnsemblesTransformByNumber) {
  ModelMaker maker;
  SetInt(SetEnsemble(maker), "post_transform", 2);
  const absl::StatusOr<Arrays> result = RunOnce(maker.bytes(), {{"x", Floats({4, 2}, {0, 5, 2, 1, 2, 3, kNan, 7})}});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_NEAR(result->at("y").as<float>()[7], 0.5f, 1e-6f);
}

AttributeProto& AttributeOf(onnx_proto::NodeProto& node, const std::string& name) {
  for (AttributeProto& attribute : *node.mutable_attribute()) {
    if (attribute.name() == name) return attribute;
  }
  return *node.add_attribute();
}

// Those of no tree are not looked at; trees may be of one root, and have parts in common.
TEST(OnnxTrees, EnsemblesMayShareNodes) {
  const Arrays feeds = {{"x", Floats({4, 2}, {0, 5, 2, 1, 2, 3, kNan, 7})}};
  const std::map<std::vector<int64_t>, std::vector<float>> expected = {
      {{0}, {1.5f, 0, 3, 0, 0, -2, 1.5f, 0}}, {{0, 1}, {1.5f, -2, 6, 0, 0, -4, 1.5f, -2}}, {{0, 0}, {3, 0, 6, 0, 0, -4, 3, 0}}};
  for (const auto& [roots, values] : expected) {
    ModelMaker maker;
    onnx_proto::NodeProto& node = SetEnsemble(maker);
    AttributeProto& given = AttributeOf(node, "tree_roots");
    given.clear_ints();
    for (int64_t root : roots) given.add_ints(root);
    const absl::StatusOr<Arrays> result = RunOnce(maker.bytes(), feeds);
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_THAT(result->at("y").as<float>(), Pointwise(FloatNear(0), values));
  }
}

TEST(OnnxTrees, EnsemblesThatGoRoundAreRefused) {
  ModelMaker maker;
  onnx_proto::NodeProto& node = SetEnsemble(maker);
  AttributeOf(node, "nodes_truenodeids").set_ints(1, 0);
  AttributeOf(node, "nodes_trueleafs").set_ints(1, 0);
  EXPECT_THAT(maker.Import().status().message(), HasSubstr("nodes of a tree are on a cycle"));
}

TEST(OnnxTrees, EnsemblesOfOtherSetsAndNumbersAreRefused) {
  const auto refused = [](void (*change)(onnx_proto::NodeProto& node)) {
    ModelMaker maker;
    change(SetEnsemble(maker));
    return std::string(maker.Import().status().message());
  };
  const auto one_set = [](onnx_proto::NodeProto& node) { *AttributeOf(node, "membership_values").mutable_t() = AttributeOf(node, "nodes_splits").t(); };
  EXPECT_EQ(refused(one_set), "") << "the last NaN may be missing";
  const auto two_sets = [](onnx_proto::NodeProto& node) { AttributeOf(node, "membership_values").mutable_t()->set_float_data(1, kNan); };
  EXPECT_THAT(refused(two_sets), HasSubstr("membership_values has more sets than there are nodes of mode BRANCH_MEMBER"));
  const auto float_modes = [](onnx_proto::NodeProto& node) { *AttributeOf(node, "nodes_modes").mutable_t() = AttributeOf(node, "nodes_splits").t(); };
  EXPECT_THAT(refused(float_modes), HasSubstr("nodes_modes is float[4], expected uint8"));
  EXPECT_THAT(refused([](onnx_proto::NodeProto& node) { SetInt(node, "aggregate_function", -1); }), HasSubstr("aggregate_function is -1"));
  EXPECT_THAT(refused([](onnx_proto::NodeProto& node) { SetInt(node, "post_transform", -1); }), HasSubstr("post_transform is -1"));
}

// A chain of nodes, each of a set: right to the next one.
onnx_proto::NodeProto& SetChain(ModelMaker& maker, int64_t count, float mode, std::vector<float> members) {
  onnx_proto::NodeProto& node = MlNode(maker, "TreeEnsemble", {"y"}, TensorProto::FLOAT, {2, 1});
  const std::vector<int64_t> none(count, 0), leaves(count, 1);
  std::vector<int64_t> next(count, 0), ends(count, 0);
  for (int64_t i = 0; i + 1 < count; ++i) next[i] = i + 1;
  ends.back() = 1;
  SetInts(node, "tree_roots", {0});
  SetInts(node, "nodes_featureids", none);
  SetTensor(node, "nodes_modes", TensorProto::UINT8, std::vector<float>(count, mode));
  SetTensor(node, "nodes_splits", TensorProto::FLOAT, std::vector<float>(count, 0));
  SetTensor(node, "membership_values", TensorProto::FLOAT, members);
  SetInts(node, "nodes_truenodeids", none);
  SetInts(node, "nodes_trueleafs", leaves);
  SetInts(node, "nodes_falsenodeids", next);
  SetInts(node, "nodes_falseleafs", ends);
  SetInts(node, "leaf_targetids", {0});
  SetTensor(node, "leaf_weights", TensorProto::FLOAT, {2});
  return node;
}

TEST(OnnxTrees, TablesAreTheSameAtEveryLevel) {
  ModelMaker maker;
  std::vector<float> members(3000, 7);
  for (int set = 0; set < 20; ++set) {
    members.push_back(kNan);
    members.push_back(static_cast<float>(set));
  }
  SetChain(maker, 21, 6, members);
  const absl::StatusOr<OnnxModel> model = maker.Import();
  ASSERT_TRUE(model.ok()) << model.status();
  int64_t bytes = 0;
  for (int32_t i = 0; i < model->graph.num_ids(); ++i) {
    if (model->graph.node(NodeId{i}).op == "Const") bytes += model->graph.node(NodeId{i}).outputs[0].size_bytes();
  }
  EXPECT_LT(bytes, int64_t{23} * 3000 * 4) << "a row for each set";
}

TEST(OnnxTrees, TooDeepOnesAreRefused) {
  ModelMaker maker;
  SetChain(maker, 20001, 0, {});
  EXPECT_THAT(maker.Import().status().message(), HasSubstr("a tree of 20001 levels"));
}

TEST(OnnxTrees, EnsemblesWithMissingPartsAreRefused) {
  ModelMaker maker;
  onnx_proto::NodeProto& node = SetEnsemble(maker);
  for (AttributeProto& attribute : *node.mutable_attribute()) {
    if (attribute.name() == "nodes_truenodeids") attribute.set_ints(0, 4);
  }
  EXPECT_THAT(maker.Import().status().message(), HasSubstr("node 0 has a child that is not there"));
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

// Three classes of one, two and one vectors.
void SetMachine(onnx_proto::NodeProto& node) {
  SetText(node, "kernel_type", "RBF");
  SetFloats(node, "kernel_params", {0.5f, 0, 0});
  SetFloats(node, "support_vectors", {0, 0, 1, 1, -1, 1, 2, 0});
  SetInts(node, "vectors_per_class", {1, 2, 1});
  SetFloats(node, "coefficients", {1, -0.5f, 2, -1, 0.5f, 1, -2, 0.25f});
  SetFloats(node, "rho", {-0.9f, -0.125f, -0.5f});
  SetTexts(node, "classlabels_strings", {"a", "b", "c"});
}

const Tensor& Places() {
  static const Tensor& places = *new Tensor(Floats({3, 2}, {1, 0, 0, 2, -1, 1}));
  return places;
}

TEST(OnnxMl, PairsOfClassesVote) {
  ModelMaker maker;
  SetMachine(MlNode(maker, "SVMClassifier", {"label", "scores"}));
  const absl::StatusOr<Arrays> result = RunOnce(maker.bytes(), {{"x", Places()}});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_THAT(result->at("label").strings(), ElementsAre("b", "c", "a"));
  const std::vector<float> scores = {-0.43256465f, -0.42826533f, 0.09399334f, -0.21284552f, -0.07564799f, -0.86330056f, 1.4002118f, 0.05220178f, -2.3629801f};
  EXPECT_THAT(result->at("scores").as<float>(), Pointwise(FloatNear(2e-6f), scores));
}

TEST(OnnxMl, PairsOfClassesHaveProbabilities) {
  ModelMaker maker;
  onnx_proto::NodeProto& node = MlNode(maker, "SVMClassifier", {"label", "scores"});
  SetMachine(node);
  SetFloats(node, "prob_a", {-1, -2, -1.5f});
  SetFloats(node, "prob_b", {0.1f, -0.2f, 0});
  const absl::StatusOr<Arrays> result = RunOnce(maker.bytes(), {{"x", Places()}});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_THAT(result->at("label").strings(), ElementsAre("b", "c", "a"));
  const std::vector<float> scores = {0.21608941f, 0.40935093f, 0.37455976f, 0.32588512f, 0.22270004f, 0.45141476f, 0.52262735f, 0.0675193f, 0.4098533f};
  EXPECT_THAT(result->at("scores").as<float>(), Pointwise(FloatNear(2e-6f), scores));
}

TEST(OnnxMl, OnePairHasTwoScores) {
  const std::map<std::string, std::vector<float>> expected = {
      {"NONE", {-0.38909534f, 0.38909534f, 0.5343633f, -0.5343633f, 1.4497882f, -1.4497882f}},
      {"LOGISTIC", {0.40393507f, 0.5960649f, 0.6305002f, 0.3694998f, 0.80996585f, 0.19003415f}}};
  for (const auto& [transform, scores] : expected) {
    ModelMaker maker;
    onnx_proto::NodeProto& node = MlNode(maker, "SVMClassifier", {"label", "scores"});
    SetText(node, "kernel_type", "RBF");
    SetFloats(node, "kernel_params", {0.5f, 0, 0});
    SetFloats(node, "support_vectors", {0, 0, 1, 1, -1, 1});
    SetInts(node, "vectors_per_class", {1, 2});
    SetFloats(node, "coefficients", {1, -0.5f, -2});
    SetFloats(node, "rho", {0.25f});
    SetInts(node, "classlabels_ints", {4, 6});
    SetText(node, "post_transform", transform);
    const absl::StatusOr<Arrays> result = RunOnce(maker.bytes(), {{"x", Places()}});
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_THAT(result->at("label").as<int64_t>(), ElementsAre(4, 6, 6));
    EXPECT_THAT(result->at("scores").as<float>(), Pointwise(FloatNear(2e-6f), scores)) << transform;
  }
}

TEST(OnnxMl, MachinesWithoutVectorsAreLinear) {
  ModelMaker maker;
  onnx_proto::NodeProto& node = MlNode(maker, "SVMClassifier", {"label", "scores"});
  SetFloats(node, "coefficients", {1, 2, -1, 0.5f, 0, -3});
  SetFloats(node, "rho", {0.25f});
  SetInts(node, "classlabels_ints", {4, 6, 8});
  const absl::StatusOr<Arrays> result = RunOnce(maker.bytes(), {{"x", Places()}});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_THAT(result->at("label").as<int64_t>(), ElementsAre(4, 4, 6));
  EXPECT_THAT(result->at("scores").as<float>(), ElementsAre(1.25f, -0.75f, 0.25f, 4.25f, 1.25f, -5.75f, 1.25f, 1.75f, -2.75f));
}

TEST(OnnxMl, MachinesOfOtherSizesAreRefused) {
  ModelMaker maker;
  onnx_proto::NodeProto& node = MlNode(maker, "SVMClassifier", {"label", "scores"});
  SetMachine(node);
  SetFloats(node, "prob_a", {-1, -2});
  EXPECT_THAT(maker.Import().status().message(), HasSubstr("prob_a has 2 numbers, expected 3"));
}

TEST(OnnxMl, MachinesOfTooManyClassesAreRefused) {
  const auto refused = [](int64_t classes, bool probabilities) {
    ModelMaker maker;
    onnx_proto::NodeProto& node = MlNode(maker, "SVMClassifier", {"label", "scores"}, TensorProto::FLOAT, {2, 1});
    SetInts(node, "classlabels_ints", std::vector<int64_t>(classes, 1));
    SetInts(node, "vectors_per_class", std::vector<int64_t>(classes, 1));
    SetFloats(node, "coefficients", std::vector<float>(classes, 1));
    SetFloats(node, "rho", {0});
    if (probabilities) SetFloats(node, "prob_a", {0});
    return std::string(maker.Import().status().message());
  };
  EXPECT_THAT(refused(700, false), HasSubstr("244650 pairs of 700 classes with 700 vectors"));
  EXPECT_THAT(refused(257, true), HasSubstr("probabilities of 257 classes"));
}

Tensor Words(Shape shape, std::vector<std::string> words) {
  Tensor tensor(DataType::kString, std::move(shape));
  std::copy(words.begin(), words.end(), tensor.mutable_strings().begin());
  return tensor;
}

TEST(OnnxMl, EncodesWords) {
  const Arrays feeds = {{"x", Words({3}, {"b", "?", "a"})}};
  ModelMaker labels;
  onnx_proto::NodeProto& encoder = MlNode(labels, "LabelEncoder", {"y"}, TensorProto::STRING, {3});
  SetTexts(encoder, "keys_strings", {"a", "b", "a"});
  SetInts(encoder, "values_int64s", {7, 9, 11});
  absl::StatusOr<Arrays> result = RunOnce(labels.bytes(), feeds);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_THAT(result->at("y").as<int64_t>(), ElementsAre(9, -1, 7));

  ModelMaker places;
  onnx_proto::NodeProto& old = MlNode(places, "LabelEncoder", {"y"}, TensorProto::STRING, {3});
  SetTexts(old, "classes_strings", {"a", "b"});
  SetInt(old, "default_int64", -5);
  result = RunOnce(places.bytes(), feeds);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_THAT(result->at("y").as<int64_t>(), ElementsAre(1, -5, 0));

  ModelMaker ones;
  SetTexts(MlNode(ones, "OneHotEncoder", {"y"}, TensorProto::STRING, {3}), "cats_strings", {"a", "b"});
  result = RunOnce(ones.bytes(), feeds);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_THAT(result->at("y").as<float>(), ElementsAre(0, 1, 0, 0, 1, 0));
}

TEST(OnnxMl, MapsCategoriesEitherWay) {
  const auto mapper = [](int type) {
    ModelMaker maker;
    onnx_proto::NodeProto& node = MlNode(maker, "CategoryMapper", {"y"}, type, {3});
    SetTexts(node, "cats_strings", {"a", "b"});
    SetInts(node, "cats_int64s", {3, 4});
    SetInt(node, "default_int64", 8);
    return maker.bytes();
  };
  absl::StatusOr<Arrays> result = RunOnce(mapper(TensorProto::STRING), {{"x", Words({3}, {"b", "?", "a"})}});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_THAT(result->at("y").as<int64_t>(), ElementsAre(4, 8, 3));
  result = RunOnce(mapper(TensorProto::INT64), {{"x", Ints({3}, {4, 3, 5})}});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_THAT(result->at("y").strings(), ElementsAre("b", "a", "_Unused"));
}

TEST(OnnxMl, OtherIntegersHaveTheDefaultOfIntegers) {
  ModelMaker maker;
  onnx_proto::NodeProto& node = MlNode(maker, "LabelEncoder", {"y"}, TensorProto::STRING, {2});
  SetTexts(node, "keys_strings", {"a"});
  SetTensor(node, "values_tensor", TensorProto::INT32, {5});
  const Arrays feeds = {{"x", Words({2}, {"b", "a"})}};
  absl::StatusOr<Arrays> result = RunOnce(maker.bytes(), feeds);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_THAT(result->at("y").as<int32_t>(), ElementsAre(-1, 5));
  SetInt(node, "default_int64", 3);
  result = RunOnce(maker.bytes(), feeds);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_THAT(result->at("y").as<int32_t>(), ElementsAre(3, 5));
}

TEST(OnnxMl, KeysThatAreNumbersAreComparedOnce) {
  ModelMaker maker;
  onnx_proto::NodeProto& node = MlNode(maker, "LabelEncoder", {"y"}, TensorProto::FLOAT, {3});
  SetFloats(node, "keys_floats", {1, 2});
  SetInts(node, "values_int64s", {7, 9});
  const absl::StatusOr<OnnxModel> model = maker.Import();
  ASSERT_TRUE(model.ok()) << model.status();
  for (int32_t i = 0; i < model->graph.num_ids(); ++i) EXPECT_NE(model->graph.node(NodeId{i}).op, "IsNan");
}

TEST(OnnxMl, NanIsAKeyOfLabels) {
  ModelMaker maker;
  onnx_proto::NodeProto& node = MlNode(maker, "LabelEncoder", {"y"}, TensorProto::FLOAT, {3});
  SetFloats(node, "keys_floats", {1, kNan});
  SetInts(node, "values_int64s", {7, 9});
  const absl::StatusOr<Arrays> result = RunOnce(maker.bytes(), {{"x", Floats({3}, {kNan, 2, 1})}});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_THAT(result->at("y").as<int64_t>(), ElementsAre(9, -1, 7));
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

}  // namespace
}  // namespace millrace::testing
