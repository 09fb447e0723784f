// `plan_seconds` bounds all of planning, by a clock that the test moves: so much for each pass, and a tick for each look at it.
#include <cstdint>
#include <map>
#include <string>

#include "absl/strings/str_join.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "passes/access/deadline.h"
#include "passes/pipeline.h"
#include "plan/plan_text.h"
#include "testlib/random_graph.h"
#include "testlib/random_request.h"
#include "testlib/test_ops.h"

namespace millrace {
namespace {

using testing::HasSubstr;

constexpr double kTick = 0.01;
// One second before the search; as long to write the plan down and to verify it as is reckoned with.
const std::map<std::string, double> kPassSeconds = {{"prune", 1}, {"build plan", 1}, {"verify plan", 1}};

struct Planned {
  double seconds = 0;
  double step_seconds = 0;
  std::string text, notes;
};

Planned PlanWithin(double plan_seconds, const std::map<std::string, double>& pass_seconds = kPassSeconds) {
  const OpRegistry ops = TestOps();
  RandomGraph random(29, 0, true);
  StubOracle oracle;
  double now = 5;
  PassClock clock([&](const std::string& pass) {
    const auto seconds = pass_seconds.find(pass);
    if (seconds != pass_seconds.end()) now += seconds->second;
  });
  CompileRequest request = RequestOf(random, ops, oracle);
  request.options.device_memory_bytes = 3712;
  request.options.plan_seconds = plan_seconds;
  request.clock = &clock;
  request.now = [&now] { return now += kTick; };
  const absl::StatusOr<Compiled> compiled = Compile(request);
  EXPECT_TRUE(compiled.ok()) << compiled.status();
  if (!compiled.ok()) return {};
  ExecutionPlan plan = compiled->plan;
  const std::string notes = absl::StrJoin(plan.notes, "\n");
  return {now - 5, plan.predicted_step_seconds, PlanToText(plan), notes};
}

constexpr double kNoLimit = 0, kAll = 1e6;

TEST(PlanDeadline, WhatIsNotReachedChangesNothing) {
  const Planned without = PlanWithin(kNoLimit), all = PlanWithin(kAll);
  EXPECT_EQ(all.text, without.text);
  EXPECT_EQ(all.notes, without.notes);
}

TEST(PlanDeadline, LeavesTimeToWriteThePlanDownAndToVerifyIt) {
  const double whole = PlanWithin(kAll).seconds;
  ASSERT_GT(whole, 4.5) << "a search that is over by itself says nothing";
  const Planned planned = PlanWithin(4);
  EXPECT_LE(planned.seconds, 4 + 10 * kTick);
  EXPECT_GT(planned.seconds, 3.5) << "the search had more time";
  EXPECT_THAT(planned.notes, HasSubstr("the search ended after 9"));  // of its second
  EXPECT_GE(planned.step_seconds, PlanWithin(kAll).step_seconds);
}

TEST(PlanDeadline, ThePlanIsMadeWhereThereIsNoTimeForASearch) {
  const Planned planned = PlanWithin(1.5);
  EXPECT_LE(planned.seconds, 3 + 30 * kTick) << "it searched nevertheless";
  EXPECT_THAT(planned.notes, HasSubstr("leave no time for a search"));
  EXPECT_FALSE(planned.text.empty());
}

// Slow passes before the search tell of slow ones after it.
TEST(PlanDeadline, ASlowMachineSearchesLess) {
  std::map<std::string, double> slow = kPassSeconds;
  for (auto& [pass, seconds] : slow) seconds *= 3;
  const Planned planned = PlanWithin(10, slow);
  EXPECT_LE(planned.seconds, 10 + 10 * kTick);
}

TEST(PlanDeadline, TellsWhetherItWasHeededAndBeginsNothingThatWouldPassIt) {
  double now = 0;
  const Deadline deadline([&now] { return now; }, 10);
  EXPECT_FALSE(deadline.passed());
  EXPECT_FALSE(deadline.passed(9));
  EXPECT_FALSE(deadline.told());
  const Deadline earlier = deadline.Earlier(4);
  EXPECT_DOUBLE_EQ(earlier.seconds_left(), 6);
  now = 6;
  EXPECT_FALSE(deadline.passed());
  EXPECT_TRUE(earlier.passed());
  EXPECT_TRUE(deadline.told());
  EXPECT_TRUE(deadline.passed(4));
  EXPECT_FALSE(Deadline().passed(1e300));
}

}  // namespace
}  // namespace millrace
