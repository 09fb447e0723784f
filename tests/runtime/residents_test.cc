// What executors that take turns find on the device, and what is copied between them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>

#include "absl/strings/str_cat.h"
#include "testlib/executor_fixture.h"
#include "testlib/plan_builder.h"

namespace millrace::testing {
namespace {

using ::testing::ElementsAre;

// The CPU, with what is copied outside of steps.
class CountingDevice final : public RuntimeDevice {
 public:
  explicit CountingDevice(std::unique_ptr<RuntimeDevice> device) : device_(std::move(device)) {}

  const std::string& name() const override { return device_->name(); }
  int64_t memory_bytes() const override { return device_->memory_bytes(); }
  const KernelRegistry& kernels() const override { return device_->kernels(); }
  bool has_data() const override { return true; }
  absl::StatusOr<void*> ReserveArena(int64_t bytes) override { return device_->ReserveArena(bytes); }
  absl::Status CopyToDevice(void* device, const void* host, int64_t bytes) override {
    ++copies;
    return device_->CopyToDevice(device, host, bytes);
  }
  absl::Status CopyToHost(void* host, const void* device, int64_t bytes) override {
    ++copies;
    return fails ? absl::UnavailableError("the device is lost") : device_->CopyToHost(host, device, bytes);
  }
  absl::StatusOr<std::unique_ptr<LaneEngine>> MakeEngine(const Program& program, const EngineOptions& options) override {
    return device_->MakeEngine(program, options);
  }

  int copies = 0;
  bool fails = false;

 private:
  const std::unique_ptr<RuntimeDevice> device_;
};

struct CountedRuntime : Runtime {
  CountedRuntime() : Runtime(MakeTbbTaskRunner(1), std::make_unique<CountingDevice>(cpu::MakeCpuDevice(0, SharedTestKernels()))) {}
  CountingDevice& counting() { return static_cast<CountingDevice&>(*device); }
  std::vector<float> Value(const std::string& name) {
    const absl::StatusOr<Tensor> value = variables.Read(name);
    EXPECT_TRUE(value.ok()) << value.status();
    return value.ok() ? std::vector<float>(value->as<float>().begin(), value->as<float>().end()) : std::vector<float>();
  }
};

// Each variable += x; those with an address stay there, the others are at home. x and what comes from home are at `x_offset` and behind it.
// One that leaves goes home first, and comes back when something else was at its place; a negative x is an error meanwhile.
struct Use {
  std::string variable;
  int64_t offset = kNoAddress;
  bool leaves = false;
};
ExecutionPlan Updates(int64_t arena_bytes, int64_t x_offset, const std::vector<Use>& uses) {
  PlanBuilder b(arena_bytes);
  b.Feed("x", 2);
  b.In("x:0", b.FeedRef("x"), x_offset, 8);
  int64_t free = x_offset + kTensorAlignment;
  for (const Use& use : uses) {
    const int32_t v = b.Variable(use.variable, 2, use.offset);
    b.plan().variables[v].read_before_write = b.plan().variables[v].written = true;
    const int64_t at = use.offset != kNoAddress ? use.offset : std::exchange(free, free + kTensorAlignment);
    if (use.leaves) {
      b.Out(use.variable, at, 8, b.VariableRef(use.variable), {b.AfterCompute()});
      b.Compute(absl::StrCat("other_", use.variable), "Mix", {{x_offset, 2}}, {{at, 2}}, {b.AfterIn(), b.AfterOut()});
      b.Compute(absl::StrCat("check_", use.variable), "FailIfNegative", {{x_offset, 2}}, {{free, 2}});
    }
    if (use.leaves || use.offset == kNoAddress) b.In(use.variable, b.VariableRef(use.variable), at, 8, {b.AfterCompute()});
    ComputeStep& update = b.Compute(absl::StrCat("update_", use.variable), "AddTo", {{at, 2}, {x_offset, 2}}, {}, {b.AfterIn()});
    update.input_variables = {v, -1};
    update.writes_variables = {v};
    if (use.offset == kNoAddress) b.Out(use.variable, at, 8, b.VariableRef(use.variable), {b.AfterCompute()});
  }
  return b.Build();
}

absl::Status Step(Executor& executor, float x) { return executor.RunStep({Tensor::Vector<float>({x, 10 * x})}, nullptr, nullptr); }

// The small one is planned at address 0, where the large one has v and w.
TEST(Residents, ASmallPlanBetweenStepsOfALargeOneMovesNothing) {
  CountedRuntime runtime;
  auto large = runtime.Make(Updates(1 << 14, 192, {{"v", 0}, {"w", 64}, {"u", 128}}));
  auto small = runtime.Make(Updates(256, 64, {{"w", 0}}));
  ASSERT_TRUE(large.ok() && small.ok());
  for (const char* name : {"u", "v", "w"}) ASSERT_TRUE(runtime.variables.Set(name, Tensor::Vector<float>({0, 0})).ok());
  for (int turn = 0; turn < 4; ++turn) {
    ASSERT_TRUE(Step(**small, 1).ok());
    ASSERT_TRUE(Step(**large, 2).ok());
    if (turn == 0) runtime.counting().copies = 0;
  }
  EXPECT_EQ(runtime.counting().copies, 0);
  EXPECT_THAT(runtime.Value("w"), ElementsAre(12, 120));
  EXPECT_EQ(runtime.counting().copies, 1) << "what is read, and nothing else, goes home";
  EXPECT_THAT(runtime.Value("v"), ElementsAre(8, 80));
  // Of what is set from outside alone the value is loaded again.
  ASSERT_TRUE(runtime.variables.Set("w", Tensor::Vector<float>({5, 5})).ok());
  runtime.counting().copies = 0;
  ASSERT_TRUE(Step(**large, 1).ok());
  EXPECT_EQ(runtime.counting().copies, 1);
  EXPECT_THAT(runtime.Value("w"), ElementsAre(6, 15));
}

// Under a budget that both fill there is no room beside: what is in the way goes home and comes back, the rest stays.
TEST(Residents, WithinABudgetWhatIsInTheWayGoesHome) {
  CountedRuntime runtime;
  ExecutionPlan first = Updates(256, 128, {{"v", 0}, {"w", 64}}), second = Updates(256, 64, {{"v", 0}});
  for (ExecutionPlan* plan : {&first, &second}) plan->devices[0].budget_bytes = 256;
  auto a = runtime.Make(first), b = runtime.Make(second);
  ASSERT_TRUE(a.ok() && b.ok());
  for (const char* name : {"v", "w"}) ASSERT_TRUE(runtime.variables.Set(name, Tensor::Vector<float>({0, 0})).ok());
  for (int turn = 0; turn < 3; ++turn) {
    ASSERT_TRUE(Step(**a, 1).ok());
    runtime.counting().copies = 0;
    ASSERT_TRUE(Step(**b, 1).ok());
    EXPECT_EQ(runtime.counting().copies, 1) << "w goes home";
    runtime.counting().copies = 0;
  }
  ASSERT_TRUE(Step(**a, 1).ok());
  EXPECT_EQ(runtime.counting().copies, 1) << "w comes back";
  EXPECT_THAT(runtime.Value("v"), ElementsAre(7, 70));
  EXPECT_THAT(runtime.Value("w"), ElementsAre(4, 40));
}

TEST(Residents, AValueThatCannotGoHomeIsLostByName) {
  CountedRuntime runtime;
  auto resident = runtime.Make(Updates(256, 128, {{"v", 0}, {"w", 64}}));
  auto host = runtime.Make(Updates(256, 0, {{"w"}}));
  ASSERT_TRUE(resident.ok() && host.ok());
  for (const char* name : {"v", "w"}) ASSERT_TRUE(runtime.variables.Set(name, Tensor::Vector<float>({0, 0})).ok());
  ASSERT_TRUE(Step(**resident, 1).ok());
  runtime.counting().fails = true;
  const absl::Status lost = Step(**host, 1);
  EXPECT_THAT(std::string(lost.message()), ::testing::HasSubstr("the last values of variables that lived outside of their homes are lost: w"));
  EXPECT_FALSE(runtime.variables.Find("w")->initialized);
  EXPECT_TRUE(runtime.variables.Find("v")->initialized);
  runtime.counting().fails = false;
  EXPECT_THAT(runtime.Value("v"), ElementsAre(1, 10));
}

TEST(Residents, ValuesThatCannotGoHomeAreNamedTogether) {
  CountedRuntime runtime;
  const auto resident = runtime.Make(Updates(256, 192, {{"u", 0}, {"v", 64}, {"w", 128}})), host = runtime.Make(Updates(256, 0, {{"u"}, {"v"}}));
  ASSERT_TRUE(resident.ok() && host.ok());
  for (const char* name : {"u", "v", "w"}) ASSERT_TRUE(runtime.variables.Set(name, Tensor::Vector<float>({0, 0})).ok());
  ASSERT_TRUE(Step(**resident, 1).ok());
  runtime.counting().fails = true;
  const absl::Status lost = Step(**host, 1);
  EXPECT_THAT(std::string(lost.message()), ::testing::EndsWith("the last values of variables that lived outside of their homes are lost: u, v"));
  for (const char* name : {"u", "v"}) EXPECT_FALSE(runtime.variables.Find(name)->initialized);
  runtime.counting().fails = false;
  EXPECT_THAT(runtime.Value("w"), ElementsAre(1, 10)) << "what was in the way alone is where it was";
  for (const char* name : {"u", "v"}) ASSERT_TRUE(runtime.variables.Set(name, Tensor::Vector<float>({1, 1})).ok());
  ASSERT_TRUE(Step(**resident, 1).ok() && Step(**host, 1).ok());
  EXPECT_THAT(runtime.Value("u"), ElementsAre(3, 21));
  EXPECT_THAT(runtime.Value("w"), ElementsAre(2, 20));
}

// The bytes of a constant are its plan's: nothing keeps them when that has gone.
TEST(Residents, AConstantGoesWithItsPlan) {
  CountedRuntime runtime;
  PlanBuilder b(256);
  b.Fetch("y:0", 2);
  b.Constant("c", {2, 4}, 0);
  b.Compute("y", "Mix", {{0, 2}}, {{64, 2}});
  b.Out("y:0", 64, 8, b.FetchRef("y:0"), {b.AfterCompute()});
  const auto plan = std::make_shared<const ExecutionPlan>(b.Build());
  auto first = Executor::Create(plan, runtime.context()), second = Executor::Create(plan, runtime.context());
  ASSERT_TRUE(first.ok() && second.ok());
  for (Executor* executor : {first->get(), second->get(), first->get()}) ASSERT_TRUE(executor->RunStep({}, nullptr, nullptr).ok());
  EXPECT_EQ(runtime.counting().copies, 1) << "both take the one that is there";
  second->reset();
  std::vector<Tensor> fetches;
  ASSERT_TRUE((*first)->RunStep({}, &fetches, nullptr).ok());
  EXPECT_THAT(fetches[0].as<float>()[0], 2);
  EXPECT_EQ(runtime.counting().copies, 2);
  first->reset();
  const std::vector<Resident*> left = runtime.variables.residents().Within(*runtime.device, nullptr, reinterpret_cast<char*>(INTPTR_MAX));
  EXPECT_TRUE(left.empty());
}

// y = Mix(c), and then, as x goes by, c's place has another value until c comes back from its home.
TEST(Residents, AConstantThatWasElsewhereInAStepThatFailedIsLoadedAgain) {
  Runtime runtime;
  PlanBuilder b(256);
  b.Constant("c", {2, 4}, 0);
  b.Feed("x", 2);
  b.In("x:0", b.FeedRef("x"), 128, 8);
  b.Fetch("y:0", 2);
  b.Compute("y", "Mix", {{0, 2}}, {{64, 2}});
  b.Out("y:0", 64, 8, b.FetchRef("y:0"), {b.AfterCompute()});
  b.Compute("o", "Mix", {{128, 2}}, {{0, 2}}, {b.AfterIn()});
  b.Compute("q", "FailIfNegative", {{0, 2}}, {{192, 2}});
  b.In("c", b.ConstantRef("c"), 0, 8, {b.AfterCompute()});
  const auto executor = runtime.Make(b.Build());
  ASSERT_TRUE(executor.ok()) << executor.status();
  for (const float x : {1, -4, 1}) {
    std::vector<Tensor> fetches;
    const absl::Status ran = (*executor)->RunStep({Tensor::Vector<float>({x, 1})}, &fetches, nullptr);
    ASSERT_EQ(ran.ok(), x > 0) << ran;
    if (!ran.ok()) continue;
    EXPECT_EQ(fetches[0].as<float>()[0], 2);
  }
}

// v += x where it stays, and a plan that only reads v, which leaves within its step and comes back from its home.
TEST(Residents, WhatAPlanTakesFromTheHomeIsAsNewAsWhatStays) {
  CountedRuntime runtime;
  PlanBuilder b(256);
  const int32_t v = b.Variable("v", 2, 0);
  b.plan().variables[v].read_before_write = true;
  b.Fetch("z:0", 2);
  b.Compute("y", "Mix", {{0, 2}}, {{64, 2}}).input_variables = {v};
  b.Compute("o", "Mix", {{64, 2}}, {{0, 2}});
  b.In("v", b.VariableRef("v"), 0, 8, {b.AfterCompute()});
  b.Compute("z", "Mix", {{0, 2}}, {{128, 2}}, {b.AfterIn()}).input_variables = {v};
  b.Out("z:0", 128, 8, b.FetchRef("z:0"), {b.AfterCompute()});
  const auto writes = runtime.Make(Updates(256, 128, {{"v", 0}})), reads = runtime.Make(b.Build());
  ASSERT_TRUE(writes.ok() && reads.ok());
  ASSERT_TRUE(runtime.variables.Set("v", Tensor::Vector<float>({0, 0})).ok());
  for (float value = 4; value < 20; value += 4) {
    ASSERT_TRUE(Step(**writes, 4).ok());
    std::vector<Tensor> fetches;
    ASSERT_TRUE((*reads)->RunStep({}, &fetches, nullptr).ok());
    EXPECT_EQ(fetches[0].as<float>()[0], 1 + value / 2);
  }
  EXPECT_EQ(runtime.Value("v")[0], 16);
}

// z = Mix(the variable), which stays at `offset`.
ExecutionPlan Reads(const std::string& variable, int64_t offset, int64_t budget_bytes) {
  PlanBuilder b(256);
  const int32_t v = b.Variable(variable, 2, offset);
  b.plan().variables[v].read_before_write = true;
  b.Fetch("z:0", 2);
  b.Compute("z", "Mix", {{offset, 2}}, {{64, 2}}).input_variables = {v};
  b.Out("z:0", 64, 8, b.FetchRef("z:0"), {b.AfterCompute()});
  ExecutionPlan plan = b.Build();
  plan.devices[0].budget_bytes = budget_bytes;
  return plan;
}

// The device gives the former arena back before it asks for a larger one.
TEST(Residents, AnArenaThatCouldNotGrowIsNoLongerThere) {
  Runtime runtime;
  const auto large = runtime.Make(Reads("a", 0, 1 << 30)), too_large = runtime.Make(Reads("a", 0, int64_t{1} << 47));
  const auto small = runtime.Make(Reads("a", 0, 0)), other = runtime.Make(Reads("b", 128, 0));
  ASSERT_TRUE(large.ok() && too_large.ok() && small.ok() && other.ok());
  for (const char* name : {"a", "b"}) ASSERT_TRUE(runtime.variables.Set(name, Tensor::Vector<float>({4, 8})).ok());
  ASSERT_TRUE((*large)->RunStep({}, nullptr, nullptr).ok());
  ASSERT_FALSE((*too_large)->RunStep({}, nullptr, nullptr).ok());
  for (Executor* executor : {small->get(), other->get()}) {
    std::vector<Tensor> fetches;
    ASSERT_TRUE(executor->RunStep({}, &fetches, nullptr).ok());
    EXPECT_EQ(fetches[0].as<float>()[0], 3);
    EXPECT_LE(runtime.variables.residents().arena_bytes(*runtime.device), 4096);
  }
}

// An engine may keep addresses: of a pool and an arena that have gone, though others come at the same ones.
TEST(Residents, AddressesAreTakenAnewWhenTheMemoryIsAnother) {
  Runtime runtime(1, /*host_limit=*/int64_t{1} << 30);
  const auto executor = runtime.Make(Reads("a", 0, 0));
  ASSERT_TRUE(executor.ok() && runtime.variables.Set("a", Tensor::Vector<float>({4, 8})).ok());
  const auto binding = [&] {
    EXPECT_TRUE((*executor)->RunStep({}, nullptr, nullptr).ok());
    return (*executor)->program().binding();
  };
  const int64_t first = binding();
  ASSERT_TRUE(runtime.variables.Release().ok());
  EXPECT_EQ(binding(), first);
  ASSERT_TRUE(runtime.variables.Release().ok() && runtime.host.ReservePool(1 << 20, 0).ok());
  const int64_t after_pool = binding();
  EXPECT_GT(after_pool, first);
  ASSERT_TRUE(runtime.variables.LeaveDevices().ok());
  EXPECT_GT(binding(), after_pool);
}

// A constant that stays at two places, as two plans need it: each finds it at its own.
TEST(Residents, AConstantThatStaysTwiceIsFoundAtItsOwnPlace) {
  CountedRuntime runtime;
  const auto values = std::make_shared<ExecutionPlan>();
  const auto make = [&](int64_t at, int64_t written) {
    PlanBuilder b(256);
    b.Fetch("y:0", 2);
    b.Constant("c", {2, 4}, at);
    b.Compute("y", "Mix", {{at, 2}}, {{written, 2}});
    b.Out("y:0", written, 8, b.FetchRef("y:0"), {b.AfterCompute()});
    b.Compute("o", "Mix", {{written, 2}}, {{at, 2}});
    b.In("c", b.ConstantRef("c"), at, 8, {b.AfterCompute()});
    ExecutionPlan plan = b.Build();
    if (values->constants.empty()) values->constants = plan.constants;
    plan.constants[0].value = values->constants[0].value;  // one constant of a graph
    plan.devices[0].budget_bytes = 256;
    return plan;
  };
  const auto first = runtime.Make(make(0, 128)), second = runtime.Make(make(64, 192));
  ASSERT_TRUE(first.ok() && second.ok()) << first.status() << second.status();
  for (int turn = 0; turn < 3; ++turn) {
    for (Executor* executor : {first->get(), second->get()}) {
      std::vector<Tensor> fetches;
      ASSERT_TRUE(executor->RunStep({}, &fetches, nullptr).ok());
      EXPECT_EQ(fetches[0].as<float>()[0], 2);
    }
  }
  EXPECT_EQ(runtime.counting().copies, 2) << "each is loaded once";
}

// v of four floats += x, part by part: each part ends where `ends` says, and stays at its slot or is at home.
struct Part {
  int64_t end = 0;
  int64_t offset = kNoAddress;
};
ExecutionPlan PartUpdates(const std::vector<Part>& parts) {
  constexpr int64_t kX = 8 * kTensorAlignment, kWhole = 4;
  PlanBuilder b(1024);
  b.Feed("x", kWhole);
  b.In("x:0", b.FeedRef("x"), kX, 16);
  int64_t begin = 0;
  for (const Part& part : parts) {
    const int64_t elements = part.end - begin, bytes = 4 * elements;
    const std::string name = parts.size() == 1 ? "v" : absl::StrCat("v/", begin);
    const int32_t v = b.Variable(name, elements, part.offset);
    PlanVariable& variable = b.plan().variables[v];
    variable.read_before_write = variable.written = true;
    if (parts.size() > 1) {
      variable.whole = "v";
      variable.whole_type = Floats(kWhole);
      variable.home_offset = 4 * begin;
    }
    const bool at_home = part.offset == kNoAddress;
    const int64_t at = at_home ? kX + kTensorAlignment : part.offset;
    if (at_home) b.In(name, b.VariableRef(name), at, bytes, {b.AfterCompute(), b.AfterOut()});
    ComputeStep& update = b.Compute(absl::StrCat("update_", name), "AddTo", {{at, elements}, {kX + 4 * begin, elements}}, {}, {b.AfterIn()});
    update.input_variables = {v, -1};
    update.writes_variables = {v};
    if (at_home) b.Out(name, at, bytes, b.VariableRef(name), {b.AfterCompute()});
    begin = part.end;
  }
  return b.Build();
}

TEST(Residents, PartsThatPlansCutDifferentlyAreOneVariable) {
  CountedRuntime runtime;
  const std::vector<std::vector<Part>> cuts = {{{4, 0}},       {{2, 0}, {4, 64}},  {{2, 64}, {4, 0}},         {{1, 0}, {4, 128}},
                                               {{1}, {2}, {4, 0}}, {{2}, {4, 64}}, {{1, 192}, {2, 64}, {4, 0}}, {{4}}};
  std::vector<std::unique_ptr<Executor>> executors;
  for (size_t c = 0; c < cuts.size(); ++c) {
    ExecutionPlan plan = PartUpdates(cuts[c]);
    if (c % 2 == 0) plan.devices[0].budget_bytes = 1024;
    auto made = runtime.Make(std::move(plan));
    ASSERT_TRUE(made.ok()) << made.status();
    executors.push_back(*std::move(made));
  }
  std::mt19937 random(1);
  std::vector<float> expected(4, 0);
  ASSERT_TRUE(runtime.variables.Set("v", Tensor(DataType::kFloat, Shape({4}))).ok());
  for (int step = 0; step < 400; ++step) {
    if (step % 5 == 4) {
      ASSERT_EQ(runtime.Value("v"), expected) << step;
    } else if (step % 17 == 16) {
      expected = {1, 2, 3, static_cast<float>(step)};
      ASSERT_TRUE(runtime.variables.Set("v", Tensor::Vector<float>(expected)).ok());
    }
    const Tensor x = Tensor::Vector<float>({1, 2, static_cast<float>(random() % 5), 4});
    ASSERT_TRUE(executors[random() % executors.size()]->RunStep({x}, nullptr, nullptr).ok());
    for (size_t k = 0; k < expected.size(); ++k) expected[k] += x.as<float>()[k];
  }
  EXPECT_EQ(runtime.Value("v"), expected);
}

struct TwoDevices : CountedRuntime {
  absl::StatusOr<std::unique_ptr<Executor>> MakeOn(int32_t d, ExecutionPlan plan) {
    plan.devices.push_back(plan.devices[0]);
    for (Lane& lane : plan.lanes) lane.device = d;
    for (PlanVariable& variable : plan.variables) variable.device = d;
    RuntimeContext both = context();
    both.devices.push_back(&second);
    return Executor::Create(std::make_shared<ExecutionPlan>(std::move(plan)), both);
  }
  CountingDevice second{cpu::MakeCpuDevice(1, SharedTestKernels())};
};

TEST(Residents, AVariableGoesFromDeviceToDevice) {
  TwoDevices runtime;
  const auto on_first = runtime.MakeOn(0, Updates(256, 128, {{"v", 0}, {"w", 64}})), on_second = runtime.MakeOn(1, Updates(256, 128, {{"v", 64}}));
  ASSERT_TRUE(on_first.ok() && on_second.ok()) << on_first.status() << on_second.status();
  for (const char* name : {"v", "w"}) ASSERT_TRUE(runtime.variables.Set(name, Tensor::Vector<float>({0, 0})).ok());
  for (int turn = 0; turn < 3; ++turn) {
    ASSERT_TRUE(Step(**on_first, 1).ok());
    ASSERT_TRUE(Step(**on_second, 2).ok());
    if (turn == 0) runtime.counting().copies = runtime.second.copies = 0;
  }
  EXPECT_EQ(runtime.counting().copies, 4) << "v comes and goes, w stays";
  EXPECT_EQ(runtime.second.copies, 4);
  EXPECT_THAT(runtime.Value("v"), ElementsAre(9, 90));
  EXPECT_THAT(runtime.Value("w"), ElementsAre(3, 30));
  ASSERT_TRUE(Step(**on_first, 1).ok() && Step(**on_second, 1).ok() && Step(**on_first, 1).ok());
  // Of what is lost with one device the other has nothing.
  runtime.counting().fails = true;
  const absl::Status lost = Step(**on_second, 1);
  EXPECT_THAT(std::string(lost.message()), ::testing::EndsWith("are lost: v"));
  runtime.counting().fails = false;
  EXPECT_THAT(runtime.Value("w"), ElementsAre(5, 50));
}

// A home that grows is another one; what stays of others stays, and whoever gets the memory of the former finds nothing in it.
TEST(Residents, AVariableOfALargerTypeHasAHomeOfItsOwn) {
  CountedRuntime runtime;
  auto small = runtime.Make(Updates(256, 128, {{"v", 0}, {"w", 64}}));
  ASSERT_TRUE(small.ok());
  for (const char* name : {"v", "w"}) ASSERT_TRUE(runtime.variables.Set(name, Tensor::Vector<float>({0, 0})).ok());
  ASSERT_TRUE(Step(**small, 1).ok());
  const int64_t bytes = runtime.host.home_bytes();
  small->reset();  // whoever uses it as it was goes before
  ASSERT_TRUE(runtime.variables.Replace("v", Tensor(DataType::kFloat, Shape({100}))).ok());
  EXPECT_EQ(runtime.host.home_bytes(), bytes + AlignUp(400) - kTensorAlignment);
  const auto other = runtime.Make(Updates(256, 128, {{"u", 0}, {"w", 64}}));
  ASSERT_TRUE(other.ok());
  EXPECT_EQ(runtime.host.home_bytes(), bytes + AlignUp(400));
  ASSERT_TRUE(runtime.variables.Set("u", Tensor::Vector<float>({0, 0})).ok());
  ASSERT_TRUE(Step(**other, 2).ok());
  EXPECT_EQ(runtime.Value("v"), std::vector<float>(100, 0));
  EXPECT_THAT(runtime.Value("u"), ElementsAre(2, 20));
  EXPECT_THAT(runtime.Value("w"), ElementsAre(3, 30));
}

// Plans with variables here and there, run in any order, some steps with an error half-way; variables that are read and set between them,
// and plans that go; now and then on two devices by turns.
TEST(Residents, InAnyOrderVariablesHaveTheValuesOfTheLastStep) {
  const std::vector<std::string> names = {"a", "b", "c", "d", "e"};
  for (int seed = 0; seed < 40; ++seed) {
    std::mt19937 random(seed);
    TwoDevices runtime;
    const auto make = [&](const ExecutionPlan& plan, size_t e) { return runtime.MakeOn(seed % 3 == 0 ? static_cast<int32_t>(e % 2) : 0, plan); };
    std::vector<ExecutionPlan> plans;
    std::vector<std::unique_ptr<Executor>> executors;
    std::vector<std::vector<size_t>> used;
    const bool budget = seed % 2 == 0;
    for (int e = 0; e < 4; ++e) {
      std::vector<int64_t> slots(12);
      for (size_t s = 0; s < slots.size(); ++s) slots[s] = s * kTensorAlignment;
      std::shuffle(slots.begin(), slots.end(), random);
      std::vector<Use> uses;
      used.emplace_back();
      for (size_t v = 0; v < names.size(); ++v) {
        if (random() % 3 == 0) continue;
        const int64_t offset = random() % 4 == 0 ? kNoAddress : slots[v];
        uses.push_back({names[v], offset, offset != kNoAddress && random() % 3 == 0});
        used.back().push_back(v);
      }
      ExecutionPlan plan = Updates(random() % 2 == 0 ? 2048 : 8192, 12 * kTensorAlignment, uses);
      if (budget) plan.devices[0].budget_bytes = 8192 + (seed % 4) * 4096;
      auto made = make(plan, plans.size());
      ASSERT_TRUE(made.ok()) << made.status();
      plans.push_back(std::move(plan));
      executors.push_back(*std::move(made));
    }
    std::vector<float> expected(names.size(), 0);
    for (const std::string& name : names) ASSERT_TRUE(runtime.variables.Set(name, Tensor::Vector<float>({0, 0})).ok());
    for (int step = 0; step < 80; ++step) {
      const size_t v = random() % names.size(), e = random() % executors.size();
      const auto x = static_cast<float>(random() % 5) - (random() % 4 == 0 ? 4 : 0);
      switch (random() % 7) {
        case 0: ASSERT_EQ(runtime.Value(names[v])[0], expected[v]) << seed << " " << step; break;
        case 1:
          expected[v] = x;
          ASSERT_TRUE(runtime.variables.Set(names[v], Tensor::Vector<float>({x, x})).ok());
          break;
        case 2: {
          executors[e] = nullptr;
          auto made = make(plans[e], e);
          ASSERT_TRUE(made.ok()) << made.status();
          executors[e] = *std::move(made);
          break;
        }
        default: {
          StepStats stats;
          const absl::Status ran = executors[e]->RunStep({Tensor::Vector<float>({x, 10 * x})}, nullptr, &stats);
          ASSERT_TRUE(ran.ok() || x < 0) << ran;
          for (const size_t u : used[e]) {
            const std::vector<std::string>& changed = stats.changed_variables;
            if (ran.ok() || std::find(changed.begin(), changed.end(), names[u]) != changed.end()) expected[u] += x;
          }
        }
      }
    }
    for (size_t v = 0; v < names.size(); ++v) EXPECT_EQ(runtime.Value(names[v])[0], expected[v]) << seed << " " << names[v];
  }
}

}  // namespace
}  // namespace millrace::testing
