#include "plan/plan_verifier.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "testlib/example_plans.h"

namespace millrace::testing {
namespace {

using ::testing::HasSubstr;

constexpr int kCompute = PlanBuilder::kCompute, kToHost = PlanBuilder::kToHost, kToDevice = PlanBuilder::kToDevice;

std::string Verdict(const ExecutionPlan& plan) { return VerifyPlan(plan).ToString(); }

// The verdict on ThreeSlotPlan with something changed.
template <typename Change>
std::string VerdictAfter(Change change) {
  PlanBuilder b = ThreeSlotPlan();
  ExecutionPlan plan = b.Build();
  change(plan);
  return Verdict(plan);
}

TEST(PlanVerifierTest, RightPlansPass) {
  EXPECT_EQ(Verdict(FourSlotPlan().Build()), "OK");
  EXPECT_EQ(Verdict(ThreeSlotPlan().Build()), "OK");
}

TEST(PlanVerifierTest, OverwritingBytesThatAreStillBeingCopiedOut) {
  EXPECT_THAT(VerdictAfter([](ExecutionPlan& plan) { plan.lanes[kCompute].compute[3].waits.clear(); }),
              HasSubstr("writes device bytes [0,16) without waiting for step 2 (a>), which reads them"));
}

TEST(PlanVerifierTest, CopyInOverBytesInUse) {
  EXPECT_THAT(VerdictAfter([](ExecutionPlan& plan) { plan.lanes[kToDevice].copies[0].waits[0].count = 4; }),
              HasSubstr("writes device bytes [0,16) without waiting for step 5 (f3'), which reads them"));
}

TEST(PlanVerifierTest, UseBeforeTheCopyInIsDone) {
  EXPECT_THAT(VerdictAfter([](ExecutionPlan& plan) { plan.lanes[kCompute].compute[5].waits.clear(); }),
              HasSubstr("reads device bytes [0,16) without waiting for step 6 (a<), which writes them"));
}

TEST(PlanVerifierTest, CopyInBeforeTheCopyOutIsDone) {
  // compute >= 5 includes loss's wait for the copy out; compute >= 3 does not.
  EXPECT_THAT(VerdictAfter([](ExecutionPlan& plan) {
                plan.lanes[kToDevice].copies[0].waits = {{kCompute, 3}};
                plan.lanes[kToDevice].copies[0].device_offset = 192;
                plan.devices[0].arena_bytes = 256;
              }),
              HasSubstr("reads host pool bytes [0,16) without waiting for step 2 (a>), which writes them"));
}

TEST(PlanVerifierTest, BytesOfAnotherTensor) {
  EXPECT_THAT(VerdictAfter([](ExecutionPlan& plan) { plan.lanes[kToDevice].copies[0].tensor = "f2:0"; }),
              HasSubstr("reads host pool bytes [0,16) for 'f2:0', but they hold 'f1:0'"));
  EXPECT_THAT(VerdictAfter([](ExecutionPlan& plan) { plan.lanes[kCompute].compute[4].inputs[1] = 0; }),
              HasSubstr("reads device bytes [0,16) for 'f2:0', but they hold 'loss:0'"));
}

TEST(PlanVerifierTest, ReadOfBytesThatNobodyWrote) {
  EXPECT_THAT(VerdictAfter([](ExecutionPlan& plan) {
                plan.lanes[kToDevice].copies[0].host.offset_bytes = 64;
                plan.host_pool_bytes = 128;
              }),
              HasSubstr("reads host pool bytes [64,80), of which 16 have never been written"));
  EXPECT_THAT(VerdictAfter([](ExecutionPlan& plan) {
                plan.instances[plan.lanes[kCompute].compute[1].instance].inputs[0] = Floats(8);
              }),
              HasSubstr("reads device bytes [0,32), of which 16 have never been written"));
}

TEST(PlanVerifierTest, AddressesOutsideOfTheArenaOrNotAligned) {
  EXPECT_THAT(VerdictAfter([](ExecutionPlan& plan) { plan.devices[0].arena_bytes = 128; }),
              HasSubstr("16 bytes at 128 are outside of the arena of 128 bytes"));
  EXPECT_THAT(VerdictAfter([](ExecutionPlan& plan) { plan.lanes[kCompute].compute[0].outputs[0] = 8; }),
              HasSubstr("16 bytes at 8 are outside of the arena of 192 bytes or not aligned"));
}

// An end that is reckoned with would wrap around.
TEST(PlanVerifierTest, AddressesNearTheLargestInteger) {
  constexpr int64_t kFar = std::numeric_limits<int64_t>::max() / kTensorAlignment * kTensorAlignment;
  const auto outside = HasSubstr(absl::StrCat(" bytes at ", kFar, " are outside of the "));
  EXPECT_THAT(VerdictAfter([](ExecutionPlan& plan) { plan.lanes[kCompute].compute[0].outputs[0] = kFar; }), outside);
  EXPECT_THAT(VerdictAfter([](ExecutionPlan& plan) { plan.lanes[kCompute].compute[1].inputs[0] = kFar; }), outside);
  EXPECT_THAT(VerdictAfter([](ExecutionPlan& plan) {
                plan.lanes[kCompute].compute[0].scratch_offset = kFar;
                plan.lanes[kCompute].compute[0].scratch_bytes = 64;
              }),
              outside);
  EXPECT_THAT(VerdictAfter([](ExecutionPlan& plan) { plan.lanes[kToDevice].copies[0].device_offset = kFar; }), outside);
  EXPECT_THAT(VerdictAfter([](ExecutionPlan& plan) { plan.lanes[kToHost].copies[0].host.offset_bytes = kFar; }), outside);
  EXPECT_THAT(VerdictAfter([](ExecutionPlan& plan) {
                plan.variables.push_back({.name = "v", .type = Floats(4), .resident_offset = kFar});
              }),
              HasSubstr("outside of an arena or not aligned"));
}

TEST(PlanVerifierTest, WhatStaysHasAPlaceOfItsOwn) {
  EXPECT_THAT(VerdictAfter([](ExecutionPlan& plan) {
                plan.variables.push_back({.name = "v", .type = Floats(4), .resident_offset = 0});
                plan.constants.push_back({.name = "c", .value = Tensor(DataType::kFloat, Shape({4})), .resident_offset = 0});
              }),
              HasSubstr("'c' at 0 and 'v' at 0 of device 0 stay in one place"));
}

TEST(PlanVerifierTest, ErrorsAreOnOneLine) {
  EXPECT_THAT(VerdictAfter([](ExecutionPlan& plan) {
                plan.variables.push_back({.name = "v\nw", .type = Floats(4), .resident_offset = 8});
              }),
              HasSubstr("'v\\x0aw' lives at 8+16"));
}

TEST(PlanVerifierTest, InputWithoutAddressOrValue) {
  EXPECT_THAT(VerdictAfter([](ExecutionPlan& plan) { plan.lanes[kCompute].compute[4].inputs[1] = kNoAddress; }),
              HasSubstr("input 1 has neither an address nor a known value"));
  const auto by_value = [](Tensor value) {
    return [value = std::move(value)](ExecutionPlan& plan) {
      ComputeStep& step = plan.lanes[kCompute].compute[4];
      step.inputs[1] = kNoAddress;
      plan.instances[step.instance].input_values = {Tensor(), value};
    };
  };
  EXPECT_THAT(VerdictAfter(by_value(Tensor(DataType::kFloat, {2}))), HasSubstr("input 1 has neither an address nor a known value"));
  EXPECT_EQ(VerdictAfter(by_value(Tensor(DataType::kFloat, {4}))), "OK");
}

TEST(PlanVerifierTest, ArenaOverTheBudget) {
  EXPECT_THAT(VerdictAfter([](ExecutionPlan& plan) { plan.devices[0].budget_bytes = 128; }),
              HasSubstr("under a budget of 128"));
}

TEST(PlanVerifierTest, WaitForALaterStep) {
  EXPECT_THAT(VerdictAfter([](ExecutionPlan& plan) { plan.lanes[kToHost].copies[0].waits[0].count = 6; }),
              HasSubstr("waits for a step that does not come before it (compute>=6)"));
  EXPECT_THAT(VerdictAfter([](ExecutionPlan& plan) { plan.lanes[kToHost].copies[0].waits[0].count = 60; }),
              HasSubstr("waits for more steps than that lane has"));
}

TEST(PlanVerifierTest, PositionsThatRepeat) {
  EXPECT_THAT(VerdictAfter([](ExecutionPlan& plan) { plan.lanes[kToHost].copies[0].position = 1; }),
              HasSubstr("its position repeats"));
}

TEST(PlanVerifierTest, FetchThatIsNeverCopied) {
  EXPECT_THAT(VerdictAfter([](ExecutionPlan& plan) { plan.lanes[kToHost].copies.pop_back(); }),
              HasSubstr("fetch 'f2':0' is never copied to the host"));
}

TEST(PlanVerifierTest, StepsOfOneGroupAreNotOrdered) {
  PlanBuilder b(192);
  b.Compute("a", "Mix", {}, {{0, 4}}).group = 1;
  b.Compute("b", "Mix", {}, {{64, 4}}).group = 1;
  EXPECT_EQ(Verdict(b.Build()), "OK");
  b.Compute("c", "Mix", {{0, 4}}, {{128, 4}}).group = 1;
  EXPECT_THAT(Verdict(b.Build()), HasSubstr("without waiting for step 0 (a)"));
  b.plan().lanes[kCompute].compute.back().group = 2;
  EXPECT_EQ(Verdict(b.Build()), "OK");
}

TEST(PlanVerifierTest, OverlapsWithinAStep) {
  PlanBuilder b(256);
  b.Compute("a", "Mix", {}, {{0, 32}});
  b.Compute("in_place", "Mix", {{0, 32}}, {{0, 32}});
  EXPECT_EQ(Verdict(b.Build()), "OK");
  b.Compute("partly", "Mix", {{0, 32}}, {{64, 16}});
  EXPECT_THAT(Verdict(b.Build()), HasSubstr("an output at 64 overlaps an input at 0"));
  ComputeStep& step = b.plan().lanes[kCompute].compute.back();
  step.outputs[0] = 128;
  step.scratch_bytes = 64;
  step.scratch_offset = 64;
  EXPECT_THAT(Verdict(b.Build()), HasSubstr("its scratch overlaps the tensor at 0"));
}

TEST(PlanVerifierTest, ScratchIsNotReadAsATensor) {
  PlanBuilder b(256);
  ComputeStep& first = b.Compute("a", "Mix", {}, {{0, 4}});
  first.scratch_offset = 64;
  first.scratch_bytes = 64;
  b.Compute("b", "Mix", {{64, 4}}, {{128, 4}});
  EXPECT_THAT(Verdict(b.Build()), HasSubstr("but they hold scratch"));
}

// w comes in, is updated and goes home; twice.
PlanBuilder VariablePlan(int64_t resident_offset) {
  PlanBuilder b(192);
  const int32_t w = b.Variable("w", 4, resident_offset);
  b.plan().variables[w].read_before_write = b.plan().variables[w].written = true;
  b.Constant("c", {1, 2, 3, 4}, 128);
  const bool home = resident_offset == kNoAddress;
  for (int update = 0; update < 2; ++update) {
    StepWaits waits;
    if (home) {
      b.In("w", b.VariableRef("w"), 64, 16, {b.AfterOut()});
      waits = {b.AfterIn()};
    }
    ComputeStep& step = b.Compute(absl::StrCat("update", update), "AddTo", {{64, 4, "w"}, {128, 4}}, {}, waits);
    step.input_variables = {w, -1};
    step.writes_variables = {w};
    if (home) b.Out("w", 64, 16, b.VariableRef("w"), {b.AfterCompute()});
  }
  return b;
}

TEST(PlanVerifierTest, UpdatedVariablesGoHomeOrStay) {
  EXPECT_EQ(Verdict(VariablePlan(kNoAddress).Build()), "OK");
  EXPECT_EQ(Verdict(VariablePlan(64).Build()), "OK");
}

// w is on the device when the step begins, newer than its home. It goes home, y lies in its place, and it comes back.
PlanBuilder LeavingPlan() {
  PlanBuilder b(192);
  const int32_t w = b.Variable("w", 4, 64);
  b.plan().variables[w].read_before_write = b.plan().variables[w].written = true;
  b.Constant("c", {1, 2, 3, 4}, 128);
  b.Out("w", 64, 16, b.VariableRef("w"));
  b.Compute("y", "Mix", {{128, 4}}, {{64, 4}}, {b.AfterOut()});
  b.In("w", b.VariableRef("w"), 64, 16, {b.AfterCompute(), b.AfterOut()});
  ComputeStep& update = b.Compute("update", "AddTo", {{64, 4, "w"}, {128, 4}}, {}, {b.AfterIn()});
  update.input_variables = {w, -1};
  update.writes_variables = {w};
  return b;
}

TEST(PlanVerifierTest, ResidentVariablesMayLeaveInMidStepAndComeBackToTheirAddress) {
  EXPECT_EQ(Verdict(LeavingPlan().Build()), "OK");
  PlanBuilder elsewhere = LeavingPlan();
  elsewhere.plan().lanes[kToDevice].copies[0].device_offset = 0;
  elsewhere.plan().lanes[kCompute].compute[1].inputs[0] = 0;
  EXPECT_THAT(Verdict(elsewhere.Build()), HasSubstr("the newest value of variable 'w' is not at its address when the step ends"));
  PlanBuilder away = LeavingPlan();
  away.plan().lanes[kCompute].compute.pop_back();
  away.plan().lanes[kToDevice].copies.clear();
  EXPECT_THAT(Verdict(away.Build()), HasSubstr("is not at its address when the step ends"));
}

TEST(PlanVerifierTest, ResidentVariablesGoHomeBeforeTheirPlaceServesOthers) {
  PlanBuilder early = LeavingPlan();
  early.plan().lanes[kCompute].compute[0].waits.clear();
  EXPECT_THAT(Verdict(early.Build()), HasSubstr("writes device bytes [64,80) without waiting for step 0 (w_out)"));
  PlanBuilder never = LeavingPlan();
  never.plan().lanes[kToHost].copies.clear();
  for (auto* waits : {&never.plan().lanes[kCompute].compute[0].waits, &never.plan().lanes[kToDevice].copies[0].waits}) {
    waits->erase(std::remove_if(waits->begin(), waits->end(), [](const Wait& wait) { return wait.lane == kToHost; }), waits->end());
  }
  EXPECT_THAT(Verdict(never.Build()), HasSubstr("reads the home of a variable whose newest value has not been copied there"));
  // What no step writes is at home all the time.
  never.plan().lanes[kCompute].compute.pop_back();
  never.plan().variables[0].written = false;
  EXPECT_EQ(Verdict(never.Build()), "OK");
}

TEST(PlanVerifierTest, VariableThatIsNotCopiedHome) {
  PlanBuilder b = VariablePlan(kNoAddress);
  b.plan().lanes[kToHost].copies.pop_back();
  EXPECT_THAT(Verdict(b.Build()), HasSubstr("the newest value of variable 'w' is not copied home when the step ends"));
}

TEST(PlanVerifierTest, StaleVariableFromHome) {
  PlanBuilder b = VariablePlan(kNoAddress);
  b.plan().lanes[kToHost].copies[0].writes_variable = -1;
  b.plan().lanes[kToHost].copies[0].host = b.PoolRef(0);
  EXPECT_THAT(Verdict(b.Build()), HasSubstr("reads the home of a variable whose newest value has not been copied"));
}

TEST(PlanVerifierTest, ReadOfAnOldCopyOfAVariable) {
  PlanBuilder b(256);
  const int32_t w = b.Variable("w", 4);
  b.plan().variables[w].read_before_write = b.plan().variables[w].written = true;
  b.Constant("c", {1, 2, 3, 4}, 0);
  b.In("w", b.VariableRef("w"), 64, 16);
  b.In("w", b.VariableRef("w"), 128, 16);
  ComputeStep& update = b.Compute("update", "AddTo", {{64, 4}, {0, 4}}, {}, {b.AfterIn()});
  update.input_variables = {w, -1};
  update.writes_variables = {w};
  b.Out("w", 64, 16, b.VariableRef("w"), {b.AfterCompute(), b.AfterIn()});
  b.Compute("read", "Mix", {{128, 4}}, {{192, 4}}).input_variables = {w};
  EXPECT_THAT(Verdict(b.Build()), HasSubstr("bytes [128,144) do not hold the newest value of variable 'w'"));
  b.plan().lanes[kCompute].compute.back().inputs[0] = 64;
  EXPECT_EQ(Verdict(b.Build()), "OK");
}

TEST(PlanVerifierTest, CopyHomeBeforeEarlierReadersOfTheHomeAreDone) {
  PlanBuilder b(256);
  const int32_t w = b.Variable("w", 4);
  b.plan().variables[w].written = true;
  b.Constant("c", {1, 2, 3, 4}, 0);
  b.In("w", b.VariableRef("w"), 128, 16);
  ComputeStep& assign = b.Compute("assign", "Assign", {{64, 4}, {0, 4}}, {});
  assign.input_variables = {w, -1};
  assign.writes_variables = {w};
  assign.overwrites_variables = true;
  b.Out("w", 64, 16, b.VariableRef("w"), {b.AfterCompute()});
  EXPECT_THAT(Verdict(b.Build()), HasSubstr("writes variable home bytes [0,1) without waiting for step 0 (w_in)"));
  b.plan().lanes[kToHost].copies[0].waits.push_back({kToDevice, 1});
  EXPECT_EQ(Verdict(b.Build()), "OK");
}

TEST(PlanVerifierTest, WrongIndicesAreErrorsAndNotCrashes) {
  for (int32_t index : {-2, 7, 1 << 30}) {
    EXPECT_NE(VerdictAfter([&](ExecutionPlan& p) { p.lanes[kCompute].compute[0].instance = index; }), "OK");
    EXPECT_NE(VerdictAfter([&](ExecutionPlan& p) { p.lanes[kCompute].compute[0].output_owners = {index}; }), "OK");
    EXPECT_NE(VerdictAfter([&](ExecutionPlan& p) { p.lanes[kCompute].compute[0].writes_variables = {index}; }), "OK");
    EXPECT_NE(VerdictAfter([&](ExecutionPlan& p) { p.lanes[kCompute].compute[1].input_variables = {index}; }), "OK");
    EXPECT_NE(VerdictAfter([&](ExecutionPlan& p) { p.lanes[kToHost].copies[1].host.index = index; }), "OK");
    EXPECT_NE(VerdictAfter([&](ExecutionPlan& p) { p.lanes[kToHost].device = index; }), "OK");
    EXPECT_NE(VerdictAfter([&](ExecutionPlan& p) { p.lanes[kToHost].copies[0].waits[0].lane = index; }), "OK");
  }
}

// Steps do not follow them, but pictures of the plan do.
TEST(PlanVerifierTest, StaysOutsideOfTheStepOrTheArena) {
  const auto verdict = [](int64_t Residence::*field, int64_t value) {
    return VerdictAfter([&](ExecutionPlan& plan) { plan.residences[2].*field = value; });
  };
  const auto outside = HasSubstr("outside of its arena or of the step's 9");
  for (const int64_t position : {int64_t{-1000000}, int64_t{5}, int64_t{1000000000000}}) EXPECT_THAT(verdict(&Residence::first, position), outside);
  for (const int64_t position : {int64_t{-5}, int64_t{2}, int64_t{1000000000000}}) EXPECT_THAT(verdict(&Residence::last, position), outside);
  for (const int64_t bytes : {int64_t{-16}, int64_t{65}, int64_t{1} << 62}) EXPECT_THAT(verdict(&Residence::bytes, bytes), outside);
  for (const int64_t offset : {int64_t{-64}, int64_t{192}, int64_t{1} << 62}) EXPECT_THAT(verdict(&Residence::offset, offset), outside);
  EXPECT_THAT(VerdictAfter([](ExecutionPlan& plan) { plan.residences[2].device = 1; }), outside);
  EXPECT_EQ(verdict(&Residence::bytes, 64), "OK");
}

TEST(PlanVerifierTest, FiguresThatAreNone) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  for (const double seconds : {-1.0, kNan, 1e308}) {
    EXPECT_THAT(VerdictAfter([&](ExecutionPlan& plan) { plan.lanes[kCompute].compute[0].predicted_seconds = seconds; }), HasSubstr("expected a time"));
  }
  EXPECT_THAT(VerdictAfter([](ExecutionPlan& plan) { plan.predicted_step_seconds = kNan; }), HasSubstr("expected a time"));
  EXPECT_THAT(VerdictAfter([](ExecutionPlan& plan) { plan.lower_bound_seconds = -1; }), HasSubstr("expected a time"));
  EXPECT_THAT(VerdictAfter([](ExecutionPlan& plan) { plan.lanes[kCompute].compute[0].partition = -7; }), HasSubstr("in partition -7"));
  EXPECT_THAT(VerdictAfter([](ExecutionPlan& plan) { plan.devices[0].num_partitions = -3; }), HasSubstr("the number of partitions is -3"));
  EXPECT_THAT(VerdictAfter([](ExecutionPlan& plan) { plan.devices[0].peak_live_bytes = -1; }), HasSubstr("a number of bytes is -1"));
  EXPECT_THAT(VerdictAfter([](ExecutionPlan& plan) { plan.devices[0].budget_bytes = -1; }), HasSubstr("a number of bytes is -1"));
  EXPECT_THAT(VerdictAfter([](ExecutionPlan& plan) { plan.counts.swap_outs = -5; }), HasSubstr("a count is -5"));
  EXPECT_THAT(VerdictAfter([](ExecutionPlan& plan) { plan.host_bytes = -5; }), HasSubstr("a number of bytes is -5"));
}

TEST(PlanVerifierTest, LargePlansAreCheckedInOnePass) {
  // Tensors go around a ring of 1000 addresses, each out and in again: 100,000 steps.
  constexpr int64_t kSlots = 1000, kRounds = 25000;
  PlanBuilder b(kSlots * 64);
  for (int64_t i = 0; i < kRounds; ++i) {
    const int64_t at = (2 * i) % kSlots * 64, next = (2 * i + 1) % kSlots * 64;
    b.Compute("n", "Mix", {}, {{at, 16, "t"}}, {b.AfterIn()});
    b.Out("t", at, 64, b.PoolRef(at), {b.AfterCompute()});
    b.In("t", b.PoolRef(at), next, 64, {b.AfterOut()});
    b.Compute("u", "Mix", {{next, 16, "t"}}, {{next, 16, "t"}}, {b.AfterIn(), b.AfterOut()});
  }
  EXPECT_EQ(Verdict(b.Build()), "OK");
}

}  // namespace
}  // namespace millrace::testing
