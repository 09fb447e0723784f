#include "runtime/executor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pthread.h>

#include "testlib/executor_fixture.h"
#include "testlib/plan_builder.h"

namespace millrace::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<float> Values(const Tensor& tensor) {
  const auto span = tensor.as<float>();
  return {span.begin(), span.end()};
}

// x is fed, y = Mix(x), y goes to the host and comes back elsewhere, z = Mix(y, x).
//   to-device |x< |    |    |y< |
//   compute   |   | y  |    |   | z |
//   to-host   |   |    |y>  |   |   |z>
PlanBuilder SwapPlan() {
  PlanBuilder b(256);
  b.Feed("x", 4);
  b.Fetch("z:0", 4);
  b.In("x:0", b.FeedRef("x"), 0, 16);
  b.Compute("y", "Mix", {{0, 4}}, {{64, 4}}, {b.AfterIn()});
  b.Out("y:0", 64, 16, b.PoolRef(64), {b.AfterCompute()});
  b.In("y:0", b.PoolRef(64), 128, 16, {b.AfterOut()});
  b.Compute("z", "Mix", {{128, 4}, {0, 4}}, {{64, 4}}, {b.AfterIn(), b.AfterOut()});
  b.Out("z:0", 64, 16, b.FetchRef("z:0"), {b.AfterCompute()});
  return b;
}

TEST(ExecutorTest, TensorThatWentToTheHostComesBackAtAnotherAddress) {
  Runtime runtime;
  auto executor = runtime.Make(SwapPlan().Build());
  ASSERT_TRUE(executor.ok()) << executor.status();
  for (int step = 0; step < 3; ++step) {
    std::vector<Tensor> fetches;
    StepStats stats;
    const absl::Status status = (*executor)->RunStep({Tensor::Vector<float>({0, 2, 4, 6})}, &fetches, &stats);
    ASSERT_TRUE(status.ok()) << status;
    // y = 1 + x/2 = 1 2 3 4; z = 1 + y/2 + x = 1.5 4 6.5 9.
    EXPECT_THAT(Values(fetches.at(0)), ElementsAre(1.5f, 4, 6.5f, 9));
    EXPECT_EQ(stats.bytes_to_host, 32);
    EXPECT_EQ(stats.bytes_to_device, 32);
    EXPECT_EQ(stats.peak_device_bytes, 144);
    EXPECT_EQ(stats.peak_host_bytes, 80);
    EXPECT_GT(stats.seconds, 0);
    EXPECT_DOUBLE_EQ(stats.seconds, stats.compute_seconds + stats.stall_seconds);
  }
}

// Stacks larger than all addresses stand for a machine that gives no more threads.
TEST(ExecutorTest, ThreadsThatCannotStartAreAnError) {
  Runtime runtime;
  pthread_attr_t usual, huge;
  ASSERT_EQ(pthread_getattr_default_np(&usual), 0);
  ASSERT_EQ(pthread_attr_init(&huge), 0);
  ASSERT_EQ(pthread_attr_setstacksize(&huge, size_t{1} << 50), 0);
  ASSERT_EQ(pthread_setattr_default_np(&huge), 0);
  const absl::Status refused = runtime.Make(SwapPlan().Build()).status();
  ASSERT_EQ(pthread_setattr_default_np(&usual), 0);
  EXPECT_TRUE(absl::IsResourceExhausted(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()), HasSubstr("no thread for lane"));
  EXPECT_TRUE(runtime.Make(SwapPlan().Build()).ok());
}

// y = Mix(x) and then z = Mix(y), each fetched; `to_pool`: y goes to the pool, too.
ExecutionPlan FetchingPlan(int64_t elements, bool to_pool = false) {
  const int64_t bytes = 4 * elements, room = AlignUp(bytes);
  PlanBuilder b(3 * room);
  b.Feed("x", elements);
  b.In("x:0", b.FeedRef("x"), 0, bytes);
  for (const char* name : {"y:0", "z:0"}) b.Fetch(name, elements);
  b.Compute("y", "Mix", {{0, elements}}, {{room, elements}}, {b.AfterIn()});
  b.Out("y:0", room, bytes, b.FetchRef("y:0"), {b.AfterCompute()});
  if (to_pool) b.Out("y:0", room, bytes, b.PoolRef(0));
  b.Compute("z", "FailIfNegative", {{room, elements}}, {{2 * room, elements}});
  b.Out("z:0", 2 * room, bytes, b.FetchRef("z:0"), {b.AfterCompute()});
  return b.Build();
}

TEST(ExecutorTest, WhatIsFedAndFetchedTakesNoThreadsWhereItIsLittle) {
  struct Case {
    ExecutionPlan plan;
    double link_gbps;
    bool holds_threads;
  };
  const Case cases[] = {
      {FetchingPlan(4), 0, false}, {FetchingPlan(4, /*to_pool=*/true), 0, true}, {FetchingPlan(4), 100, true}, {FetchingPlan(10'000), 0, true}};
  for (const Case& c : cases) {
    Runtime runtime;
    ExecutorOptions options;
    options.link_gbps = c.link_gbps;
    options.trace = true;
    const auto executor = runtime.Make(c.plan, options);
    ASSERT_TRUE(executor.ok()) << executor.status();
    EXPECT_EQ((*executor)->holds_threads(), c.holds_threads);
    for (const float x : {2.f, -4.f, 6.f}) {
      Tensor fed(DataType::kFloat, c.plan.feeds[0].type.shape);
      for (float& element : fed.mutable_as<float>()) element = x;
      std::vector<Tensor> fetches;
      StepStats stats;
      const absl::Status ran = (*executor)->RunStep({fed}, &fetches, &stats);
      ASSERT_EQ(ran.ok(), x > 0) << ran;
      if (!ran.ok()) continue;
      EXPECT_EQ(fetches[0].as<float>()[3], 1 + x / 2);
      EXPECT_EQ(fetches[1].as<float>()[3], 1 + (1 + x / 2) / 2);
      EXPECT_EQ(stats.bytes_to_device, fed.size_bytes());
      EXPECT_EQ(stats.trace.size(), 5 + (c.plan.host_pool_bytes > 0 ? 1 : 0));
      EXPECT_DOUBLE_EQ(stats.seconds, stats.compute_seconds + stats.stall_seconds);
    }
  }
}

TEST(ExecutorTest, FeedOfAnotherTypeIsRefusedBeforeAnythingRuns) {
  Runtime runtime;
  auto executor = runtime.Make(SwapPlan().Build());
  ASSERT_TRUE(executor.ok()) << executor.status();
  EXPECT_THAT((*executor)->RunStep({Tensor::Vector<float>({0, 2})}, nullptr, nullptr).ToString(),
              HasSubstr("feed 'x' is float[2], expected float[4]"));
  EXPECT_THAT((*executor)->RunStep({}, nullptr, nullptr).ToString(), HasSubstr("0 feeds given, expected 1"));
}

// w += x where w lives on the host: in, AddTo, home again.
PlanBuilder UpdatePlan(int64_t resident_offset) {
  PlanBuilder b(128);
  b.Feed("x", 2);
  const int32_t w = b.Variable("w", 2, resident_offset);
  b.plan().variables[w].read_before_write = true;
  b.plan().variables[w].written = true;
  b.plan().variables[w].first_reader = "update";
  b.In("x:0", b.FeedRef("x"), 0, 8);
  if (resident_offset == kNoAddress) b.In("w", b.VariableRef("w"), 64, 8);
  ComputeStep& update = b.Compute("update", "AddTo", {{64, 2}, {0, 2}}, {}, {b.AfterIn()});
  update.input_variables = {w, -1};
  update.writes_variables = {w};
  if (resident_offset == kNoAddress) b.Out("w", 64, 8, b.VariableRef("w"), {b.AfterCompute()});
  return b;
}

TEST(ExecutorTest, VariablesPersistOverStepsWhereverTheyLive) {
  for (int64_t resident : {kNoAddress, int64_t{64}}) {
    Runtime runtime;
    auto executor = runtime.Make(UpdatePlan(resident).Build());
    ASSERT_TRUE(executor.ok()) << executor.status();
    ASSERT_TRUE(runtime.variables.Set("w", Tensor::Vector<float>({10, 20})).ok());
    for (int step = 0; step < 3; ++step) {
      ASSERT_TRUE((*executor)->RunStep({Tensor::Vector<float>({1, 2})}, nullptr, nullptr).ok());
    }
    EXPECT_THAT(Values(runtime.variables.Read()->at("w")), ElementsAre(13, 26));
    ASSERT_TRUE(runtime.variables.Set("w", Tensor::Vector<float>({0, 0})).ok());
    ASSERT_TRUE((*executor)->RunStep({Tensor::Vector<float>({1, 2})}, nullptr, nullptr).ok());
    EXPECT_THAT(Values(runtime.variables.Read()->at("w")), ElementsAre(1, 2));
  }
}

TEST(ExecutorTest, ResidentVariablesMoveBetweenExecutorsThatTakeTurns) {
  Runtime runtime;
  auto host = runtime.Make(UpdatePlan(kNoAddress).Build());
  auto resident = runtime.Make(UpdatePlan(64).Build());
  ASSERT_TRUE(host.ok() && resident.ok());
  ASSERT_TRUE(runtime.variables.Set("w", Tensor::Vector<float>({0, 0})).ok());
  for (int turn = 0; turn < 2; ++turn) {
    ASSERT_TRUE((*resident)->RunStep({Tensor::Vector<float>({1, 10})}, nullptr, nullptr).ok());
    ASSERT_TRUE((*host)->RunStep({Tensor::Vector<float>({2, 20})}, nullptr, nullptr).ok());
  }
  ASSERT_TRUE((*resident)->RunStep({Tensor::Vector<float>({1, 10})}, nullptr, nullptr).ok());
  resident->reset();
  EXPECT_THAT(Values(runtime.variables.Read()->at("w")), ElementsAre(7, 70));
}

TEST(ExecutorTest, ReadOfUninitialisedVariableNamesItAndItsReader) {
  Runtime runtime;
  auto executor = runtime.Make(UpdatePlan(64).Build());
  ASSERT_TRUE(executor.ok());
  const absl::Status status = (*executor)->RunStep({Tensor::Vector<float>({1, 2})}, nullptr, nullptr);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(status.ToString(), HasSubstr("variable 'w' has no value when node 'update' reads it"));
  EXPECT_TRUE(runtime.variables.Read()->empty());
}

TEST(ExecutorTest, FirstErrorNamesTheNodeAndTheVariablesThatChanged) {
  for (int64_t resident : {kNoAddress, int64_t{64}}) {
    PlanBuilder b = UpdatePlan(resident);
    const int32_t v = b.Variable("v", 2);
    b.plan().variables[v].read_before_write = b.plan().variables[v].written = true;
    b.In("v", b.VariableRef("v"), 192, 8);
    StepWaits waits = {b.AfterIn()};
    if (resident == kNoAddress) waits.push_back(b.AfterOut());
    b.Compute("check", "FailIfNegative", {{0, 2}}, {{128, 2}}, waits);
    ComputeStep& late = b.Compute("late", "AddTo", {{192, 2}, {128, 2}}, {});
    late.input_variables = {v, -1};
    late.writes_variables = {v};
    b.Out("v", 192, 8, b.VariableRef("v"), {b.AfterCompute()});
    b.plan().devices[0].arena_bytes = 256;
    Runtime runtime;
    auto executor = runtime.Make(b.Build());
    ASSERT_TRUE(executor.ok()) << executor.status();
    ASSERT_TRUE(runtime.variables.Set("w", Tensor::Vector<float>({10, 20})).ok());
    ASSERT_TRUE(runtime.variables.Set("v", Tensor::Vector<float>({5, 5})).ok());
    const absl::Status status = (*executor)->RunStep({Tensor::Vector<float>({-1, 2})}, nullptr, nullptr);
    EXPECT_EQ(status.message(),
              "node 'check' (FailIfNegative): input 0 starts with a negative element; changed already by this step: w");
    EXPECT_THAT(Values(runtime.variables.Read()->at("w")), ElementsAre(9, 22));
    EXPECT_THAT(Values(runtime.variables.Read()->at("v")), ElementsAre(5, 5));
    // The next step is not affected.
    ASSERT_TRUE((*executor)->RunStep({Tensor::Vector<float>({1, 1})}, nullptr, nullptr).ok());
    EXPECT_THAT(Values(runtime.variables.Read()->at("w")), ElementsAre(10, 23));
  }
}

TEST(ExecutorTest, WhatTheNodeThatFailsWritesHasChangedPerhaps) {
  for (const bool updated : {false, true}) {
    PlanBuilder b(192);
    b.Feed("x", 2);
    const int32_t w = b.Variable("w", 2, 0);
    b.In("x:0", b.FeedRef("x"), 64, 8);
    const auto writes = [&](ComputeStep& step) {
      step.input_variables = {w, -1};
      step.writes_variables = {w};
    };
    if (updated) writes(b.Compute("update", "AddTo", {{0, 2, "w"}, {64, 2}}, {}, {b.AfterIn()}));
    ComputeStep& check = b.Compute("check", "FailIfNegative", {{64, 2}, {0, 2, "w"}}, {{128, 2}}, {b.AfterIn()});
    check.input_variables = {-1, w};
    check.writes_variables = {w};
    Runtime runtime;
    auto executor = runtime.Make(b.Build());
    ASSERT_TRUE(executor.ok()) << executor.status();
    ASSERT_TRUE(runtime.variables.Set("w", Tensor::Vector<float>({10, 20})).ok());
    StepStats stats;
    const absl::Status status = (*executor)->RunStep({Tensor::Vector<float>({-1, 2})}, nullptr, &stats);
    const char* const changed = updated ? "changed already by this step: w" : "changed already by this step: w (perhaps not: w)";
    EXPECT_THAT(std::string(status.message()), ::testing::EndsWith(changed));
    EXPECT_THAT(stats.changed_variables, ElementsAre("w"));
  }
}

TEST(ExecutorTest, OfManyThatHaveChangedPerhapsSomeAreNamed) {
  constexpr int kVariables = 12;
  PlanBuilder b(64 * (kVariables + 2));
  b.Feed("x", 2);
  std::vector<At> inputs = {{64 * kVariables, 2}};
  std::vector<int32_t> variables;
  for (int i = 0; i < kVariables; ++i) {
    variables.push_back(b.Variable(absl::StrCat("w", i), 2, 64 * i));
    inputs.push_back({64 * i, 2, absl::StrCat("w", i)});
  }
  b.In("x:0", b.FeedRef("x"), 64 * kVariables, 8);
  ComputeStep& check = b.Compute("check", "FailIfNegative", inputs, {{64 * (kVariables + 1), 2}}, {b.AfterIn()});
  check.writes_variables.assign(variables.begin(), variables.end());
  check.input_variables = {-1};
  for (const int32_t variable : variables) check.input_variables.push_back(variable);
  Runtime runtime;
  auto executor = runtime.Make(b.Build());
  ASSERT_TRUE(executor.ok()) << executor.status();
  for (int i = 0; i < kVariables; ++i) ASSERT_TRUE(runtime.variables.Set(absl::StrCat("w", i), Tensor::Vector<float>({1, 2})).ok());
  const absl::Status status = (*executor)->RunStep({Tensor::Vector<float>({-1, 2})}, nullptr, nullptr);
  EXPECT_THAT(std::string(status.message()), ::testing::EndsWith("(perhaps not: w0, w1, w2, w3, w4, w5, w6, w7, w8, w9 and 2 more)"));
}

// w stays on the device over the step's end: it goes home first, `check` writes its place, it comes back for `update`;
// `last` fails after that.
PlanBuilder LeavingPlan() {
  PlanBuilder b(256);
  b.Feed("x", 2);
  b.Feed("late", 2);
  const int32_t w = b.Variable("w", 2, 64);
  b.plan().variables[w].read_before_write = b.plan().variables[w].written = true;
  b.In("x:0", b.FeedRef("x"), 0, 8);
  b.In("late:0", b.FeedRef("late"), 192, 8);
  b.Out("w", 64, 8, b.VariableRef("w"));
  b.Compute("check", "FailIfNegative", {{0, 2}}, {{64, 2}}, {b.AfterIn(), b.AfterOut()});
  b.Compute("after", "FailIfNegative", {{64, 2}}, {{128, 2}});
  b.In("w", b.VariableRef("w"), 64, 8, {b.AfterCompute(), b.AfterOut()});
  ComputeStep& update = b.Compute("update", "AddTo", {{64, 2, "w"}, {0, 2}}, {}, {b.AfterIn()});
  update.input_variables = {w, -1};
  update.writes_variables = {w};
  b.Compute("last", "FailIfNegative", {{192, 2}}, {{128, 2}});
  return b;
}

TEST(ExecutorTest, AVariableThatLeavesInMidStepPersistsOverSteps) {
  Runtime runtime;
  auto leaving = runtime.Make(LeavingPlan().Build());
  auto host = runtime.Make(UpdatePlan(kNoAddress).Build());
  ASSERT_TRUE(leaving.ok() && host.ok());
  const Tensor x = Tensor::Vector<float>({1, 2});
  ASSERT_TRUE(runtime.variables.Set("w", Tensor::Vector<float>({10, 20})).ok());
  for (int step = 0; step < 3; ++step) ASSERT_TRUE((*leaving)->RunStep({x, x}, nullptr, nullptr).ok());
  EXPECT_THAT(Values(runtime.variables.Read()->at("w")), ElementsAre(13, 26));
  // Between other plans, and after its home was written.
  ASSERT_TRUE((*leaving)->RunStep({x, x}, nullptr, nullptr).ok());
  ASSERT_TRUE((*host)->RunStep({x}, nullptr, nullptr).ok());
  ASSERT_TRUE((*leaving)->RunStep({x, x}, nullptr, nullptr).ok());
  EXPECT_THAT(Values(runtime.variables.Read()->at("w")), ElementsAre(16, 32));
  ASSERT_TRUE(runtime.variables.Set("w", Tensor::Vector<float>({0, 0})).ok());
  ASSERT_TRUE((*leaving)->RunStep({x, x}, nullptr, nullptr).ok());
  leaving->reset();
  EXPECT_THAT(Values(runtime.variables.Read()->at("w")), ElementsAre(1, 2));
}

TEST(ExecutorTest, AStepThatFailsWhileAVariableIsAwayLeavesItAsItWas) {
  const Tensor x = Tensor::Vector<float>({1, 2}), negative = Tensor::Vector<float>({-1, 2});
  for (int steps_before : {0, 2}) {
    Runtime runtime;
    auto executor = runtime.Make(LeavingPlan().Build());
    ASSERT_TRUE(executor.ok()) << executor.status();
    ASSERT_TRUE(runtime.variables.Set("w", Tensor::Vector<float>({10, 20})).ok());
    for (int step = 0; step < steps_before; ++step) ASSERT_TRUE((*executor)->RunStep({x, x}, nullptr, nullptr).ok());
    const auto before = static_cast<float>(steps_before);
    for (int failure = 0; failure < 2; ++failure) {
      const absl::Status away = (*executor)->RunStep({negative, x}, nullptr, nullptr);
      EXPECT_THAT(std::string(away.message()), HasSubstr("no variable has changed"));
      if (failure == 1) continue;  // also when nobody reads it in between
      EXPECT_THAT(Values(runtime.variables.Read()->at("w")), ElementsAre(10 + before, 20 + 2 * before));
    }
    ASSERT_TRUE((*executor)->RunStep({x, x}, nullptr, nullptr).ok());
    EXPECT_THAT(Values(runtime.variables.Read()->at("w")), ElementsAre(11 + before, 22 + 2 * before));
    // Once it is back and has been written, the report says so.
    const absl::Status late = (*executor)->RunStep({x, negative}, nullptr, nullptr);
    EXPECT_THAT(std::string(late.message()), HasSubstr("changed already by this step: w"));
    ASSERT_TRUE((*executor)->RunStep({x, x}, nullptr, nullptr).ok());
    EXPECT_THAT(Values(runtime.variables.Read()->at("w")), ElementsAre(13 + before, 26 + 2 * before));
  }
}

TEST(ExecutorTest, InitialisationShowsOnlyToNodesAfterIt) {
  PlanBuilder b(512);
  b.Feed("x", 2);
  b.Fetch("before:0", 1);
  b.Fetch("after:0", 1);
  const int32_t w = b.Variable("w", 2);
  b.plan().variables[w].written = true;
  b.In("x:0", b.FeedRef("x"), 0, 8);
  b.Compute("before", "IsSet", {{kNoAddress, 2}}, {{128, 1}}).input_variables = {w};
  ComputeStep& assign = b.Compute("assign", "Assign", {{64, 2}, {0, 2}}, {}, {b.AfterIn()});
  assign.input_variables = {w, -1};
  assign.writes_variables = {w};
  assign.overwrites_variables = true;
  b.Compute("after", "IsSet", {{kNoAddress, 2}}, {{192, 1}}).input_variables = {w};
  b.Out("w", 64, 8, b.VariableRef("w"), {b.AfterCompute()});
  b.Out("before:0", 128, 4, b.FetchRef("before:0"), {b.AfterCompute()});
  b.Out("after:0", 192, 4, b.FetchRef("after:0"));
  Runtime runtime;
  auto executor = runtime.Make(b.Build());
  ASSERT_TRUE(executor.ok()) << executor.status();
  std::vector<Tensor> fetches;
  ASSERT_TRUE((*executor)->RunStep({Tensor::Vector<float>({3, 4})}, &fetches, nullptr).ok());
  EXPECT_THAT(Values(fetches[0]), ElementsAre(0));
  EXPECT_THAT(Values(fetches[1]), ElementsAre(1));
  EXPECT_THAT(Values(runtime.variables.Read()->at("w")), ElementsAre(3, 4));
  ASSERT_TRUE((*executor)->RunStep({Tensor::Vector<float>({3, 4})}, &fetches, nullptr).ok());
  EXPECT_THAT(Values(fetches[0]), ElementsAre(1));
}

TEST(ExecutorTest, NodeStatePersistsOverStepsAndPlans) {
  PlanBuilder b(64);
  b.Fetch("n:0", 1);
  b.Compute("n", "Count", {}, {{0, 1}}).state_bytes = 8;
  b.Out("n:0", 0, 4, b.FetchRef("n:0"), {b.AfterCompute()});
  Runtime runtime;
  for (int plan = 0; plan < 2; ++plan) {
    auto executor = runtime.Make(b.Build());
    ASSERT_TRUE(executor.ok()) << executor.status();
    for (int step = 0; step < 2; ++step) {
      std::vector<Tensor> fetches;
      ASSERT_TRUE((*executor)->RunStep({}, &fetches, nullptr).ok());
      EXPECT_THAT(Values(fetches[0]), ElementsAre(2 * plan + step + 1));
    }
  }
}

// half = the first half of x; y = Mix(half): planned for 4 elements, 2 are there.
PlanBuilder HalfPlan(int64_t planned_elements) {
  PlanBuilder b(256);
  b.Feed("x", 4);
  b.Fetch("half:0", 4);
  b.Fetch("y:0", planned_elements);
  b.plan().dynamic_tensors = {"half:0", "y:0"};
  b.plan().fetches[0].shape = 0;
  b.plan().fetches[1].shape = 1;
  b.In("x:0", b.FeedRef("x"), 0, 16);
  ComputeStep& half = b.Compute("half", "HalfOf", {{0, 4}}, {{64, 4}}, {b.AfterIn()});
  half.input_shapes = {-1};
  half.output_shapes = {0};
  ComputeStep& y = b.Compute("y", "Mix", {{64, 4}}, {{128, planned_elements}});
  y.input_shapes = {0};
  y.output_shapes = {1};
  b.Out("half:0", 64, 16, b.FetchRef("half:0"), {b.AfterCompute()});
  b.Out("y:0", 128, 4 * planned_elements, b.FetchRef("y:0"), {b.AfterCompute()});
  return b;
}

TEST(ExecutorTest, BoundedOutputsHaveTheirRealShapeForConsumersAndFetches) {
  Runtime runtime;
  auto executor = runtime.Make(HalfPlan(4).Build());
  ASSERT_TRUE(executor.ok()) << executor.status();
  for (int step = 0; step < 2; ++step) {
    std::vector<Tensor> fetches;
    const absl::Status status = (*executor)->RunStep({Tensor::Vector<float>({1, 2, 3, 4})}, &fetches, nullptr);
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_THAT(Values(fetches[0]), ElementsAre(1, 2));
    EXPECT_THAT(Values(fetches[1]), ElementsAre(1.5f, 2));
  }
}

TEST(ExecutorTest, OutputLargerThanItsBoundNamesTheNode) {
  Runtime runtime;
  auto executor = runtime.Make(HalfPlan(1).Build());
  ASSERT_TRUE(executor.ok()) << executor.status();
  const absl::Status status = (*executor)->RunStep({Tensor::Vector<float>({1, 2, 3, 4})}, nullptr, nullptr);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(status.ToString(), HasSubstr("node 'y' (Mix): output 0 is float[2] in this step, memory is planned for at "
                                           "most float[1] (4 bytes)"));
}

// Its shapes are refused in time; what its kernel refuses may have been written in part.
TEST(ExecutorTest, AWriterThatWasRefusedBeforeItsKernelRanHasChangedNothing) {
  PlanBuilder b = UpdatePlan(64);
  b.plan().lanes[PlanBuilder::kCompute].compute[0].input_shapes = {-1, -1};
  Runtime runtime;
  RuntimeContext context = runtime.context();
  context.infer_shapes = [](OpInstance&) { return absl::InvalidArgumentError("shapes differ"); };
  auto executor = Executor::Create(std::make_shared<ExecutionPlan>(b.Build()), context);
  ASSERT_TRUE(executor.ok()) << executor.status();
  ASSERT_TRUE(runtime.variables.Set("w", Tensor::Vector<float>({10, 20})).ok());
  StepStats stats;
  const absl::Status status = (*executor)->RunStep({Tensor::Vector<float>({1, 2})}, nullptr, &stats);
  EXPECT_THAT(std::string(status.message()), HasSubstr("shapes differ; no variable has changed"));
  EXPECT_THAT(stats.changed_variables, ElementsAre());
  EXPECT_THAT(Values(runtime.variables.Read()->at("w")), ElementsAre(10, 20));
}

TEST(ExecutorTest, ConstantsThatLiveOnTheDeviceAreThereFromTheStart) {
  PlanBuilder b(128);
  b.Fetch("y:0", 2);
  b.Constant("c", {2, 4}, 0);
  b.Compute("y", "Mix", {{0, 2}}, {{64, 2}});
  b.Out("y:0", 64, 8, b.FetchRef("y:0"), {b.AfterCompute()});
  Runtime runtime;
  auto executor = runtime.Make(b.Build());
  ASSERT_TRUE(executor.ok()) << executor.status();
  std::vector<Tensor> fetches;
  StepStats stats;
  ASSERT_TRUE((*executor)->RunStep({}, &fetches, &stats).ok());
  EXPECT_THAT(Values(fetches[0]), ElementsAre(2, 3));
  EXPECT_EQ(stats.bytes_to_device, 0);
}

TEST(ExecutorTest, EqualNodesShareAKernel) {
  PlanBuilder b(256);
  b.Constant("c", {2, 4}, 0);
  b.Compute("y", "Mix", {{0, 2}}, {{64, 2}});
  b.Compute("z", "Mix", {{64, 2}}, {{128, 2}});
  b.Compute("other", "Mix", {{64, 2}, {128, 2}}, {{192, 2}});
  Runtime runtime;
  ASSERT_TRUE(runtime.Make(b.Build()).ok());
  EXPECT_EQ(runtime.kernels.num_kernels(), 2);
}

TEST(ExecutorTest, MissingKernelIsAnErrorThatNamesTheNode) {
  PlanBuilder b(64);
  b.Compute("odd", "NoSuchOp", {}, {{0, 1}});
  Runtime runtime;
  const auto executor = runtime.Make(b.Build());
  EXPECT_EQ(executor.status().code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(executor.status().ToString(), HasSubstr("node 'odd'"));
}

TEST(ExecutorTest, HostMemoryOverItsLimitIsRefusedWithTheShortfall) {
  Runtime runtime(1, /*host_limit=*/100);
  auto executor = runtime.Make(SwapPlan().Build());  // pool of 128 bytes
  ASSERT_TRUE(executor.ok()) << executor.status();
  const absl::Status status = (*executor)->RunStep({Tensor::Vector<float>({0, 2, 4, 6})}, nullptr, nullptr);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(status.ToString(), HasSubstr("short by 28 bytes"));
}

TEST(ExecutorTest, TraceHasEveryStepInsideTheTrainingStep) {
  Runtime runtime;
  ExecutorOptions options;
  options.trace = true;
  auto executor = runtime.Make(SwapPlan().Build(), options);
  ASSERT_TRUE(executor.ok());
  StepStats stats;
  ASSERT_TRUE((*executor)->RunStep({Tensor::Vector<float>({0, 2, 4, 6})}, nullptr, &stats).ok());
  ASSERT_EQ(stats.trace.size(), 6u);
  for (const TraceEvent& event : stats.trace) {
    EXPECT_LE(event.start_seconds, event.end_seconds);
    EXPECT_LE(event.end_seconds, stats.seconds);
  }
}

}  // namespace
}  // namespace millrace::testing
