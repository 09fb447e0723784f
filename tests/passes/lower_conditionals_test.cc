#include "passes/control_flow/lower_conditionals.h"

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "graph/text.h"
#include "graph/verify.h"
#include "passes/control_flow/expand_ops.h"
#include "passes/control_flow/keep_predicates.h"
#include "passes/control_flow/lower_collectives.h"
#include "passes/control_flow/lower_sparse_matrices.h"
#include "passes/control_flow/lower_switches.h"
#include "testlib/golden.h"

namespace millrace {
namespace {

using Pass = absl::StatusOr<bool> (*)(Graph&, const OpRegistry&);

std::string Lower(const GoldenCase& golden, Pass pass) {
  absl::StatusOr<Graph> graph = ParseGraphText(golden.input);
  if (!graph.ok()) return absl::StrCat(graph.status().message(), "\n");
  const std::string before = GraphToText(*graph);
  const absl::StatusOr<bool> changed = pass(*graph, OpRegistry::Builtin());
  if (!changed.ok()) return absl::StrCat(changed.status().message(), "\n");
  EXPECT_EQ(*changed, before != GraphToText(*graph)) << "the pass must say whether it changed the graph";
  EXPECT_TRUE(VerifyGraph(*graph).ok()) << VerifyGraph(*graph);
  graph->set_library(nullptr);
  return absl::StrCat(*changed ? "" : "unchanged\n", GraphToText(*graph));
}

std::string LowerConditionalsOf(const GoldenCase& golden) {
  return Lower(golden, [](Graph& graph, const OpRegistry& ops) { return LowerConditionals(graph, ops); });
}
std::string LowerSwitchesOf(const GoldenCase& golden) {
  return Lower(golden, [](Graph& graph, const OpRegistry& ops) { return LowerSwitches(graph, ops); });
}

std::string KeepPredicatesOf(const GoldenCase& golden) {
  return Lower(golden, [](Graph& graph, const OpRegistry& ops) -> absl::StatusOr<bool> { return KeepPredicates(graph, ops) > 0; });
}

std::string LowerCollectivesOf(const GoldenCase& golden) {
  return Lower(golden, [](Graph& graph, const OpRegistry&) { return LowerCollectives(graph); });
}
std::string ExpandOpsOf(const GoldenCase& golden) {
  return Lower(golden, [](Graph& graph, const OpRegistry&) { return ExpandOps(graph); });
}

std::string LowerSparseMatricesOf(const GoldenCase& golden) {
  return Lower(golden, [](Graph& graph, const OpRegistry&) { return LowerSparseMatrices(graph); });
}

class ConditionalsGolden : public ::testing::TestWithParam<std::string> {};
class SwitchesGolden : public ::testing::TestWithParam<std::string> {};
class PredicatesGolden : public ::testing::TestWithParam<std::string> {};
class CollectivesGolden : public ::testing::TestWithParam<std::string> {};
class ExpandedGolden : public ::testing::TestWithParam<std::string> {};
class SparseMatricesGolden : public ::testing::TestWithParam<std::string> {};

TEST_P(ConditionalsGolden, TextIsAsExpected) { CheckGolden(GetParam(), LowerConditionalsOf); }
TEST_P(SwitchesGolden, TextIsAsExpected) { CheckGolden(GetParam(), LowerSwitchesOf); }
TEST_P(PredicatesGolden, TextIsAsExpected) { CheckGolden(GetParam(), KeepPredicatesOf); }
TEST_P(CollectivesGolden, TextIsAsExpected) { CheckGolden(GetParam(), LowerCollectivesOf); }
TEST_P(ExpandedGolden, TextIsAsExpected) { CheckGolden(GetParam(), ExpandOpsOf); }
TEST_P(SparseMatricesGolden, TextIsAsExpected) { CheckGolden(GetParam(), LowerSparseMatricesOf); }

std::string CaseName(const ::testing::TestParamInfo<std::string>& info) {
  std::string name = info.param.substr(info.param.rfind('/') + 1);
  return name.substr(0, name.find('.'));
}

INSTANTIATE_TEST_SUITE_P(Conditionals, ConditionalsGolden, ::testing::ValuesIn(GoldenFiles("conditionals")), CaseName);
INSTANTIATE_TEST_SUITE_P(Switches, SwitchesGolden, ::testing::ValuesIn(GoldenFiles("switches")), CaseName);
INSTANTIATE_TEST_SUITE_P(Predicates, PredicatesGolden, ::testing::ValuesIn(GoldenFiles("predicates")), CaseName);
INSTANTIATE_TEST_SUITE_P(Collectives, CollectivesGolden, ::testing::ValuesIn(GoldenFiles("collectives")), CaseName);
INSTANTIATE_TEST_SUITE_P(SparseMatrices, SparseMatricesGolden, ::testing::ValuesIn(GoldenFiles("sparse_matrices")), CaseName);
INSTANTIATE_TEST_SUITE_P(Expanded, ExpandedGolden, ::testing::ValuesIn(GoldenFiles("expanded")), CaseName);

TEST(LowerConditionals, AMissingBranchIsAnErrorThatNamesTheNode) {
  absl::StatusOr<Graph> graph =
      ParseGraphText("function f\n  n = NoOp()\nend\np = Placeholder()\nc = If(p) {then_branch=&f, else_branch=&g}\n");
  ASSERT_TRUE(graph.ok()) << graph.status();
  const absl::Status status = LowerConditionals(*graph, OpRegistry::Builtin()).status();
  EXPECT_EQ(status.message(), "node 'c' (If): branch 'g' is not in the graph's library");
}

}  // namespace
}  // namespace millrace
