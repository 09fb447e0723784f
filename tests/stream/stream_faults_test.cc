// What goes wrong with a device, thrown in everywhere: an error that says so, variables old or named, never a hang.
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "stream_fixture.h"
#include "testlib/plan_builder.h"

namespace millrace::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// A variable that `message` does not name is as it was. Those whose value is lost with the device have none.
void ExpectOthersUnchanged(const std::string& message, VariableStore& store, const ExecutionPlan& plan) {
  const size_t list = message.find("changed already by this step: ");
  auto variables = store.Read();
  if (!variables.ok()) {
    EXPECT_THAT(std::string(variables.status().message()), HasSubstr("are lost: "));
    variables = store.Read();
  }
  ASSERT_TRUE(variables.ok()) << variables.status();
  for (const PlanVariable& variable : plan.variables) {
    if (list != std::string::npos && message.find(variable.name, list) != std::string::npos) continue;
    const auto it = variables->find(variable.name);
    ASSERT_NE(it, variables->end()) << variable.name << " is gone: " << message;
    EXPECT_EQ(Values(it->second), std::vector<float>(it->second.num_elements(), 0)) << variable.name << ": " << message;
  }
}

TEST(StreamFaultsTest, AnArenaThatDoesNotFitIsRefusedWithFigures) {
  const RandomPlan random = MakeRandomPlan(PlanOptionsFor(1), 1);
  for (const bool refused : {false, true}) {
    EmulatedOptions options;
    if (refused) {
      options.faults.fail_allocation = 0;
    } else {
      options.device_memory_bytes = 64;
    }
    StreamRuntime runtime(options);
    auto executor = runtime.Make(random.plan);
    ASSERT_TRUE(executor.ok()) << executor.status();
    ZeroVariables(random.plan, runtime.variables);
    const absl::Status status = (*executor)->RunStep({Tensor::Vector<float>(random.feed)}, nullptr, nullptr);
    EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
    EXPECT_THAT(std::string(status.message()), HasSubstr("device memory"));
  }
}

TEST(StreamFaultsTest, RefusedPinningIsAWarning) {
  EmulatedOptions options;
  options.faults.refuse_pinning = true;
  StreamRuntime runtime(options);
  const RandomPlan random = MakeRandomPlan(PlanOptionsFor(2), 1);
  auto executor = runtime.Make(random.plan);
  ASSERT_TRUE(executor.ok());
  ZeroVariables(random.plan, runtime.variables);
  EXPECT_TRUE((*executor)->RunStep({Tensor::Vector<float>(random.feed)}, nullptr, nullptr).ok());
  EXPECT_FALSE(runtime.stream_device().pinning().ok());
}

TEST(StreamFaultsTest, ARefusedLaunchNamesTheNodeAndLeavesTheRestAsItWas) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const RandomPlan random = MakeRandomPlan(PlanOptionsFor(seed), 1);
    EmulatedOptions options;
    options.seed = seed;
    options.max_delay_microseconds = 100;
    options.faults.fail_launch = static_cast<int64_t>(seed * 7 % random.plan.lanes[0].num_steps());
    StreamRuntime runtime(options);
    auto executor = runtime.Make(random.plan);
    ASSERT_TRUE(executor.ok()) << executor.status();
    ZeroVariables(random.plan, runtime.variables);
    const absl::Status status = (*executor)->RunStep({Tensor::Vector<float>(random.feed)}, nullptr, nullptr);
    ASSERT_FALSE(status.ok());
    const std::string message(status.message());
    EXPECT_THAT(message, HasSubstr("node '"));
    EXPECT_THAT(message, HasSubstr("the launch was refused"));
    ExpectOthersUnchanged(message, runtime.variables, random.plan);
    // The fault is over: the next step is right.
    ZeroVariables(random.plan, runtime.variables);
    std::vector<Tensor> fetches;
    ASSERT_TRUE((*executor)->RunStep({Tensor::Vector<float>(random.feed)}, &fetches, nullptr).ok());
    for (size_t i = 0; i < fetches.size(); ++i) EXPECT_EQ(Values(fetches[i]), random.expected[0].fetches[i]);
  }
}

// The first step runs on streams, the second is to be a graph.
TEST(StreamFaultsTest, AGraphThatIsNotMadeIsAWarningOrAnErrorAsWasAskedFor) {
  for (const GraphCapture mode : {GraphCapture::kAuto, GraphCapture::kOn}) {
    const RandomPlan random = MakeRandomPlan(PlanOptionsFor(3), 1);
    EmulatedOptions options;
    options.faults.fail_graph = 0;
    StreamRuntime runtime(options, mode);
    auto executor = runtime.Make(random.plan);
    ASSERT_TRUE(executor.ok()) << executor.status();
    for (int step = 0; step < 4; ++step) {
      ZeroVariables(random.plan, runtime.variables);
      std::vector<Tensor> fetches;
      const absl::Status status = (*executor)->RunStep({Tensor::Vector<float>(random.feed)}, &fetches, nullptr);
      if (mode == GraphCapture::kOn && step == 1) {
        EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
        EXPECT_THAT(std::string(status.message()), HasSubstr("the graph was refused"));
        ExpectOthersUnchanged("", runtime.variables, random.plan);
        continue;
      }
      ASSERT_TRUE(status.ok()) << "step " << step << ": " << status;
      for (size_t i = 0; i < fetches.size(); ++i) EXPECT_EQ(Values(fetches[i]), random.expected[0].fetches[i]);
    }
  }
}

class DeviceLostTest : public ::testing::TestWithParam<GraphCapture> {};

TEST_P(DeviceLostTest, InMidStepEveryCallReturnsAndVariablesAreOldOrNamed) {
  for (uint64_t seed = 0; seed < 25; ++seed) {
    const RandomPlan random = MakeRandomPlan(PlanOptionsFor(seed), 3);
    int64_t operations = 0;
    for (const Lane& lane : random.plan.lanes) operations += lane.num_steps();
    EmulatedOptions options;
    options.seed = seed;
    options.max_delay_microseconds = 100;
    // Also in the copies that load variables before the step, in later steps, in graphs.
    options.faults.lose_device = static_cast<int64_t>(seed * 31 % (3 * operations));
    StreamRuntime runtime(options, GetParam());
    auto executor = runtime.Make(random.plan);
    ASSERT_TRUE(executor.ok()) << executor.status();
    ZeroVariables(random.plan, runtime.variables);
    absl::Status status;
    for (int step = 0; step < 4 && status.ok(); ++step) {
      // As a user does between steps, so that the values at risk are those of one step.
      status = (*executor)->RunStep({Tensor::Vector<float>(random.feed)}, nullptr, nullptr);
      if (status.ok()) ZeroVariables(random.plan, runtime.variables);
    }
    ASSERT_EQ(status.code(), absl::StatusCode::kUnavailable) << "seed " << seed << " " << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("was lost"));
    ExpectOthersUnchanged(std::string(status.message()), runtime.variables, random.plan);
    // And it stays lost.
    EXPECT_FALSE((*executor)->RunStep({Tensor::Vector<float>(random.feed)}, nullptr, nullptr).ok());
  }
}

INSTANTIATE_TEST_SUITE_P(Capture, DeviceLostTest, ::testing::Values(GraphCapture::kOff, GraphCapture::kAuto));

// x -> maybe fails -> the variable, which lives on the device, is added to.
ExecutionPlan FailingPlan(const char* op = "FailIfNegative") {
  PlanBuilder b(256);
  b.Variable("v", 4, 0);
  b.Feed("x", 4);
  b.In("x:0", b.FeedRef("x"), 64, 16);
  b.Compute("check", op, {{64, 4}}, {{128, 4}}, {b.AfterIn()});
  ComputeStep& add = b.Compute("add", "AddTo", {{0, 4, "v"}, {128, 4}}, {});
  add.input_variables = {0, -1};
  add.writes_variables = {0};
  b.Fetch("check:0", 4);
  b.Out("check:0", 128, 16, b.FetchRef("check:0"), {b.AfterCompute()});
  return b.Build();
}

// With a graph, a launch is refused while the second step is captured, on all streams and on the one that the graph begins on:
// what had been captured by then is given back, which the driver checks when it is closed.
TEST(StreamFaultsTest, ALaunchThatIsRefusedInACaptureLeavesNoGraph) {
  for (const bool one_stream : {false, true}) {
    PlanBuilder b(256);
    b.Variable("v", 4, 0);
    for (const char* name : {"first", "second"}) {
      ComputeStep& add = b.Compute(name, "AddTo", {{0, 4, "v"}, {0, 4, "v"}}, {});
      add.input_variables = {0, 0};
      add.writes_variables = {0};
    }
    ExecutionPlan plan = b.Build();
    if (one_stream) plan.lanes.resize(1);
    EmulatedOptions options;
    options.faults.fail_launch = 3;  // the second of the second step
    StreamRuntime runtime(options, GraphCapture::kAuto);
    auto executor = runtime.Make(plan);
    ASSERT_TRUE(executor.ok()) << executor.status();
    ASSERT_TRUE(runtime.variables.Set("v", Tensor::Vector<float>({1, 0, 0, 0})).ok());
    for (int step = 0; step < 4; ++step) {
      const absl::Status status = (*executor)->RunStep({}, nullptr, nullptr);
      ASSERT_TRUE(status.ok()) << "step " << step << ": " << status;  // auto: on streams then
    }
    EXPECT_EQ(Values(runtime.variables.Read()->at("v"))[0], 256);
  }
}

class KernelFaultTest : public ::testing::TestWithParam<GraphCapture> {};

TEST_P(KernelFaultTest, AKernelThatThrowsIsAnErrorOfItsNode) {
  StreamRuntime runtime({}, GetParam());
  const ExecutionPlan plan = FailingPlan("ThrowIfNegative");
  auto executor = runtime.Make(plan);
  ASSERT_TRUE(executor.ok()) << executor.status();
  ZeroVariables(plan, runtime.variables);
  const Tensor good = Tensor::Vector<float>({0, 0, 0, 0}), bad = Tensor::Vector<float>({-1, 0, 0, 0});
  for (int step = 0; step < 2; ++step) ASSERT_TRUE((*executor)->RunStep({good}, nullptr, nullptr).ok());
  const absl::Status status = (*executor)->RunStep({bad}, nullptr, nullptr);
  EXPECT_THAT(std::string(status.message()), HasSubstr("node 'check' (ThrowIfNegative): threw an exception: boom"));
  ASSERT_TRUE((*executor)->RunStep({good}, nullptr, nullptr).ok());
  EXPECT_EQ(Values(runtime.variables.Read()->at("v")), std::vector<float>(4, 3));
}

TEST_P(KernelFaultTest, AKernelThatFailsStopsTheWritesBehindIt) {
  StreamRuntime runtime({}, GetParam());
  const ExecutionPlan plan = FailingPlan();
  auto executor = runtime.Make(plan);
  ASSERT_TRUE(executor.ok()) << executor.status();
  ZeroVariables(plan, runtime.variables);
  const Tensor good = Tensor::Vector<float>({0, 0, 0, 0}), bad = Tensor::Vector<float>({-1, 0, 0, 0});
  for (int step = 0; step < 3; ++step) ASSERT_TRUE((*executor)->RunStep({good}, nullptr, nullptr).ok());
  const absl::Status status = (*executor)->RunStep({bad}, nullptr, nullptr);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("node 'check' (FailIfNegative): input 0 starts with a negative"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("no variable has changed"));
  EXPECT_EQ(Values(runtime.variables.Read()->at("v")), std::vector<float>(4, 3));
  ASSERT_TRUE((*executor)->RunStep({good}, nullptr, nullptr).ok());
  EXPECT_EQ(Values(runtime.variables.Read()->at("v")), std::vector<float>(4, 4));
}

INSTANTIATE_TEST_SUITE_P(Capture, KernelFaultTest, ::testing::Values(GraphCapture::kOff, GraphCapture::kOn));

TEST(StreamFaultsTest, ValuesOnALostDeviceAreReportedLostAndNotReadStale) {
  const ExecutionPlan plan = FailingPlan();
  EmulatedOptions options;
  // The load of v, x in, two kernels, the fetch; then the copy home is torn.
  options.faults.lose_device = 5;
  StreamRuntime runtime(options);
  auto executor = runtime.Make(plan);
  ASSERT_TRUE(executor.ok()) << executor.status();
  ZeroVariables(plan, runtime.variables);
  ASSERT_TRUE((*executor)->RunStep({Tensor::Vector<float>({0, 0, 0, 0})}, nullptr, nullptr).ok());
  const auto values = runtime.variables.Read();
  ASSERT_FALSE(values.ok());
  EXPECT_THAT(std::string(values.status().message()), HasSubstr("are lost: v"));
  EXPECT_EQ(runtime.variables.Read()->count("v"), 0);
}

}  // namespace
}  // namespace millrace::testing
