// Every fault that the emulated driver has, thrown in at every call and operation of some steps of a plan: a step that fails says
// why and leaves variables old or named, the steps behind it are right, or fail at once where the device is lost.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "stream_fixture.h"
#include "testlib/plan_builder.h"

namespace millrace::testing {
namespace {

using ::testing::HasSubstr;

constexpr int kSteps = 5, kRecordedStep = 3;

struct Outcome {
  std::vector<absl::Status> failures;
  int steps_right = 0;
};

class ThrownFaultsTest : public ::testing::TestWithParam<GraphCapture> {
 protected:
  // Runs the steps until the device is lost, which the next step must say at once.
  Outcome Run(const EmulatedOptions& options) {
    Outcome outcome;
    StreamRuntime runtime(options, GetParam());
    auto executor = runtime.Make(random_.plan);
    EXPECT_TRUE(executor.ok()) << executor.status();
    SetVariables(0, runtime.variables);
    for (int step = 0; step < kSteps; ++step) {
      (*executor)->set_recording(step == kRecordedStep);
      std::vector<Tensor> fetches;
      StepStats stats;
      const absl::Status status = (*executor)->RunStep({Tensor::Vector<float>(random_.feed)}, &fetches, &stats);
      if (status.ok()) {
        const RandomPlan::Results& expected = random_.expected[outcome.steps_right++];
        for (size_t i = 0; i < fetches.size(); ++i) EXPECT_EQ(Values(fetches[i]), expected.fetches[i]);
        continue;
      }
      outcome.failures.push_back(status);
      ExpectOthersUnchanged(outcome.steps_right, stats.changed_variables, runtime.variables);
      if (absl::IsUnavailable(status)) {
        EXPECT_FALSE((*executor)->RunStep({Tensor::Vector<float>(random_.feed)}, nullptr, nullptr).ok());
        break;
      }
      SetVariables(outcome.steps_right, runtime.variables);
    }
    const absl::Status read = runtime.variables.Read().status();
    if (!read.ok() && outcome.failures.empty()) outcome.failures.push_back(read);
    return outcome;
  }

  std::vector<float> Expected(int steps, const PlanVariable& variable) const {
    if (steps == 0) return std::vector<float>(variable.type.shape.num_elements(), 0);
    return random_.expected[steps - 1].variables.at(variable.name);
  }
  // As `steps` steps leave them.
  void SetVariables(int steps, VariableStore& store) const {
    for (const PlanVariable& variable : random_.plan.variables) {
      ASSERT_TRUE(store.Set(variable.name, Tensor::Vector<float>(Expected(steps, variable))).ok());
    }
  }
  void ExpectOthersUnchanged(int steps, const std::vector<std::string>& changed, VariableStore& store) const {
    auto variables = store.Read();
    if (!variables.ok()) {
      EXPECT_THAT(std::string(variables.status().message()), HasSubstr("are lost: "));
      variables = store.Read();
    }
    ASSERT_TRUE(variables.ok()) << variables.status();
    for (const PlanVariable& variable : random_.plan.variables) {
      if (variables->count(variable.name) == 0 || std::find(changed.begin(), changed.end(), variable.name) != changed.end()) continue;
      EXPECT_EQ(Values(variables->at(variable.name)), Expected(steps, variable)) << variable.name;
    }
  }

  EmulatedCounts CountsWithoutFaults() {
    EmulatedCounts counts;
    const Outcome outcome = Run({.counts = &counts});
    EXPECT_EQ(outcome.steps_right, kSteps);
    return counts;
  }

  const RandomPlan random_ = MakeRandomPlan({.seed = 5, .nodes = 16, .slots = 4, .variables = 3}, kSteps);
};

TEST_P(ThrownFaultsTest, WhateverIsRefusedOnceIsAnErrorOfOneStepAtMost) {
  struct Kind {
    const char* name;
    int64_t EmulatedFaults::*fault;
    int64_t EmulatedCounts::*count;
    bool is_an_error;  // or a warning, and slower copies or no graph
  };
  const Kind kinds[] = {{"device memory", &EmulatedFaults::fail_allocation, &EmulatedCounts::allocations, true},
                        {"page-locking", &EmulatedFaults::fail_pinning, &EmulatedCounts::pinnings, false},
                        {"stream", &EmulatedFaults::fail_stream, &EmulatedCounts::streams, true},
                        {"event", &EmulatedFaults::fail_event, &EmulatedCounts::events, true},
                        {"launch", &EmulatedFaults::fail_launch, &EmulatedCounts::launches, GetParam() == GraphCapture::kOff},
                        {"graph", &EmulatedFaults::fail_graph, &EmulatedCounts::captures, false},
                        {"launch of the graph", &EmulatedFaults::fail_graph_launch, &EmulatedCounts::graph_launches, true}};
  const EmulatedCounts counts = CountsWithoutFaults();
  for (const Kind& kind : kinds) {
    const bool of_graphs = kind.count == &EmulatedCounts::captures || kind.count == &EmulatedCounts::graph_launches;
    EXPECT_EQ(counts.*kind.count > 0, !of_graphs || GetParam() != GraphCapture::kOff) << kind.name;
    for (int64_t n = 0; n < counts.*kind.count; ++n) {
      SCOPED_TRACE(std::string(kind.name) + " " + std::to_string(n));
      EmulatedOptions options;
      options.faults.*kind.fault = n;
      const Outcome outcome = Run(options);
      EXPECT_LE(outcome.failures.size(), 1);
      EXPECT_TRUE(!kind.is_an_error || outcome.failures.size() == 1);
      EXPECT_GE(outcome.steps_right, kSteps - 1);
      for (const absl::Status& status : outcome.failures) EXPECT_THAT(std::string(status.message()), HasSubstr(kind.name));
      ASSERT_FALSE(HasFailure());
    }
  }
}

TEST_P(ThrownFaultsTest, ADeviceThatIsLostInAnyOperationIsTheErrorOfThatStepAndOfAllBehindIt) {
  const EmulatedCounts counts = CountsWithoutFaults();
  int in_steps = 0;
  for (int64_t n = 0; n < counts.operations; ++n) {
    SCOPED_TRACE(n);
    EmulatedOptions options;
    options.faults.lose_device = n;
    const Outcome outcome = Run(options);
    // Or in the copies home, after the steps.
    ASSERT_EQ(outcome.failures.size(), 1);
    EXPECT_TRUE(absl::IsUnavailable(outcome.failures[0])) << outcome.failures[0];
    EXPECT_THAT(std::string(outcome.failures[0].message()), HasSubstr("was lost"));
    in_steps += outcome.steps_right < kSteps ? 1 : 0;
    ASSERT_FALSE(HasFailure());
  }
  EXPECT_GT(in_steps, counts.operations / 2);
}

INSTANTIATE_TEST_SUITE_P(Capture, ThrownFaultsTest, ::testing::Values(GraphCapture::kOff, GraphCapture::kAuto),
                         [](const auto& param) { return param.param == GraphCapture::kOff ? "Streams" : "Graph"; });

// A larger plan takes the arena over, for which there is no room: the former one goes on with its values.
TEST(LaterAllocationTest, ThatIsRefusedLeavesTheSmallerPlanAsItWas) {
  const auto doubling = [](int64_t arena_bytes) {
    PlanBuilder b(arena_bytes);
    b.Variable("v", 4, 0);
    ComputeStep& add = b.Compute("add", "AddTo", {{0, 4, "v"}, {0, 4, "v"}}, {});
    add.input_variables = {0, 0};
    add.writes_variables = {0};
    return b.Build();
  };
  EmulatedOptions options;
  options.faults.fail_allocation = 1;
  StreamRuntime runtime(options);
  auto small = runtime.Make(doubling(64)), large = runtime.Make(doubling(4096));
  ASSERT_TRUE(small.ok() && large.ok());
  ASSERT_TRUE(runtime.variables.Set("v", Tensor::Vector<float>({1, 2, 3, 4})).ok());
  ASSERT_TRUE((*small)->RunStep({}, nullptr, nullptr).ok());
  const absl::Status refused = (*large)->RunStep({}, nullptr, nullptr);
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("cannot allocate 4096 bytes of device memory"));
  ASSERT_TRUE((*small)->RunStep({}, nullptr, nullptr).ok());
  ASSERT_TRUE((*large)->RunStep({}, nullptr, nullptr).ok());
  EXPECT_THAT(Values(runtime.variables.Read()->at("v")), ::testing::ElementsAre(8, 16, 24, 32));
}

void AddDoubling(PlanBuilder& b, const char* name) {
  const int32_t v = b.Variable(name, 4, 0);
  ComputeStep& add = b.Compute(std::string("add_") + name, "AddTo", {{0, 4, name}, {0, 4, name}}, {});
  add.input_variables = {v, v};
  add.writes_variables = {v};
}

// The last of two compute steps, and the second variable, are on a second device.
ExecutionPlan OnTwoDevices(ExecutionPlan plan, const StepWaits& waits) {
  plan.devices.push_back(plan.devices[0]);
  plan.variables[1].device = 1;
  Lane& first = plan.lanes[PlanBuilder::kCompute];
  Lane second;
  second.device = 1;
  second.compute.push_back(first.compute[1]);
  second.compute[0].waits = waits;
  first.compute.pop_back();
  plan.lanes.push_back(second);
  return plan;
}

// a doubles on the first device, then b on the second.
ExecutionPlan DoublingOnTwoDevices() {
  PlanBuilder b(256);
  for (const char* name : {"a", "b"}) AddDoubling(b, name);
  return OnTwoDevices(b.Build(), {{PlanBuilder::kCompute, 1}});
}

struct TwoDevices {
  TwoDevices(const EmulatedOptions& first, const EmulatedOptions& second, GraphCapture capture)
      : runtime({}, capture), context(runtime.context()) {
    context.devices.clear();
    const auto machine = MakeEmulatedMachine();
    for (const EmulatedOptions* options : {&first, &second}) {
      auto driver = MakeEmulatedDriver(SharedTestKernels(), *options, machine);
      CHECK(driver.ok()) << driver.status();
      devices.push_back(MakeStreamDevice("emulated", static_cast<int>(devices.size()), *std::move(driver), capture));
      context.devices.push_back(devices.back().get());
    }
  }
  absl::StatusOr<std::unique_ptr<Executor>> Make(ExecutionPlan plan) const {
    return Executor::Create(std::make_shared<ExecutionPlan>(std::move(plan)), context, {});
  }

  StreamRuntime runtime;
  RuntimeContext context;
  std::vector<std::unique_ptr<StreamDevice>> devices;
};

TEST(OneOfSeveralDevicesTest, ThatIsLostIsNamedAndTheOtherKeepsItsValues) {
  for (const int lost : {0, 1}) {
    for (const GraphCapture capture : {GraphCapture::kOff, GraphCapture::kAuto}) {
      SCOPED_TRACE(lost);
      // Of each the variable is loaded; a step is a kernel and what passes faults on. The third is a graph where there are graphs.
      EmulatedOptions options;
      options.faults.lose_device = 5;
      TwoDevices two(lost == 0 ? options : EmulatedOptions(), lost == 1 ? options : EmulatedOptions(), capture);
      VariableStore& variables = two.runtime.variables;
      auto executor = two.Make(DoublingOnTwoDevices());
      ASSERT_TRUE(executor.ok()) << executor.status();
      for (const char* name : {"a", "b"}) ASSERT_TRUE(variables.Set(name, Tensor::Vector<float>({1, 1, 1, 1})).ok());
      for (int step = 0; step < 2; ++step) ASSERT_TRUE((*executor)->RunStep({}, nullptr, nullptr).ok());
      // The other one doubles as often as it is said to have changed: the loss may be seen before that is enqueued.
      const std::string other = lost == 0 ? "b" : "a";
      float expected = 4;
      for (int step = 0; step < 2; ++step) {
        StepStats stats;
        EXPECT_TRUE(absl::IsUnavailable((*executor)->RunStep({}, nullptr, &stats)));
        if (std::count(stats.changed_variables.begin(), stats.changed_variables.end(), other) > 0) expected *= 2;
      }
      const absl::Status read = variables.Read().status();
      EXPECT_THAT(std::string(read.message()), HasSubstr(lost == 0 ? "are lost: a" : "are lost: b"));
      const auto left = variables.Read();
      ASSERT_TRUE(left.ok()) << left.status();
      ASSERT_EQ(left->size(), 1);
      EXPECT_EQ(Values(left->at(other)), std::vector<float>(4, expected));
    }
  }
}

// Of a kernel of several launches, which writes. What follows from a kernel that failed writes nothing.
TEST(OneOfSeveralDevicesTest, WhoseLaunchIsRefusedNamesWhatItWritesUnlessItFollowsFromAKernelThatFailed) {
  for (const bool fails : {false, true}) {
    for (const bool waits : {false, true}) {
      SCOPED_TRACE(std::string(fails ? "a kernel fails" : "no kernel fails") + (waits ? ", waited for" : ""));
      PlanBuilder b(256);
      const int32_t a = b.Variable("a", 4, 0);
      b.Compute("check", "FailIfNegative", {{0, 4, "a"}}, {{128, 4}}).input_variables = {a};
      AddDoubling(b, "b");
      EmulatedOptions options;
      options.faults.fail_launch = 0;
      TwoDevices two({}, options, GraphCapture::kOff);
      auto executor = two.Make(OnTwoDevices(b.Build(), waits ? StepWaits{{PlanBuilder::kCompute, 1}} : StepWaits()));
      ASSERT_TRUE(executor.ok()) << executor.status();
      for (const char* name : {"a", "b"}) ASSERT_TRUE(two.runtime.variables.Set(name, Tensor::Vector<float>({fails ? -1.0f : 1.0f, 1, 1, 1})).ok());
      StepStats stats;
      const absl::Status status = (*executor)->RunStep({}, nullptr, &stats);
      EXPECT_THAT(std::string(status.message()), HasSubstr(fails ? "starts with a negative" : "the launch was refused"));
      EXPECT_EQ(stats.changed_variables, fails && waits ? std::vector<std::string>() : std::vector<std::string>{"b"});
    }
  }
}

TEST(ContextTest, WhatADeviceHoldsBesideTheArenaIsMeasuredWithTheFirstStep) {
  for (const GraphCapture capture : {GraphCapture::kOff, GraphCapture::kAuto}) {
    EmulatedOptions options;
    options.context_bytes = 12345;
    StreamRuntime runtime(options, capture);
    const RandomPlan random = MakeRandomPlan(PlanOptionsFor(2), 1);
    auto executor = runtime.Make(random.plan);
    ASSERT_TRUE(executor.ok()) << executor.status();
    for (int step = 0; step < 3; ++step) {
      ZeroVariables(random.plan, runtime.variables);
      StepStats stats;
      ASSERT_TRUE((*executor)->RunStep({Tensor::Vector<float>(random.feed)}, nullptr, &stats).ok());
      EXPECT_THAT(stats.device_context_bytes, ::testing::ElementsAre(12345));
    }
  }
}

}  // namespace
}  // namespace millrace::testing
