#include "millrace/graph_builder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "millrace/graph_ops.h"
#include "millrace/optimizers.h"

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

TEST(GraphBuilder, AVariableWithoutInitializerIsAnErrorThatNamesIt) {
  GraphBuilder b;
  const Variable w = b.AddVariable("w", {2, 3}, Initializer());
  EXPECT_FALSE(ops::Relu(w).valid());
  EXPECT_EQ(b.status().message(), "variable 'w' has no initializer");
}

TEST(GraphBuilder, NamesThatTensorFlowDoesNotAllowAreErrors) {
  for (std::string_view name : {"a b", "a:0", "^a", "_a", "a\n", "//", "/"}) {
    GraphBuilder b;
    b.Op("NoOp", {}, {}, name);
    EXPECT_THAT(std::string(b.status().message()), HasSubstr("the name has characters")) << name;
  }
  for (std::string_view name : {"a", "9", ".a", "a_b-c.d/e>f\\g", "/a", ""}) {
    GraphBuilder b;
    EXPECT_TRUE(b.Op("NoOp", {}, {}, name).valid()) << b.status();
  }
}

TEST(GraphBuilder, AConstantWithoutATypeIsAnError) {
  GraphBuilder b, c;
  EXPECT_FALSE(b.Const(Tensor(), "none").valid());
  EXPECT_EQ(b.status().message(), "node 'none' (Const): the tensor has no type");
  GraphBuilder other;
  other.Placeholder("fed", DataType::kInvalid, Shape({2}));
  EXPECT_EQ(other.status().message(), "node 'fed' (Placeholder): attribute 'dtype' is type invalid, expected a type that is no reference");
  EXPECT_FALSE(c.SharedConst(Tensor()).valid());
  EXPECT_FALSE(c.ok());
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

// Every function that emits ops, on a tensor that is not valid.
void CallEverything(const Output& x) {
  using namespace ops;
  const WindowOptions window{.strides = {2}};
  for (const Output& y :
       {Fill(x, x), ZerosLike(x), OnesLike(x), Range(x, x, x), Unary("Relu", x), Binary("Mul", x, x), Binary("Mul", x, 2.0),
        LeakyRelu(x, 0.1f), Cast(x, DataType::kInt32), Select(x, x, x), AddN({x, x}), AddN({x}), AddN({}), MatMul(x, x),
        BatchMatMul(x, x), Einsum({x, x}, "ij,jk->ik"), Reduce("Sum", x, {0}), Sum(x, {}), Mean(x), ArgMax(x, 0), Cumsum(x, 0),
        L2Loss(x), Reshape(x, {2}), ExpandDims(x, 0), Squeeze(x, {0}), Transpose(x, {1, 0}), BroadcastTo(x, {2}),
        Concat({x, x}, 0), Concat({}, 0), Pack({x, x}, 0), Pack({}, 0), Slice(x, {0}, {1}), Index(x, 0, 0),
        Pad(x, {{1, 1}}), Tile(x, {2}), Reverse(x, {0}), Gather(x, x), OneHot(x, 3), UnsortedSegmentSum(x, x, 2),
        TopK(x, 2).values, TopK(x, 2).indices, Conv2D(x, x, window), Conv3D(x, x), DepthwiseConv2D(x, x),
        ConvTranspose2D(x, x, {1, 2, 2, 1}), ConvTranspose3D(x, x, {1, 2, 2, 2, 1}), MaxPool(x, {2}, window),
        AvgPool(x, {2}, window), BiasAdd(x, x), Softmax(x), LogSoftmax(x), Lrn(x, 1, 1, 1, 1), FusedBatchNorm(x, x, x).y,
        SparseSoftmaxCrossEntropy(x, x).loss, SoftmaxCrossEntropy(x, x).loss, ResizeBilinear(x, 2, 2), x + x, x * 2.0, -x}) {
    EXPECT_FALSE(y.valid());
  }
  for (const std::vector<Output>& parts : {Split(x, 2, 0), SplitV(x, {1, 1}, 0), Unpack(x, 0)}) {
    for (const Output& part : parts) EXPECT_FALSE(part.valid());
  }
  EXPECT_EQ(Split(x, 2, 0).size(), 2);
}

TEST(GraphBuilder, EverythingTakesOutputsThatAreNotValid) {
  CallEverything(Output());
  GraphBuilder b;
  const Output bad = ops::MatMul(Input(b, "x", {8, 4}), Input(b, "w", {5, 3}), {}, "first");
  CallEverything(bad);
  Minimize(b, Sgd(0.1), bad);
  b.AddControlEdge(Operation(), Operation());
  b.AddInit();
  EXPECT_FALSE(b.AddVariable("v", {2}, init::Zeros()).valid());
  EXPECT_THAT(std::string(b.status().message()), HasSubstr("'first'"));
}

TEST(GraphBuilder, OutputsOfNoGraphAreErrorsThatNameTheNode) {
  for (const Output& none : {Output(), Operation().output(0)}) {
    GraphBuilder b;
    const Output x = Input(b, "x", {2, 2});
    ops::MatMul(x, none, {}, "product");
    EXPECT_THAT(std::string(b.status().message()), HasSubstr("'product' (MatMul): input 1 is not a tensor"));
  }
  GraphBuilder b;
  Minimize(b, Sgd(0.1), Output());
  EXPECT_EQ(b.status().code(), absl::StatusCode::kInvalidArgument);
  GraphBuilder c;
  c.AddControlEdge(c.Op("NoOp", {}), Operation());
  EXPECT_THAT(std::string(c.status().message()), HasSubstr("AddControlEdge"));
}

// There is no builder to tell it to: the first that takes the result tells.
TEST(GraphBuilder, WhatIsMadeOfNoTensorsIsAnErrorOfTheBuilderThatTakesIt) {
  const char* const why = "is not a tensor of this graph, but a default Output or what Concat, Pack, AddN or Einsum make of an empty list";
  for (const Output& none : {ops::Concat({}, 0), ops::Pack({}, 0), ops::AddN({}), ops::Einsum({}, "->"), ops::Relu(ops::Mean(ops::AddN({})))}) {
    GraphBuilder b, c;
    ops::Add(Input(b, "x", {2}), none, "sum");
    EXPECT_THAT(std::string(b.status().message()), HasSubstr(absl::StrCat("node 'sum' (AddV2): input 1 ", why)));
    EXPECT_FALSE(std::move(b).Build().ok());
    Minimize(c, Sgd(0.1), none);
    EXPECT_THAT(std::string(c.status().message()), HasSubstr(why));
  }
}

TEST(GraphBuilder, OperationsOfAnotherGraphAreErrors) {
  GraphBuilder other;
  Output far = Input(other, "x", {2});
  for (int i = 0; i < 100; ++i) far = ops::Neg(far);
  const Operation foreign(&other, far.node());
  for (const Operation& bad : {foreign, Operation()}) {
    GraphBuilder b;
    EXPECT_FALSE(b.Group({bad}, "train").valid());
    EXPECT_EQ(b.status().message(), "node 'train': an operation is not a node of this graph");
    GraphBuilder c;
    ControlScope scope(c, {bad});
    EXPECT_EQ(c.status().message(), "ControlScope: an operation is not a node of this graph");
  }
  GraphBuilder b;
  EXPECT_EQ(b.TensorName(far), "<no tensor>");
  EXPECT_EQ(b.ConstantValue(far), nullptr);
}

TEST(GraphBuilder, NodesAndOutputsThatAreNotThereAreErrors) {
  GraphBuilder b;
  const Output x = Input(b, "x", {2});
  EXPECT_FALSE(b.OutputOf({x.node(), 7}).valid());
  EXPECT_EQ(b.status().message(), "node 'x' has no output 7");
  GraphBuilder c;
  EXPECT_FALSE(c.OutputOf({NodeId{1000000}, 0}).valid());
  EXPECT_EQ(c.status().message(), "the graph has no node of id 1000000");
  GraphBuilder d;
  EXPECT_FALSE(Operation(&d, NodeId{1000000}).output(0).valid());
  EXPECT_TRUE(Operation(&d, NodeId{1000000}).outputs().empty());
  EXPECT_FALSE(d.ok());
  GraphBuilder e;
  ops::Neg(Output(&e, {NodeId{1000000}, 0}, x.type()), "n");
  EXPECT_THAT(std::string(e.status().message()), HasSubstr("'n' (Neg): input 0 is not a tensor"));
}

TEST(GraphBuilder, NothingIsAddedOnceTheGraphIsTaken) {
  GraphBuilder b;
  Output x = Input(b, "x", {2});
  for (int i = 0; i < 100; ++i) x = ops::Neg(x);
  ASSERT_TRUE(std::move(b).Build().ok());
  EXPECT_EQ(b.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_FALSE(ops::Neg(x).valid());
  EXPECT_EQ(b.TensorName(x), "<no tensor>");
  EXPECT_FALSE(b.OutputOf(x.ref()).valid());
  EXPECT_EQ(std::move(b).Build().status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST(GraphBuilder, FoldsWhatFollowsFromConstantsAndTypes) {
  GraphBuilder b;
  int computed = 0;
  b.FoldWith([&](const OpDef&, const OpInstance& instance, std::vector<Tensor> inputs) -> absl::StatusOr<std::vector<Tensor>> {
    if (instance.op != "AddV2") return absl::UnimplementedError("only sums");
    ++computed;
    return std::vector<Tensor>{Tensor::Scalar<int32_t>(static_cast<int32_t>(inputs[0].IntAt(0) + inputs[1].IntAt(0)))};
  });
  const Output sum = ops::Add(b.Int(2), b.Int(3)), twice = ops::Add(sum, sum);
  ASSERT_TRUE(b.ok()) << b.status();
  EXPECT_EQ(b.ConstantValue(twice)->IntAt(0), 10);
  EXPECT_EQ(b.graph().node(twice.node()).op, "AddV2") << "the node stays";
  EXPECT_EQ(b.ConstantValue(ops::Mul(sum, sum)), nullptr);
  EXPECT_EQ(b.ConstantValue(ops::Add(b.Placeholder("p", DataType::kInt32, {}), sum)), nullptr);
  EXPECT_EQ(computed, 2);
}

TEST(GraphBuilder, WhatIsFoldedToAnotherTypeStaysUnknown) {
  GraphBuilder b;
  b.FoldWith([](const OpDef&, const OpInstance&, std::vector<Tensor>) { return std::vector<Tensor>{Tensor(DataType::kInt32, {7})}; });
  const Output y = ops::Neg(b.Scalar(DataType::kFloat, 1));
  EXPECT_EQ(y.type().ToString(), "float[]");
  EXPECT_EQ(b.ConstantValue(y), nullptr);
}

TEST(GraphBuilder, StringConstantsOfOtherValuesAreNotShared) {
  GraphBuilder b;
  Tensor one(DataType::kString, Shape()), two(DataType::kString, Shape());
  one.mutable_strings()[0] = "one";
  two.mutable_strings()[0] = "two";
  EXPECT_EQ(b.ConstantValue(b.SharedConst(one))->strings()[0], "one");
  EXPECT_EQ(b.ConstantValue(b.SharedConst(two))->strings()[0], "two");
}

TEST(GraphBuilder, SizesThatDoNotFitAndTooManyNodesAreErrors) {
  GraphBuilder b;
  NameScope scope(b, "layer");
  ops::Reshape(Input(b, "x", {2, 2}), {int64_t{1} << 32});
  EXPECT_THAT(std::string(b.status().message()),
              HasSubstr("node 'layer/Reshape' (Reshape): a size of 4294967296, expected one that fits int32; inputs are float[2,2]"));
  GraphBuilder pad;
  EXPECT_FALSE(ops::Pad(Input(pad, "x", {2}), {{1, int64_t{1} << 32}}).valid());
  EXPECT_EQ(pad.status().message(), "node 'Pad' (Pad): a padding of 4294967296, expected one that fits int32; inputs are float[2]");
  GraphBuilder split;
  ops::Split(Input(split, "x", {2}), int64_t{1} << 50, 0);
  EXPECT_THAT(std::string(split.status().message()), HasSubstr("num_split is 1125899906842624"));
  GraphBuilder unpack;
  ops::Unpack(Input(unpack, "x", {int64_t{1} << 50}), 0);
  EXPECT_THAT(std::string(unpack.status().message()), HasSubstr("num is 1125899906842624"));
  GraphBuilder c;
  c.LimitNodes(3);
  Output x = Input(c, "x", {2});
  for (int i = 0; i < 3; ++i) x = ops::Neg(x, "neg");
  EXPECT_THAT(std::string(c.status().message()), HasSubstr("node 'neg': the graph has 3 nodes already, the most it may have is 3"));
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

TEST(GraphBuilder, GoingOnKnowsWhichShapesAreBounds) {
  GraphBuilder first;
  const Output rows = first.Op("Where", {first.Placeholder("x", DataType::kBool, {6})}, {{"T", DataType::kBool}}, "rows");
  const NodeId sum = ops::Sum(ops::Reshape(rows, {-1}, "flat"), {}).node();
  GraphBuilder second(*std::move(first).Build());
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_TRUE(second.HasBoundShape(second.OutputOf({second.graph().Find("rows"), 0})));
  EXPECT_TRUE(second.HasBoundShape(second.OutputOf({second.graph().Find("flat"), 0})));
  EXPECT_FALSE(second.HasBoundShape(second.OutputOf({sum, 0})));
}

TEST(GraphBuilder, ConcatOfOneIsAnIdentityOfThatName) {
  GraphBuilder b;
  const Output x = Input(b, "x", {2, 3}), one = ops::Concat({x}, -1, "one");
  ASSERT_TRUE(b.ok()) << b.status();
  EXPECT_EQ(b.TensorName(one), "one:0");
  EXPECT_EQ(b.graph().node(one.node()).op, "Identity");
  EXPECT_EQ(one.shape(), x.shape());
  EXPECT_EQ(ops::Concat({x}, 0).ref(), x.ref()) << "without a name that value itself";
}

// Fingerprints of graphs follow the order of their nodes.
TEST(GraphBuilder, OneHotMakesItsConstantsInTheOrderOfItsInputs) {
  GraphBuilder b;
  const Output hot = ops::OneHot(b.Placeholder("labels", DataType::kInt32, {4}), 10, DataType::kFloat);
  ASSERT_TRUE(b.ok()) << b.status();
  const auto& inputs = b.graph().node(hot.node()).inputs;
  ASSERT_EQ(inputs.size(), 4u);
  for (int i = 1; i < 4; ++i) EXPECT_EQ(inputs[i].node.value, inputs[0].node.value + i);
}

}  // namespace
}  // namespace millrace
