// A report says of everything that a plan decided why.
#include "millrace/report.h"
#include "report/decisions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "example_plan.h"

namespace millrace {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::string> Lines(const ExecutionPlan& plan) {
  std::vector<std::string> lines;
  for (const Decision& d : DecisionsOf(plan)) {
    lines.push_back(absl::StrCat(d.kind, "|", d.node, "|", d.tensor, "|", d.device, "|", d.partition, "|", d.reason));
  }
  return lines;
}

TEST(DecisionsTest, AreOfSwapsAndCutsAndNotOfWhatJustStays) {
  const RunReport run = ExampleRun();
  EXPECT_THAT(Lines(*run.plan), ElementsAre("to-host|f/out|f:0|cpu:0|0|h is 3 partitions away", "to-device|f/in|f:0|cpu:0|1|h is 3 partitions away",
                                            "cut|g||cpu:0|1|a partition ends when a device holds 1 nodes of it",
                                            "cut|h||cpu:0|2|a partition ends when a device holds 1 nodes of it"));
  EXPECT_THAT(Lines(*TieredRun().plan), testing::Contains("to-disk|f/to_disk|f:0|cpu:0|1|h is 3 partitions away"));
}

TEST(DecisionsTest, AreOfVariablesAndWhatIsComputedAgainToo) {
  ExecutionPlan plan = *ExampleRun().plan;
  plan.lanes.clear();
  plan.residences = {{.tensor = "w", .kind = Residence::Kind::kVariable, .reason = "stays on the device"},
                     {.tensor = "c", .kind = Residence::Kind::kConstant, .reason = "fetched every step"},
                     {.tensor = "f/recompute:0", .reason = "computed again for 'h'"},
                     {.tensor = "f/recompute_2:1", .reason = "computed again for 'k'"},
                     {.tensor = "net/recompute/g:0", .reason = "made here"},
                     {.tensor = "net/recompute_gate:0", .reason = "made here"},
                     {.tensor = "net/recompute_2/g_1:0", .reason = "made here"},
                     {.tensor = "x:0", .kind = Residence::Kind::kFeed, .reason = "a feed"}};
  EXPECT_THAT(Lines(plan), ElementsAre("variable||w|cpu:0|-1|stays on the device", "constant||c|cpu:0|-1|fetched every step",
                                       "computed again||f/recompute:0|cpu:0|-1|computed again for 'h'",
                                       "computed again||f/recompute_2:1|cpu:0|-1|computed again for 'k'"));
}

TEST(DecisionsTest, SayWhatAPartitionWeighedThatWasCut) {
  ExecutionPlan plan = *ExampleRun().plan;
  plan.partition_size = 0;
  plan.strategy = "planned";
  EXPECT_THAT(Lines(plan), testing::Contains("cut|h||cpu:0|2|partition 1 makes 16 B in 1 operations of 1.000 s, and what comes here would make it too heavy"));
}

TEST(DecisionsTest, AreInTheReport) {
  Report report;
  report.runs = {ExampleRun()};
  EXPECT_THAT(ReportToJson(report), AllOf(HasSubstr("\"kind\": \"to-host\""), HasSubstr("\"reason\": \"h is 3 partitions away\"")));
  report.runs[0].plan = nullptr;
  EXPECT_THAT(ReportToJson(report), HasSubstr("\"decisions\": []"));
}

}  // namespace
}  // namespace millrace
