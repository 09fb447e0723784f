#include "millrace/gradients.h"

#include <memory>
#include <stdexcept>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "builder/gradient_table.h"
#include "graph/text.h"
#include "millrace/graph_ops.h"
#include "millrace/status.h"

namespace millrace {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Output Input(GraphBuilder& b, const char* name, Shape shape) { return b.Placeholder(name, DataType::kFloat, shape); }

std::vector<std::string> InputNames(const GraphBuilder& b, const Output& output) {
  std::vector<std::string> names;
  for (const OutputRef& input : b.graph().node(output.node()).inputs) names.push_back(b.graph().TensorName(input));
  return names;
}

TEST(Gradients, ProductsOfAMatMulCarryTheTranspositions) {
  GraphBuilder b;
  const Output x = Input(b, "x", {8, 4}), w = Input(b, "w", {3, 4});
  const Output y = ops::MatMul(x, w, {.b = true}, "y");
  const Output dy = Input(b, "dy", {8, 3});
  const absl::StatusOr<std::vector<Output>> gradients = AddGradients(b, {y}, {x, w}, {.y_gradients = {dy}});
  ASSERT_TRUE(gradients.ok()) << gradients.status();
  EXPECT_EQ((*gradients)[0].shape(), x.shape());
  EXPECT_EQ((*gradients)[1].shape(), w.shape());
  EXPECT_THAT(InputNames(b, (*gradients)[0]), ElementsAre("dy:0", "w:0"));
  EXPECT_THAT(InputNames(b, (*gradients)[1]), ElementsAre("dy:0", "x:0"));
  EXPECT_EQ(b.TensorName((*gradients)[0]), "gradients/y_grad/MatMul:0");
}

TEST(Gradients, NothingIsEmittedForInputsThatNobodyAskedFor) {
  GraphBuilder b;
  const Output x = Input(b, "x", {8, 4}), w = Input(b, "w", {4, 3}), dy = Input(b, "dy", {8, 3});
  const Output y = ops::MatMul(x, w);
  const int32_t before = b.graph().num_nodes();
  ASSERT_TRUE(AddGradients(b, {y}, {w}, {.y_gradients = {dy}}).ok());
  EXPECT_EQ(b.graph().num_nodes(), before + 1);
}

TEST(Gradients, TensorThatTheYDoesNotDependOnGetsNone) {
  GraphBuilder b;
  const Output x = Input(b, "x", {2, 2}), other = Input(b, "other", {2, 2}), dy = Input(b, "dy", {2, 2});
  const Output stopped = ops::MatMul(ops::StopGradient(other), x);
  const absl::StatusOr<std::vector<Output>> gradients =
      AddGradients(b, {stopped}, {x, other}, {.y_gradients = {dy}});
  ASSERT_TRUE(gradients.ok()) << gradients.status();
  EXPECT_TRUE((*gradients)[0].valid());
  EXPECT_FALSE((*gradients)[1].valid());
}

TEST(Gradients, IncomingGradientOfAnotherShapeIsAnError) {
  GraphBuilder b;
  const Output x = Input(b, "x", {2, 2}), dy = Input(b, "dy", {2, 3});
  const Output y = ops::Identity(x, "y");
  const absl::StatusOr<std::vector<Output>> gradients = AddGradients(b, {y}, {x}, {.y_gradients = {dy}});
  EXPECT_THAT(std::string(gradients.status().message()), HasSubstr("'y:0' is float[2,2], its gradient float[2,3]"));
  EXPECT_FALSE(b.ok());
}

// y = 2x, registered as a program would.
OpRegistry WithDouble() {
  OpRegistry registry = OpRegistry::Builtin();
  OpDef def;
  def.name = "Double";
  def.shape = [](InferenceContext& context) {
    context.AddOutput(context.dtype(0), context.shape(0));
    return absl::OkStatus();
  };
  def.gradient = [](GradientContext& c) {
    c.Set(0, c.builder().Op("Double", {c.gradient()}));
    return absl::OkStatus();
  };
  EXPECT_TRUE(registry.Register(def).ok());
  def.name = "Opaque";
  def.gradient = nullptr;
  EXPECT_TRUE(registry.Register(def).ok());
  return registry;
}

TEST(Gradients, TensorsOfAnotherGraphAreErrors) {
  GraphBuilder other;
  Output far = other.Placeholder("far", DataType::kFloat, {2});
  for (int i = 0; i < 100; ++i) far = ops::Neg(far);
  {
    GraphBuilder b;
    const Output x = b.Placeholder("x", DataType::kFloat, {2});
    EXPECT_EQ(AddGradients(b, {ops::Neg(x)}, {far}).status().message(), "AddGradients: an x is not a tensor of this graph");
  }
  {
    GraphBuilder b;
    const Output x = b.Placeholder("x", DataType::kFloat, {2});
    EXPECT_EQ(AddGradients(b, {far}, {x}).status().message(), "AddGradients: a y is not a tensor of this graph");
  }
  GraphBuilder b;
  const Output x = b.Placeholder("x", DataType::kFloat, {2});
  EXPECT_EQ(AddGradients(b, {ops::Neg(x)}, {x}, {.y_gradients = {far}}).status().message(),
            "AddGradients: a y_gradient is not a tensor of this graph");
}

TEST(Gradients, OpOfOnesOwnBringsItsGradient) {
  GraphBuilder b(std::make_shared<OpRegistry>(WithDouble()));
  const Output x = Input(b, "x", {4}), dy = Input(b, "dy", {4});
  const Output y = b.Op("Double", {x}, {}, "y");
  const absl::StatusOr<std::vector<Output>> gradients = AddGradients(b, {y}, {x}, {.y_gradients = {dy}});
  ASSERT_TRUE(gradients.ok()) << gradients.status();
  EXPECT_EQ(b.graph().node((*gradients)[0].node()).op, "Double");
}

// The status of AddGradients through an op of one's own with that rule.
absl::Status StatusOfRule(OpDef::GradientRule rule) {
  auto registry = std::make_shared<OpRegistry>(OpRegistry::Builtin());
  OpDef own;
  own.name = "Own";
  own.shape = [](InferenceContext& c) {
    c.AddOutput(c.dtype(0), c.shape(0));
    return absl::OkStatus();
  };
  own.gradient = std::move(rule);
  EXPECT_TRUE(registry->Register(std::move(own)).ok());
  GraphBuilder b(registry);
  const Output x = b.Placeholder("x", DataType::kFloat, {2});
  return AddGradients(b, {b.Op("Own", {x}, {}, "own")}, {x}).status();
}

TEST(Gradients, ARuleThatAsksForWhatTheNodeDoesNotHaveIsAnErrorThatNamesIt) {
  const auto message = [](auto&& use) {
    return std::string(StatusOfRule([use](GradientContext& c) {
                         use(c);
                         return absl::OkStatus();
                       }).message());
  };
  const std::string input = "gradient of node 'own' (Own): the node has no input 200", output = "gradient of node 'own' (Own): the node has no output -1";
  EXPECT_EQ(message([](GradientContext& c) { c.Set(200, c.gradient()); }), input);
  EXPECT_EQ(message([](GradientContext& c) { c.Set(0, ops::Neg(c.input(200))); }), input);
  EXPECT_EQ(message([](GradientContext& c) { (void)c.wants(200); }), input);
  EXPECT_EQ(message([](GradientContext& c) { (void)c.ConstantInts(200); }), input);
  EXPECT_EQ(message([](GradientContext& c) { c.Set(0, c.output(-1)); }), output);
  EXPECT_EQ(message([](GradientContext& c) { c.Set(0, c.gradient(-1)); }), output);
  EXPECT_EQ(message([](GradientContext& c) { (void)c.has_gradient(-1); }), output);
  EXPECT_EQ(message([](GradientContext& c) { c.Set(0, c.gradient()); }), "");
}

TEST(Gradients, ARuleThatThrowsIsAnErrorThatNamesIt) {
  const absl::Status status = StatusOfRule([](GradientContext&) -> absl::Status { throw std::runtime_error("boom"); });
  EXPECT_EQ(status.message(), "node 'own' (Own): the gradient rule threw an exception: boom");
}

TEST(Gradients, AResultOfAnotherGraphIsAnErrorThatNamesTheNode) {
  GraphBuilder other;
  const Output foreign = other.Placeholder("foreign", DataType::kFloat, {2});
  const std::string where = "gradient of node 'own' (Own): the gradient of input 0 is not a tensor of this graph";
  const auto set = [](auto result) {
    return StatusOfRule([result](GradientContext& c) {
      c.Set(0, result(c));
      return absl::OkStatus();
    });
  };
  EXPECT_EQ(set([&](GradientContext&) { return foreign; }).message(), where);
  EXPECT_EQ(set([](GradientContext& c) { return Output(&c.builder(), {NodeId{1000000}, 0}, c.input(0).type()); }).message(), where);
  EXPECT_EQ(set([](GradientContext& c) { return Output(&c.builder(), {c.node(), 7}, c.input(0).type()); }).message(), where);
}

TEST(Gradients, WhatARuleSaysNamesTheNode) {
  const absl::Status bare = StatusOfRule([](GradientContext&) { return absl::UnimplementedError("not today"); });
  EXPECT_EQ(bare.code(), absl::StatusCode::kUnimplemented);
  EXPECT_EQ(bare.message(), "gradient of node 'own' (Own): not today");
  const absl::Status named = StatusOfRule([](GradientContext& c) { return c.Error("not today"); });
  EXPECT_EQ(named.message(), "gradient of node 'own' (Own): not today");
}

// Places of 16 bits are too short for places in the whole.
TEST(Gradients, OfRowsThatNumbersOf16BitsChoose) {
  GraphBuilder b;
  const Output x = b.Placeholder("x", DataType::kFloat, Shape({100, 8}));
  const Operation top = b.Op("TopKV2", {x, b.Int(2)}, {{"T", DataType::kFloat}, {"index_type", DataType::kInt16}});
  const auto gradients = AddGradients(b, {top.output(0)}, {x});
  ASSERT_TRUE(gradients.ok()) << gradients.status();
  EXPECT_EQ((*gradients)[0].type().ToString(), "float[100,8]");
  EXPECT_THAT(GraphToText(b.graph()), HasSubstr("DstT=int32"));
}

TEST(Gradients, EveryOpHasOneOrAReasonNotTo) {
  for (const std::string& name : OpRegistry::Builtin().Names()) {
    const bool has_rule = OpRegistry::Builtin().Find(name)->gradient || GradientTable::Builtin().Find(name) != nullptr;
    const char* reason = GradientTable::NotDifferentiable(name);
    EXPECT_TRUE(has_rule || reason != nullptr) << name << " has neither a gradient nor a reason to have none";
  }
}

TEST(Gradients, ComplexYsNeedTheirGradients) {
  GraphBuilder b;
  const Output x = b.Placeholder("x", DataType::kComplex64, {3});
  const Output y = ops::Mul(x, x, "y");
  const absl::StatusOr<std::vector<Output>> gradients = AddGradients(b, {y}, {x});
  EXPECT_THAT(std::string(gradients.status().message()), HasSubstr("'y:0' is complex64[3]: complex ys need y_gradients"));
}

TEST(Gradients, RulesThatNeedAShapeRefuseOneThatIsKnownOnlyWhenRunning) {
  GraphBuilder b;
  const Output x = b.Placeholder("x", DataType::kFloat, {6, 2}), keep = b.Placeholder("keep", DataType::kBool, {6});
  const Output rows = b.Op("Where", {keep}, {{"T", DataType::kBool}});
  const Output chosen = ops::Gather(x, ops::Squeeze(rows, {1}));
  ASSERT_TRUE(b.HasBoundShape(chosen));
  EXPECT_FALSE(b.HasBoundShape(ops::Sum(chosen, {})));
  const Output y = ops::Sum(b.Op("Qr", {chosen}, {{"T", DataType::kFloat}, {"full_matrices", false}}, "qr"), {});
  const absl::StatusOr<std::vector<Output>> gradients = AddGradients(b, {y}, {x});
  EXPECT_THAT(std::string(gradients.status().message()), HasSubstr("'qr' (Qr): needs known shapes, input 0 is float[6,2] or smaller"));
}

// In a product of x and y either may be broadcast: that is found when running.
TEST(Gradients, OfABroadcastThatIsNotKnownIsSummedWhenRunning) {
  GraphBuilder b;
  const Output x = b.Placeholder("x", DataType::kFloat, {-1}), y = b.Placeholder("y", DataType::kFloat, {-1});
  const Output bias = b.Placeholder("bias", DataType::kFloat, {3}), rows = b.Placeholder("rows", DataType::kFloat, {-1, 3});
  const absl::StatusOr<std::vector<Output>> gradients = AddGradients(b, {ops::Sum(x * y, {0}), ops::Sum(rows + bias, {0, 1})}, {x, bias});
  ASSERT_TRUE(gradients.ok()) << gradients.status();
  EXPECT_EQ((*gradients)[0].shape(), Shape({-1}));
  EXPECT_EQ((*gradients)[1].shape(), Shape({3}));
  int64_t found_when_running = 0;
  for (int32_t i = 0; i < b.graph().num_ids(); ++i) found_when_running += b.graph().node(NodeId{i}).op == "BroadcastGradientArgs" ? 1 : 0;
  EXPECT_EQ(found_when_running, 1) << "that a bias is broadcast is known";
}

TEST(Gradients, FractionalPoolsOfBatchesThatAreKnownOnlyWhenRunning) {
  GraphBuilder b;
  const Output x = b.Placeholder("x", DataType::kFloat, {6, 4, 4, 1}), keep = b.Placeholder("keep", DataType::kBool, {6});
  const Output rows = b.Op("Where", {keep}, {{"T", DataType::kBool}});
  const Output chosen = ops::Gather(x, ops::Squeeze(rows, {1}));
  const Output y = b.Op("FractionalAvgPool", {chosen}, {{"T", DataType::kFloat}, {"pooling_ratio", std::vector<float>{1, 2, 2, 1}}}, "pool");
  ASSERT_TRUE(b.ok()) << b.status();
  EXPECT_THAT(std::string(AddGradients(b, {y}, {x}).status().message()), HasSubstr("'pool' (FractionalAvgPool): needs known shapes"));
}

TEST(Gradients, OpWithoutAGradientIsAnErrorThatNamesNodeAndOp) {
  GraphBuilder b(std::make_shared<OpRegistry>(WithDouble()));
  const Output x = Input(b, "x", {4}), dy = Input(b, "dy", {4});
  const Output y = b.Op("Opaque", {x}, {}, "odd");
  const absl::StatusOr<std::vector<Output>> gradients = AddGradients(b, {y}, {x}, {.y_gradients = {dy}});
  EXPECT_EQ(gradients.status().code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(gradients.status().message()), HasSubstr("node 'odd': op 'Opaque' has no gradient"));
}

TEST(Gradients, EveryXIsReportedAsSoonAsItsGradientIsComplete) {
  GraphBuilder b;
  Output x = Input(b, "x", {2, 2});
  const Output dy = Input(b, "dy", {2, 2});
  std::vector<Output> weights;
  for (const char* name : {"w0", "w1", "w2"}) {
    weights.push_back(Input(b, name, {2, 2}));
    x = ops::MatMul(x, weights.back());
  }
  std::vector<int> reported;
  std::vector<int32_t> nodes_then;
  GradientOptions options{.y_gradients = {dy}};
  options.on_ready = [&](int index, const Output&) {
    reported.push_back(index);
    nodes_then.push_back(b.graph().num_nodes());
    return absl::OkStatus();
  };
  const int32_t before = b.graph().num_nodes();
  ASSERT_TRUE(AddGradients(b, {x}, weights, options).ok());
  EXPECT_THAT(reported, ElementsAre(2, 1, 0));
  // Two products per layer, one for the first: w2 is reported before anything of w1 is emitted.
  EXPECT_THAT(nodes_then, ElementsAre(before + 2, before + 4, before + 5));
}

}  // namespace
}  // namespace millrace
