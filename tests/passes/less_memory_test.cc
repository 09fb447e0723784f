// A plan for less memory is one for more: which budgets are tried, and what is taken of them.
#include "passes/less_memory.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gtest/gtest.h"
#include "passes/pipeline.h"
#include "passes/plan_devices.h"
#include "testlib/random_graph.h"
#include "testlib/random_request.h"
#include "testlib/test_ops.h"

namespace millrace {
namespace {

constexpr int32_t kNodes = 100;

// A plan that moves something, a second of it compute.
Compiled PlanOf(double step_seconds) {
  Compiled compiled;
  compiled.plan.predicted_step_seconds = step_seconds;
  compiled.plan.predicted_compute_seconds = compiled.plan.lower_bound_seconds = 1;
  compiled.plan.counts.swap_outs = 1;
  compiled.plan.devices.resize(1);
  return compiled;
}

// Where the plan for all of the memory takes two seconds, and the others what `step` says of their budgets.
class LessMemoryTest : public testing::Test {
 protected:
  using Step = std::function<absl::StatusOr<double>(int64_t)>;

  Compiled Find(int64_t budget, const Step& step, double first_seconds = 2, int32_t nodes = kNodes) {
    request_.options.device_memory_bytes = budget;
    tried_.clear();
    const auto compile = [&](CompileRequest of, const PlanLimits& limits) -> absl::StatusOr<Compiled> {
      EXPECT_EQ(limits.whole_budgets[0], budget);
      tried_.push_back(of.options.BudgetOf(0));
      const absl::StatusOr<double> seconds = step(tried_.back());
      if (!seconds.ok()) return seconds.status();
      Compiled compiled = PlanOf(*seconds);
      compiled.plan.devices[0].budget_bytes = tried_.back();
      return compiled;
    };
    Compiled first = PlanOf(first_seconds);
    first.plan.devices[0].budget_bytes = budget;
    first.plan.devices[0].arena_bytes = first_arena_;
    if (first_arena_ > 0) first.plan.counts.swap_outs = 0;
    absl::StatusOr<Compiled> found = FindPlanForLess(request_, nodes, std::move(first), /*best_took_seconds=*/1, deadline_, compile);
    EXPECT_TRUE(found.ok()) << found.status();
    return *std::move(found);
  }

  const OpRegistry ops_ = TestOps();
  StubOracle oracle_;
  Graph graph_;
  CompileRequest request_{graph_, ops_, oracle_, {}, {}, UnitMachine(), {}};
  std::vector<int64_t> tried_;
  int64_t first_arena_ = 0;  // of a plan in which all stays
  Deadline deadline_;
};

// No plan of less than half the memory.
absl::StatusOr<double> Slower(int64_t budget) {
  if (budget < 500'000) return absl::ResourceExhaustedError("does not fit");
  return 3;
}

TEST_F(LessMemoryTest, TheFastestIsTakenForTheWholeBudget) {
  const Compiled found = Find(1'000'000, [](int64_t budget) { return budget < 900'000 && budget > 800'000 ? absl::StatusOr<double>(1.5) : Slower(budget); });
  EXPECT_EQ(found.plan.predicted_step_seconds, 1.5);
  EXPECT_EQ(found.plan.devices[0].budget_bytes, 1'000'000);
  EXPECT_EQ(Find(1'000'000, Slower).plan.predicted_step_seconds, 2);
}

TEST_F(LessMemoryTest, ALargerBudgetTriesThoseOfASmallerOne) {
  Find(1'000'000, Slower);
  const std::vector<int64_t> of_larger = tried_;
  Find(801'234, Slower);
  ASSERT_GT(tried_.size(), 10u);
  ASSERT_GT(of_larger.size(), tried_.size());
  EXPECT_EQ(std::vector<int64_t>(of_larger.end() - static_cast<std::ptrdiff_t>(tried_.size()), of_larger.end()), tried_);
  for (const int64_t budget : tried_) EXPECT_LT(budget, 801'234);
}

TEST_F(LessMemoryTest, WhatAllStaysInNeedNotBeTriedAgain) {
  Find(1'000'000, Slower);
  const size_t all = tried_.size();
  first_arena_ = 700'000;
  Find(1'000'000, Slower);
  ASSERT_FALSE(tried_.empty());
  EXPECT_LT(tried_.front(), 700'000);
  EXPECT_GT(tried_.front(), 680'000);
  EXPECT_EQ(tried_.size() + 16, all);
}

TEST_F(LessMemoryTest, OfMoreNodesFewAreTriedWhereThePlanIsFarAboveItsBound) {
  Find(1'000'000, Slower);
  const std::vector<int64_t> of_few_nodes = tried_;
  Find(1'000'000, Slower, 2, 2'000);
  EXPECT_THAT(of_few_nodes, ::testing::IsSupersetOf(tried_));
  ASSERT_GT(tried_.size(), 3u);
  // 8 of a double, of which one is 0.917 of the next.
  for (size_t i = 1; i < tried_.size(); ++i) EXPECT_LT(static_cast<double>(tried_[i]), 0.93 * static_cast<double>(tried_[i - 1]));
  Find(1'000'000, Slower, 1.04, 2'000);
  EXPECT_TRUE(tried_.empty());
  Find(1'000'000, Slower, 2, 4'000);
  EXPECT_FALSE(tried_.empty());
  Find(1'000'000, Slower, 2, 4'001);
  EXPECT_TRUE(tried_.empty());
}

TEST_F(LessMemoryTest, ItEndsWhereNothingFitsOrNothingIsLeftToGain) {
  Find(1'000'000, Slower);
  EXPECT_GE(tried_[tried_.size() - 2], 500'000);
  EXPECT_LT(tried_.back(), 500'000);
  Find(1'000'000, [](int64_t) { return 1.0; });
  EXPECT_EQ(tried_.size(), 1u) << "its plan is at its bound";
  Find(1'000'000, Slower, 1);
  EXPECT_TRUE(tried_.empty());
  Find(1'000'000, [](int64_t) { return absl::AbortedError("a faster plan is known"); });
  EXPECT_GT(tried_.size(), 10u);
}

TEST_F(LessMemoryTest, NotForLargeGraphsNorAgainstTheClock) {
  Find(1'000'000, Slower, 2, 20'000);
  EXPECT_TRUE(tried_.empty());
  double now = 0;
  deadline_ = Deadline([&now] { return now += 1; }, 2);
  EXPECT_THAT(Find(1'000'000, Slower).plan.notes, ::testing::ElementsAre(::testing::HasSubstr("the time for planning is over")));
  EXPECT_TRUE(tried_.empty());
  deadline_ = Deadline([&now] { return now += 1; }, 20);
  Find(1'000'000, Slower);
  EXPECT_THAT(tried_, ::testing::SizeIs(::testing::AllOf(::testing::Gt(2u), ::testing::Lt(9u))));
}

TEST_F(LessMemoryTest, BesideADiskFewAreTried) {
  Find(1'000'000, Slower);
  const std::vector<int64_t> without = tried_;
  request_.disk_tier = true;
  Find(1'000'000, Slower);
  if (tried_.back() < 500'000) tried_.pop_back();
  EXPECT_THAT(without, ::testing::IsSupersetOf(tried_));
  EXPECT_THAT(tried_, ::testing::SizeIs(::testing::AllOf(::testing::Gt(3u), ::testing::Lt(without.size() / 3))));
}

// A device that needs nothing, of one byte, and one without a limit stay as they are.
TEST_F(LessMemoryTest, BudgetsOfSeveralDevicesShrinkTogether) {
  request_.options.devices = {"gpu:0", "gpu:1", "gpu:2", "gpu:3"};
  const std::vector<int64_t> whole = {1'000'000, 1, 0, 500'000};
  request_.options.device_memory_bytes_of = whole;
  Compiled best = PlanOf(2);
  best.plan.devices.resize(whole.size());
  std::vector<std::vector<int64_t>> tried;
  const auto compile = [&](const CompileRequest& of, const PlanLimits& limits) -> absl::StatusOr<Compiled> {
    EXPECT_THAT(limits.whole_budgets, ::testing::ElementsAreArray(whole));
    tried.push_back(of.options.device_memory_bytes_of);
    if (tried.size() > 3) return absl::ResourceExhaustedError("does not fit");
    Compiled compiled = PlanOf(tried.size() == 2 ? 1.5 : 3);
    compiled.plan.devices.resize(whole.size());
    return compiled;
  };
  const absl::StatusOr<Compiled> found = FindPlanForLess(request_, kNodes, std::move(best), 1, deadline_, compile);
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->plan.predicted_step_seconds, 1.5);
  ASSERT_EQ(tried.size(), 4u);
  for (size_t i = 0; i < tried.size(); ++i) {
    const std::vector<int64_t>& before = i == 0 ? whole : tried[i - 1];
    EXPECT_LT(tried[i][0], before[0]);
    EXPECT_EQ(tried[i][1], 1);
    EXPECT_EQ(tried[i][2], 0);
    EXPECT_LT(tried[i][3], before[3]);
  }
  for (size_t d = 0; d < whole.size(); ++d) EXPECT_EQ(found->plan.devices[d].budget_bytes, whole[d]);
}

// One that needs all that it has, and one that needs most of it.
TEST_F(LessMemoryTest, DevicesThatAreTightKeepWhatTheyNeed) {
  request_.options.devices = {"gpu:0", "gpu:1", "gpu:2"};
  const std::vector<int64_t> whole = {1'000'000, 500'000, 300'000};
  request_.options.device_memory_bytes_of = whole;
  Compiled best = PlanOf(2);
  best.plan.devices.resize(whole.size());
  std::vector<std::vector<int64_t>> fit;
  size_t refused = 0;
  const auto compile = [&](const CompileRequest& of, const PlanLimits&) -> absl::StatusOr<Compiled> {
    const std::vector<int64_t>& budgets = of.options.device_memory_bytes_of;
    for (const auto& [device, least] : {std::pair<int32_t, int64_t>(1, 500'000), {2, 200'000}, {0, 400'000}}) {
      if (budgets[device] >= least) continue;
      ++refused;
      return OfDevice(absl::ResourceExhaustedError("does not fit"), device);
    }
    fit.push_back(budgets);
    Compiled compiled = PlanOf(3);
    compiled.plan.devices.resize(whole.size());
    return compiled;
  };
  const absl::StatusOr<Compiled> found = FindPlanForLess(request_, kNodes, std::move(best), 1, deadline_, compile);
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(refused, 3u);
  ASSERT_GT(fit.size(), 3u);
  for (const std::vector<int64_t>& budgets : fit) EXPECT_EQ(budgets[1], whole[1]);
  EXPECT_LT(fit.back()[0], 450'000);
  EXPECT_LT(fit.back()[2], 300'000);
}

// Whole plans of random graphs, from little memory up.
TEST(LessMemory, MoreMemoryIsSeldomSlower) {
  constexpr int kGraphs = 30;
  const OpRegistry ops = TestOps();
  int plans = 0, slower = 0;
  for (int seed = 0; seed < kGraphs; ++seed) {
    RandomGraph random(static_cast<uint32_t>(6'000'000 + seed));
    StubOracle oracle;
    CompileRequest request = RequestOf(random, ops, oracle);
    double best = std::numeric_limits<double>::infinity();
    for (int64_t budget = 64 * 8; budget <= 64 * 96; budget += 64 * 8) {
      request.options.device_memory_bytes = budget;
      const absl::StatusOr<Compiled> compiled = Compile(request);
      if (absl::IsResourceExhausted(compiled.status())) continue;
      ASSERT_TRUE(compiled.ok()) << "seed " << seed << ": " << compiled.status();
      const double step = compiled->plan.predicted_step_seconds;
      EXPECT_EQ(compiled->plan.devices[0].budget_bytes, budget);
      EXPECT_GE(step, compiled->plan.lower_bound_seconds * (1 - 1e-6));
      slower += step > 1.01 * best ? 1 : 0;
      best = std::min(best, step);
      ++plans;
    }
  }
  EXPECT_GT(plans, 6 * kGraphs);
  EXPECT_LE(slower, 8) << "of " << plans;
}

}  // namespace
}  // namespace millrace
