#include "report/summary.h"

#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "example_plan.h"
#include "report/text_table.h"

namespace millrace {
namespace {

TEST(TextTableTest, AlignsNumbersRightAndNamesLeft) {
  EXPECT_EQ(TextTable({"name", "n", "note"}, {{"a", "1"}, {"long name", "1234", "é"}}),
            "name          n  note\n"
            "---------  ----  ----\n"
            "a             1\n"
            "long name  1234  é\n");
}

TEST(FormatTest, PicksReadableUnits) {
  EXPECT_EQ(FormatSeconds(0), "0 s");
  EXPECT_EQ(FormatSeconds(1.5), "1.500 s");
  EXPECT_EQ(FormatSeconds(0.0123), "12.3 ms");
  EXPECT_EQ(FormatSeconds(4.5e-6), "4.5 us");
  EXPECT_EQ(FormatCount(7016), "7,016");
  EXPECT_EQ(FormatCount(-1234567), "-1,234,567");
  EXPECT_EQ(FormatCount(-999), "-999");
}

TEST(SummaryTest, SaysPredictedBesideMeasured) {
  EXPECT_EQ(RunSummary(ExampleRun()),
            "strategy       tensorflowmem, partition size 1, 3 partitions, planned in 0 s\n"
            "device memory  budget 48 B, peak predicted 32 B, measured 32 B\n"
            "host memory    peak 0 B\n"
            "swaps          1 out, 1 in; per step 16 B to host, 16 B to device\n"
            "step           predicted 5.000 s, measured 5.000 s (median of 3); last step: compute 3.000 s, "
            "stall 2.000 s (40 %)\n"
            "lower bound    4.000 s, the predicted step is 25.0 % above it\n"
            "losses         0.5 0.25 0.125\n"
            "digests        fetches aaaa, variables bbbb\n");
}

TEST(SummaryTest, SaysWhatDevicesHoldBesideTheArena) {
  RunReport run = ExampleRun();
  run.device_context_bytes = int64_t{300} << 20;
  EXPECT_THAT(RunSummary(run), testing::HasSubstr("measured 32 B; in use beside it 300.00 MiB (context, libraries, other programs)\n"));
  run.devices = {{.name = "cuda:0", .context_bytes = int64_t{100} << 20}, {.name = "cuda:1", .context_bytes = int64_t{200} << 20}};
  EXPECT_THAT(RunSummary(run), testing::HasSubstr("cuda:1       budget none, peak predicted 0 B, measured 0 B, beside it 200.00 MiB;"));
}

TEST(SummaryTest, APlanHasNoMeasuredFigures) {
  RunReport run = ExampleRun();
  run.step_seconds.clear();
  run.losses.clear();
  EXPECT_EQ(RunSummary(run).find("measured"), std::string::npos);
  EXPECT_EQ(TypicalStepSeconds(run), 5);
}

TEST(SummaryTest, OfAnEvenNumberTheFasterMiddleStepIsTypical) {
  RunReport run = ExampleRun();
  run.step_seconds = {9, 2};
  EXPECT_EQ(TypicalStepSeconds(run), 2);
  run.step_seconds = {9, 2, 3, 4};
  EXPECT_EQ(TypicalStepSeconds(run), 3);
  run.step_seconds = {9, 2, 4};
  EXPECT_EQ(TypicalStepSeconds(run), 4);
}

TEST(RunSummaryTest, TflmsTellsWhatTuningAndRewritingTook) {
  RunReport run = ExampleRun();
  run.passes = {{"order", 1, 1}, {"choose swaps", 0.25, 1}, {"insert swaps", 0.5, 1}};
  EXPECT_THAT(RunSummary(run), testing::Not(testing::HasSubstr("rewrite"))) << "of " << run.strategy;
  run.strategy = "tflms";
  EXPECT_THAT(RunSummary(run), testing::HasSubstr("\nrewrite        750.0 ms: tuning and choosing 250.0 ms, copies into the graph 500.0 ms\n"));
}

TEST(RunSummaryTest, PassesMayTakeMoreThanPlanning) {
  RunReport run = ExampleRun();
  run.plan_seconds = 0.5;
  run.passes = {{"order", 0.25, 1}, {"choose swaps", 0.75, 18}, {"verify", 0.01, 1}};
  EXPECT_THAT(RunSummary(run), testing::HasSubstr("\nplanning       slowest passes: choose swaps 750.0 ms in 18 runs, order 250.0 ms (sums over threads)\n"));
}

TEST(RunSummaryTest, OfManyLossesTheFirstAndTheLastAreShown) {
  RunReport run = ExampleRun();
  run.losses = {-std::numeric_limits<double>::quiet_NaN()};
  EXPECT_THAT(RunSummary(run), testing::HasSubstr("losses         nan\n"));
  run.losses.assign(20, 0.5);
  EXPECT_THAT(RunSummary(run), testing::Not(testing::HasSubstr("more)")));
  run.losses.assign(1020, 0.5);
  run.losses.front() = 2;
  run.losses.back() = 0.125;
  EXPECT_THAT(RunSummary(run), testing::ContainsRegex("losses         2( 0.5)+ … \\(1,000 more\\)( 0.5)+ 0.125\n"));
}

TEST(ComparisonTableTest, HasARowPerRunAndErrorsBelow) {
  const RunReport good = ExampleRun();
  RunReport refused;
  refused.status = absl::ResourceExhaustedError("node h alone needs 48 B, budget is 32 B");
  refused.device_memory_budget_bytes = 32;
  EXPECT_EQ(
      ComparisonTable({{&good, "baseline *", "reference"}, {&good, "tensorflowmem", "equal"}, {&refused, "lru", ""}}),
      "strategy       budget  peak predicted  peak measured     step  above bound  compute    stall  to host  to device  "
      "swaps out/in  partitions  same bits\n"
      "-------------  ------  --------------  -------------  -------  -----------  -------  -------  -------  ---------  "
      "------------  ----------  ------------\n"
      "baseline *       48 B            32 B           32 B  5.000 s       25.0 %  3.000 s  2.000 s     16 B       16 B  "
      "         1/1           3  reference\n"
      "tensorflowmem    48 B            32 B           32 B  5.000 s       25.0 %  3.000 s  2.000 s     16 B       16 B  "
      "         1/1           3  equal\n"
      "lru              32 B               -              -        -            -        -        -        -          -  "
      "           -           -  does not fit\n"
      "lru: RESOURCE_EXHAUSTED: node h alone needs 48 B, budget is 32 B\n");
}

}  // namespace
}  // namespace millrace
