// Random plans on streams that are held up at random: bits against a serial run, as streams and as a graph.
#include <atomic>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "stream_fixture.h"
#include "testlib/plan_builder.h"

namespace millrace::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

void ExpectResults(const RandomPlan::Results& expected, const std::vector<Tensor>& fetches, VariableStore& store) {
  ASSERT_EQ(fetches.size(), expected.fetches.size());
  for (size_t i = 0; i < fetches.size(); ++i) EXPECT_EQ(Values(fetches[i]), expected.fetches[i]) << "fetch " << i;
  const auto variables = store.Read();
  ASSERT_TRUE(variables.ok()) << variables.status();
  for (const auto& [name, value] : expected.variables) EXPECT_EQ(Values(variables->at(name)), value) << name;
}

class StreamEngineTest : public ::testing::TestWithParam<GraphCapture> {};

TEST_P(StreamEngineTest, DisturbedStreamsGiveTheBitsOfASerialRun) {
  for (uint64_t seed = 0; seed < 25; ++seed) {
    const RandomPlan random = MakeRandomPlan(PlanOptionsFor(seed), 4);
    EmulatedOptions options;
    options.seed = seed;
    options.max_delay_microseconds = 200;
    options.faults.refuse_pinning = GetParam() == GraphCapture::kOff && seed % 4 == 3;  // pageable copies are as right
    StreamRuntime runtime(options, GetParam());
    auto executor = runtime.Make(random.plan);
    ASSERT_TRUE(executor.ok()) << executor.status();
    ZeroVariables(random.plan, runtime.variables);
    for (const RandomPlan::Results& expected : random.expected) {
      std::vector<Tensor> fetches;
      const absl::Status status = (*executor)->RunStep({Tensor::Vector<float>(random.feed)}, &fetches, nullptr);
      ASSERT_TRUE(status.ok()) << "seed " << seed << ": " << status;
      ExpectResults(expected, fetches, runtime.variables);
      ASSERT_FALSE(HasFailure()) << "seed " << seed;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Capture, StreamEngineTest,
                         ::testing::Values(GraphCapture::kOff, GraphCapture::kAuto, GraphCapture::kOn),
                         [](const auto& param) {
                           return param.param == GraphCapture::kOff    ? "Streams"
                                  : param.param == GraphCapture::kAuto ? "Auto"
                                                                       : "Graph";
                         });

// Copies 4 floats in, mixes, copies them out again; the variable lives on the device.
ExecutionPlan SmallPlan() {
  PlanBuilder b(192);
  b.Feed("x", 4);
  b.In("x:0", b.FeedRef("x"), 0, 16);
  b.Compute("y", "Mix", {{0, 4}}, {{64, 4}}, {b.AfterIn()});
  b.Fetch("y:0", 4);
  b.Out("y:0", 64, 16, b.FetchRef("y:0"), {b.AfterCompute()});
  return b.Build();
}

TEST(StreamStatsTest, CountsBytesAndTimesWaits) {
  StreamRuntime runtime({});
  ExecutorOptions options;
  options.trace = true;
  auto executor = runtime.Make(SmallPlan(), options);
  ASSERT_TRUE(executor.ok()) << executor.status();
  StepStats stats;
  std::vector<Tensor> fetches;
  ASSERT_TRUE((*executor)->RunStep({Tensor::Vector<float>({1, 2, 3, 4})}, &fetches, &stats).ok());
  EXPECT_THAT(Values(fetches[0]), ElementsAre(1.5, 2, 2.5, 3));
  EXPECT_EQ(stats.bytes_to_device, 16);
  EXPECT_EQ(stats.bytes_to_host, 16);
  EXPECT_EQ(stats.peak_device_bytes, 80);
  EXPECT_GT(stats.seconds, 0);
  EXPECT_GE(stats.compute_seconds, 0);
  EXPECT_DOUBLE_EQ(stats.stall_seconds, stats.seconds - stats.compute_seconds);
  ASSERT_EQ(stats.trace.size(), 3);
  for (const TraceEvent& event : stats.trace) EXPECT_GE(event.end_seconds, event.start_seconds);
}

TEST(StreamStatsTest, StepsThatAreRecordedHaveTimesAndGraphsGoOnBehindThem) {
  StreamRuntime runtime({}, GraphCapture::kOn);
  auto executor = runtime.Make(SmallPlan());
  ASSERT_TRUE(executor.ok()) << executor.status();
  for (int step = 0; step < 8; ++step) {
    const bool recorded = step == 3 || step == 4;
    (*executor)->set_recording(recorded);
    StepStats stats;
    std::vector<Tensor> fetches;
    const float x = static_cast<float>(step);
    const absl::Status status = (*executor)->RunStep({Tensor::Vector<float>({x, 2, 3, 4})}, &fetches, &stats);
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_THAT(Values(fetches[0]), ElementsAre(1 + x / 2, 2, 2.5, 3));
    EXPECT_EQ(stats.trace.size(), recorded ? 3 : 0) << "step " << step;
    EXPECT_EQ(stats.replayed, step > 0 && !recorded) << "step " << step;
  }
}

TEST(StreamGraphTest, AGraphIsReplayedWithNewFeedsAndNewState) {
  PlanBuilder b(256);
  b.Feed("x", 4);
  b.In("x:0", b.FeedRef("x"), 0, 16);
  b.Compute("y", "Mix", {{0, 4}}, {{64, 4}}, {b.AfterIn()});
  ComputeStep& count = b.Compute("n", "Count", {}, {{128, 1}});
  count.state_bytes = 8;
  b.Fetch("y:0", 4);
  b.Out("y:0", 64, 16, b.FetchRef("y:0"), {b.AfterCompute()});
  b.Fetch("n:0", 1);
  b.Out("n:0", 128, 4, b.FetchRef("n:0"));
  StreamRuntime runtime({}, GraphCapture::kOn);
  auto executor = runtime.Make(b.Build());
  ASSERT_TRUE(executor.ok()) << executor.status();
  for (int step = 1; step <= 4; ++step) {
    std::vector<Tensor> fetches;
    const float x = static_cast<float>(step);
    const absl::Status status = (*executor)->RunStep({Tensor::Vector<float>({x, 0, 0, 0})}, &fetches, nullptr);
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_THAT(Values(fetches[0]), ElementsAre(1 + x / 2, 1, 1, 1));
    EXPECT_THAT(Values(fetches[1]), ElementsAre(x));
  }
}

// Each variable += x; it stays at its address, and x comes to `x_offset`.
ExecutionPlan Updates(int64_t arena_bytes, int64_t x_offset, const std::vector<std::pair<std::string, int64_t>>& variables) {
  PlanBuilder b(arena_bytes);
  b.Feed("x", 4);
  b.In("x:0", b.FeedRef("x"), x_offset, 16);
  for (const auto& [name, offset] : variables) {
    const int32_t v = b.Variable(name, 4, offset);
    b.plan().variables[v].read_before_write = b.plan().variables[v].written = true;
    ComputeStep& update = b.Compute("update_" + name, "AddTo", {{offset, 4}, {x_offset, 4}}, {}, {b.AfterIn()});
    update.input_variables = {v, -1};
    update.writes_variables = {v};
  }
  return b.Build();
}

// Executors find variables where the others have left them: a graph is good for every turn, until memory moves.
TEST(StreamGraphTest, GraphsOutliveTheTurnsOfOthers) {
  EmulatedCounts counts;
  EmulatedOptions options;
  options.max_delay_microseconds = 50;
  options.counts = &counts;
  StreamRuntime runtime(options, GraphCapture::kOn);
  const auto large = runtime.Make(Updates(1 << 14, 192, {{"v", 0}, {"w", 64}, {"u", 128}})), small = runtime.Make(Updates(256, 64, {{"w", 0}}));
  const auto in_the_way = runtime.Make(Updates(1 << 14, 0, {{"v", 64}})), larger = runtime.Make(Updates(1 << 16, 64, {{"u", 0}}));
  ASSERT_TRUE(large.ok() && small.ok() && in_the_way.ok() && larger.ok());
  std::map<std::string, float> expected;
  for (const char* name : {"u", "v", "w"}) {
    expected[name] = 0;
    ASSERT_TRUE(runtime.variables.Set(name, Tensor::Vector<float>({0, 0, 0, 0})).ok());
  }
  float x = 0;
  const auto step = [&](Executor& executor) {
    x += 1;
    StepStats stats;
    const absl::Status ran = executor.RunStep({Tensor::Vector<float>({x, 0, 0, 0})}, nullptr, &stats);
    EXPECT_TRUE(ran.ok()) << ran;
    for (const PlanVariable& variable : executor.plan().variables) expected[variable.name] += x;
    return stats.replayed;
  };
  const auto turns = [&](int first_replayed) {
    for (int turn = 0; turn < 4; ++turn) {
      for (Executor* executor : {large->get(), small->get()}) EXPECT_EQ(step(*executor), turn >= first_replayed) << turn;
    }
  };
  turns(1);
  EXPECT_EQ(counts.captures, 2);
  step(**in_the_way);
  for (int turn = 0; turn < 2; ++turn) {
    for (Executor* executor : {large->get(), small->get(), in_the_way->get()}) step(*executor);
  }
  step(**larger);
  turns(1);
  for (const auto& [name, value] : expected) EXPECT_EQ(runtime.variables.Read(name)->as<float>()[0], value) << name;
}

// IsSet asks the host: the graph of a step where the variable had no value must not be replayed once it has one.
TEST(StreamGraphTest, AVariableThatGainedAValueIsSeen) {
  PlanBuilder b(256);
  b.Variable("v", 4, 0);
  b.Feed("x", 4);
  b.In("x:0", b.FeedRef("x"), 64, 16);
  ComputeStep& set = b.Compute("set", "IsSet", {{0, 4, "v"}}, {{128, 1}});
  set.input_variables = {0};
  b.Fetch("set:0", 1);
  b.Out("set:0", 128, 4, b.FetchRef("set:0"), {b.AfterCompute()});
  ComputeStep& assign = b.Compute("assign", "Assign", {{0, 4, "v"}, {64, 4}}, {}, {b.AfterIn()});
  assign.input_variables = {0, -1};
  assign.writes_variables = {0};
  assign.overwrites_variables = true;
  StreamRuntime runtime({}, GraphCapture::kAuto);
  auto executor = runtime.Make(b.Build());
  ASSERT_TRUE(executor.ok()) << executor.status();
  for (int step = 0; step < 4; ++step) {
    std::vector<Tensor> fetches;
    const absl::Status status = (*executor)->RunStep({Tensor::Vector<float>({1, 2, 3, 4})}, &fetches, nullptr);
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_THAT(Values(fetches[0]), ElementsAre(step == 0 ? 0.0f : 1.0f)) << "step " << step;
  }
}

TEST(StreamGraphTest, HostMemoryThatIsNotPageLockedIsNotCaptured) {
  EmulatedOptions options;
  options.faults.refuse_pinning = true;
  StreamRuntime automatic(options, GraphCapture::kAuto), demanded(options, GraphCapture::kOn);
  auto runs = automatic.Make(SmallPlan());
  auto fails = demanded.Make(SmallPlan());
  ASSERT_TRUE(runs.ok() && fails.ok());
  for (int step = 0; step < 3; ++step) {
    EXPECT_TRUE((*runs)->RunStep({Tensor::Vector<float>({1, 2, 3, 4})}, nullptr, nullptr).ok());
  }
  const absl::Status status = (*fails)->RunStep({Tensor::Vector<float>({1, 2, 3, 4})}, nullptr, nullptr);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("page-locked"));
}

// A value goes to the pool, at `offset`, and comes back.
ExecutionPlan ThroughThePool(int64_t offset) {
  PlanBuilder b(256);
  b.Feed("x", 4);
  b.In("x:0", b.FeedRef("x"), 0, 16);
  b.Compute("y", "Mix", {{0, 4}}, {{64, 4}}, {b.AfterIn()});
  b.Out("y:0", 64, 16, b.PoolRef(offset), {b.AfterCompute()});
  b.In("y:0", b.PoolRef(offset), 128, 16, {b.AfterOut()});
  b.Fetch("y:0", 4);
  b.Out("y:0", 128, 16, b.FetchRef("y:0"), {b.AfterIn()});
  return b.Build();
}

TEST(StreamGraphTest, APoolThatIsNotPageLockedOnceItHasGrownIsNotCaptured) {
  int64_t growth = -1;  // which page-locking is the larger pool's
  for (const GraphCapture mode : {GraphCapture::kOff, GraphCapture::kAuto, GraphCapture::kOn}) {
    EmulatedCounts counts;
    EmulatedOptions options;
    options.faults.fail_pinning = growth;
    options.counts = &counts;
    StreamRuntime runtime(options, mode);
    auto small = runtime.Make(ThroughThePool(0)), large = runtime.Make(ThroughThePool(1 << 16));
    ASSERT_TRUE(small.ok() && large.ok());
    const auto step = [](Executor& executor) { return executor.RunStep({Tensor::Vector<float>({1, 2, 3, 4})}, nullptr, nullptr); };
    ASSERT_TRUE(step(**small).ok());
    growth = counts.pinnings;
    EXPECT_EQ(step(**large).ok(), mode != GraphCapture::kOn);
    EXPECT_EQ(runtime.stream_device().pinning().ok(), mode == GraphCapture::kOff);
    for (int again = 0; again < 3; ++again) {
      const absl::Status status = step(**small);
      EXPECT_EQ(status.ok(), mode != GraphCapture::kOn) << status;
      if (mode == GraphCapture::kOn) {
        EXPECT_THAT(std::string(status.message()), HasSubstr("the step cannot be captured: host memory could not be page-locked"));
      }
    }
    EXPECT_EQ(counts.captures, 0);
  }
}

TEST(StreamGraphTest, NamesOfModesAreRead) {
  EXPECT_EQ(*ParseGraphCapture("auto"), GraphCapture::kAuto);
  EXPECT_EQ(*ParseGraphCapture("on"), GraphCapture::kOn);
  EXPECT_EQ(*ParseGraphCapture("off"), GraphCapture::kOff);
  EXPECT_EQ(ParseGraphCapture("yes").status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace millrace::testing
