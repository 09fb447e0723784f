#include "plan/simulator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "plan/plan_text.h"
#include "plan/step_order.h"
#include "testlib/example_plans.h"

namespace millrace::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// 1 byte/s each way.
Machine SlowMachine() {
  Machine machine;
  machine.to_host_bytes_per_second = machine.to_device_bytes_per_second = 1;
  return machine;
}

// `name` centred in `width`, cut when longer.
std::string Centred(const std::string& name, int64_t width) {
  std::string text = name.substr(0, width);
  const int64_t left = (width - static_cast<int64_t>(text.size())) / 2;
  return absl::StrCat(std::string(left, ' '), text, std::string(width - left - text.size(), ' '));
}

// A picture of events in columns of a second; times are rounded to whole ones. Unused lanes are left out.
//
//   time      0    1    2    3    4
//   compute   | f1 | f2 |    |loss|
//   to-host   |    | a  |    |    |
std::string TimelineToText(const ExecutionPlan& plan, absl::Span<const TraceEvent> events) {
  constexpr int64_t kCell = 5;  // "| f1 "
  constexpr int64_t kMargin = 12;
  const auto column = [](double seconds) { return static_cast<int64_t>(seconds + 0.5); };
  int64_t columns = 0;
  for (const TraceEvent& event : events) columns = std::max(columns, column(event.end_seconds));
  std::string out = "time        ";
  for (int64_t c = 0; c <= columns; ++c) {
    const std::string number = absl::StrCat(c);
    absl::StrAppend(&out, number, c < columns ? std::string(std::max<int64_t>(kCell - number.size(), 1), ' ') : "\n");
  }
  for (int32_t l = 0; l < static_cast<int32_t>(plan.lanes.size()); ++l) {
    if (plan.lanes[l].num_steps() == 0) continue;
    std::string line;
    for (int64_t c = 0; c < columns; ++c) line += "|    ";
    line += "|";
    for (const TraceEvent& event : events) {
      if (event.lane != l) continue;
      const int64_t begin = column(event.start_seconds) * kCell, end = column(event.end_seconds) * kCell;
      if (end <= begin) continue;
      line.replace(begin + 1, end - begin - 1, Centred(NameOf(plan, l, event.step), end - begin - 1));
    }
    std::string name = LaneName(plan, l);
    name.resize(kMargin, ' ');
    absl::StrAppend(&out, name, line, "\n");
  }
  return out;
}

std::string Timeline(const ExecutionPlan& plan) {
  const auto simulation = SimulatePlan(plan, SlowMachine());
  EXPECT_TRUE(simulation.ok()) << simulation.status();
  return TimelineToText(plan, simulation->events);
}

TEST(SimulatorTest, RoomForEverythingNeedsNoCopies) {
  EXPECT_EQ(Timeline(FourSlotPlan().Build()),
            "time        0    1    2    3    4    5    6\n"
            "compute     | f1 | f2 | f3 |loss|f3' |f2' |\n"
            "to-host     |    |    |    |    |    |    |\n");
}

TEST(SimulatorTest, CopyOutHidesUnderComputeAndCopyInWithoutRoomIsExposed) {
  EXPECT_EQ(Timeline(ThreeSlotPlan().Build()),
            "time        0    1    2    3    4    5    6    7\n"
            "compute     | f1 | f2 | f3 |loss|f3' |    |f2' |\n"
            "to-host     |    |    | a> |    |    |    |    |\n"
            "to-device   |    |    |    |    |    | a< |    |\n");
}

TEST(SimulatorTest, SecondsAddUp) {
  const auto simulation = SimulatePlan(ThreeSlotPlan().Build(), SlowMachine());
  ASSERT_TRUE(simulation.ok());
  EXPECT_EQ(simulation->step_seconds, 7);
  EXPECT_EQ(simulation->compute_seconds, 6);
  EXPECT_EQ(simulation->stall_seconds, 1);
  EXPECT_THAT(simulation->busy_seconds, ElementsAre(6, 1, 1));
  EXPECT_EQ(simulation->bytes_to_host, 32);
  EXPECT_EQ(simulation->bytes_to_device, 16);
  EXPECT_EQ(simulation->lower_bound_seconds, 32);  // 32 bytes to the host at 1 byte/s
}

TEST(SimulatorTest, LowerBoundIsComputeOrTheBusierDirection) {
  Machine machine;
  machine.to_host_bytes_per_second = 2;
  machine.to_device_bytes_per_second = 4;
  EXPECT_EQ(LowerBoundSeconds(3, 4, 4, machine), 3);
  EXPECT_EQ(LowerBoundSeconds(3, 10, 4, machine), 5);
  EXPECT_EQ(LowerBoundSeconds(3, 10, 40, machine), 10);
}

TEST(SimulatorTest, MemoryFollowsResidences) {
  const auto simulation = SimulatePlan(ThreeSlotPlan().Build(), SlowMachine());
  ASSERT_TRUE(simulation.ok());
  ASSERT_EQ(simulation->memory.size(), 1u);
  std::vector<std::pair<double, int64_t>> points;
  for (const MemoryPoint& point : simulation->memory[0]) points.emplace_back(point.seconds, point.bytes);
  // a; a b; a b c (a is leaving); b c g; g b gb; gb a; gb a ga; nothing
  EXPECT_THAT(points, ElementsAre(std::pair(0.0, 16), std::pair(1.0, 32), std::pair(2.0, 48), std::pair(3.0, 48),
                                  std::pair(4.0, 48), std::pair(5.0, 32), std::pair(6.0, 48), std::pair(7.0, 0)));
}

TEST(SimulatorTest, WaitsOfLongStepsDelayOnlyWhoWaits) {
  //   compute    |  slow   | b  |
  //   to-device  |x<  |y<  |    |    y< does not wait, b waits for both
  PlanBuilder b(256);
  b.Constant("x", {1});
  b.Constant("y", {1});
  b.Compute("slow", "Mix", {}, {{0, 1}}, {}, 2);
  b.In("x", b.ConstantRef("x"), 64, 4);
  b.In("y", b.ConstantRef("y"), 128, 4);
  b.Compute("b", "Mix", {{64, 1}, {128, 1}}, {{192, 1}}, {b.AfterIn()});
  EXPECT_EQ(Timeline(b.Build()),
            "time        0    1    2    3\n"
            "compute     |  slow   | b  |\n"
            "to-device   |x_in|y_in|    |\n");
}

TEST(SimulatorTest, WaitForAStepThatIsNotBeforeItIsRefused) {
  LaneSchedule schedule;
  schedule.Clear(2);
  schedule.Add(0, 1, {});
  schedule.Add(1, 1, {{0, 2}});
  LaneTimes times;
  EXPECT_THAT(SimulateLanes(schedule, &times).ToString(), HasSubstr("step 1 waits for 2 steps of lane 0, of which 1"));
}

TEST(SimulatorTest, TimesAreReusedOverTrials) {
  LaneSchedule schedule;
  LaneTimes times;
  for (int trial = 1; trial <= 3; ++trial) {
    schedule.Clear(2);
    for (int i = 0; i < 100 * trial; ++i) {
      schedule.Add(0, 1, {});
      schedule.Add(1, 2, {{0, i + 1}});
    }
    ASSERT_TRUE(SimulateLanes(schedule, &times).ok());
    EXPECT_EQ(times.seconds, 1 + 200 * trial);
    EXPECT_THAT(times.busy, ElementsAre(100 * trial, 200 * trial));
  }
}

// Three copies: a goes out and comes back, the loss goes out.
TEST(SimulatorTest, CopiesCostComputeWhatTheMachineSays) {
  Machine machine = SlowMachine();
  machine.copy_launch_seconds = 0.25;
  const auto simulation = SimulatePlan(ThreeSlotPlan().Build(), machine);
  ASSERT_TRUE(simulation.ok());
  EXPECT_EQ(simulation->step_seconds, 7.75);
  EXPECT_EQ(simulation->compute_seconds, 6);
}

TEST(SimulatorTest, PredictionsAreFilledIn) {
  ExecutionPlan plan = ThreeSlotPlan().Build();
  ASSERT_TRUE(FillPredictions(SlowMachine(), &plan).ok());
  EXPECT_EQ(plan.predicted_step_seconds, 7);
  EXPECT_EQ(plan.predicted_compute_seconds, 6);
  EXPECT_EQ(plan.lower_bound_seconds, 32);
}

}  // namespace
}  // namespace millrace::testing
