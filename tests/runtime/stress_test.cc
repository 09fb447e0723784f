// Random plans on lanes that are held up at random, with errors thrown in: bits against a serial run.
#include <atomic>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "millrace/status.h"
#include "null/null_device.h"
#include "plan/plan_text.h"
#include "plan/plan_verifier.h"
#include "plan/simulator.h"
#include "testlib/executor_fixture.h"
#include "testlib/inline_task_runner.h"
#include "testlib/lane_delays.h"
#include "testlib/random_plan.h"

namespace millrace::testing {
namespace {

using ::testing::HasSubstr;

// Delays, and an error when told to.
class Disturber final : public LaneDelays {
 public:
  using LaneDelays::LaneDelays;
  absl::Status BeforeStep(int32_t lane, int64_t step) override {
    MR_RETURN_IF_ERROR(LaneDelays::BeforeStep(lane, step));
    if (lane == fail_lane_ && step == fail_step_) return absl::DataLossError("thrown in");
    return absl::OkStatus();
  }
  void FailAt(int32_t lane, int64_t step) {
    fail_lane_ = lane;
    fail_step_ = step;
  }

 private:
  int32_t fail_lane_ = -1;
  int64_t fail_step_ = -1;
};

std::vector<float> Values(const Tensor& tensor) {
  const auto span = tensor.as<float>();
  return {span.begin(), span.end()};
}

void ZeroVariables(const ExecutionPlan& plan, VariableStore& store) {
  for (const PlanVariable& variable : plan.variables) {
    ASSERT_TRUE(store.Set(variable.name, Tensor(variable.type.dtype, variable.type.shape)).ok());
  }
}

void ExpectResults(const RandomPlan::Results& expected, const std::vector<Tensor>& fetches, VariableStore& store) {
  ASSERT_EQ(fetches.size(), expected.fetches.size());
  for (size_t i = 0; i < fetches.size(); ++i) EXPECT_EQ(Values(fetches[i]), expected.fetches[i]) << "fetch " << i;
  const auto variables = store.Read();
  ASSERT_TRUE(variables.ok());
  for (const auto& [name, value] : expected.variables) EXPECT_EQ(Values(variables->at(name)), value) << name;
}

RandomPlanOptions OptionsFor(uint64_t seed) {
  RandomPlanOptions options;
  options.seed = seed;
  options.nodes = 20 + static_cast<int>(seed % 5) * 25;
  options.slots = 4 + static_cast<int>(seed % 4) * 3;
  options.variables = static_cast<int>(seed % 3) * 2;
  options.elements = 1 + static_cast<int64_t>(seed % 7) * 9;
  return options;
}

TEST(StressTest, GeneratedPlansAreRight) {
  int64_t copies = 0, grouped = 0;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    const RandomPlan random = MakeRandomPlan(OptionsFor(seed), 1);
    const absl::Status verdict = VerifyPlan(random.plan);
    EXPECT_TRUE(verdict.ok()) << "seed " << seed << ": " << verdict << "\n" << PlanToText(random.plan);
    copies += random.plan.lanes[1].num_steps() + random.plan.lanes[2].num_steps();
    const std::vector<ComputeStep>& compute = random.plan.lanes[0].compute;
    for (size_t i = 1; i < compute.size(); ++i) grouped += compute[i].group == compute[i - 1].group;
  }
  // The tests below mean little without these.
  EXPECT_GT(copies, 60 * 10);
  EXPECT_GT(grouped, 60 * 5);
}

class StressThreadsTest : public ::testing::TestWithParam<int> {};

TEST_P(StressThreadsTest, DisturbedLanesGiveTheBitsOfASerialRun) {
  for (uint64_t seed = 0; seed < 25; ++seed) {
    const RandomPlan random = MakeRandomPlan(OptionsFor(seed), 3);
    Runtime runtime(GetParam());
    Disturber disturber(seed);
    ExecutorOptions options;
    options.observer = &disturber;
    auto executor = runtime.Make(random.plan, options);
    ASSERT_TRUE(executor.ok()) << executor.status();
    ZeroVariables(random.plan, runtime.variables);
    for (const RandomPlan::Results& expected : random.expected) {
      std::vector<Tensor> fetches;
      const absl::Status status =
          (*executor)->RunStep({Tensor::Vector<float>(random.feed)}, &fetches, nullptr);
      ASSERT_TRUE(status.ok()) << "seed " << seed << ": " << status;
      ExpectResults(expected, fetches, runtime.variables);
      ASSERT_FALSE(HasFailure()) << "seed " << seed;
      disturber.NextStep();
    }
  }
}

TEST_P(StressThreadsTest, ErrorsStopEveryLaneAndLeaveVariablesOldOrNamed) {
  for (uint64_t seed = 0; seed < 25; ++seed) {
    const RandomPlan random = MakeRandomPlan(OptionsFor(seed), 1);
    Runtime runtime(GetParam());
    Disturber disturber(seed);
    ExecutorOptions options;
    options.observer = &disturber;
    auto executor = runtime.Make(random.plan, options);
    ASSERT_TRUE(executor.ok()) << executor.status();
    std::mt19937_64 dice(seed);
    for (int trial = 0; trial < 4; ++trial) {
      ZeroVariables(random.plan, runtime.variables);
      const int32_t lane = static_cast<int32_t>(dice() % 3);
      const int64_t steps = random.plan.lanes[lane].num_steps();
      if (steps == 0) continue;
      disturber.FailAt(lane, static_cast<int64_t>(dice() % steps));
      std::vector<Tensor> fetches;
      const absl::Status status = (*executor)->RunStep({Tensor::Vector<float>(random.feed)}, &fetches, nullptr);
      ASSERT_EQ(status.code(), absl::StatusCode::kDataLoss) << "seed " << seed;
      EXPECT_THAT(std::string(status.message()), HasSubstr("thrown in; "));
      // A variable that the message does not name is as it was.
      const std::string message(status.message());
      const size_t list = message.find("changed already by this step: ");
      const auto variables = runtime.variables.Read();
      for (const auto& [name, value] : *variables) {
        if (list != std::string::npos && message.find(name, list) != std::string::npos) continue;
        EXPECT_EQ(Values(value), std::vector<float>(value.num_elements(), 0)) << name << ": " << message;
      }
    }
    disturber.FailAt(-1, -1);
    ZeroVariables(random.plan, runtime.variables);
    std::vector<Tensor> fetches;
    ASSERT_TRUE((*executor)->RunStep({Tensor::Vector<float>(random.feed)}, &fetches, nullptr).ok());
    ExpectResults(random.expected[0], fetches, runtime.variables);
    ASSERT_FALSE(HasFailure()) << "seed " << seed;
  }
}

INSTANTIATE_TEST_SUITE_P(Threads, StressThreadsTest, ::testing::Values(1, 2, 4));

TEST(StressTest, OrderWithinAGroupDoesNotMatter) {
  for (InlineOrder order : {InlineOrder::kForward, InlineOrder::kReverse}) {
    for (uint64_t seed = 0; seed < 10; ++seed) {
      const RandomPlan random = MakeRandomPlan(OptionsFor(seed), 1);
      Runtime runtime(std::make_unique<InlineTaskRunner>(order, /*threads=*/4), nullptr);
      auto executor = runtime.Make(random.plan);
      ASSERT_TRUE(executor.ok());
      ZeroVariables(random.plan, runtime.variables);
      std::vector<Tensor> fetches;
      ASSERT_TRUE((*executor)->RunStep({Tensor::Vector<float>(random.feed)}, &fetches, nullptr).ok());
      ExpectResults(random.expected[0], fetches, runtime.variables);
    }
  }
}

TEST(NullDeviceTest, EventsEqualTheSimulators) {
  for (uint64_t seed = 0; seed < 40; ++seed) {
    RandomPlan random = MakeRandomPlan(OptionsFor(seed), 1);
    std::mt19937_64 dice(seed);
    for (Lane& lane : random.plan.lanes) {
      for (ComputeStep& step : lane.compute) step.predicted_seconds = static_cast<double>(dice() % 1000) / 7;
      for (CopyStep& step : lane.copies) step.predicted_seconds = static_cast<double>(dice() % 1000) / 3;
    }
    const auto simulation = SimulatePlan(random.plan, Machine());
    ASSERT_TRUE(simulation.ok()) << simulation.status();
    Runtime runtime(std::make_unique<InlineTaskRunner>(), MakeNullDevice(0, 0, SharedTestKernels()));
    auto executor = runtime.Make(random.plan);
    ASSERT_TRUE(executor.ok()) << executor.status();
    for (int step = 0; step < 2; ++step) {
      StepStats stats;
      ASSERT_TRUE((*executor)->RunStep({}, nullptr, &stats).ok());
      ASSERT_EQ(stats.trace.size(), simulation->events.size());
      for (size_t i = 0; i < stats.trace.size(); ++i) {
        EXPECT_EQ(stats.trace[i].lane, simulation->events[i].lane);
        EXPECT_EQ(stats.trace[i].step, simulation->events[i].step);
        EXPECT_EQ(stats.trace[i].start_seconds, simulation->events[i].start_seconds) << i;
        EXPECT_EQ(stats.trace[i].end_seconds, simulation->events[i].end_seconds) << i;
      }
      EXPECT_EQ(stats.seconds, simulation->step_seconds);
      EXPECT_EQ(stats.compute_seconds, simulation->compute_seconds);
      EXPECT_EQ(stats.bytes_to_host, simulation->bytes_to_host);
      EXPECT_EQ(stats.bytes_to_device, simulation->bytes_to_device);
    }
  }
}

TEST(NullDeviceTest, PlanLargerThanTheDeviceIsRefused) {
  const RandomPlan random = MakeRandomPlan(OptionsFor(1), 1);
  Runtime runtime(std::make_unique<InlineTaskRunner>(), MakeNullDevice(0, 64, SharedTestKernels()));
  auto executor = runtime.Make(random.plan);
  ASSERT_TRUE(executor.ok()) << executor.status();
  EXPECT_EQ((*executor)->RunStep({}, nullptr, nullptr).code(), absl::StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace millrace::testing
