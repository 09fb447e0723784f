// Random graphs x budgets x policies, replayed from the plan's text with operation times +-90 % and bandwidths of 0.2 to
// 3 times what was planned for: no deadlock, nothing outside the budget, no byte read that another owner overwrote, no step
// below its bound.
//
//   MILLRACE_FUZZ_GRAPHS=10000 build/bin/passes_plan_fuzz_test       the whole, minutes
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <random>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "gtest/gtest.h"
#include "passes/pipeline.h"
#include "passes/strategy.h"
#include "plan/plan_text.h"
#include "testlib/plan_text_checker.h"
#include "testlib/random_graph.h"
#include "testlib/random_request.h"
#include "testlib/test_ops.h"

namespace millrace {
namespace {

constexpr int kReplays = 2;

int GraphCount() {
  const char* const text = std::getenv("MILLRACE_FUZZ_GRAPHS");
  return text != nullptr ? std::atoi(text) : 300;
}

// Strategies that plan every graph down to 1.05 times the largest working set of a node, when they may cut as they like.
bool PromisesLittleMemory(const PlanningOptions& options) {
  return options.strategy == "planned" || options.strategy == "lru" || (options.strategy == "tensorflowmem" && options.partition_size == 0);
}

struct Counts {
  int64_t plans = 0, copies = 0, refused = 0;
  int64_t promised = 0, broken = 0;  // requests that may not be refused, and those that were
};

// Draws a budget between 1.05 times the largest working set and what `request` holds at its peak without one, which is
// what baseline gets; every fourth is the least of them.
int64_t DrawBudget(CompileRequest request, RandomGraph& random) {
  const bool moves = request.options.strategy != "baseline";
  request.options.strategy = "baseline";
  request.options.device_memory_bytes = 0;
  const absl::StatusOr<Compiled> uncut = Compile(request);
  EXPECT_TRUE(uncut.ok()) << uncut.status();
  if (!uncut.ok()) return 0;
  const int64_t least = (105 * uncut->summary.largest_node_bytes + 99) / 100;
  const int64_t peak = uncut->plan.devices[0].arena_bytes, span = peak - least;
  if (!moves) return peak;
  return span <= 0 || random.Below(4) == 0 ? least : least + random.Below(static_cast<int>(span));
}

TEST(PlanFuzz, PlansAreSafeUnderAnyTiming) {
  const OpRegistry ops = TestOps();
  const std::vector<std::string> strategies = StrategyNames();
  std::map<std::string, Counts> counts;
  int64_t recomputed = 0, leaving = 0;
  for (int seed = 0; seed < GraphCount(); ++seed) {
    RandomGraph random(static_cast<uint32_t>(1'000'000 + seed), /*devices=*/0, /*backward=*/seed % 4 != 0);
    StubOracle oracle;
    CompileRequest request = RequestOf(random, ops, oracle);
    // Every second plan is the planner's.
    request.options.strategy = seed % 2 == 0 ? "planned" : strategies[seed / 2 % strategies.size()];
    request.options.partition_size = random.Below(4) == 0 ? 1 + random.Below(8) : 0;
    // From a tensor's bytes in many seconds, where computing again is cheaper, to many tensors in one.
    request.machine.to_host_bytes_per_second = request.machine.to_device_bytes_per_second = 16 << random.Below(8);
    request.options.device_memory_bytes = DrawBudget(request, random);
    SCOPED_TRACE(absl::StrCat("seed ", seed, " strategy ", request.options.strategy, " partition size ",
                              request.options.partition_size, " budget ", request.options.device_memory_bytes));
    Counts& count = counts[request.options.strategy];
    count.promised += PromisesLittleMemory(request.options) ? 1 : 0;
    const absl::StatusOr<Compiled> compiled = Compile(request);
    if (absl::IsResourceExhausted(compiled.status())) {
      EXPECT_FALSE(PromisesLittleMemory(request.options)) << compiled.status();
      count.broken += PromisesLittleMemory(request.options) ? 1 : 0;
      ++count.refused;
      continue;
    }
    ASSERT_TRUE(compiled.ok()) << compiled.status();
    ++count.plans;
    ASSERT_GE(compiled->plan.predicted_step_seconds, compiled->plan.lower_bound_seconds * (1 - 1e-9));
    recomputed += compiled->plan.counts.recomputed_nodes;
    count.copies += compiled->plan.counts.swap_ins;
    const std::string text = PlanToText(compiled->plan, {.seconds = true});
    leaving += absl::StrContains(text, "  leaves\n") ? 1 : 0;
    for (int replay = 0; replay < kReplays; ++replay) {
      std::mt19937 times(static_cast<uint32_t>(seed * kReplays + replay));
      const double bandwidth = std::uniform_real_distribution<>(0.2, 3)(times);
      const absl::Status status =
          CheckPlanText(text, request.options.device_memory_bytes, [&](const std::string& lane) {
            return lane == "compute" ? std::uniform_real_distribution<>(0.1, 1.9)(times) : 1 / bandwidth;
          });
      ASSERT_TRUE(status.ok()) << status << "\n" << text;
    }
  }
  for (const auto& [strategy, count] : counts) {
    std::printf("%-13s  %lld plans, %.1f copies in each, %lld refused, of %lld that may not be %lld\n",
                strategy.c_str(), static_cast<long long>(count.plans),
                static_cast<double>(count.copies) / static_cast<double>(std::max<int64_t>(count.plans, 1)),
                static_cast<long long>(count.refused), static_cast<long long>(count.promised),
                static_cast<long long>(count.broken));
  }
  std::printf("%lld recomputed nodes, %lld plans with variables that are away in mid-step only, %d replays each: no deadlock, "
              "no violation\n", static_cast<long long>(recomputed), static_cast<long long>(leaving), kReplays);
  // What would make the fuzz empty: plans that move nothing, and refusals.
  const Counts& planned = counts["planned"];
  EXPECT_GT(planned.plans, GraphCount() / 3);
  EXPECT_GT(planned.promised, GraphCount() / 4);
  EXPECT_GT(planned.copies, 3 * planned.plans);
  EXPECT_GT(recomputed, 0);
}

// The checker must see what it is there for.
constexpr const char* kPlan =
    "plan planned\nvariable v  f32[4]  host  read\nsteps\n"
    "  0 compute  p0  x (Op)  -> x:0@0+16  1s\n"
    "  1 to-host  p0  x/swap_out  x:0@0+16 -> pool@0  [compute>=1]  1s  \"idle\"\n"
    "  2 compute  p0  y (Op)  -> y:0@0+16  [to-host>=1]  1s\n"
    "  3 to-device  p0  x/swap_in  pool@0 -> x:0@16+16  [to-host>=1]  2s  \"idle\"\n"
    "  4 compute  p0  z (Op)  x:0@16+16 y:0@0+16 -> z:0@32+16  [to-device>=1]  1s\n";

absl::Status Check(const std::string& text, int64_t budget_bytes) {
  return CheckPlanText(text, budget_bytes, [](const std::string&) { return 1.0; });
}

TEST(PlanTextChecker, AcceptsASafePlan) { EXPECT_TRUE(Check(kPlan, 48).ok()) << Check(kPlan, 48); }

TEST(PlanTextChecker, SeesBytesOutsideOfTheBudget) { EXPECT_FALSE(Check(kPlan, 32).ok()); }

TEST(PlanTextChecker, SeesMissingWaits) {
  for (const char* wait : {"  [compute>=1]", "  [to-device>=1]"}) {
    EXPECT_FALSE(Check(absl::StrReplaceAll(kPlan, {{wait, ""}}), 48).ok()) << wait;
  }
  EXPECT_FALSE(Check(absl::StrReplaceAll(kPlan, {{"-> y:0@0+16  [to-host>=1]", "-> y:0@0+16"}}), 48).ok());
}

// A variable that is newer than its home when the step begins, and away in its middle.
constexpr const char* kLeaving =
    "plan planned\nvariable v  f32[4]  @0  read  written  leaves\nsteps\n"
    "  0 to-host  p0  v/swap_out  v@0+16 -> variable v  writes v  1s\n"
    "  1 compute  p0  x (Op)  -> x:0@0+16  [to-host>=1]  1s\n"
    "  2 to-device  p0  v/swap_in  variable v -> v@0+16  [compute>=1 to-host>=1]  1s\n"
    "  3 compute  p0  u (Update)  v@0+16 -> v@0+16  writes v  [to-device>=1]  1s\n";

TEST(PlanTextChecker, SeesWhatAVariableThatIsAwayInMidStepNeeds) {
  EXPECT_TRUE(Check(kLeaving, 48).ok()) << Check(kLeaving, 48);
  const auto fails = [](std::vector<std::pair<std::string, std::string>> changes) {
    return !Check(absl::StrReplaceAll(kLeaving, changes), 48).ok();
  };
  EXPECT_TRUE(fails({{"-> x:0@0+16  [to-host>=1]", "-> x:0@0+16"}})) << "its place is used before it has gone";
  EXPECT_TRUE(fails({{"  0 to-host  p0  v/swap_out  v@0+16 -> variable v  writes v  1s\n", ""}, {" to-host>=1]", "]"},
                     {"  [to-host>=1]", ""}})) << "its home is older than it";
  EXPECT_TRUE(fails({{"variable v -> v@0+16", "variable v -> v@16+16"}, {"v@0+16 -> v@0+16", "v@16+16 -> v@16+16"}}))
      << "it comes back elsewhere";
}

TEST(PlanTextChecker, SeesDeadlocks) {
  EXPECT_FALSE(Check(absl::StrReplaceAll(kPlan, {{"[compute>=1]", "[compute>=3]"}}), 48).ok());
}

}  // namespace
}  // namespace millrace
