#include "passes/lower_switches.h"

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "graph/text.h"
#include "graph/verify.h"
#include "testlib/golden.h"

namespace millrace {
namespace {

std::string Lower(const GoldenCase& golden) {
  absl::StatusOr<Graph> graph = ParseGraphText(golden.input);
  if (!graph.ok()) return absl::StrCat(graph.status().message(), "\n");
  const std::string before = GraphToText(*graph);
  const absl::StatusOr<bool> changed = LowerSwitches(*graph, OpRegistry::Builtin());
  if (!changed.ok()) return absl::StrCat(changed.status().message(), "\n");
  EXPECT_EQ(*changed, before != GraphToText(*graph)) << "the pass must say whether it changed the graph";
  EXPECT_TRUE(VerifyGraph(*graph).ok()) << VerifyGraph(*graph);
  return absl::StrCat(*changed ? "" : "unchanged\n", GraphToText(*graph));
}

class SwitchesGolden : public ::testing::TestWithParam<std::string> {};

TEST_P(SwitchesGolden, TextIsAsExpected) { CheckGolden(GetParam(), Lower); }

std::string CaseName(const ::testing::TestParamInfo<std::string>& info) {
  std::string name = info.param.substr(info.param.rfind('/') + 1);
  return name.substr(0, name.find('.'));
}

INSTANTIATE_TEST_SUITE_P(Switches, SwitchesGolden, ::testing::ValuesIn(GoldenFiles("switches")), CaseName);

}  // namespace
}  // namespace millrace
