#include "graph/text.h"

#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace millrace {
namespace {

using ::testing::HasSubstr;

std::string RoundTrip(const std::string& text) {
  const absl::StatusOr<Graph> graph = ParseGraphText(text);
  return graph.ok() ? GraphToText(*graph) : std::string(graph.status().message());
}

std::string ErrorOf(const std::string& text) {
  const absl::StatusOr<Graph> graph = ParseGraphText(text);
  return graph.ok() ? "no error" : std::string(graph.status().message());
}

TEST(GraphText, EveryPartOfANodeComesBack) {
  const std::string text =
      "init = NoOp()\n"
      "x = Placeholder() {dtype=float, shape=shape[2,?]}\n"
      "y = AddV2(x, split:1) ^init ^x {T=float} : float[2,3], int32[] @p3 @host on \"/cpu:0\" inplace(0<-1, 1<-0) "
      "# it is \\\"late\\\"\n"
      "split = Split(x, x) {num_split=2} @d1\n";
  EXPECT_EQ(RoundTrip(text), text);
}

TEST(GraphText, EveryAttributeKindComesBack) {
  const std::string text =
      "a = Op() {b=true, e=[], f=1.5, fs=[0.1, 1e+30, -inf, nan, 2.0], fn=&body{T=float, n=3}, fns=[&f, &g], i=-7, "
      "is=[1, 2], none=none, p=$T, s=\"a\\\"\\n\\xff\", sh=shape[], shs=[shape[1,?], shape<unknown>], ss=[\"x\", \"\"], "
      "t=float, t2=type(101), ts=[float, int32], z=[false, true]}\n";
  const absl::StatusOr<Graph> graph = ParseGraphText(text);
  ASSERT_TRUE(graph.ok()) << graph.status();
  const AttrMap& attrs = graph->node(NodeId{0}).attrs;
  EXPECT_EQ(attrs.size(), 18);
  EXPECT_EQ(attrs.GetOr<std::string>("s", ""), "a\"\n\xff");
  EXPECT_EQ(attrs.GetOr<std::vector<float>>("fs", {})[0], 0.1f);
  EXPECT_EQ(attrs.GetOr<FunctionRef>("fn", {}).attrs->GetOr<int64_t>("n", 0), 3);
  const std::string printed = GraphToText(*graph);
  EXPECT_EQ(RoundTrip(printed), printed);
}

TEST(GraphText, EmptyListReadsAsAnyList) {
  const absl::StatusOr<Graph> graph = ParseGraphText("a = Op() {e=[]}\n");
  ASSERT_TRUE(graph.ok());
  const AttrMap& attrs = graph->node(NodeId{0}).attrs;
  EXPECT_TRUE(attrs.Get<std::vector<DataType>>("e").ok());
  EXPECT_TRUE(attrs.GetOr<std::vector<std::string>>("e", {"fallback"}).empty());
  EXPECT_FALSE(attrs.Get<int64_t>("e").ok());
}

TEST(GraphText, TensorsOfEveryTypeComeBack) {
  const std::string text =
      "a = Const() {value=float[2]{0.5, -1.0}}\n"
      "b = Const() {value=int64[]{-9223372036854775808}}\n"
      "c = Const() {value=uint64[1]{18446744073709551615}}\n"
      "d = Const() {value=bool[2]{true, false}}\n"
      "e = Const() {value=string[2]{\"a, b\", \"}\"}}\n"
      "f = Const() {value=half[2]{0.5, 65504.0}}\n"
      "g = Const() {value=bfloat16[2]{1.0, 3.140625}}\n"
      "h = Const() {value=complex64[2]{(1.0, 2.0), (0.0, -1.5)}}\n"
      "i = Const() {value=float[1000,1000]{0.25 ...}}\n"
      "j = Const() {value=double[0,3]{}}\n"
      "k = Const() {value=int8[2]{-128, 127}}\n"
      "l = Const() {value=float8_e5m2[4]{0.5, -57344.0, inf, 1.5258789e-05}}\n"
      "m = Const() {value=float8_e4m3fn[3]{1.125, -448.0, nan}}\n";
  EXPECT_EQ(RoundTrip(text), text);
}

TEST(GraphText, LargeTensorsPrintADigestThatIsRefusedWhenRead) {
  const absl::StatusOr<Graph> graph = ParseGraphText("a = Const() {value=int32[3]{1, 2, 3}}\n");
  ASSERT_TRUE(graph.ok());
  const std::string text = GraphToText(*graph, {.max_tensor_elements = 2});
  EXPECT_THAT(text, HasSubstr("value=int32[3]#"));
  EXPECT_THAT(ErrorOf(text), HasSubstr("printed as a digest"));
}

TEST(GraphText, FunctionsComeBackWithArgumentsResultsAndControlResults) {
  const std::string text =
      "function f {_n=1} ^effect\n"
      "  a = _Arg() {T=float, index=0}\n"
      "  b = _Arg() {T=$U, index=1}\n"
      "  effect = NoOp()\n"
      "  r = _Retval(b) {T=float, index=0}\n"
      "end\n"
      "function g\n"
      "end\n"
      "x = PartitionedCall() {f=&f}\n";
  EXPECT_EQ(RoundTrip(text), text);
  const absl::StatusOr<Graph> graph = ParseGraphText(text);
  ASSERT_TRUE(graph.ok());
  const Function& f = graph->library()->at("f");
  EXPECT_THAT(f.arg_names, ::testing::ElementsAre("a", "b"));
  EXPECT_THAT(f.arg_types, ::testing::ElementsAre(DataType::kFloat, DataType::kInvalid));
  EXPECT_THAT(f.ret_names, ::testing::ElementsAre("r"));
  EXPECT_THAT(f.control_rets, ::testing::ElementsAre("effect"));
}

TEST(GraphText, CommentsAndBlankLinesAreSkipped) {
  EXPECT_EQ(RoundTrip("# a comment\n\n  a = NoOp()   \n"), "a = NoOp()\n");
}

TEST(GraphText, OddNamesAreQuoted) {
  const std::string text = "\"a b:c\" = NoOp()\nd = NoOp() ^\"a b:c\"\n";
  EXPECT_EQ(RoundTrip(text), text);
}

TEST(GraphText, ErrorsNameTheLineAndWhatWasExpected) {
  EXPECT_EQ(ErrorOf("a = NoOp()\nb = Neg(c)\n"),
            "line 2: node 'b' takes input 'c', but there is no node of that name");
  EXPECT_EQ(ErrorOf("a = NoOp(\n"), "line 1: expected a name, found ''");
  EXPECT_EQ(ErrorOf("a = NoOp()\na = NoOp()\n"), "line 2: two nodes are named 'a'");
  EXPECT_THAT(ErrorOf("a = Op() {x=1, x=2}"), HasSubstr("attribute 'x' is given twice"));
  EXPECT_THAT(ErrorOf("a = Op() {x=[1, 2.0]}"), HasSubstr("list elements of one type"));
  EXPECT_THAT(ErrorOf("a = Op() {x=int8[1]{300}}"), HasSubstr("expected a int8 instead of '300'"));
  EXPECT_THAT(ErrorOf("a = Op() extra"), HasSubstr("expected the end of the line, found 'extra'"));
  EXPECT_THAT(ErrorOf("function f\na = NoOp()\n"), HasSubstr("expected 'end' of function 'f'"));
  EXPECT_THAT(ErrorOf("function f ^gone\nend\n"), HasSubstr("control result 'gone'"));
}

TEST(GraphText, EveryPrefixIsReadOrRefused) {
  const std::string text =
      "function f ^e\n  e = NoOp()\nend\n"
      "y = AddV2(x, x:1) ^f {T=float, v=float[2]{0.5, 1.0}, g=&f{T=int32}} : float[2] @p3 on \"/cpu:0\" # why\n"
      "x = Op() {s=shape[2,?], l=[\"a\", \"\\x01\"]}\nf = NoOp()\n";
  ASSERT_TRUE(ParseGraphText(text).ok());
  int refused = 0;
  for (size_t length = 0; length < text.size(); ++length) refused += !ParseGraphText(text.substr(0, length)).ok();
  EXPECT_GT(refused, static_cast<int>(text.size()) / 2);
}

}  // namespace
}  // namespace millrace
