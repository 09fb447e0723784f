#include "passes/control_flow/inline_functions.h"

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "graph/text.h"
#include "graph/verify.h"
#include "passes/rewrite/prune.h"
#include "testlib/golden.h"

namespace millrace {
namespace {

std::string Inline(const GoldenCase& golden) {
  absl::StatusOr<Graph> graph = ParseGraphText(golden.input);
  if (!graph.ok()) return absl::StrCat(graph.status().message(), "\n");
  const std::string before = GraphToText(*graph);
  const absl::StatusOr<InlineResult> result = InlineFunctions(*graph, OpRegistry(), 1000);
  if (!result.ok()) return absl::StrCat(result.status().message(), "\n");
  EXPECT_EQ(result->changed, before != GraphToText(*graph)) << "the pass must say whether it changed the graph";
  EXPECT_TRUE(VerifyGraph(*graph).ok()) << VerifyGraph(*graph);
  const std::string effects =
      result->effects.empty() ? "" : absl::StrCat("effects ", absl::StrJoin(result->effects, " "), "\n");
  const std::string library = result->changed ? "" : "unchanged\n";
  graph->set_library(nullptr);
  return absl::StrCat(library, effects, GraphToText(*graph));
}

class InlineGolden : public ::testing::TestWithParam<std::string> {};

TEST_P(InlineGolden, TextIsAsExpected) { CheckGolden(GetParam(), Inline); }

std::string CaseName(const ::testing::TestParamInfo<std::string>& info) {
  std::string name = info.param.substr(info.param.rfind('/') + 1);
  return name.substr(0, name.find('.'));
}

INSTANTIATE_TEST_SUITE_P(Inline, InlineGolden, ::testing::ValuesIn(GoldenFiles("inline")), CaseName);

TEST(InlineFunctions, AnOpOfTheRegistryIsNotACallByName) {
  absl::StatusOr<Graph> graph = ParseGraphText("function Neg\n  n = NoOp()\nend\nx = Neg()\n");
  ASSERT_TRUE(graph.ok());
  OpRegistry ops;
  ASSERT_TRUE(ops.Register({.name = "Neg", .shape = [](InferenceContext&) { return absl::OkStatus(); }}).ok());
  EXPECT_FALSE(InlineFunctions(*graph, ops, 1000)->changed);
  EXPECT_TRUE(InlineFunctions(*graph, OpRegistry(), 1000)->changed);
}

// Calls of function Any, of (int32) -> int32, in whose place Cpu may stand; the op of the body that was taken.
std::string TakenOf(const std::string& interface_of_cpu, const std::string& type_of_cpu, bool any_has_a_gradient) {
  const auto function = [](const std::string& name, const std::string& op, const std::string& type) {
    return absl::StrCat("function ", name, "\n  a = _Arg() {T=", type, ", index=0}\n  y = ", op, "(a) {T=", type, "}\n",
                        "  r = _Retval(y) {T=", type, ", index=0}\nend\n");
  };
  absl::StatusOr<Graph> graph = ParseGraphText(
      absl::StrCat(function("Any", "Neg", "int32"), function("Cpu", "Abs", type_of_cpu),
                   "x = Placeholder() {dtype=int32, shape=shape[]}\ncall = PartitionedCall(x) {f=&Any}\nz = Square(call) {T=int32}\n"));
  if (!graph.ok()) return std::string(graph.status().message());
  Graph::Library library = *graph->library();
  for (const std::string name : {"Any", "Cpu"}) {
    library.at(name).attrs.Set("api_implements", name == "Cpu" ? interface_of_cpu : std::string("sampler"));
  }
  library.at("Cpu").attrs.Set("api_preferred_device", std::string("CPU"));
  if (any_has_a_gradient) library.at("Any").attrs.Set("backward_function_name", std::string("Back"));
  graph->set_library(std::make_shared<const Graph::Library>(std::move(library)));
  const absl::StatusOr<InlineResult> result = InlineFunctions(*graph, OpRegistry(), 1000);
  return result.ok() ? graph->node(graph->Find("call/y")).op : std::string(result.status().message());
}

TEST(InlineFunctions, OfFunctionsThatStandForOneAnotherTheOneForCpusIsTaken) {
  EXPECT_EQ(TakenOf("sampler", "int32", false), "Abs");
  EXPECT_EQ(TakenOf("another sampler", "int32", false), "Neg");
  EXPECT_EQ(TakenOf("sampler", "float", false), "Neg") << "it takes arguments of other types";
  EXPECT_EQ(TakenOf("sampler", "int32", true), "Neg") << "its gradient would get what another function made";
}

// Function k is two calls of function k + 1; the last one, and with `leaves` every one, holds a node as well.
absl::StatusOr<Graph> CallsInCalls(int functions, bool leaves) {
  std::string text;
  for (int k = 0; k < functions; ++k) {
    absl::StrAppend(&text, "function F", k, "\n");
    if (leaves || k + 1 == functions) absl::StrAppend(&text, "  n = NoOp()\n");
    if (k + 1 < functions) absl::StrAppend(&text, "  a = F", k + 1, "()\n  b = F", k + 1, "()\n");
    absl::StrAppend(&text, "end\n");
  }
  return ParseGraphText(text + "x = F0()\n");
}

TEST(InlineFunctions, CallsThatMultiplyBeyondTheLimitAreRefused) {
  for (const bool leaves : {false, true}) {
    absl::StatusOr<Graph> many = CallsInCalls(40, leaves);
    ASSERT_TRUE(many.ok()) << many.status();
    const absl::Status status = InlineFunctions(*many, OpRegistry(), MostInlinedNodes(*many, 5000)).status();
    EXPECT_TRUE(absl::IsOutOfRange(status)) << status;
    EXPECT_NE(status.message().find("node 'x/a/"), std::string::npos) << status;
    EXPECT_NE(status.message().find("--max_unrolled_nodes"), std::string::npos) << status;
  }
  // Nodes of bodies and calls: 2^n - 1 calls of n functions, the last ones with a node each.
  absl::StatusOr<Graph> graph = CallsInCalls(5, false);
  ASSERT_TRUE(graph.ok());
  EXPECT_FALSE(InlineFunctions(*graph, OpRegistry(), 31 + 16 - 1).ok());
  EXPECT_TRUE(InlineFunctions(*graph, OpRegistry(), 31 + 16).ok());
}

TEST(InlineFunctions, WhatTheLibraryHoldsMayAlwaysComeOnce) {
  absl::StatusOr<Graph> graph = CallsInCalls(3, true);
  ASSERT_TRUE(graph.ok());
  EXPECT_EQ(MostInlinedNodes(*graph, 10), 3 + 3 + 1 + 10);
}

TEST(InlineFunctions, WhatRunsForASignatureHasNoCalls) {
  const absl::StatusOr<Graph> graph = ParseGraphText(R"(
function f
  a = _Arg() {T=float, index=0}
  y = Relu(a) {T=float}
  r = _Retval(y) {T=float, index=0}
end
x = Placeholder() {dtype=float, shape=shape[2]}
call = PartitionedCall(x) {f=&f}
other = Relu(x) {T=float}
there = Const() {dtype=string, value=string[]{"/device:CPU:0"}}
far = RemoteCall(there, x) {Tin=[float], Tout=[float], f=&f}
)");
  ASSERT_TRUE(graph.ok()) << graph.status();
  const Signature signature{.feeds = {{"x:0", {DataType::kFloat, Shape({2})}}}, .fetches = {"call:0", "far:0"}};
  const absl::StatusOr<Graph> flat = PruneAndInline(*graph, signature, OpRegistry::Builtin());
  ASSERT_TRUE(flat.ok()) << flat.status();
  EXPECT_TRUE(flat->Find("call/y").valid());
  EXPECT_TRUE(flat->Find("far/y").valid());
  EXPECT_FALSE(flat->Find("other").valid());
}

}  // namespace
}  // namespace millrace
