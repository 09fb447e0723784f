#include "import/graph_file.h"

#include <filesystem>
#include <fstream>

#include <google/protobuf/text_format.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/fused_norm.h"
#include "graph/text.h"
#include "import/graph_export.h"
#include "import/graph_import.h"
#include "millrace/import.h"
#include "millrace/proto/saved_model.pb.h"
#include "millrace/status.h"

namespace millrace {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string DataPath(const std::string& name) { return MILLRACE_SOURCE_DIR "/tests/import/data/" + name; }

std::string TempPath(const std::string& name) { return ::testing::TempDir() + "/millrace_graph_file_" + name; }

void WriteFile(const std::string& path, const std::string& bytes) { std::ofstream(path, std::ios::binary) << bytes; }

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
}

std::string TextOf(const absl::StatusOr<Graph>& graph) {
  return graph.ok() ? GraphToText(*graph, {.max_tensor_elements = 1 << 20}) : std::string(graph.status().message());
}

// Error of a GraphDef in text form.
std::string ErrorOf(const std::string& pbtxt) {
  const absl::StatusOr<Graph> graph = GraphFromBytes(pbtxt);
  return graph.ok() ? "no error" : std::string(graph.status().message());
}

std::string Binary(const google::protobuf::Message& message) { return message.SerializeAsString(); }

template <typename Message>
Message FromText(const std::string& text) {
  Message message;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &message));
  return message;
}

constexpr const char* kSmall = R"(
  node { name: "a" op: "Const" attr { key: "dtype" value { type: DT_FLOAT } }
         attr { key: "value" value { tensor { dtype: DT_FLOAT tensor_shape { dim { size: 3 } } float_val: 1.5 } } } }
  node { name: "b" op: "Split" input: "later:1" input: "a" input: "^a" device: "/cpu:0"
         attr { key: "T" value { type: DT_FLOAT } } attr { key: "num_split" value { i: 1 } } }
  node { name: "later" op: "Unpack" input: "a" attr { key: "T" value { type: DT_FLOAT } } attr { key: "num" value { i: 2 } } attr { key: "axes" value { list {} } } }
  versions { producer: 42 })";
constexpr const char* kSmallText =
    "a = Const() {dtype=float, value=float[3]{1.5 ...}}\n"
    "b = Split(later:1, a) ^a {T=float, num_split=1} on \"/cpu:0\"\n"
    "later = Unpack(a) {T=float, axes=[], num=2}\n";

TEST(GraphFile, OldFilesWriteUnknownShapesAsScalars) {
  const std::string placeholder = R"(
    node { name: "x" op: "Placeholder" attr { key: "dtype" value { type: DT_FLOAT } } attr { key: "shape" value { shape { } } } })";
  const auto shape = [&](const std::string& versions) {
    const absl::StatusOr<Graph> graph = GraphFromBytes(placeholder + versions);
    return graph.ok() ? graph->node(graph->Find("x")).attrs.GetOr("shape", Shape({7})) : Shape({8});
  };
  EXPECT_EQ(shape("versions { producer: 21 }"), Shape::UnknownRank());
  EXPECT_EQ(shape("versions { producer: 22 }"), Shape());
  EXPECT_EQ(shape(""), Shape());
}

TEST(GraphFile, AProductOfSparseFactorsIsAProduct) {
  const absl::StatusOr<Graph> graph = GraphFromBytes(R"(
    node { name: "a" op: "Placeholder" attr { key: "dtype" value { type: DT_FLOAT } } }
    node { name: "b" op: "SparseMatMul" input: "a" input: "a" attr { key: "transpose_b" value { b: true } } }
    node { name: "c" op: "SparseMatMul" input: "a" input: "a" attr { key: "Ta" value { type: DT_BFLOAT16 } } })");
  ASSERT_TRUE(graph.ok()) << graph.status();
  const Node& product = graph->node(graph->Find("b"));
  EXPECT_EQ(product.op, "MatMul");
  EXPECT_TRUE(product.attrs.GetOr<bool>("transpose_b", false));
  EXPECT_EQ(graph->node(graph->Find("c")).op, "SparseMatMul") << "factors of mixed types are another product";
}

TEST(GraphFile, TextAndBinaryGiveTheSameGraph) {
  EXPECT_EQ(TextOf(GraphFromBytes(kSmall)), kSmallText);
  const absl::StatusOr<Graph> graph = GraphFromBytes(Binary(FromText<proto::GraphDef>(kSmall)));
  EXPECT_EQ(TextOf(graph), kSmallText);
  EXPECT_EQ(graph->producer_version, 42);
}

TEST(GraphFile, FullTypesOfTextAreReadByName) {
  const std::string typed = R"(node { name: "a" op: "NoOp" experimental_type { type_id: TFT_PRODUCT args { type_id: TFT_OPTIONAL
      args { type_id: TFT_TENSOR args { type_id: TFT_INT32 } } } args { type_id: TFT_LEGACY_VARIANT } } })";
  EXPECT_EQ(TextOf(GraphFromBytes(typed)), "a = NoOp()\n");
}

TEST(GraphFile, NodesOfEqualAttributesShareThemUntilOneChanges) {
  const std::string zeros = R"(op: "Zeros" attr { key: "n" value { i: 2 } } attr { key: "T" value { type: DT_FLOAT } })";
  const std::string text = "node { name: 'a' " + zeros + " } node { name: 'b' input: 'a' " + zeros + " } node { name: 'c' " +
                           zeros + " attr { key: 'of' value { s: 'c' } } }";
  absl::StatusOr<Graph> graph = GraphFromBytes(Binary(FromText<proto::GraphDef>(text)));
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_EQ(graph->node(NodeId{0}).attrs.Find("n"), graph->node(NodeId{1}).attrs.Find("n"));
  EXPECT_NE(graph->node(NodeId{0}).attrs.Find("n"), graph->node(NodeId{2}).attrs.Find("n"));
  graph->mutable_node(NodeId{0}).attrs.Set("n", int64_t{3});
  EXPECT_EQ(TextOf(graph), "a = Zeros() {T=float, n=3}\nb = Zeros(a) {T=float, n=2}\nc = Zeros() {T=float, n=2, of=\"c\"}\n");
}

TEST(GraphFile, FieldsOfANodeMayComeInAnyOrder) {
  const std::string attrs = Binary(FromText<proto::NodeDef>(R"(attr { key: "n" value { i: 2 } })"));
  const std::string name = Binary(FromText<proto::NodeDef>(R"(name: "x")")), op = Binary(FromText<proto::NodeDef>(R"(op: "Zeros")"));
  for (const std::string& node : {name + op + attrs, attrs + name + op, name + attrs + op, op + name + attrs}) {
    // As the message's first and as its second node of these attributes: field 1, its length, its bytes.
    const std::string field = "\x0a" + std::string(1, static_cast<char>(node.size())) + node;
    const std::string before = Binary(FromText<proto::GraphDef>(R"(node { name: "w" op: "Zeros" attr { key: "n" value { i: 2 } } })"));
    EXPECT_EQ(TextOf(GraphFromBytes(field)), "x = Zeros() {n=2}\n");
    EXPECT_EQ(TextOf(GraphFromBytes(before + field)), "w = Zeros() {n=2}\nx = Zeros() {n=2}\n");
  }
}

// What TensorFlow saves for the gradient is not the variance on every device.
TEST(GraphFile, ABatchNormThatIsGivenItsStatisticsIsWrittenAsOneThatComputesThem) {
  const absl::StatusOr<Graph> graph = ParseGraphText(R"(
x = Placeholder() {dtype=float, shape=shape[2,3,3,4]} : float[2,3,3,4]
c = Placeholder() {dtype=float, shape=shape[4]} : float[4]
none = Placeholder() {dtype=float, shape=shape[0]} : float[0]
y = FusedBatchNormV3(x, c, c, none, none) : float[2,3,3,4], float[4], float[4], float[4], float[4], float[]
y/recompute = FusedBatchNormV3(x, c, c, y:3, y:4) {is_training=false, _given_statistics=true} : float[2,3,3,4], float[4], float[4], float[4], float[4], float[]
)");
  ASSERT_TRUE(graph.ok()) << graph.status();
  proto::NodeDef proto;
  NodeToProto(*graph, graph->Find("y/recompute"), &proto);
  EXPECT_THAT(proto.input(), ::testing::ElementsAre("x", "c", "c", "none", "none"));
  for (const proto::AttrEntry& entry : proto.attr()) {
    EXPECT_NE(entry.key(), kGivenStatistics);
    if (entry.key() == "is_training") {
      EXPECT_TRUE(entry.value().b());
    }
  }
}

TEST(GraphFile, MetaGraphsAreRecognisedByContent) {
  proto::MetaGraphDef meta;
  *meta.mutable_graph_def() = FromText<proto::GraphDef>(kSmall);
  EXPECT_EQ(TextOf(GraphFromBytes(Binary(meta))), kSmallText);
  meta.mutable_meta_info_def()->set_tensorflow_version("2.21.0");
  meta.mutable_meta_info_def()->add_tags("serve");
  meta.mutable_saver_def()->set_filename_tensor_name("save/Const:0");
  EXPECT_EQ(TextOf(GraphFromBytes(Binary(meta))), kSmallText);
  EXPECT_EQ(TextOf(GraphFromBytes(meta.DebugString())), kSmallText);
}

// tf.train.Saver({"average": w}).
TEST(GraphFile, MetaGraphsTellWhatTheirSaverCallsVariables) {
  proto::MetaGraphDef meta;
  const absl::StatusOr<Graph> graph = ParseGraphText(R"(
file = Placeholder() {dtype=string, shape=shape[]}
w = VarHandleOp() {dtype=float, shape=shape[]}
names = Const() {dtype=string, value=string[1]{"average"}}
slices = Const() {dtype=string, value=string[1]{""}}
restore = RestoreV2(file, names, slices) {dtypes=[float]}
set = AssignVariableOp(w, restore) {dtype=float}
all = NoOp() ^set
)");
  ASSERT_TRUE(graph.ok()) << graph.status();
  *meta.mutable_graph_def() = *GraphToProto(*graph);
  meta.mutable_saver_def()->set_filename_tensor_name("file:0");
  meta.mutable_saver_def()->set_restore_op_name("all");
  const auto names_in = [](const std::string& bytes) -> absl::StatusOr<CheckpointNames> {
    MR_ASSIGN_OR_RETURN(const GraphWithSaver loaded, GraphWithSaverFromBytes(bytes));
    return SaverNames(loaded);
  };
  for (const std::string& bytes : {Binary(meta), meta.DebugString()}) {
    const absl::StatusOr<CheckpointNames> names = names_in(bytes);
    ASSERT_TRUE(names.ok()) << names.status();
    EXPECT_THAT(names->variables, testing::ElementsAre(std::pair("w", "average")));
  }
  EXPECT_TRUE(names_in(Binary(meta.graph_def()))->variables.empty()) << "a graph alone";
  meta.mutable_saver_def()->set_restore_op_name("of/another/graph");
  EXPECT_TRUE(names_in(Binary(meta))->variables.empty());
}

TEST(GraphFile, GraphOfOneNodeWithALibraryIsNotAMetaGraph) {
  const absl::StatusOr<Graph> graph = GraphFromBytes(Binary(FromText<proto::GraphDef>(R"(
    node { name: "x" op: "PartitionedCall" attr { key: "Tin" value { list { } } } attr { key: "Tout" value { list { } } }
           attr { key: "f" value { func { name: "f" } } } }
    library { function { signature { name: "f" } node_def { name: "n" op: "NoOp" } } })")));
  EXPECT_EQ(TextOf(graph), "function f\n  n = NoOp()\nend\nx = PartitionedCall() {Tin=[], Tout=[], f=&f}\n");
}

class RealGraph : public ::testing::TestWithParam<const char*> {};

TEST_P(RealGraph, WrittenAndReadAgainIsTheSame) {
  const absl::StatusOr<Graph> graph = LoadGraph(DataPath(GetParam()));
  ASSERT_TRUE(graph.ok()) << graph.status();
  for (const char* extension : {".pb", ".pbtxt"}) {
    const std::string path = TempPath(std::string(GetParam()) + extension);
    ASSERT_TRUE(SaveGraph(*graph, path).ok());
    const absl::StatusOr<Graph> again = LoadGraph(path);
    EXPECT_EQ(TextOf(again), TextOf(graph)) << path;
    EXPECT_EQ(again->producer_version, graph->producer_version);
    std::filesystem::remove(path);
  }
}

INSTANTIATE_TEST_SUITE_P(TensorFlow, RealGraph, ::testing::Values("mlp_ref.pb", "while_v1.pb", "while_v2.pb"));

TEST(GraphFile, DecisionsOfThePassesAreWrittenAsAttributes) {
  const absl::StatusOr<Graph> graph =
      ParseGraphText("x = NoOp() : float[2,?] @p3 @host # far apart\ny = SwapIn(x) @p4 @d1\n");
  ASSERT_TRUE(graph.ok());
  const absl::StatusOr<proto::GraphDef> proto = GraphToProto(*graph);
  ASSERT_TRUE(proto.ok());
  EXPECT_EQ(TextOf(GraphFromProto(*proto)),
            "x = NoOp() {_device=-1, _output_shapes=[shape[2,?]], _partition=3, _reason=\"far apart\"}\n"
            "y = SwapIn(x) {_device=1, _partition=4}\n");
}

TEST(GraphFile, DotShowsPartitionsSwapNodesAndReasons) {
  const std::string path = TempPath("graph.dot");
  const absl::StatusOr<Graph> graph = ParseGraphText(
      "x = Foo() : float[2] @p0\ny = SwapOut(x) ^x @p0 # not used for \"7\" partitions\nz = Bar(y)\n");
  ASSERT_TRUE(graph.ok());
  ASSERT_TRUE(SaveGraph(*graph, path).ok());
  EXPECT_THAT(ReadFile(path),
              AllOf(HasSubstr("subgraph cluster_0 {\n    label=\"partition 0\";\n    n0 "),
                    HasSubstr("n1 [label=\"y\\nSwapOut\", fillcolor=\"#e69f00\", tooltip=\"y: not used for \\\"7\\\" "
                              "partitions\"]"),
                    HasSubstr("n0 -> n1 [label=\"float[2]\"];"), HasSubstr("n0 -> n1 [style=dashed];"),
                    HasSubstr("fontsize=8];\n  n2 [")));
  std::filesystem::remove(path);
}

TEST(GraphFile, ErrorsSayWhatAndWhereAndWhatWasExpected) {
  EXPECT_EQ(ErrorOf(R"(node { name: "x" op: "A" input: "y" })"),
            "node 'x' takes input 'y:0', but there is no node 'y'");
  EXPECT_EQ(ErrorOf(R"(node { name: "x" op: "A" input: "^y" })"),
            "node 'x' takes input '^y', but there is no node 'y'");
  EXPECT_EQ(ErrorOf(R"(node { name: "x" op: "A" } node { name: "x" op: "B" })"), "two nodes are named 'x'");
  EXPECT_EQ(ErrorOf(R"(node { name: "x" op: "A" input: "z" } node { name: "y" op: "A" input: "x" }
                       node { name: "z" op: "A" input: "y" })"),
            "the graph has a cycle: 'y' -> 'z' -> 'x' -> 'y'; expected cycles only through NextIteration of a loop");
  EXPECT_EQ(ErrorOf(R"(node { name: "x" op: "A" input: "^x" })"),
            "the graph has a cycle: 'x' -> 'x'; expected cycles only through NextIteration of a loop");
  EXPECT_EQ(ErrorOf(R"(node { name: "x" op: "A" input: "y:-1" } node { name: "y" op: "A" })"),
            "node 'x' takes input 'y:-1', expected 'node', 'node:number' or '^node'");
  EXPECT_EQ(ErrorOf(R"(node { name: "a b" op: "A" })"),
            "a node is named 'a b', expected letters, digits and _ . - / \\ >");
  EXPECT_EQ(ErrorOf(R"(node { name: "x" })"), "node 'x' has no op");
  EXPECT_EQ(ErrorOf("node { nme: \"x\" }"),
            "line 1, column 11: Message type \"millrace.proto.NodeDef\" has no field named \"nme\".");
  EXPECT_EQ(ErrorOf(""), "empty, expected a GraphDef or MetaGraphDef, binary or text");
  EXPECT_EQ(ErrorOf("versions { producer: 1 }"), "no nodes, expected a GraphDef or MetaGraphDef, binary or text");
  EXPECT_THAT(ErrorOf("Hello, world"), StartsWith("not a graph"));
}

TEST(GraphFile, FileErrorsNameTheFile) {
  EXPECT_THAT(std::string(LoadGraph("/nowhere/g.pb").status().message()), HasSubstr("/nowhere/g.pb"));
  EXPECT_THAT(std::string(LoadGraph(::testing::TempDir()).status().message()), HasSubstr("is a folder"));
  const std::string path = TempPath("truncated.pb");
  const std::string whole = ReadFile(DataPath("mlp_ref.pb"));
  WriteFile(path, whole.substr(0, whole.size() / 2));
  EXPECT_THAT(std::string(LoadGraph(path).status().message()),
              AllOf(StartsWith(path + ": truncated or corrupt at byte "), EndsWith(" of " + std::to_string(whole.size() / 2))));
  std::filesystem::remove(path);
  EXPECT_THAT(std::string(SaveGraph(Graph(), "/nowhere/g.pb").message()), HasSubstr("/nowhere/g.pb"));
  for (const bool control : {false, true}) {
    absl::StatusOr<Graph> graph = ParseGraphText("x = Placeholder() {dtype=float, shape=shape[2]}\ny = Neg(x) {T=float}\n");
    ASSERT_TRUE(graph.ok());
    Node& y = graph->mutable_node(graph->Find("y"));
    if (control) y.control_inputs.push_back(NodeId{-1});
    if (!control) y.inputs[0].node = NodeId{99};
    for (const char* name : {"g.pb", "g.pbtxt", "g.dot"}) {
      EXPECT_THAT(std::string(SaveGraph(*graph, TempPath(name)).message()), HasSubstr("node 'y' has")) << name;
    }
  }
}

TEST(GraphFile, FilesOver2GiBAreRefusedByTheirSize) {
  const std::string path = TempPath("large.pb");
  WriteFile(path, "x");
  std::filesystem::resize_file(path, (int64_t{2} << 30) + 1);  // sparse: takes no room
  EXPECT_THAT(std::string(LoadGraph(path).status().message()), HasSubstr("expected at most 2 GiB"));
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace millrace
