#include "plan/measured_times.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/fused_norm.h"
#include "plan/simulator.h"
#include "testlib/example_plans.h"

namespace millrace::testing {
namespace {

using ::testing::HasSubstr;

// Events of a step in which everything takes what the plan predicts, `late` after a lane had to wait.
std::vector<TraceEvent> EventsOf(const ExecutionPlan& plan, double late = 0) {
  const auto simulation = SimulatePlan(plan, {}, {late, 0});
  EXPECT_TRUE(simulation.ok()) << simulation.status();
  return simulation->events;
}

TEST(MeasuredTimesTest, TimesAreMediansOfTheRecordedSteps) {
  const ExecutionPlan plan = ThreeSlotPlan().Build();
  TimeRecorder recorder(plan);
  for (const double factor : {1.0, 9.0, 3.0}) {
    std::vector<TraceEvent> events = EventsOf(plan);
    for (TraceEvent& event : events) {
      event.start_seconds *= factor;
      event.end_seconds *= factor;
    }
    recorder.AddStep(events, 10 * factor);
  }
  const Profile profile = recorder.Times();
  EXPECT_EQ(profile.steps, 3);
  for (const auto& [name, time] : profile.nodes) EXPECT_DOUBLE_EQ(time.seconds, 3) << name;
  EXPECT_DOUBLE_EQ(profile.step_overhead_seconds, 9);  // 10 less the 7 of the lanes, three times as long
}

TEST(MeasuredTimesTest, NodesThatAreSlowInTurnAddUpToAStep) {
  PlanBuilder b(256);
  b.Compute("x", "Mix", {}, {{0, 1}});
  b.Compute("y", "Mix", {}, {{64, 1}});
  b.Compute("z", "Mix", {}, {{128, 1}});
  const ExecutionPlan plan = b.Build();
  TimeRecorder recorder(plan);
  // Another node takes 4 seconds in place of 1 in every step: no node does so in the median, every step takes 6.
  for (int slow = 0; slow < 3; ++slow) {
    std::vector<TraceEvent> events;
    double end = 0;
    for (int node = 0; node < 3; ++node) {
      const double start = end;
      end += node == slow ? 4 : 1;
      events.push_back({0, node, start, end});
    }
    recorder.AddStep(events, 6);
  }
  const Profile profile = recorder.Times();
  for (const char* name : {"x", "y", "z"}) EXPECT_DOUBLE_EQ(profile.nodes.at(name).seconds, 2) << name;
}

TEST(MeasuredTimesTest, WhatALaneTakesToWakeUpIsNotTheNodes) {
  const ExecutionPlan plan = ThreeSlotPlan().Build();
  TimeRecorder recorder(plan);
  recorder.AddStep(EventsOf(plan, 0.25), 8);
  const Profile profile = recorder.Times();
  EXPECT_DOUBLE_EQ(profile.wake_seconds, 0.25);
  for (const auto& [name, time] : profile.nodes) EXPECT_DOUBLE_EQ(time.seconds, 1) << name;
}

TEST(MeasuredTimesTest, WakingUpIsTheMedianOverStepsOfTheirMeans) {
  const ExecutionPlan plan = ThreeSlotPlan().Build();
  TimeRecorder recorder(plan);
  for (const double wake : {0.5, 0.0, 0.25}) {
    recorder.AddStep(EventsOf(plan, wake), 8);
  }
  EXPECT_DOUBLE_EQ(recorder.Times().wake_seconds, 0.25);
}

TEST(MeasuredTimesTest, PredictionWithMeasuredTimesIsTheStepThatWasMeasured) {
  ExecutionPlan plan = ThreeSlotPlan().Build();
  TimeRecorder recorder(plan);
  // A machine three times slower, copies at 8 bytes/s.
  ExecutionPlan slow = plan;
  for (Lane& lane : slow.lanes) {
    for (ComputeStep& step : lane.compute) step.predicted_seconds = 3;
    for (CopyStep& step : lane.copies) step.predicted_seconds = 2;
  }
  const auto measured = SimulatePlan(slow, {}, {0.25, 0.5});
  ASSERT_TRUE(measured.ok());
  recorder.AddStep(EventsOf(slow, 0.25), measured->step_seconds);
  Machine machine;
  machine.copy_latency_seconds = 0;
  machine.to_host_bytes_per_second = machine.to_device_bytes_per_second = 8;
  ASSERT_TRUE(PredictWithMeasuredTimes(recorder.Times(), machine, &plan).ok());
  EXPECT_DOUBLE_EQ(plan.predicted_step_seconds, measured->step_seconds);
}

// Three nodes that a host launches in 0.5 s each, of 1, 2 and 0.4 seconds: where the device does not wait for launches they take less.
TEST(MeasuredTimesTest, TimesAreShortenedToTheStepThatWasAGraph) {
  PlanBuilder b(256);
  b.Compute("x", "Mix", {}, {{0, 1}});
  b.Compute("y", "Mix", {}, {{64, 1}});
  b.Compute("z", "Mix", {}, {{128, 1}});
  const ExecutionPlan plan = b.Build();
  TimeRecorder recorder(plan);
  const std::vector<TraceEvent> events = {{0, 0, 0, 1.5}, {0, 1, 1.5, 4}, {0, 2, 4, 4.4}};
  recorder.AddStep(events, 4.4);
  const auto shortened_to = [&](double seconds) {
    Profile profile = recorder.Times();
    EXPECT_TRUE(ShortenToStep(seconds, {}, plan, &profile).ok());
    return std::vector<double>{profile.nodes.at("x").seconds, profile.nodes.at("y").seconds, profile.nodes.at("z").seconds};
  };
  using ::testing::DoubleNear;
  using ::testing::ElementsAre;
  const auto near = [](double seconds) { return DoubleNear(seconds, 1e-3); };
  EXPECT_THAT(shortened_to(3.8), ElementsAre(near(1.3), near(2.3), near(0.2)));
  EXPECT_THAT(shortened_to(3.1), ElementsAre(near(1), near(2), near(0.1)));  // a quarter stays
  EXPECT_THAT(shortened_to(4.4), ElementsAre(near(1.5), near(2.5), near(0.4)));
  EXPECT_THAT(shortened_to(1e9), ElementsAre(near(1.5), near(2.5), near(0.4)));
}

// The copy takes 5 of the 6 seconds or so: what its step shows of the nodes is little.
TEST(MeasuredTimesTest, TimesAreNotShortenedForWhatCopiesTake) {
  const ExecutionPlan plan = ThreeSlotPlan().Build();
  TimeRecorder recorder(plan);
  recorder.AddStep(EventsOf(plan), 7);
  Profile profile = recorder.Times();
  Machine machine;
  machine.to_host_bytes_per_second = machine.to_device_bytes_per_second = 1e-3;
  machine.copy_latency_seconds = 0;
  ASSERT_TRUE(ShortenToStep(7, machine, plan, &profile).ok());
  for (const auto& [name, time] : profile.nodes) EXPECT_NEAR(time.seconds, 1, 0.01) << name;
}

TEST(MeasuredTimesTest, NodesThatRanAtOnceShareTheTimeTheyTook) {
  PlanBuilder b(256);
  b.Compute("x", "Mix", {}, {{0, 1}}).group = 1;
  b.Compute("y", "Mix", {}, {{64, 1}}).group = 1;
  const ExecutionPlan plan = b.Build();
  TimeRecorder recorder(plan);
  recorder.AddStep(std::vector<TraceEvent>{{0, 0, 0, 3}, {0, 1, 0.5, 1.5}}, 3);
  const Profile profile = recorder.Times();
  EXPECT_DOUBLE_EQ(profile.nodes.at("x").seconds, 2.25);
  EXPECT_DOUBLE_EQ(profile.nodes.at("y").seconds, 0.75);
}

TEST(MeasuredTimesTest, NodesWithoutANameInTheProfileTakeTheirKindsMean) {
  PlanBuilder b(256);
  b.Compute("x", "Mix", {}, {{0, 1}});
  b.Compute("y", "Mix", {}, {{64, 1}});
  const ExecutionPlan plan = b.Build();
  TimeRecorder recorder(plan);
  recorder.AddStep(std::vector<TraceEvent>{{0, 0, 0, 3}, {0, 1, 3, 4}}, 4);
  const NodeTimes times(recorder.Times());
  OpInstance copy = plan.instances[0];
  EXPECT_EQ(times.Find(copy), 3);
  copy.name = "x/again";
  EXPECT_EQ(times.Find(copy), 2);
  copy.op = "Other";
  EXPECT_EQ(times.Find(copy), std::nullopt);
}

// They move less than those that compute them.
TEST(MeasuredTimesTest, BatchNormsThatAreGivenTheirStatisticsAreAKindOfTheirOwn) {
  PlanBuilder b(256);
  b.Compute("x", "Mix", {}, {{0, 1}});
  ExecutionPlan plan = b.Build();
  TimeRecorder recorder(plan);
  recorder.AddStep(std::vector<TraceEvent>{{0, 0, 0, 3}}, 3);
  const Profile profile = recorder.Times();
  plan.instances[0].attrs.Set(kGivenStatistics, true);
  EXPECT_EQ(NodeTimes(profile).Find(plan.instances[0]), std::nullopt);
  EXPECT_TRUE(CheckProfile(profile, plan).ok()) << "another plan of the same graph";
}

TEST(MeasuredTimesTest, AProfileOfOtherShapesIsAnErrorThatNamesTheNode) {
  const ExecutionPlan plan = ThreeSlotPlan().Build();
  TimeRecorder recorder(plan);
  recorder.AddStep(EventsOf(plan), 7);
  Profile profile = recorder.Times();
  EXPECT_TRUE(CheckProfile(profile, plan).ok());
  profile.nodes.at("loss").types = "float[7]->float[7]";
  const absl::Status status = CheckProfile(profile, plan);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("'loss'"));
}

TEST(MeasuredTimesTest, PartsOfUpdatesMayHaveOtherSizes) {
  PlanBuilder b(256);
  b.Compute("w/update/part_0", "Mix", {}, {{0, 1}});
  const ExecutionPlan plan = b.Build();
  TimeRecorder recorder(plan);
  recorder.AddStep(std::vector<TraceEvent>{{0, 0, 0, 3}}, 3);
  Profile profile = recorder.Times();
  profile.nodes.at("w/update/part_0").types = "float[7]->float[7]";
  EXPECT_TRUE(CheckProfile(profile, plan).ok());
  EXPECT_EQ(NodeTimes(profile).Find(plan.instances[0]), std::nullopt);
}

TEST(MeasuredTimesTest, FusedNodesMayHaveBeenMeasuredApart) {
  PlanBuilder b(256);
  b.Compute("relu", "Mix", {}, {{0, 1}});
  const ExecutionPlan plan = b.Build();
  TimeRecorder recorder(plan);
  recorder.AddStep(std::vector<TraceEvent>{{0, 0, 0, 3}}, 3);
  Profile profile = recorder.Times();
  profile.nodes.at("relu").op = "_FusedConv2D";
  EXPECT_TRUE(CheckProfile(profile, plan).ok());
  EXPECT_EQ(NodeTimes(profile).Find(plan.instances[0]), std::nullopt);
  profile.nodes.at("relu").op = "Relu";
  EXPECT_FALSE(CheckProfile(profile, plan).ok());
}

}  // namespace
}  // namespace millrace::testing
