#include "millrace/graph_builder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "millrace/graph_ops.h"

namespace millrace {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Output Input(GraphBuilder& b, const char* name, Shape shape) { return b.Placeholder(name, DataType::kFloat, shape); }

TEST(GraphBuilder, ShapesAreKnownAtTheCall) {
  GraphBuilder b;
  const Output product = ops::MatMul(Input(b, "x", {8, 4}), Input(b, "w", {4, 3}));
  ASSERT_TRUE(b.ok()) << b.status();
  EXPECT_EQ(product.shape(), Shape({8, 3}));
  EXPECT_EQ(product.dim(-1), 3);
  EXPECT_EQ(product.dim(2), -1);
}

TEST(GraphBuilder, ShapeErrorNamesTheNodeAndBothShapes) {
  GraphBuilder b;
  ops::MatMul(Input(b, "x", {8, 4}), Input(b, "w", {5, 3}), {}, "hidden");
  EXPECT_EQ(b.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(b.status().message()), HasSubstr("'hidden' (MatMul)"));
  EXPECT_THAT(std::string(b.status().message()), HasSubstr("float[8,4], float[5,3]"));
}

TEST(GraphBuilder, FirstErrorIsKeptAndLaterCallsDoNothing) {
  GraphBuilder b;
  const Output x = Input(b, "x", {8, 4});
  const Output bad = ops::MatMul(x, Input(b, "w", {5, 3}), {}, "first");
  const int32_t nodes = b.graph().num_nodes();
  EXPECT_FALSE(bad.valid());
  EXPECT_FALSE(ops::MatMul(bad, x, {}, "second").valid());
  EXPECT_EQ(b.graph().num_nodes(), nodes);
  const absl::StatusOr<Graph> graph = std::move(b).Build();
  EXPECT_THAT(std::string(graph.status().message()), HasSubstr("'first'"));
}

TEST(GraphBuilder, UnknownOpIsAnErrorThatNamesIt) {
  GraphBuilder b;
  b.Op("NoSuchOp", {Input(b, "x", {1})}, {}, "odd");
  EXPECT_THAT(std::string(b.status().message()), HasSubstr("'odd': unknown op 'NoSuchOp'"));
}

TEST(GraphBuilder, TensorOfAnotherGraphIsAnError) {
  GraphBuilder a, b;
  const Output x = Input(a, "x", {2, 2});
  const Output y = Input(b, "y", {2, 2});
  ops::MatMul(y, x);
  EXPECT_TRUE(a.ok());
  EXPECT_THAT(std::string(b.status().message()), HasSubstr("input 1 is not a tensor of this graph"));
}

TEST(GraphBuilder, ScopesPrefixNamesAndTakenNamesGetASuffix) {
  GraphBuilder b;
  const Output x = Input(b, "x", {2, 2});
  Output first, second, absolute;
  {
    NameScope outer(b, "outer");
    NameScope inner(b, "inner");
    first = ops::Identity(x);
    second = ops::Identity(x);
    absolute = ops::Identity(x, "/top");
    NameScope root(b, "/");
    EXPECT_EQ(b.TensorName(ops::Identity(x, "plain")), "plain:0");
  }
  EXPECT_EQ(b.TensorName(first), "outer/inner/Identity:0");
  EXPECT_EQ(b.TensorName(second), "outer/inner/Identity_1:0");
  EXPECT_EQ(b.TensorName(absolute), "top:0");
  EXPECT_EQ(b.TensorName(ops::Identity(x)), "Identity:0");
}

TEST(GraphBuilder, ControlAndDeviceScopesApplyToNodesButNotToSharedConstants) {
  GraphBuilder b;
  const Operation first = b.Op("NoOp", {}, {}, "first");
  ControlScope after(b, {first});
  DeviceScope device(b, "/device:CPU:1");
  const Output constant = b.Scalar(DataType::kFloat, 2);
  const Output copy = ops::Identity(constant, "copy");
  ASSERT_TRUE(b.ok()) << b.status();
  EXPECT_THAT(b.graph().node(copy.node()).control_inputs, ElementsAre(first.id()));
  EXPECT_EQ(b.graph().node(copy.node()).requested_device, "/device:CPU:1");
  EXPECT_TRUE(b.graph().node(constant.node()).control_inputs.empty());
  EXPECT_EQ(b.graph().node(constant.node()).requested_device, "");
}

TEST(GraphBuilder, EqualSmallConstantsAreOneNode) {
  GraphBuilder b;
  EXPECT_EQ(b.Ints({1, 2}).ref(), b.Ints({1, 2}).ref());
  EXPECT_NE(b.Ints({1, 2}).node(), b.Ints({2, 1}).node());
  EXPECT_NE(b.Scalar(DataType::kFloat, 1).node(), b.Scalar(DataType::kDouble, 1).node());
  EXPECT_EQ(b.graph().num_nodes(), 4);
  EXPECT_EQ(b.ConstantValue(ops::Identity(b.Int(7)))->IntAt(0), 7);
}

TEST(GraphBuilder, GoesOnWithAGraphWhoseTypesAreNotEstablished) {
  GraphBuilder first;
  ops::MatMul(Input(first, "x", {8, 4}), Input(first, "w", {4, 3}), {}, "product");
  Graph graph = *std::move(first).Build();
  graph.mutable_node(graph.Find("product")).outputs.clear();
  GraphBuilder second(std::move(graph));
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_EQ(second.OutputOf({second.graph().Find("product"), 0}).shape(), Shape({8, 3}));
}

}  // namespace
}  // namespace millrace
