#include <fstream>

#include <google/protobuf/text_format.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/text.h"
#include "import/graph_export.h"
#include "import/graph_file.h"
#include "import/graph_import.h"
#include "import/op_outputs.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;

std::string ReadData(const std::string& name) {
  std::ifstream file(MILLRACE_SOURCE_DIR "/tests/import/data/" + name, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
}

// Text form of a graph with this library and one node.
std::string Import(const std::string& library) {
  const absl::StatusOr<Graph> graph =
      GraphFromBytes("node { name: 'x' op: 'NoOp' } library { " + library + " }");
  return graph.ok() ? GraphToText(*graph) : std::string(graph.status().message());
}

TEST(Functions, NamedOutputsBecomeOutputNumbers) {
  const absl::StatusOr<Graph> graph = GraphFromBytes(ReadData("functions.pb"));
  ASSERT_TRUE(graph.ok()) << graph.status();
  ASSERT_EQ(graph->library()->size(), 1);
  const Function& function = graph->library()->begin()->second;
  const std::string text = GraphToText(*function.body, {.attrs = false});
  // top_k has outputs values and indices; split one list of three.
  EXPECT_THAT(text, HasSubstr("add = AddV2(TopKV2, add/y)\n"));
  EXPECT_THAT(text, HasSubstr("(TopKV2:1)"));
  EXPECT_THAT(text, HasSubstr("mul = Mul(split:1, split:2)\n"));
  EXPECT_THAT(text, HasSubstr("add_1 = AddV2(mul, split)\n"));
  EXPECT_THAT(function.arg_types, ::testing::ElementsAre(DataType::kFloat, DataType::kResource));
  EXPECT_EQ(function.ret_types.size(), 3);
  EXPECT_THAT(function.control_rets, ::testing::Contains("AssignAddVariableOp"));
}

TEST(Functions, ArgumentsCarryTheirAttributes) {
  EXPECT_EQ(Import(R"(function {
      signature { name: 'f' input_arg { name: 'a' type: DT_FLOAT } input_arg { name: 'v' type_attr: 'T' }
                  output_arg { name: 'r' type: DT_FLOAT } control_output: 'done' }
      arg_attr { key: 1 value { attr { key: 'user' value { s: 'name' } } } }
      resource_arg_unique_id { key: 1 value: 7 }
      node_def { name: 'n' op: 'Split' input: 'a' input: '^v' attr { key: 'T' value { placeholder: 'T' } }
                 attr { key: 'num_split' value { i: 3 } } }
      ret { key: 'r' value: 'n:output:2' } control_ret { key: 'done' value: 'n' } })"),
            "function f ^n\n"
            "  a = _Arg() {T=float, index=0}\n"
            "  v = _Arg() {T=$T, _resource_arg_unique_id=7, index=1, user=\"name\"}\n"
            "  n = Split(a) ^v {T=$T, num_split=3}\n"
            "  r = _Retval(n:2) {T=float, index=0}\n"
            "end\nx = NoOp()\n");
}

TEST(Functions, AResultMayShareANodesName) {
  const std::string proto = R"(function {
      signature { name: 'f' output_arg { name: 'n' type: DT_FLOAT } }
      node_def { name: 'n' op: 'Foo' } ret { key: 'n' value: 'n:output:0' } })";
  const absl::StatusOr<Graph> graph = GraphFromBytes("node { name: 'x' op: 'NoOp' } library { " + proto + " }");
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_THAT(graph->library()->at("f").ret_names, ::testing::ElementsAre("n"));
  const absl::StatusOr<proto::GraphDef> written = GraphToProto(*graph);
  ASSERT_TRUE(written.ok());
  EXPECT_EQ(written->library().function(0).ret(0).key(), "n");
  EXPECT_EQ(written->library().function(0).ret(0).value(), "n:output:0");
}

TEST(Functions, CallsByNameUseTheResultsOfTheSignature) {
  EXPECT_THAT(Import(R"(
      function { signature { name: 'f' output_arg { name: 'r' type: DT_FLOAT } }
                 node_def { name: 'call' op: 'g' } ret { key: 'r' value: 'call:second:0' } }
      function { signature { name: 'g' output_arg { name: 'first' type: DT_FLOAT }
                             output_arg { name: 'second' type: DT_FLOAT } }
                 node_def { name: 'n' op: 'Foo' } ret { key: 'first' value: 'n:y:0' }
                 ret { key: 'second' value: 'n:y:1' } })"),
              HasSubstr("r = _Retval(call:1)"));
}

TEST(Functions, GradientsThatTheLibraryNamesAreAttributesOfTheirFunctions) {
  EXPECT_EQ(Import("function { signature { name: 'f' } } function { signature { name: 'df' } } "
                   "gradient { function_name: 'f' gradient_func: 'df' } gradient { function_name: 'elsewhere' gradient_func: 'df' }"),
            "function df\nend\nfunction f {_gradient_func=&df}\nend\nx = NoOp()\n");
}

TEST(Functions, ErrorsNameTheFunctionAndTheNode) {
  EXPECT_EQ(Import("function { signature { name: 'f' } node_def { name: 'n' op: 'Foo' input: 'gone:y:0' } }"),
            "function 'f': 'n' takes input 'gone:y:0', but there is no node or argument 'gone'");
  EXPECT_EQ(Import("function { signature { name: 'f' } node_def { name: 'n' op: 'Foo' input: '^gone' } }"),
            "function 'f': node 'n' takes input '^gone', but there is no such node");
  EXPECT_EQ(Import("function { signature { name: 'f' } node_def { name: 'k' op: 'TopKV2' attr { key: 'T' value { type: DT_FLOAT } } } "
                   "node_def { name: 'n' op: 'Foo' input: 'k:ranks:0' } }"),
            "function 'f': node 'k' (TopKV2) has no output 'ranks:0'");
  EXPECT_EQ(Import("function { signature { name: 'f' output_arg { name: 'r' } } }"),
            "function 'f': result 'r' has no tensor of the body");
  EXPECT_EQ(Import("function { signature { name: 'f' } control_ret { key: 'c' value: 'gone' } }"),
            "function 'f': control result 'gone' is not a node of its body");
  EXPECT_EQ(Import("function { signature { name: 'f' input_arg { name: 'a' number_attr: 'N' } } }"),
            "function 'f': argument 'a' is a list, expected one tensor");
  EXPECT_EQ(Import("function { signature { name: 'f' } } function { signature { name: 'f' } }"),
            "two functions are named 'f'");
  EXPECT_EQ(Import("function { signature { name: 'f' } node_def { name: 'n' op: 'Foo' input: 'n:y:0' } }"),
            "function 'f': the graph has a cycle: 'n' -> 'n'; expected cycles only through NextIteration of a loop");
}

TEST(OpOutputs, NumbersAndNamesAreInverse) {
  Node node;
  node.name = "n";
  node.op = "CTCBeamSearchDecoder";  // three lists of top_paths, then one tensor
  node.attrs.Set("top_paths", int64_t{2});
  const Graph::Library none;
  const std::vector<std::string> names = {"decoded_indices:0", "decoded_indices:1", "decoded_values:0",
                                          "decoded_values:1",  "decoded_shape:0",   "decoded_shape:1",
                                          "log_probability:0"};
  for (size_t i = 0; i < names.size(); ++i) {
    EXPECT_EQ(OutputName(node, none, static_cast<int32_t>(i)).value(), names[i]);
    const std::string name = names[i].substr(0, names[i].find(':'));
    EXPECT_EQ(OutputNumber(node, none, name, names[i].back() - '0').value(), static_cast<int32_t>(i));
  }
  EXPECT_FALSE(OutputName(node, none, 7).ok());
  EXPECT_FALSE(OutputNumber(node, none, "decoded_indices", 2).ok());
  node.attrs.Erase("top_paths");
  EXPECT_THAT(std::string(OutputNumber(node, none, "log_probability", 0).status().message()),
              HasSubstr("has no attribute 'top_paths'"));
}

TEST(GraphBytes, EveryTruncationIsReadOrRefused) {
  for (const char* name : {"functions.pb", "every_attr.pb", "small.meta"}) {
    const std::string whole = ReadData(name);
    ASSERT_TRUE(GraphFromBytes(whole).ok()) << name;
    int refused = 0;
    for (size_t length = 0; length < whole.size(); ++length) refused += !GraphFromBytes(whole.substr(0, length)).ok();
    EXPECT_GT(refused, static_cast<int>(whole.size()) * 9 / 10) << name;
  }
}

// A length-delimited field of a message.
std::string Field(int number, const std::string& payload) {
  std::string bytes(1, static_cast<char>(number << 3 | 2));
  size_t size = payload.size();
  for (; size >= 0x80; size >>= 7) bytes.push_back(static_cast<char>(size | 0x80));
  bytes.push_back(static_cast<char>(size));
  return bytes + payload;
}

TEST(GraphBytes, DeepNestingIsRefusedRatherThanOverflowingTheStack) {
  std::string text = "node { name: 'x' op: 'Foo' attr { key: 'f' value {";
  for (int i = 0; i < 100000; ++i) text += " func { attr { value {";
  EXPECT_FALSE(GraphFromBytes(text).ok());
  std::string value;  // an AttrValue in an entry of a NameAttrList in an AttrValue …
  for (int i = 0; i < 2000; ++i) value = Field(10, Field(2, Field(2, value)));
  const std::string node = Field(1, "x") + Field(2, "Foo") + Field(5, Field(1, "f") + Field(2, value));
  EXPECT_FALSE(GraphFromBytes(Field(1, node)).ok());
  const std::string shallow = Field(1, "x") + Field(2, "Foo") + Field(5, Field(1, "f") + Field(2, Field(10, "")));
  EXPECT_TRUE(GraphFromBytes(Field(1, shallow)).ok());
}

}  // namespace
}  // namespace millrace
