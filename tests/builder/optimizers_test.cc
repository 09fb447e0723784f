#include "millrace/optimizers.h"

#include <cmath>
#include <limits>
#include <stdexcept>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "millrace/gradients.h"
#include "millrace/graph_ops.h"
#include "testlib/graph_interpreter.h"

namespace millrace {
namespace {

using ::testing::ElementsAre;
using ::testing::FloatNear;
using ::testing::HasSubstr;

// loss = sum(w * slope) with w [1,2] = (1, -2) and slope (3, 4): the gradient is the slope whatever w is.
struct Trained {
  std::map<std::string, Tensor> variables;
  absl::Status status;
};

Trained TrainLinear(std::unique_ptr<Optimizer> optimizer, int steps) {
  GraphBuilder b;
  Tensor start(DataType::kFloat, Shape({1, 2}));
  start.mutable_as<float>()[0] = 1;
  start.mutable_as<float>()[1] = -2;
  const Variable w = b.AddVariable("w", {1, 2}, init::Value(start));
  const float slope[] = {3, 4};
  const Output loss = ops::Sum(w * b.Const(Tensor::Vector<float>(slope)), {}, false, "loss");
  Minimize(b, std::move(optimizer), loss, "train");
  b.AddInit("init");
  const absl::StatusOr<Graph> graph = std::move(b).Build();
  if (!graph.ok()) return {{}, graph.status()};
  testing::GraphInterpreter interpreter(*graph);
  absl::Status status = interpreter.Run({}, {}, {"init"}).status();
  for (int step = 0; step < steps && status.ok(); ++step) status = interpreter.Run({}, {}, {"train"}).status();
  return {interpreter.variables(), status};
}

std::vector<float> Values(const Trained& trained, const char* name) {
  const auto found = trained.variables.find(name);
  if (found == trained.variables.end()) return {};
  const absl::Span<const float> span = found->second.as<float>();
  return {span.begin(), span.end()};
}

TEST(Optimizers, SgdSubtractsTheGradientAndTheDecay) {
  const Trained trained = TrainLinear(Sgd(0.1, 0.5), 1);
  ASSERT_TRUE(trained.status.ok()) << trained.status;
  // 1 - 0.1 (3 + 0.5 * 1), -2 - 0.1 (4 + 0.5 * -2)
  EXPECT_THAT(Values(trained, "w"), ElementsAre(FloatNear(0.65f, 1e-6f), FloatNear(-2.3f, 1e-6f)));
}

TEST(Optimizers, MomentumKeepsItsAccumulator) {
  const Trained trained = TrainLinear(Momentum(0.1, 0.5), 2);
  ASSERT_TRUE(trained.status.ok()) << trained.status;
  // Accumulators 3 then 4.5; 4 then 6.
  EXPECT_THAT(Values(trained, "w/momentum"), ElementsAre(4.5f, 6.0f));
  EXPECT_THAT(Values(trained, "w"), ElementsAre(FloatNear(0.25f, 1e-6f), FloatNear(-3.0f, 1e-6f)));
}

TEST(Optimizers, AdamMovesByTheRateAndItsPowersGoOn) {
  const Trained trained = TrainLinear(Adam(0.1, 0.5, 0.75, 0), 3);
  ASSERT_TRUE(trained.status.ok()) << trained.status;
  // A constant gradient: every bias-corrected step is the rate itself.
  EXPECT_THAT(Values(trained, "w"), ElementsAre(FloatNear(0.7f, 1e-5f), FloatNear(-2.3f, 1e-5f)));
  EXPECT_THAT(Values(trained, "beta1_power"), ElementsAre(0.0625f));
  EXPECT_THAT(Values(trained, "beta2_power"), ElementsAre(FloatNear(0.31640625f, 1e-7f)));
}

TEST(Optimizers, AdamTrainsVariablesOfSeveralTypesInAnyOrder) {
  for (const bool half_first : {true, false}) {
    SCOPED_TRACE(half_first);
    GraphBuilder b;
    std::vector<Output> squares;
    for (DataType dtype : half_first ? std::vector{DataType::kHalf, DataType::kFloat, DataType::kDouble}
                                     : std::vector{DataType::kDouble, DataType::kFloat, DataType::kHalf}) {
      const Output w = b.AddVariable(std::string(DataTypeName(dtype)), {2}, init::Ones(), dtype);
      squares.push_back(ops::Sum(ops::Square(ops::Cast(w, DataType::kDouble)), {}));
    }
    Minimize(b, Adam(0.125), ops::AddN(squares), "train");
    b.AddInit("init");
    const absl::StatusOr<Graph> graph = std::move(b).Build();
    ASSERT_TRUE(graph.ok()) << graph.status();
    testing::GraphInterpreter interpreter(*graph);
    ASSERT_TRUE(interpreter.Run({}, {}, {"init"}).ok());
    for (int step = 0; step < 4; ++step) ASSERT_TRUE(interpreter.Run({}, {}, {"train"}).ok());
    // Every step is about the rate while the gradient changes little.
    for (const char* name : {"half", "float", "double"}) {
      EXPECT_NEAR(interpreter.variables().at(name).DoubleAt(0), 0.5, 0.02) << name;
    }
    std::map<DataType, double> powers;
    for (const auto& [name, value] : interpreter.variables()) {
      if (name.starts_with("beta2_power")) powers[value.dtype()] = value.DoubleAt(0);
    }
    ASSERT_EQ(powers.size(), 2u);
    EXPECT_NEAR(powers.at(DataType::kFloat), std::pow(0.999, 5), 1e-6);
    EXPECT_NEAR(powers.at(DataType::kDouble), std::pow(0.999, 5), 1e-12);
  }
}

TEST(Optimizers, AdamRefusesABetaThatIsOneInBfloat16) {
  GraphBuilder b;
  const Variable w = b.AddVariable("w", {2}, init::Ones(), DataType::kBfloat16);
  Minimize(b, Adam(0.1), ops::Sum(w, {}));
  EXPECT_THAT(std::string(b.status().message()), HasSubstr("Adam: of variable 'w', which is bfloat16"));
  GraphBuilder c;
  const Variable coarse = c.AddVariable("w", {2}, init::Ones(), DataType::kBfloat16);
  EXPECT_TRUE(Minimize(c, Adam(0.1, 0.875, 0.96875), ops::Sum(coarse, {})).valid()) << c.status();
}

TEST(Optimizers, SeveralInOneGraphHaveStateOfTheirOwn) {
  for (const char* kind : {"momentum", "adam", "rmsprop", "adagrad"}) {
    SCOPED_TRACE(kind);
    GraphBuilder b;
    const Variable w = b.AddVariable("w", {1, 2}, init::Ones());
    const Output loss = ops::Sum(w * w, {}, false, "loss"), other = ops::Sum(w * w * w, {}, false, "other");
    Minimize(b, *MakeOptimizer(kind, 0.1, 0), loss, "train");
    Minimize(b, *MakeOptimizer(kind, 0.1, 0), other, "train_other");
    b.AddInit("init");
    const absl::StatusOr<Graph> graph = std::move(b).Build();
    ASSERT_TRUE(graph.ok()) << graph.status();
    testing::GraphInterpreter interpreter(*graph);
    ASSERT_TRUE(interpreter.Run({}, {}, {"init"}).ok());
    std::map<std::string, std::vector<float>> before;  // tensors share their bytes
    for (const auto& [name, tensor] : interpreter.variables()) before[name] = {tensor.as<float>().begin(), tensor.as<float>().end()};
    ASSERT_TRUE(interpreter.Run({}, {}, {"train_other"}).ok());
    int changed = 0;
    for (const auto& [name, value] : before) {
      const absl::Span<const float> after = interpreter.variables().at(name).as<float>();
      const bool same = std::equal(value.begin(), value.end(), after.begin(), after.end());
      EXPECT_TRUE(same || name == "w" || name.ends_with("_1")) << name;
      if (!same) ++changed;
    }
    EXPECT_GE(changed, 2);
  }
}

TEST(Optimizers, AdamWDecaysApartFromTheGradient) {
  const Trained trained = TrainLinear(AdamW(0.1, 0.5, 0.5, 0.75, 0), 1);
  ASSERT_TRUE(trained.status.ok()) << trained.status;
  // 1 - 0.1 * 0.5 * 1 - 0.1, -2 + 0.1 * 0.5 * 2 - 0.1
  EXPECT_THAT(Values(trained, "w"), ElementsAre(FloatNear(0.85f, 1e-6f), FloatNear(-2.0f, 1e-6f)));
  EXPECT_THAT(Values(trained, "w/m"), ElementsAre(1.5f, 2.0f)) << "the decay is no part of the gradient";
}

TEST(Optimizers, RmsPropAndAdagradDivideByTheRootOfSquares) {
  const Trained rms = TrainLinear(RmsProp(0.1, 0.5, 0, 0), 1);
  ASSERT_TRUE(rms.status.ok()) << rms.status;
  // Squares start at 1: (1 + 9) / 2 and (1 + 16) / 2.
  EXPECT_THAT(Values(rms, "w"),
              ElementsAre(FloatNear(1 - 0.3f / std::sqrt(5.0f), 1e-6f), FloatNear(-2 - 0.4f / std::sqrt(8.5f), 1e-6f)));
  const Trained adagrad = TrainLinear(Adagrad(0.1, 0.5), 1);
  ASSERT_TRUE(adagrad.status.ok()) << adagrad.status;
  EXPECT_THAT(Values(adagrad, "w"), ElementsAre(FloatNear(1 - 0.3f / std::sqrt(9.5f), 1e-6f),
                                                FloatNear(-2 - 0.4f / std::sqrt(16.5f), 1e-6f)));
}

TEST(Optimizers, NoneIsAnError) {
  GraphBuilder b;
  const Variable w = b.AddVariable("w", {2}, init::Ones());
  EXPECT_FALSE(Minimize(b, nullptr, ops::Sum(w, {})).valid());
  EXPECT_EQ(b.status().message(), "Minimize: no optimizer");
}

TEST(Optimizers, OneThatGivesNoUpdateIsAnError) {
  struct Idle : Optimizer {
    Operation Apply(GraphBuilder&, const Variable&, const Output&) override { return Operation(); }
  };
  GraphBuilder b;
  const Variable w = b.AddVariable("w", {2}, init::Ones());
  EXPECT_FALSE(Minimize(b, std::make_unique<Idle>(), ops::Sum(w, {})).valid());
  EXPECT_EQ(b.status().message(), "Minimize: the optimizer gives no update of variable 'w'");
}

TEST(Optimizers, OneThatThrowsIsAnError) {
  struct Failing : Optimizer {
    Operation Apply(GraphBuilder&, const Variable&, const Output&) override { throw std::runtime_error("no update"); }
  };
  struct FailingLater : Optimizer {
    Operation Apply(GraphBuilder&, const Variable& variable, const Output& gradient) override { return variable.AssignSub(gradient); }
    std::vector<Operation> Finish(GraphBuilder&, absl::Span<const Operation>) override { throw std::runtime_error("no end"); }
  };
  GraphBuilder b, c;
  EXPECT_FALSE(Minimize(b, std::make_unique<Failing>(), ops::Sum(b.AddVariable("w", {2}, init::Ones()), {})).valid());
  EXPECT_EQ(b.status(), absl::InternalError("Minimize: the optimizer's update of variable 'w': threw an exception: no update"));
  EXPECT_FALSE(Minimize(c, std::make_unique<FailingLater>(), ops::Sum(c.AddVariable("w", {2}, init::Ones()), {})).valid());
  EXPECT_EQ(c.status(), absl::InternalError("Minimize: the optimizer's Finish: threw an exception: no end"));
}

TEST(Optimizers, SettingsThatAreNoneAreErrors) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  const auto error_of = [](std::unique_ptr<Optimizer> optimizer) { return std::string(TrainLinear(std::move(optimizer), 0).status.message()); };
  EXPECT_EQ(error_of(Sgd(kNan)), "Sgd: learning rate nan, expected 0 or more");
  EXPECT_EQ(error_of(Sgd(-0.1)), "Sgd: learning rate -0.1, expected 0 or more");
  EXPECT_EQ(error_of(Momentum(0.1, 1.5)), "Momentum: momentum 1.5, expected 0 to 1");
  EXPECT_EQ(error_of(Adam(0.1, 1)), "Adam: beta1 1, expected 0 or more and less than 1");
  EXPECT_EQ(error_of(Adam(0.1, 0.9, -2)), "Adam: beta2 -2, expected 0 or more and less than 1");
  EXPECT_EQ(error_of(Adam(0.1, 0.9, 0.99, -1)), "Adam: epsilon -1, expected 0 or more");
  EXPECT_EQ(error_of(AdamW(0.1, kNan)), "AdamW: weight decay nan, expected 0 or more");
  EXPECT_EQ(error_of(RmsProp(0.1, 2)), "RmsProp: rho 2, expected 0 to 1");
  EXPECT_EQ(error_of(Adagrad(0.1, -1)), "Adagrad: initial accumulator -1, expected 0 or more");
  EXPECT_EQ(error_of(Momentum(0, 1, 0)), "");
}

TEST(Optimizers, LossThatDependsOnNoVariableIsAnError) {
  GraphBuilder b;
  b.AddVariable("w", {2}, init::Zeros());
  Minimize(b, Sgd(0.1), b.Placeholder("loss", DataType::kFloat, {}));
  EXPECT_THAT(std::string(b.status().message()), HasSubstr("'loss:0' depends on none of 1 trainable variables"));
}

TEST(Variables, SecondOneOfANameAndAWrongInitialValueAreErrors) {
  GraphBuilder b;
  b.AddVariable("w", {2}, init::Zeros());
  b.AddVariable("w", {2}, init::Zeros());
  EXPECT_THAT(std::string(b.status().message()), HasSubstr("variable 'w': a node has that name already"));
  GraphBuilder c;
  c.AddVariable("w", {2}, init::Value(Tensor::Scalar<float>(1)));
  EXPECT_THAT(std::string(c.status().message()), HasSubstr("variable 'w' is float[2], its initial value is float[]"));
}

TEST(Variables, AnInitializerThatThrowsIsAnError) {
  GraphBuilder b;
  b.AddVariable("w", {2}, [](GraphBuilder&, const TensorType&) -> Output { throw std::runtime_error("no value"); });
  EXPECT_EQ(b.status(), absl::InternalError("the initializer of variable 'w': threw an exception: no value"));
  EXPECT_FALSE(std::move(b).Build().ok());
}

TEST(Variables, InitialValuesFollowTheSeedAndTheirDistribution) {
  const auto draw = [](int64_t seed) {
    GraphBuilder b;
    b.set_seed(seed);
    b.AddVariable("kernel", {100, 100}, init::HeNormal());
    b.AddInit("init");
    const Graph graph = *std::move(b).Build();
    testing::GraphInterpreter interpreter(graph);
    EXPECT_TRUE(interpreter.Run({}, {}, {"init"}).ok());
    return interpreter.variables().at("kernel");
  };
  const Tensor first = draw(1);
  EXPECT_TRUE(first.BitEqual(draw(1)));
  EXPECT_FALSE(first.BitEqual(draw(2)));
  double squares = 0;
  for (float value : first.as<float>()) squares += static_cast<double>(value) * value;
  EXPECT_NEAR(squares / 10000, 0.02, 0.001);  // variance 2 / fan_in
}

TEST(Gradients, WeightUsedManyTimesIsAddedUpAFewAtATime) {
  GraphBuilder b;
  const Variable w = b.AddVariable("w", {4, 4}, init::Zeros());
  const Output weights = w.Read();
  Output x = b.Placeholder("x", DataType::kFloat, {2, 4});
  for (int i = 0; i < 20; ++i) x = ops::MatMul(x, weights);
  ASSERT_TRUE(AddGradients(b, {ops::Sum(x, {})}, {w.handle()}).ok());
  size_t most = 0;
  for (int32_t i = 0; i < b.graph().num_ids(); ++i) {
    const Node& node = b.graph().node(NodeId{i});
    if (node.op == "AddN") most = std::max(most, node.inputs.size());
  }
  EXPECT_EQ(most, 4u);
}

TEST(Gradients, WeightDecayWrittenAtTheEndWaitsForItsWeight) {
  GraphBuilder b;
  Output x = b.Placeholder("x", DataType::kFloat, {2, 4});
  std::vector<Output> decays, handles;
  for (const char* name : {"w0", "w1", "w2"}) {
    const Variable w = b.AddVariable(name, {4, 4}, init::Zeros());
    x = ops::MatMul(x, w);
    handles.push_back(w.handle());
  }
  for (const Variable& w : b.trainable()) decays.push_back(ops::L2Loss(w));
  const Output loss = ops::Sum(x, {}) + ops::AddN(decays) * 0.1;
  std::vector<int> order;
  GradientOptions options;
  options.on_ready = [&](int index, const Output&) {
    order.push_back(index);
    return absl::OkStatus();
  };
  int32_t before = b.graph().num_ids();
  ASSERT_TRUE(AddGradients(b, {loss}, handles, options).ok());
  EXPECT_THAT(order, ElementsAre(2, 1, 0));
  // The decays' parts come one at a time between the products.
  std::vector<std::string> sequence;
  for (int32_t i = before; i < b.graph().num_ids(); ++i) {
    const Node& node = b.graph().node(NodeId{i});
    if (node.op == "AddN") sequence.push_back(node.op);
    if (node.op == "MatMul" && node.name.find("_grad/MatMul_1") != std::string::npos) sequence.push_back("MatMul");
  }
  EXPECT_THAT(sequence, ElementsAre("MatMul", "AddN", "MatMul", "AddN", "AddN"));
}

TEST(Gradients, OnReadyThatThrowsIsAnError) {
  GraphBuilder b;
  const Output x = b.Placeholder("x", DataType::kFloat, {2});
  GradientOptions options;
  options.on_ready = [](int, const Output&) -> absl::Status { throw std::runtime_error("not ready"); };
  EXPECT_FALSE(AddGradients(b, {ops::Sum(x, {})}, {x}, options).ok());
  EXPECT_EQ(b.status(), absl::InternalError("AddGradients: on_ready of 'x:0': threw an exception: not ready"));
}

TEST(MakeOptimizerTest, RefusesRatesThatAreNone) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN(), kInfinity = std::numeric_limits<double>::infinity();
  for (const double rate : {-0.1, kNan, kInfinity}) {
    EXPECT_TRUE(absl::IsInvalidArgument(MakeOptimizer("sgd", rate).status())) << rate;
    EXPECT_TRUE(absl::IsInvalidArgument(MakeOptimizer("adam", 0.1, rate).status())) << rate;
  }
  EXPECT_TRUE(MakeOptimizer("sgd", 0).ok());
}

}  // namespace
}  // namespace millrace
