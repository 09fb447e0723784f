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
  const absl::StatusOr<InlineResult> result = InlineFunctions(*graph, OpRegistry());
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
  EXPECT_FALSE(InlineFunctions(*graph, ops)->changed);
  EXPECT_TRUE(InlineFunctions(*graph, OpRegistry())->changed);
}

}  // namespace
}  // namespace millrace
