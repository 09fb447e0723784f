#include "cli/feeds.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/exit_status.h"
#include "cli/graph_facts.h"
#include "graph/graph_summary.h"
#include "graph/text.h"
#include "testlib/logged.h"

namespace millrace::cli {
namespace {

using testing::HasSubstr;

NodeId Add(Graph& graph, const char* name, const char* op, std::vector<OutputRef> inputs = {}) {
  Node node;
  node.name = name;
  node.op = op;
  node.inputs.assign(inputs.begin(), inputs.end());
  return *graph.AddNode(std::move(node));
}

NodeId AddPlaceholder(Graph& graph, const char* name, DataType dtype, Shape shape) {
  const NodeId id = Add(graph, name, "Placeholder");
  graph.mutable_node(id).attrs.Set("dtype", dtype);
  graph.mutable_node(id).attrs.Set("shape", shape);
  return id;
}

// x [2,3] and unknown-shape y feed f; z feeds only g.
Graph ExampleGraph() {
  Graph graph;
  const NodeId x = AddPlaceholder(graph, "x", DataType::kFloat, Shape({2, 3}));
  const NodeId y = AddPlaceholder(graph, "y", DataType::kInt64, Shape({-1}));
  const NodeId z = AddPlaceholder(graph, "z", DataType::kFloat, Shape::UnknownRank());
  Add(graph, "f", "Mul", {{x, 0}, {y, 0}});
  Add(graph, "g", "Relu", {{z, 0}});
  return graph;
}

TEST(FeedShapesTest, ParsesShapesByName) {
  const auto shapes = ParseFeedShapes("images:8x224x224x3,labels:8,rate:,empty:0");
  ASSERT_TRUE(shapes.ok()) << shapes.status();
  EXPECT_EQ(shapes->at("images"), Shape({8, 224, 224, 3}));
  EXPECT_EQ(shapes->at("labels"), Shape({8}));
  EXPECT_EQ(shapes->at("rate"), Shape());
  EXPECT_EQ(shapes->at("empty"), Shape({0}));
  EXPECT_EQ(ParseFeedShapes("it:1:8x3")->at("it:1"), Shape({8, 3}));
  EXPECT_TRUE(ParseFeedShapes("")->empty());
}

TEST(FeedShapesTest, MalformedShapesAreWrongUsage) {
  for (const char* text : {"x", ":3", "x:3x-1", "x:3xx4", "x:3x", "x:3xabc", "x:3,x:4", "x=3", "x:99999999999999999999"}) {
    EXPECT_EQ(ExitStatus(ParseFeedShapes(text).status()), kExitUsage) << text;
  }
}

TEST(SyntheticFeedsTest, CoverThePlaceholdersThatTheFetchesNeed) {
  const auto types = SyntheticFeedTypes(ExampleGraph(), {"f:0"}, {}, {{"y", Shape({3})}}, {});
  ASSERT_TRUE(types.ok()) << types.status();
  ASSERT_EQ(types->size(), 2);
  EXPECT_EQ(types->at("x").ToString(), "float[2,3]");
  EXPECT_EQ(types->at("y").ToString(), "int64[3]");
}

TEST(SyntheticFeedsTest, CoverPlaceholdersOfTheSecondVersion) {
  Graph graph = ExampleGraph();
  graph.mutable_node(NodeId{0}).op = "PlaceholderV2";
  const auto types = SyntheticFeedTypes(graph, {"f:0"}, {}, {{"y", Shape({3})}}, {});
  ASSERT_TRUE(types.ok()) << types.status();
  EXPECT_EQ(types->at("x").ToString(), "float[2,3]");
}

// What makes elements is not needed when they are fed; an element that nothing takes is not fed.
TEST(SyntheticFeedsTest, StandInForWhatInputPipelinesHandOver) {
  const absl::StatusOr<Graph> graph = ParseGraphText(R"(
handle = Placeholder() {dtype=string, shape=shape[]}
from = IteratorFromStringHandle(handle)
it = IteratorGetNext(from) {output_types=[float, int64, int32], output_shapes=[shape[?,3], shape[?], shape[4]]}
queue = FIFOQueueV2() {component_types=[float], shapes=[shape[2,2]]}
count = Const() {dtype=int32, value=int32[]{8}}
many = QueueDequeueManyV2(queue, count) {component_types=[float]}
one = QueueDequeueV2(queue) {component_types=[float]}
staged = Unstage() {dtypes=[float, int32]}
y = AddN(it, it:2, many, one)
x = AddN(staged:1)
z = Neg(it:1)
)");
  ASSERT_TRUE(graph.ok()) << graph.status();
  const auto types = SyntheticFeedTypes(*graph, {"y", "it:2"}, {}, {{"it", Shape({5, 3})}}, {});
  ASSERT_TRUE(types.ok()) << types.status();
  EXPECT_EQ(types->size(), 4);
  EXPECT_EQ(types->at("it").ToString(), "float[5,3]");
  EXPECT_EQ(types->at("it:2").ToString(), "int32[4]");
  EXPECT_EQ(types->at("many").ToString(), "float[8,2,2]");
  EXPECT_EQ(types->at("one").ToString(), "float[2,2]");
  EXPECT_THAT(std::string(SyntheticFeedTypes(*graph, {"z"}, {}, {}, {}).status().message()), HasSubstr("it:1 int64[?]"));
  EXPECT_EQ(SyntheticFeedTypes(*graph, {"z"}, {}, {{"it:1", Shape({7})}}, {})->at("it:1").ToString(), "int64[7]");
  EXPECT_TRUE(SyntheticFeedTypes(*graph, {"y"}, {"z"}, {}, {{"it:0", {}}, {"it:1", {}}}).ok());
  EXPECT_EQ(SyntheticFeedTypes(*graph, {"x"}, {}, {{"staged:1", Shape({7})}}, {})->at("staged:1").ToString(), "int32[7]");
  EXPECT_EQ(SyntheticFeedTypes(*graph, {"z"}, {}, {{"it:3", Shape({7})}}, {}).status().code(), absl::StatusCode::kNotFound);
}

// All parts of an Optional, since the node that makes it is taken as a whole.
TEST(SyntheticFeedsTest, StandInForTheElementsOfAnOptional) {
  const absl::StatusOr<Graph> graph = ParseGraphText(R"(
it = IteratorV2()
next = IteratorGetNextAsOptional(it) {output_types=[float, int64], output_shapes=[shape[?,3], shape[]]}
has = OptionalHasValue(next)
)");
  ASSERT_TRUE(graph.ok()) << graph.status();
  const auto types = SyntheticFeedTypes(*graph, {"has"}, {}, {{"next", Shape({5, 3})}}, {});
  ASSERT_TRUE(types.ok()) << types.status();
  EXPECT_EQ(types->size(), 2);
  EXPECT_EQ(types->at("next").ToString(), "float[5,3]");
  EXPECT_EQ(types->at("next:1").ToString(), "int64[]");
  EXPECT_EQ(SyntheticFeedTypes(*graph, {"has"}, {}, {}, {{"next:0", {}}})->size(), 1);
}

TEST(SyntheticFeedsTest, NothingBehindWhatAFileGivesIsNeeded) {
  const absl::StatusOr<Graph> graph = ParseGraphText(R"(
s = Placeholder() {dtype=string, shape=shape[?]}
read = ReadFile(s)
y = Identity(read) {T=string}
)");
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_FALSE(SyntheticFeedTypes(*graph, {"y"}, {}, {}, {}).ok());
  const auto types = SyntheticFeedTypes(*graph, {"y"}, {}, {}, {{"read:0", {}}});
  ASSERT_TRUE(types.ok()) << types.status();
  EXPECT_TRUE(types->empty());
}

// The value of h is given; that it runs is asked by y.
TEST(SyntheticFeedsTest, CoverWhatRunsThoughItsValueIsGiven) {
  const absl::StatusOr<Graph> graph = ParseGraphText(R"(
x = Placeholder() {dtype=float, shape=shape[2]}
h = Relu(x) {T=float}
z = Const() {dtype=float, value=float[]{2}}
y = Mul(h, z) ^h {T=float}
)");
  ASSERT_TRUE(graph.ok()) << graph.status();
  const auto types = SyntheticFeedTypes(*graph, {"y"}, {}, {}, {{"h", {DataType::kFloat, Shape({2})}}});
  ASSERT_TRUE(types.ok()) << types.status();
  EXPECT_EQ(types->count("x"), 1);
}

TEST(SyntheticFeedsTest, LeaveOutWhatAFileGives) {
  const auto types = SyntheticFeedTypes(ExampleGraph(), {"f"}, {}, {}, {{"y:0", {}}});
  ASSERT_TRUE(types.ok()) << types.status();
  EXPECT_EQ(types->count("x"), 1);
  EXPECT_EQ(types->count("y"), 0);
}

TEST(SyntheticFeedsTest, NameAllPlaceholdersOfUnknownShapeAtOnce) {
  const auto types = SyntheticFeedTypes(ExampleGraph(), {"f"}, {"g"}, {}, {});
  EXPECT_EQ(types.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(types.status().message()), HasSubstr("y int64[?], z float<unknown>"));
}

TEST(SyntheticFeedsTest, NameShapesOfNoPlaceholder) {
  EXPECT_EQ(SyntheticFeedTypes(ExampleGraph(), {"f"}, {}, {{"f", Shape()}}, {}).status().code(),
            absl::StatusCode::kNotFound);
  EXPECT_FALSE(SyntheticFeedTypes(ExampleGraph(), {"nope"}, {}, {}, {}).ok());
}

// z is of no use to f, a file gives y.
TEST(SyntheticFeedsTest, WarnOfShapesThatMakeNothing) {
  const std::map<std::string, Shape> shapes = {{"x", Shape({2, 3})}, {"y", Shape({3})}, {"z", Shape({4})}};
  Logged told(google::GLOG_WARNING);
  EXPECT_TRUE(SyntheticFeedTypes(ExampleGraph(), {"f"}, {}, shapes, {{"y:0", {DataType::kInt64, Shape({3})}}}).ok());
  EXPECT_THAT(told.lines, testing::ElementsAre("--feed_shapes has no effect on y: --feeds gives it",
                                               "--feed_shapes has no effect on z: the step does not need it"));
  EXPECT_EQ(SyntheticFeedTypes(ExampleGraph(), {"f"}, {}, shapes, {{"y", {DataType::kInt64, Shape({5})}}}).status().message(),
            "--feed_shapes: y is int64[5] in the file of --feeds, expected [3]");
}

TEST(SyntheticFeedsTest, SameSeedSameBitsAndValuesInRange) {
  const Session::FeedTypes types = {{"x", {DataType::kFloat, Shape({1000})}}, {"y", {DataType::kInt64, Shape({1000})}}};
  const auto one = SyntheticFeeds(types, 7), two = SyntheticFeeds(types, 7), other = SyntheticFeeds(types, 8);
  ASSERT_TRUE(one.ok() && two.ok() && other.ok());
  EXPECT_TRUE(one->at("x").BitEqual(two->at("x")));
  EXPECT_FALSE(one->at("x").BitEqual(other->at("x")));
  double sum = 0, labels = 0;
  for (int i = 0; i < 1000; ++i) {
    EXPECT_GE(one->at("x").DoubleAt(i), -1);
    EXPECT_LT(one->at("x").DoubleAt(i), 1);
    sum += one->at("x").DoubleAt(i);
    labels += one->at("y").DoubleAt(i);
    EXPECT_TRUE(one->at("y").IntAt(i) == 0 || one->at("y").IntAt(i) == 1);
  }
  EXPECT_NEAR(sum / 1000, 0, 0.1);
  EXPECT_NEAR(labels / 1000, 0.5, 0.1);
}

TEST(SyntheticFeedsTest, RefuseWhatNoMachineHolds) {
  const int64_t huge = int64_t{1} << 40;
  EXPECT_EQ(SyntheticFeeds({{"x", {DataType::kFloat, Shape({huge, huge})}}}, 0).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(GraphFactsTest, CountEdgesLevelsAndUnsupportedOps) {
  Graph graph = ExampleGraph();
  graph.mutable_node(graph.Find("g")).control_inputs.push_back(graph.Find("f"));
  EXPECT_EQ(SummaryOf(graph).nodes, 5);
  EXPECT_EQ(SummaryOf(graph).edges, 4);
  EXPECT_EQ(*Levels(graph), 3);
  OpRegistry ops;
  OpDef placeholder;
  placeholder.name = "Placeholder";
  placeholder.shape = [](InferenceContext&) { return absl::OkStatus(); };
  ASSERT_TRUE(ops.Register(placeholder).ok());
  EXPECT_THAT(UnsupportedOps(OpCounts(graph), ops),
              testing::ElementsAre(testing::Pair("Mul", 1), testing::Pair("Relu", 1)));
}

TEST(GraphFactsTest, LevelsGoThroughALoopOnce) {
  Graph graph;
  Add(graph, "enter", "Enter");
  const NodeId merge = Add(graph, "merge", "Merge", {{graph.Find("enter"), 0}});
  const NodeId next = Add(graph, "next", "NextIteration", {{Add(graph, "body", "Identity", {{merge, 0}}), 0}});
  graph.mutable_node(merge).inputs.push_back({next, 0});
  const auto levels = Levels(graph);
  ASSERT_TRUE(levels.ok()) << levels.status();
  EXPECT_EQ(*levels, 4);
  graph.mutable_node(next).op = "Identity";
  EXPECT_FALSE(Levels(graph).ok());
}

TEST(GraphFactsTest, CountsWhatCalledFunctionsHoldOnce) {
  auto inner = std::make_shared<Graph>(), outer = std::make_shared<Graph>();
  Add(*inner, "a", "_Arg");
  Add(*inner, "p", "Pow");
  Add(*outer, "call", "inner");
  Add(*outer, "again", "inner");
  auto library = std::make_shared<Graph::Library>();
  (*library)["inner"].body = inner;
  (*library)["outer"].body = outer;
  (*library)["unused"].body = inner;
  Graph graph;
  const NodeId call = Add(graph, "c", "StatefulPartitionedCall");
  graph.mutable_node(call).attrs.Set("f", FunctionRef{"outer", nullptr});
  graph.mutable_node(Add(graph, "elsewhere", "RemoteCall")).attrs.Set("f", FunctionRef{"inner", nullptr});
  Add(graph, "r", "Relu");
  graph.set_library(library);
  EXPECT_THAT(OpCounts(graph), testing::ElementsAre(testing::Pair("Pow", 1), testing::Pair("Relu", 1)));
}

TEST(GraphFactsTest, ParametersAreWhatAnOptimizerUpdates) {
  Graph graph;
  const auto variable = [&](const char* name, int64_t elements) {
    const NodeId id = Add(graph, name, "VarHandleOp");
    graph.mutable_node(id).attrs.Set("dtype", DataType::kFloat);
    graph.mutable_node(id).attrs.Set("shape", Shape({elements}));
    return id;
  };
  const NodeId w = variable("w", 10), momentum = variable("momentum", 10);
  variable("moving_mean", 3);
  EXPECT_EQ(SummaryOf(graph).parameter_bytes, 92);
  Add(graph, "update", "ResourceApplyMomentum", {{w, 0}, {momentum, 0}});
  EXPECT_EQ(SummaryOf(graph).parameter_bytes, 40);
}

}  // namespace
}  // namespace millrace::cli
