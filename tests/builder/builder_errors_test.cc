// What the builder refuses apart from shapes that do not go together: numbers that do not fit, graphs that are none, options that an op
// does not have.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <stdexcept>
#include <string>

#include "absl/strings/str_cat.h"
#include "millrace/graph_builder.h"
#include "millrace/graph_ops.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;

TEST(BuilderErrors, NumbersThatATypeDoesNotHold) {
  const double kTwo64 = std::ldexp(1.0, 64), kNan = std::numeric_limits<double>::quiet_NaN();
  struct Case {
    DataType dtype;
    double value;
    const char* error;
  };
  for (const Case& test : std::initializer_list<Case>{
           {DataType::kInt32, 0.5, "a constant 0.5 of type int32, expected a whole number of -2147483648 to 2147483647"},
           {DataType::kInt32, kNan, "a constant nan of type int32"},
           {DataType::kInt32, 1e30, "a constant 1e+30 of type int32"},
           {DataType::kInt32, 2147483648.0, "of type int32"},
           {DataType::kInt8, -129, "a constant -129 of type int8, expected a whole number of -128 to 127"},
           {DataType::kInt16, 32768, "a constant 32768 of type int16"},
           {DataType::kInt64, kTwo64 / 2, "of type int64"},
           {DataType::kUint8, 300, "a constant 300 of type uint8, expected a whole number of 0 to 255"},
           {DataType::kUint8, -1, "a constant -1 of type uint8"},
           {DataType::kUint16, 65536, "a constant 65536 of type uint16"},
           {DataType::kUint32, -0.5, "a constant -0.5 of type uint32"},
           {DataType::kUint64, kTwo64, "of type uint64"},
           {DataType::kBool, 2, "a constant 2 of type bool, expected 0 or 1"},
           {DataType::kBool, kNan, "a constant nan of type bool"},
           {DataType::kString, 1, "a constant 1 of type string, expected a number type"}}) {
    GraphBuilder b;
    const NameScope scope(b, "layer");
    EXPECT_FALSE(b.Scalar(test.dtype, test.value).valid());
    EXPECT_THAT(std::string(b.status().message()), ::testing::StartsWith("node 'layer/Const' (Const): ")) << test.error;
    EXPECT_THAT(std::string(b.status().message()), HasSubstr(test.error));
  }
  GraphBuilder b;
  EXPECT_EQ(b.ConstantValue(b.Scalar(DataType::kInt64, -kTwo64 / 2))->as<int64_t>()[0], std::numeric_limits<int64_t>::min());
  EXPECT_EQ(b.ConstantValue(b.Scalar(DataType::kUint64, kTwo64 - 2048))->as<uint64_t>()[0], std::numeric_limits<uint64_t>::max() - 2047);
  EXPECT_EQ(b.ConstantValue(b.Scalar(DataType::kUint8, 255))->as<uint8_t>()[0], 255);
  EXPECT_TRUE(b.ConstantValue(b.Scalar(DataType::kBool, 1))->as<bool>()[0]);
  EXPECT_EQ(b.ConstantValue(b.Scalar(DataType::kFloat, 0.1))->as<float>()[0], 0.1f);
}

struct Misuse {
  const char* name;
  std::function<void(GraphBuilder&)> call;
  std::string error;
};

void PrintTo(const Misuse& misuse, std::ostream* out) { *out << misuse.name; }

Output Floats(GraphBuilder& b) { return b.Placeholder("f", DataType::kFloat, {4, 6}); }
Output Numbers(GraphBuilder& b) { return b.Placeholder("i", DataType::kInt32, {4}); }
Output Image(GraphBuilder& b) { return b.Placeholder("image", DataType::kFloat, {2, 8, 8, 3}); }
Output Unranked(GraphBuilder& b) { return b.Placeholder("u", DataType::kFloat, Shape::UnknownRank()); }

std::vector<Misuse> OfNumbers() {
  using namespace ops;
  constexpr int64_t kHuge = int64_t{1} << 40;
  const std::string huge = " of 1099511627776, expected one that fits int32; inputs are float[4,6]";
  return {
      {"Times", [](auto& b) { Numbers(b) * 0.5; },
       "node 'Mul' (Mul): a constant 0.5 of type int32, expected a whole number of -2147483648 to 2147483647; inputs are int32[4]"},
      {"TextPlus", [](auto& b) { b.Const(Tensor(DataType::kString, {2}), "text") + 1.0; },
       "node 'AddV2' (AddV2): a constant 1 of type string, expected a number type; inputs are string[2]"},
      {"Reshape", [](auto& b) { Reshape(Floats(b), {kHuge}, "here"); }, "node 'here' (Reshape): a size" + huge},
      {"ExpandDims", [](auto& b) { ExpandDims(Floats(b), kHuge, "here"); }, "node 'here' (ExpandDims): an axis" + huge},
      {"Transpose", [](auto& b) { Transpose(Floats(b), {kHuge, 0}); }, "node 'Transpose' (Transpose): an axis" + huge},
      {"Sum", [](auto& b) { Sum(Floats(b), {kHuge}, false, "here"); }, "node 'here' (Sum): an axis" + huge},
      {"Index", [](auto& b) { Index(Floats(b), std::numeric_limits<int64_t>::max(), 0, "here"); },
       "node 'here' (StridedSlice): an index of 9223372036854775807, expected one that fits int32; inputs are float[4,6]"},
      {"IndexAxis", [](auto& b) { Index(Floats(b), 0, -5, "here"); },
       "node 'here' (StridedSlice): axis -5 is out of range, expected [-2, 2); inputs are float[4,6]"},
      {"IndexUnranked", [](auto& b) { Index(Unranked(b), 0, 0); }, "node 'StridedSlice' (StridedSlice): needs a known rank; inputs are float<unknown>"},
      {"MeanUnranked", [](auto& b) { Mean(Unranked(b), {}, "here"); },
       "node 'here' (Mean): needs a known rank where no axes are given; inputs are float<unknown>"},
      {"ConcatOfOne", [](auto& b) { Concat({Floats(b)}, 2, "here"); },
       "node 'here' (ConcatV2): axis 2 is out of range, expected [-2, 2); inputs are float[4,6]"},
      {"OneHot", [](auto& b) { OneHot(Numbers(b), 3, DataType::kString, "here"); },
       "node 'here' (OneHot): a constant 1 of type string, expected a number type; inputs are int32[4]"},
      {"ResizeBilinear", [](auto& b) { ResizeBilinear(Image(b), kHuge, 2); },
       "node 'ResizeBilinear' (ResizeBilinear): a size of 1099511627776, expected one that fits int32; inputs are float[2,8,8,3]"},
      {"Ints", [](auto& b) { b.Ints({kHuge}); }, "node 'Const' (Const): a size of 1099511627776, expected one that fits int32"},
      {"VariableOfStrings", [](auto& b) { b.AddVariable("v", {2}, init::Zeros(), DataType::kString); },
       "node 'v/init/Const' (Const): a constant 0 of type string, expected a number type"},
  };
}

std::vector<Misuse> OfOptions() {
  using namespace ops;
  const TensorType unranked{DataType::kFloat, Shape::UnknownRank()}, unknown{DataType::kFloat, {-1, 2}};
  return {
      {"MaxPoolDilated", [](auto& b) { MaxPool(Image(b), {2}, {.dilations = {2}}, "here"); },
       "node 'here' (MaxPool): dilations are 2, expected 1: a pool has none; inputs are float[2,8,8,3]"},
      {"AvgPoolDilated", [](auto& b) { AvgPool(Image(b), {2}, {.dilations = {1, 3}}, "here"); }, "node 'here' (AvgPool): dilations are 1,3"},
      {"PoolOfNoPool", [](auto& b) { Pool("Relu", Image(b), {2}, {}, "here"); }, "node 'here' (Relu): expected MaxPool, AvgPool, MaxPool3D or AvgPool3D"},
      {"PoolWindow", [](auto& b) { MaxPool(Image(b), {}, {}, "here"); },
       "node 'here' (MaxPool): window has 0 numbers, expected 1 or 2; inputs are float[2,8,8,3]"},
      {"FullUnranked", [=](auto& b) { Full(b, unranked, 1); }, "node 'Fill' (Fill): its type is float<unknown>, expected a known shape"},
      {"FullUnknown", [=](auto& b) { Full(b, unknown, 1); }, "node 'Fill' (Fill): its type is float[?,2], expected a known shape"},
      {"RandomUnranked", [=](auto& b) { Random(b, "RandomUniform", unranked, "here"); },
       "node 'here' (RandomUniform): its type is float<unknown>, expected a known shape"},
      {"RandomOfNoRandom", [](auto& b) { Random(b, "Relu", {DataType::kFloat, {2}}, "here"); },
       "node 'here' (Relu): expected RandomUniform, RandomStandardNormal or TruncatedNormal"},
      {"NormOfNone", [](auto& b) { FusedBatchNorm(Image(b), Output(), Output(), 1e-3f, "here"); },
       "node 'here' (FusedBatchNormV3): input 1 is not a tensor of this graph"},
      {"NormOfNoImage", [](auto& b) { FusedBatchNorm(Output(), Floats(b), Floats(b), 1e-3f, "here"); },
       "node 'here' (FusedBatchNormV3): input 0 is not a tensor of this graph"},
      {"ConvTransposeOfNone", [](auto& b) { ConvTranspose2D(Output(), Image(b), {1, 2, 2, 1}, {}, "here"); }, "node 'here' (Conv2DBackpropInput): input 0"},
      {"NoOpName", [](auto& b) { b.Op("", {Floats(b)}, {}, "here"); }, "node 'here' (): there is no op of no name; inputs are float[4,6]"},
      {"NoNodesAtAll",
       [](auto& b) {
         b.LimitNodes(-1);
         Floats(b);
       },
       "node 'f': the graph has 0 nodes already, the most it may have is -1"},
      {"Assign", [](auto& b) { Variable().Assign(Floats(b), "here"); },
       "node 'here' (AssignVariableOp): writes a default Variable, which is of no graph; inputs are float[4,6]"},
      {"AssignAdd", [](auto& b) { Variable().AssignAdd(Floats(b), "here"); }, "node 'here' (AssignAddVariableOp): writes a default Variable"},
      {"AssignSub", [](auto& b) { Variable().AssignSub(Floats(b), "here"); }, "node 'here' (AssignSubVariableOp): writes a default Variable"},
  };
}

class BuilderError : public ::testing::TestWithParam<Misuse> {};

TEST_P(BuilderError, NamesTheNodeAndItsInputs) {
  GraphBuilder b;
  GetParam().call(b);
  EXPECT_EQ(b.status().code(), absl::StatusCode::kInvalidArgument) << b.status();
  EXPECT_THAT(std::string(b.status().message()), ::testing::StartsWith(GetParam().error));
}

std::string NameOf(const ::testing::TestParamInfo<Misuse>& info) { return info.param.name; }
INSTANTIATE_TEST_SUITE_P(Numbers, BuilderError, ::testing::ValuesIn(OfNumbers()), NameOf);
INSTANTIATE_TEST_SUITE_P(Options, BuilderError, ::testing::ValuesIn(OfOptions()), NameOf);

Node NodeOf(const char* name, const char* op, std::initializer_list<OutputRef> inputs, AttrMap attrs) {
  Node node;
  node.name = name;
  node.op = op;
  node.inputs.assign(inputs.begin(), inputs.end());
  node.attrs = std::move(attrs);
  return node;
}

// A placeholder 'p' and these nodes, the first of which has id 1.
std::string ErrorOf(const std::vector<Node>& nodes) {
  Graph graph;
  EXPECT_TRUE(graph.AddNode(NodeOf("p", "Placeholder", {}, {{"dtype", DataType::kFloat}, {"shape", Shape({2})}})).ok());
  for (const Node& node : nodes) EXPECT_TRUE(graph.AddNode(node).ok());
  return std::string(GraphBuilder(std::move(graph)).status().message());
}

TEST(BuilderErrors, InputsThatTheGraphToGoOnWithDoesNotHave) {
  const auto negates = [](OutputRef input) { return NodeOf("n", "Neg", {input}, {{"T", DataType::kFloat}}); };
  EXPECT_EQ(ErrorOf({negates({NodeId{0}, 0})}), "");
  EXPECT_EQ(ErrorOf({negates({NodeId{0}, 5})}), "node 'n' (Neg): input 0 is output 5 of node 'p' (Placeholder), which has 1");
  EXPECT_EQ(ErrorOf({negates({NodeId{99}, 0})}), "node 'n' has output 0 of node number 99 for an input, which is not in the graph");
  EXPECT_THAT(ErrorOf({negates({NodeId{-1}, 0})}), HasSubstr("node 'n' has output 0 of node number -1"));
  EXPECT_THAT(ErrorOf({negates({NodeId{0}, -3})}), HasSubstr("node 'n' has output -3 of node number 0"));
  Node waits = negates({NodeId{0}, 0});
  waits.control_inputs = {NodeId{99}};
  EXPECT_THAT(ErrorOf({waits}), HasSubstr("node 'n' has node number 99 for a control input"));
}

TEST(BuilderErrors, CallsLoopsAndConditionals) {
  const std::string what = "a builder takes no calls, loops and conditionals, and gradients are not taken through them; export the graph with its gradients";
  const OutputRef p{NodeId{0}, 0};
  for (const char* op : {"PartitionedCall", "StatefulPartitionedCall", "RemoteCall", "StatelessIf", "Case", "While", "For", "MapDefun", "Switch"}) {
    EXPECT_EQ(ErrorOf({NodeOf("n", op, {p}, {})}), absl::StrCat("node 'n' (", op, "): ", what));
  }
  // A loop of TensorFlow 1 is a cycle, too.
  EXPECT_EQ(ErrorOf({NodeOf("merge", "Merge", {p, {NodeId{2}, 0}}, {}), NodeOf("next", "NextIteration", {{NodeId{1}, 0}}, {})}),
            absl::StrCat("node 'merge' (Merge): ", what));
  EXPECT_EQ(ErrorOf({NodeOf("n", "NoSuchOp", {p}, {})}), "node 'n': unknown op 'NoSuchOp'");
  GraphBuilder b;
  b.Op("If", {Floats(b)}, {}, "here");
  EXPECT_EQ(b.status().message(), absl::StrCat("node 'here' (If): ", what));
}

TEST(BuilderErrors, ControlEdgesThatCloseACycle) {
  const auto error_of = [](const std::function<void(GraphBuilder&, Operation, Operation)>& add) {
    GraphBuilder b;
    const Output p = Floats(b), o = ops::Neg(p);
    add(b, Operation(&b, p.node()), Operation(&b, o.node()));
    return std::string(std::move(b).Build().status().message());
  };
  EXPECT_EQ(error_of([](auto& b, auto, auto o) { b.AddControlEdge(o, o); }), "AddControlEdge: node 'Neg' would run after itself");
  EXPECT_THAT(error_of([](auto& b, auto p, auto o) { b.AddControlEdge(o, p); }), ::testing::StartsWith("the graph has a cycle through node "));
  // An older node may wait for a newer one that does not need it.
  EXPECT_EQ(error_of([](auto& b, auto, auto o) { b.AddControlEdge(b.Op("NoOp", {}), o); }), "");
}

// What cannot be computed ahead, for whatever reason, is computed later.
TEST(BuilderErrors, AnEvaluationThatThrowsIsNone) {
  GraphBuilder b;
  b.FoldWith([](const OpDef&, const OpInstance&, std::vector<Tensor>) -> absl::StatusOr<std::vector<Tensor>> { throw std::runtime_error("no value"); });
  const Output negative = ops::Neg(b.Const(Tensor::Scalar(1.0f)));
  EXPECT_EQ(b.ConstantValue(negative), nullptr);
  EXPECT_TRUE(b.ok()) << b.status();
}

// A function that a node names as its op.
TEST(BuilderErrors, CallsByTheFunctionsName) {
  Graph graph;
  graph.set_library(std::make_shared<const Graph::Library>(Graph::Library{{"twice", Function{.name = "twice"}}}));
  ASSERT_TRUE(graph.AddNode(NodeOf("n", "twice", {}, {})).ok());
  EXPECT_THAT(std::string(GraphBuilder(std::move(graph)).status().message()), HasSubstr("node 'n' (twice): a builder takes no calls"));
}

}  // namespace
}  // namespace millrace
