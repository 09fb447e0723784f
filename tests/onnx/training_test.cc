// Forward models that become trainable.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model_maker.h"

namespace millrace::testing {
namespace {

using ::testing::HasSubstr;
using onnx_proto::TensorProto;

// logits = relu(x w1) w2.
ModelMaker Classifier() {
  ModelMaker maker;
  maker.Input("x", {4, 2}).Initializer("w1", {2, 3}, {0.5f, -0.4f, 0.3f, 0.2f, 0.6f, -0.1f}).Initializer("w2", {3, 2}, {0.1f, -0.2f, 0.3f, 0.2f, -0.3f, 0.4f}).Output("logits");
  maker.Node("MatMul", {"x", "w1"}, {"hidden"});
  maker.Node("Relu", {"hidden"}, {"active"});
  maker.Node("MatMul", {"active", "w2"}, {"logits"});
  return maker;
}

OnnxOptions Minimising(const std::string& loss, const std::string& optimizer = "sgd", double rate = 0.1) {
  return {.training = OnnxTraining{.loss = loss, .optimizer = optimizer, .learning_rate = rate}};
}

const Arrays kFeeds = {{"x", Floats({4, 2}, {1, 0, 0, 1, 1, 1, -1, 1})}, {"labels", Ints({4}, {0, 1, 0, 1})}};

TEST(OnnxTraining, LossFallsWithEveryOptimizer) {
  for (const char* optimizer : {"sgd", "momentum", "adam", "adamw", "rmsprop", "adagrad"}) {
    const absl::StatusOr<OnnxModel> model = Classifier().Import(Minimising("cross_entropy:logits:labels", optimizer, 0.05));
    ASSERT_TRUE(model.ok()) << model.status();
    EXPECT_EQ(model->tensors.count("gradient/w1"), 1);
    absl::StatusOr<OnnxModel> again = Classifier().Import(Minimising("cross_entropy:logits:labels", optimizer, 0.05));
    const absl::StatusOr<std::vector<float>> losses = TrainFor(*std::move(again), kFeeds, 40);
    ASSERT_TRUE(losses.ok()) << losses.status();
    EXPECT_LT(losses->back(), 0.8f * losses->front()) << optimizer;
  }
}

// The weight is called as the training step is, the input as the initialiser and an output as the loss.
TEST(OnnxTraining, NamesOfTheModelAreNoneOfTheSteps) {
  ModelMaker maker;
  maker.Input("init", {2, 3}).Initializer("train", {3, 1}, {1, 1, 1}).Output("y").Output("loss");
  maker.Node("MatMul", {"init", "train"}, {"y"});
  maker.Node("Neg", {"y"}, {"loss"});
  absl::StatusOr<OnnxModel> model = maker.Import(Minimising("mean:y"));
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(model->tensors.at("loss"), "loss_output:0");
  const absl::StatusOr<std::vector<float>> losses = TrainFor(*std::move(model), {{"init", Floats({2, 3}, {1, 1, 1, 1, 1, 1})}}, 2);
  ASSERT_TRUE(losses.ok()) << losses.status();
  EXPECT_FLOAT_EQ((*losses)[0], 3);
  EXPECT_FLOAT_EQ((*losses)[1], 3 - 3 * 0.1f);
}

// As converters from TensorFlow name tensors.
TEST(OnnxTraining, NamesOfALossMayHoldColons) {
  ModelMaker maker;
  maker.Input("x:0", {1, 2}).Initializer("w", {2, 2}, {1, 2, 3, 4}).Output("Identity:0");
  maker.Node("MatMul", {"x:0", "w"}, {"Identity:0"});
  for (const char* loss : {"mse:Identity:0:goal", "weighted_sum:Identity:0:goal", "mean:Identity:0", "cross_entropy:Identity:0:goal:1"}) {
    const absl::StatusOr<OnnxModel> model = maker.Import(Minimising(loss));
    EXPECT_TRUE(model.ok()) << loss << ": " << model.status();
  }
  EXPECT_THAT(std::string(maker.Import(Minimising("mse:Identity:0:a:b")).status().message()), HasSubstr("expected mse:OUTPUT:INPUT"));
}

TEST(OnnxTraining, GradientsComeInTheWeightsLayoutWithTheGivenCotangent) {
  ModelMaker maker;
  maker.Input("x", {1, 2}).Initializer("w", {2, 2}, {1, 2, 3, 4}).Output("y");
  maker.Node("MatMul", {"x", "w"}, {"y"});
  absl::StatusOr<OnnxModel> model = maker.Import(Minimising("weighted_sum:y:c", "sgd", 1));
  ASSERT_TRUE(model.ok()) << model.status();
  std::unique_ptr<Session> session;
  const Arrays feeds = {{"x", Floats({1, 2}, {10, 20})}, {"c", Floats({1, 2}, {1, 2})}};
  const absl::StatusOr<std::vector<float>> losses = TrainFor(*std::move(model), feeds, 1, &session);
  ASSERT_TRUE(losses.ok()) << losses.status();
  EXPECT_EQ((*losses)[0], 70 + 2 * 100);
  const Tensor w = session->Variables()->at("w");
  EXPECT_THAT(w.as<float>(), ::testing::ElementsAre(1 - 10, 2 - 20, 3 - 20, 4 - 40));
}

// What a batch norm takes, of one channel.
void AddNormInputs(ModelMaker& maker) {
  maker.Input("x", {4, 1}).Initializer("scale", {1}, {1}).Initializer("bias", {1}, {0}).Initializer("mean", {1}, {0}).Initializer("var", {1}, {1}).Output("y");
}

void ExpectAveragesFollowTheStep(const ModelMaker& maker) {
  absl::StatusOr<OnnxModel> model = maker.Import(Minimising("mse:y:target"));
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(model->tensors.count("gradient/mean"), 0) << "statistics do not train";
  EXPECT_EQ(model->tensors.count("gradient/scale"), 1);
  std::unique_ptr<Session> session;
  const Arrays feeds = {{"x", Floats({4, 1}, {0, 2, 4, 6})}, {"target", Floats({4, 1}, {1, 1, 1, 1})}};
  const absl::StatusOr<std::vector<float>> losses = TrainFor(*std::move(model), feeds, 1, &session);
  ASSERT_TRUE(losses.ok()) << losses.status();
  EXPECT_NEAR(session->Variables()->at("mean").as<float>()[0], 0.1 * 3, 1e-6);
  EXPECT_NEAR(session->Variables()->at("var").as<float>()[0], 0.9 + 0.1 * 5, 1e-5);
}

TEST(OnnxTraining, MovingAveragesFollowTheStep) {
  ModelMaker maker;
  AddNormInputs(maker);
  onnx_proto::NodeProto& node = maker.Node("BatchNormalization", {"x", "scale", "bias", "mean", "var"}, {"y", "m", "v"});
  SetInt(node, "training_mode", 1);
  ExpectAveragesFollowTheStep(maker);
}

TEST(OnnxTraining, MovingAveragesInFunctionsFollowTheStep) {
  ModelMaker body, maker;
  SetInt(body.Node("BatchNormalization", {"a", "s", "b", "m", "v"}, {"c", "m2", "v2"}), "training_mode", 1);
  maker.Function("Norm", {"a", "s", "b", "m", "v"}, {"c"}, body);
  AddNormInputs(maker);
  maker.Call("Norm", {"x", "scale", "bias", "mean", "var"}, {"y"});
  ExpectAveragesFollowTheStep(maker);
}

// y = x + W + W: one variable, whose first step of Adam is as long as the rate.
TEST(OnnxTraining, InitialisersOfALoopsBodyAreOneVariable) {
  ModelMaker body, maker;
  body.Input("i", {}, TensorProto::INT64).Input("going", {}, TensorProto::BOOL).Input("s", {2}).Initializer("W", {2}, {2, 3});
  body.Output("still").Output("s2");
  body.Node("Identity", {"going"}, {"still"});
  body.Node("Add", {"s", "W"}, {"s2"});
  maker.Input("x", {2}).IntInitializer("two", {}, {2}).Output("y");
  SetGraph(maker.Node("Loop", {"two", "", "x"}, {"y"}), "body", body);
  absl::StatusOr<OnnxModel> model = maker.Import(Minimising("sum:y", "adam", 0.01));
  ASSERT_TRUE(model.ok()) << model.status();
  std::unique_ptr<Session> session;
  const absl::StatusOr<std::vector<float>> losses = TrainFor(*std::move(model), {{"x", Floats({2}, {1, 1})}}, 1, &session);
  ASSERT_TRUE(losses.ok()) << losses.status();
  EXPECT_FLOAT_EQ((*losses)[0], 2 + 2 * 5);
  const Tensor w = session->Variables()->at("W");
  EXPECT_NEAR(w.as<float>()[0], 1.99, 1e-5);
  EXPECT_NEAR(w.as<float>()[1], 2.99, 1e-5);
}

TEST(OnnxTraining, WeightsOfClassesAndScalesOfIntegersDoNotTrain) {
  ModelMaker maker;
  maker.Input("q", {2, 2}, TensorProto::UINT8).Input("labels", {2}, TensorProto::INT64).Output("loss_value");
  maker.Initializer("scale", {}, {0.5f}).Initializer("w", {2, 2}, {1, 2, 3, 4}).Initializer("weights", {2}, {1, 3});
  maker.Node("DequantizeLinear", {"q", "scale"}, {"x"});
  maker.Node("MatMul", {"x", "w"}, {"logits"});
  maker.Node("SoftmaxCrossEntropyLoss", {"logits", "labels", "weights"}, {"loss_value"});
  const absl::StatusOr<OnnxModel> model = maker.Import(Minimising("loss_value"));
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(model->tensors.count("gradient/w"), 1);
  EXPECT_EQ(model->tensors.count("gradient/weights"), 0);
  EXPECT_EQ(model->tensors.count("gradient/scale"), 0);
}

TEST(OnnxTraining, LossesThatMakeNoSenseAreNamed) {
  const auto refused = [](const std::string& loss) {
    return std::string(Classifier().Import(Minimising(loss)).status().message());
  };
  EXPECT_THAT(refused("logits"), ::testing::AllOf(HasSubstr("'logits' is float[4,2]"), HasSubstr("cross_entropy")));
  EXPECT_THAT(refused("cross_entropy:gone:labels"), HasSubstr("no tensor 'gone', its outputs are logits"));
  EXPECT_THAT(refused("mse:logits:x:3"), HasSubstr("expected mse:OUTPUT:INPUT"));
  EXPECT_THAT(refused("cross_entropy:logits:labels:7"), HasSubstr("no such axis"));
  EXPECT_THAT(refused("cross_entropy:logits:labels:foo"), HasSubstr("expected a number for AXIS, not 'foo'"));
  EXPECT_THAT(refused(""), HasSubstr("nothing to minimise"));
  EXPECT_THAT(refused("mean:x"), HasSubstr("depends on none of"));
  EXPECT_THAT(std::string(Classifier().Import(Minimising("mean:logits", "lion")).status().message()), HasSubstr("'lion'"));
}

// The first query sees no key: its row is 0 and passes no gradient, instead of NaN.
TEST(OnnxTraining, QueriesThatSeeNoKeyPassNoGradient) {
  ModelMaker maker(23);
  maker.Input("q", {1, 1, 2, 2}).Input("seen", {2, 2}, TensorProto::BOOL).Output("y");
  maker.Initializer("k", {1, 1, 2, 2}, {1, 2, 3, 4}).Initializer("v", {1, 1, 2, 2}, {1, 2, 3, 4});
  maker.Node("Attention", {"q", "k", "v", "seen"}, {"y"});
  absl::StatusOr<OnnxModel> model = maker.Import(Minimising("weighted_sum:y:c", "sgd", 1));
  ASSERT_TRUE(model.ok()) << model.status();
  Tensor seen(DataType::kBool, Shape({2, 2}));
  for (int i = 0; i < 4; ++i) seen.mutable_as<bool>()[i] = i == 2;
  std::unique_ptr<Session> session;
  const Arrays feeds = {{"q", Floats({1, 1, 2, 2}, {1, 1, 1, 1})}, {"seen", seen}, {"c", Floats({1, 1, 2, 2}, {1, 1, 1, 10})}};
  const absl::StatusOr<std::vector<float>> losses = TrainFor(*std::move(model), feeds, 1, &session);
  ASSERT_TRUE(losses.ok()) << losses.status();
  EXPECT_EQ((*losses)[0], 0 + 1 + 10 * 2);
  EXPECT_THAT(session->Variables()->at("v").as<float>(), ::testing::ElementsAre(1 - 1, 2 - 10, 3, 4));
  EXPECT_THAT(session->Variables()->at("k").as<float>(), ::testing::ElementsAre(1, 2, 3, 4));
}

}  // namespace
}  // namespace millrace::testing
