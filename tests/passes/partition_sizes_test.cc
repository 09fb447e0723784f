// Of the partition sizes that `tensorflowmem` tries, those that cannot be faster are left early: what is taken is the fastest all the same.
// `planned` cuts the order that it finds as it is asked to.
#include <cstdint>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "passes/pipeline.h"
#include "plan/plan_text.h"
#include "testlib/random_graph.h"
#include "testlib/random_request.h"
#include "testlib/test_ops.h"

namespace millrace {
namespace {

TEST(PartitionSizes, TheFastestOfAllIsTaken) {
  constexpr int kGraphs = 300;
  const OpRegistry ops = TestOps();
  int plans = 0, not_the_largest = 0;
  for (int seed = 0; seed < kGraphs; ++seed) {
    RandomGraph random(static_cast<uint32_t>(4'000'000 + seed), 0, true);
    StubOracle oracle;
    CompileRequest request = RequestOf(random, ops, oracle);
    request.options.strategy = "tensorflowmem";
    request.options.device_memory_bytes = 64 * (20 + random.Below(200));
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    absl::StatusOr<Compiled> fastest = absl::NotFoundError("no size fits");
    for (const int64_t size : {500, 200, 100, 50, 20, 10, 5, 2, 1}) {
      CompileRequest one = request;
      one.options.partition_size = size;
      absl::StatusOr<Compiled> compiled = Compile(one);
      if (absl::IsResourceExhausted(compiled.status())) continue;
      ASSERT_TRUE(compiled.ok()) << compiled.status();
      const bool slower = fastest.ok() && compiled->plan.predicted_step_seconds > fastest->plan.predicted_step_seconds;
      if (!slower) fastest = std::move(compiled);
    }
    if (!fastest.ok()) continue;
    const absl::StatusOr<Compiled> taken = Compile(request);
    ASSERT_TRUE(taken.ok()) << taken.status();
    ASSERT_EQ(PlanToText(taken->plan, {}), PlanToText(fastest->plan, {}));
    ++plans;
    not_the_largest += taken->plan.partition_size < 50 ? 1 : 0;
  }
  EXPECT_GT(plans, kGraphs / 2);
  EXPECT_GT(not_the_largest, kGraphs / 10);
}

// Nodes that compute, by partition.
std::vector<int64_t> NodesOfPartitions(const ExecutionPlan& plan) {
  std::vector<int64_t> nodes(plan.devices[0].num_partitions, 0);
  for (const Lane& lane : plan.lanes) {
    for (const ComputeStep& step : lane.compute) ++nodes[step.partition];
  }
  return nodes;
}

TEST(PartitionSizes, PlannedIsAsFastWhateverTheyAre) {
  constexpr int kGraphs = 50;
  const OpRegistry ops = TestOps();
  double free_seconds = 0, asked_seconds = 0;
  int64_t recomputed = 0;
  for (int seed = 0; seed < kGraphs; ++seed) {
    RandomGraph random(static_cast<uint32_t>(5'000'000 + seed), 0, true);
    StubOracle oracle;
    CompileRequest request = RequestOf(random, ops, oracle);
    request.options.strategy = "planned";
    request.options.device_memory_bytes = 64 * (20 + random.Below(200));
    request.machine.to_host_bytes_per_second = request.machine.to_device_bytes_per_second = 16 << random.Below(8);
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    const absl::StatusOr<Compiled> free = Compile(request);
    for (const int64_t size : {1, 3, 20}) {
      request.options.partition_size = size;
      const absl::StatusOr<Compiled> asked = Compile(request);
      ASSERT_EQ(asked.ok(), free.ok()) << asked.status();
      if (!asked.ok()) continue;
      EXPECT_EQ(asked->plan.partition_size, size);
      const std::vector<int64_t> nodes = NodesOfPartitions(asked->plan);
      for (const int64_t count : nodes) EXPECT_LE(count, size);
      free_seconds += free->plan.predicted_step_seconds;
      asked_seconds += asked->plan.predicted_step_seconds;
      recomputed += asked->plan.counts.recomputed_nodes;
    }
  }
  EXPECT_LE(asked_seconds, 1.02 * free_seconds);
  EXPECT_GT(recomputed, 0);
}

}  // namespace
}  // namespace millrace
