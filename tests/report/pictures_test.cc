#include <google/protobuf/struct.pb.h>
#include <google/protobuf/util/json_util.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "example_plan.h"
#include "report/axes.h"
#include "report/chrome_trace.h"
#include "report/image.h"
#include "report/memory_plot.h"
#include "report/memory_series.h"
#include "report/sweep.h"

namespace millrace {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(MemorySeriesTest, LaysResidencesOnTheClock) {
  const RunReport run = ExampleRun();
  std::string text;
  for (const MemoryPoint& point : MemoryOverTime(*run.plan, run.trace, 0)) {
    text += std::to_string(static_cast<int>(point.seconds)) + ":" + std::to_string(point.bytes) + " ";
  }
  // f's first stay ends with g's end (2 s), where its second one begins with the copy in.
  EXPECT_EQ(text, "0:16 1:32 2:32 5:0 ");
}

TEST(MemorySeriesTest, HasNoPointsWithoutATraceOrOnAnotherDevice) {
  const RunReport run = ExampleRun();
  EXPECT_TRUE(MemoryOverTime(*run.plan, {}, 0).empty());
  EXPECT_TRUE(MemoryOverTime(*run.plan, run.trace, 1).empty());
}

std::string HostText(const ExecutionPlan& plan, const std::vector<TraceEvent>& trace) {
  std::string text;
  for (const MemoryPoint& point : HostMemoryOverTime(plan, trace)) {
    text += std::to_string(static_cast<int>(point.seconds)) + ":" + std::to_string(point.bytes) + " ";
  }
  return text;
}

TEST(MemorySeriesTest, HostMemoryHoldsWhatIsSwappedUntilItIsBack) {
  const RunReport run = ExampleRun();
  EXPECT_EQ(HostText(*run.plan, run.trace), "0:0 1:16 4:0 ");
  EXPECT_EQ(HostText(*run.plan, {}), "");
}

TEST(MemorySeriesTest, HostMemoryHoldsVariablesAllTheTime) {
  const RunReport run = ExampleRun();
  ExecutionPlan plan = *run.plan;
  plan.host_bytes = 116;
  plan.host_pool_bytes = 16;
  EXPECT_EQ(HostText(plan, run.trace), "0:100 1:116 4:100 ");
  plan.tiered = true;  // the pool is there whatever is in it
  EXPECT_EQ(HostText(plan, run.trace), "0:116 ");
}

TEST(MemorySeriesTest, FindsTheStallBeforeH) {
  const RunReport run = ExampleRun();
  const auto stalls = StallsOf(*run.plan, run.trace, 0);
  ASSERT_EQ(stalls.size(), 1);
  EXPECT_EQ(stalls[0].start_seconds, 2);
  EXPECT_EQ(stalls[0].end_seconds, 4);
}

TEST(MemorySeriesTest, NodesThatOverlapAreNoStall) {
  RunReport run = ExampleRun();
  run.trace = {{0, 0, 0, 3}, {0, 1, 1, 2}, {0, 2, 3, 4}};
  EXPECT_TRUE(StallsOf(*run.plan, run.trace, 0).empty());
}

TEST(MemorySeriesTest, SpansPartitions) {
  const RunReport run = ExampleRun();
  const auto spans = PartitionSpans(*run.plan, run.trace, 0);
  ASSERT_EQ(spans.size(), 3);
  EXPECT_EQ(spans[2].partition, 2);
  EXPECT_EQ(spans[2].when.start_seconds, 4);
  EXPECT_EQ(spans[2].when.end_seconds, 5);
}

TEST(ChromeTraceTest, IsJsonWithLanesAsThreadsAndMemoryAsCounters) {
  Report report;
  report.runs = {ExampleRun(), RunReport()};
  const std::string trace = ChromeTrace(report);
  google::protobuf::Struct json;
  const auto parsed = google::protobuf::util::JsonStringToMessage(trace, &json);
  ASSERT_TRUE(parsed.ok()) << parsed.ToString() << trace;
  // Per process: 1 process name, 3 lanes and 1 partition row with name and order, 5 steps, 3 partitions, 4 counters.
  EXPECT_EQ(json.fields().at("traceEvents").list_value().values_size(), 2 * (1 + 4 * 2 + 5 + 3 + 4));
  EXPECT_THAT(trace, HasSubstr("\"name\":\"tensorflowmem (measured)\""));
  EXPECT_THAT(trace, HasSubstr("\"name\":\"tensorflowmem (predicted)\""));
  EXPECT_THAT(trace, HasSubstr("{\"ph\":\"X\",\"name\":\"f/in\",\"cat\":\"to-device\",\"pid\":1,\"tid\":3,"
                               "\"ts\":2e+06,\"dur\":2e+06,\"args\":{\"tensor\":\"f:0\",\"bytes\":16"));
  EXPECT_THAT(trace, HasSubstr("{\"ph\":\"C\",\"name\":\"memory of cpu:0\",\"pid\":1,\"ts\":1e+06,\"args\":{\"bytes\":32}}"));
}

TEST(MemoryPlotTest, ShowsAllCurvesBudgetAndRows) {
  Report report;
  report.runs = {ExampleRun()};
  RunReport baseline = ExampleRun();
  baseline.strategy = "baseline";
  baseline.trace.clear();
  const auto svg = MemoryPlot(report, &baseline);
  ASSERT_TRUE(svg.ok()) << svg.status();
  for (const char* text : {">without swapping (baseline, predicted)<", ">measured<", ">predicted<", ">budget 48 B<",
                           ">partitions<", ">compute<", ">stalls<", ">to host<", ">to device<", ">5 s<"}) {
    EXPECT_THAT(*svg, HasSubstr(text));
  }
  // The stall row: from 2 s to 4 s of 5 s on the pixels from 92 to 980.
  EXPECT_THAT(*svg, HasSubstr("fill=\"#D55E00\" d=\"M447.2 "));
  EXPECT_THAT(*svg, HasSubstr("H802.4v16H447.2z"));
}

TEST(MemoryPlotTest, ShowsTheDisksLanesOfATieredPlan) {
  Report report;
  report.runs = {ExampleRun()};
  const auto plain = MemoryPlot(report, nullptr);
  ASSERT_TRUE(plain.ok()) << plain.status();
  EXPECT_THAT(*plain, Not(HasSubstr(">to disk<")));
  report.runs = {TieredRun()};
  const auto svg = MemoryPlot(report, nullptr);
  ASSERT_TRUE(svg.ok()) << svg.status();
  // To disk from 2 s to 3 s, back from 3 s to 4 s of 5 s on the pixels from 92 to 980.
  EXPECT_THAT(*svg, testing::AllOf(HasSubstr(">to disk<"), HasSubstr("fill=\"#0072B2\" d=\"M447.2 "), HasSubstr("H624.8v16H447.2z"),
                                   HasSubstr(">from disk<"), HasSubstr("fill=\"#E69F00\" d=\"M624.8 "), HasSubstr("H802.4v16H624.8z")));
}

TEST(MemoryPlotTest, RefusesWhenNothingWasPlanned) {
  Report report;
  report.runs = {RunReport()};
  EXPECT_EQ(MemoryPlot(report, nullptr).status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST(MemoryPlotTest, StaysSmallForThousandsOfSteps) {
  Report report;
  RunReport run = ExampleRun();
  auto plan = std::make_shared<ExecutionPlan>(*run.plan);
  plan->lanes[0].compute.clear();
  plan->residences.clear();
  run.trace.clear();
  run.simulated_trace.clear();
  for (int i = 0; i < 100000; ++i) {
    plan->lanes[0].compute.push_back(ExampleCompute(0, i / 10, i));
    plan->residences.push_back({.tensor = "t", .bytes = 16 * (i % 7), .first = i, .last = i + 3});
    run.trace.push_back({0, i, i * 1e-4, i * 1e-4 + 0.9e-4});
  }
  plan->lanes.resize(1);
  run.plan = plan;
  report.runs = {run};
  const auto svg = MemoryPlot(report, nullptr);
  ASSERT_TRUE(svg.ok());
  EXPECT_LT(svg->size(), 400000);
}

TEST(MemoryPlotTest, EndsWhateverTheTimes) {
  RunReport run = ExampleRun();
  run.trace.clear();
  for (TraceEvent& event : run.simulated_trace) event.end_seconds = std::numeric_limits<double>::infinity();
  Report report;
  report.runs = {run};
  EXPECT_TRUE(MemoryPlot(report, nullptr).ok());
}

TEST(AxesTest, TicksAreRoundInBinaryUnits) {
  const auto ticks = ByteTicks(2.5 * 1024 * 1024 * 1024);
  EXPECT_EQ(ticks.front().label, "0 GiB");
  EXPECT_EQ(ticks[1].label, "0.5 GiB");
  EXPECT_EQ(ticks.back().label, "2.5 GiB");
  EXPECT_EQ(SecondTicks(0.004).back().label, "4 ms");
  EXPECT_TRUE(ByteTicks(0).empty());
}

TEST(ImageTest, WritesSvgAndPngAndNothingElse) {
  EXPECT_TRUE(CheckImagePath("a.svg").ok());
  EXPECT_EQ(CheckImagePath("a.jpg").code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(*ImageBytes("a.svg", "<svg/>"), "<svg/>");
  Report report;
  report.runs = {ExampleRun()};
  const auto png = ImageBytes("a.PNG", *MemoryPlot(report, nullptr));
  if (CheckImagePath("a.png").ok()) {
    ASSERT_TRUE(png.ok()) << png.status();
    EXPECT_EQ(png->substr(1, 3), "PNG");
    EXPECT_GT(png->size(), 10000);
  } else {
    EXPECT_THAT(std::string(png.status().message()), HasSubstr("librsvg2-dev"));
  }
}

std::vector<SweepPoint> ExampleSweep() {
  std::vector<SweepPoint> points;
  for (const char* budget : {"50%", "100%"}) {
    for (const int64_t size : {1, 5}) points.push_back({"tensorflowmem", budget, size, ExampleRun()});
  }
  points[0].run = RunReport();
  points[0].run.status = absl::ResourceExhaustedError("node \"f\", 48 B");
  return points;
}

TEST(SweepTest, CsvHasALinePerPointAndEmptyFiguresWhereItDidNotFit) {
  const std::string csv = SweepCsv(ExampleSweep());
  EXPECT_THAT(csv, HasSubstr("\ntensorflowmem,50%,1,RESOURCE_EXHAUSTED,0,,,,,,,,,,,,,,,,\n"));
  EXPECT_THAT(csv, HasSubstr("\ntensorflowmem,50%,5,OK,48,3,1,1,32,32,0,16,16,5,5,3,2,4,0,0.125,bbbb\n"));
  EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), 5);
  std::vector<SweepPoint> diverged = ExampleSweep();
  diverged[1].run.losses = {std::numeric_limits<double>::quiet_NaN()};
  EXPECT_THAT(SweepCsv(diverged), HasSubstr(",0,NaN,bbbb\n"));
}

TEST(SweepTest, PlotsSizesOrBudgetsWhicheverVary) {
  std::vector<SweepPoint> points = ExampleSweep();
  auto svg = SweepPlot(points);
  ASSERT_TRUE(svg.ok());
  EXPECT_THAT(*svg, HasSubstr(">partition size (nodes)<"));
  EXPECT_THAT(*svg, HasSubstr(">tensorflowmem, budget 100%<"));
  for (SweepPoint& point : points) point.partition_size = 5;
  svg = SweepPlot(points);
  EXPECT_THAT(*svg, HasSubstr(">device memory budget<"));
  EXPECT_THAT(*svg, Not(HasSubstr("tensorflowmem, budget")));
  points.resize(1);
  EXPECT_EQ(SweepPlot(points).status().code(), absl::StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace millrace
