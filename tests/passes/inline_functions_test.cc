#include "passes/control_flow/inline_functions.h"

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "graph/text.h"
#include "graph/verify.h"
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
  ASSERT_TRUE(ops.Register({.name = "Neg"}).ok());
  EXPECT_FALSE(InlineFunctions(*graph, ops, 1000)->changed);
  EXPECT_TRUE(InlineFunctions(*graph, OpRegistry(), 1000)->changed);
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

}  // namespace
}  // namespace millrace
