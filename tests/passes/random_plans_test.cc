// Random graphs under every strategy and many budgets: a plan is made and passes the independent verifier (which
// Compile runs), or the budget is refused; never anything else. Plans that fit stay within the budget.
#include <random>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "passes/pipeline.h"
#include "passes/strategy.h"
#include "plan/disk_layout.h"
#include "plan/plan_verifier.h"
#include "testlib/random_graph.h"
#include "testlib/random_request.h"
#include "testlib/test_ops.h"

namespace millrace {
namespace {

struct Counts {
  int planned = 0, refused = 0;
};

// Random graphs of so many seeds, each under every strategy, without a budget or in one of 64 bytes times `least` or more, `range` of them.
// `look` sees every plan, none of which is beyond its budget.
template <typename Look>
void PlanRandom(uint32_t seeds, int64_t alignment, int least, int range, const Look& look, Counts& counts) {
  const OpRegistry ops = TestOps();
  for (uint32_t seed = 0; seed < seeds; ++seed) {
    RandomGraph random(seed);
    StubOracle oracle;
    CompileRequest request = RequestOf(random, ops, oracle);
    request.machine.tensor_alignment_bytes = alignment;
    for (const std::string& strategy : StrategyNames()) {
      request.options.strategy = strategy;
      request.options.partition_size = strategy == "tensorflowmem" ? 1 + random.Below(8) : 0;
      request.options.device_memory_bytes = random.Below(4) == 0 ? 0 : 64 * (least + random.Below(range));
      SCOPED_TRACE(absl::StrCat("seed ", seed, " strategy ", strategy, " budget ", request.options.device_memory_bytes));
      const absl::StatusOr<Compiled> compiled = Compile(request);
      if (absl::IsResourceExhausted(compiled.status())) {
        ++counts.refused;
        continue;
      }
      ASSERT_TRUE(compiled.ok()) << compiled.status();
      ++counts.planned;
      look(compiled->plan);
      if (request.options.device_memory_bytes > 0) {
        EXPECT_LE(compiled->plan.devices[0].arena_bytes, request.options.device_memory_bytes);
      }
      ASSERT_FALSE(::testing::Test::HasFailure());
    }
  }
}

TEST(RandomPlans, FitTheBudgetOrAreRefused) {
  Counts counts;
  const auto look = [](const ExecutionPlan& plan) {
    ASSERT_TRUE(VerifyPlan(plan).ok());
    EXPECT_GE(plan.predicted_step_seconds, (1 - 1e-9) * plan.lower_bound_seconds);
  };
  PlanRandom(400, kTensorAlignment, 8, 100, look, counts);
  EXPECT_GT(counts.planned, 500);
  EXPECT_GT(counts.refused, 50);
}

// Also from the top of a budget that is no multiple of the alignment.
TEST(RandomPlans, HaveTheAddressesOfTheMachinesAlignment) {
  constexpr int64_t kAlignment = 256;
  Counts counts;
  const auto look = [](const ExecutionPlan& plan) {
    for (const Residence& residence : plan.residences) {
      if (residence.kind == Residence::Kind::kScratch) continue;  // nodes that join share theirs
      EXPECT_EQ(residence.offset % kAlignment, 0) << residence.tensor.str();
      EXPECT_EQ(residence.bytes % kAlignment, 0) << residence.tensor.str();
    }
  };
  PlanRandom(200, kAlignment, 33, 400, look, counts);
  EXPECT_GT(counts.planned, 300);
}

// Values here are smaller than a page, so a pool of n pages holds n of them.
TEST(RandomPlans, WithADiskAPoolOfAPageOrMoreIsEnough) {
  const OpRegistry ops = TestOps();
  int tiered = 0, moved = 0;
  for (uint32_t seed = 0; seed < 300; ++seed) {
    RandomGraph random(seed);
    StubOracle oracle;
    CompileRequest request = RequestOf(random, ops, oracle);
    request.disk_tier = true;
    for (const char* strategy : {"tensorflowmem", "lru", "planned"}) {
      request.options.strategy = strategy;
      request.options.partition_size = 1 + random.Below(8);  // one order, whatever the disk costs
      request.options.device_memory_bytes = 64 * (40 + random.Below(60));
      request.options.host_memory_bytes = 0;
      const absl::StatusOr<Compiled> free = Compile(request);
      if (!free.ok()) continue;
      int64_t fixed = kDiskBounceBytes + kStateReserveBytes;
      for (const PlanConstant& constant : free->plan.constants) fixed += AlignUp(constant.value.size_bytes());
      request.options.host_memory_bytes = fixed + kDiskPageBytes * (1 + random.Below(6));
      SCOPED_TRACE(absl::StrCat("seed ", seed, " strategy ", strategy, " host ", request.options.host_memory_bytes));
      const absl::StatusOr<Compiled> compiled = Compile(request);
      ASSERT_TRUE(compiled.ok()) << compiled.status();
      ASSERT_TRUE(VerifyPlan(compiled->plan).ok());
      EXPECT_LE(compiled->plan.host_bytes, request.options.host_memory_bytes);
      // The device side is what it was.
      EXPECT_EQ(compiled->plan.bytes_to_device, free->plan.bytes_to_device);
      EXPECT_EQ(compiled->plan.devices[0].arena_bytes, free->plan.devices[0].arena_bytes);
      ++tiered;
      if (compiled->plan.bytes_to_disk > 0) ++moved;
    }
  }
  EXPECT_GT(tiered, 200);
  EXPECT_GT(moved, 50);
}

}  // namespace
}  // namespace millrace
