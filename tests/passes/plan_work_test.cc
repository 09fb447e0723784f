// A search of more work goes on where one of less ended: its plan is never longer.
#include <cstdint>
#include <set>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "passes/pipeline.h"
#include "testlib/random_graph.h"
#include "testlib/random_request.h"
#include "testlib/test_ops.h"

namespace millrace {
namespace {

TEST(PlanWork, MoreIsNeverSlower) {
  constexpr int kGraphs = 200;
  const OpRegistry ops = TestOps();
  int plans = 0, shorter = 0;
  for (int seed = 0; seed < kGraphs; ++seed) {
    RandomGraph random(static_cast<uint32_t>(3'000'000 + seed));
    StubOracle oracle;
    CompileRequest request = RequestOf(random, ops, oracle);
    request.options.device_memory_bytes = 64 * (8 + random.Below(90));
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    double first = 0, last = 0;
    for (const double work : {1e-6, 0.001, 0.003, 0.01, 0.1, 1.0}) {
      request.work = work;
      const absl::StatusOr<Compiled> compiled = Compile(request);
      if (absl::IsResourceExhausted(compiled.status())) break;
      ASSERT_TRUE(compiled.ok()) << compiled.status();
      const double step = compiled->plan.predicted_step_seconds;
      if (last > 0) ASSERT_LE(step, last * (1 + 1e-9)) << "work " << work;
      else first = step;
      last = step;
      ++plans;
    }
    shorter += last < first ? 1 : 0;
  }
  EXPECT_GT(plans, 3 * kGraphs);
  EXPECT_GT(shorter, 0) << "the work is of no use";
}

// The search goes by time alone. What no plan of it leaves room for in host memory, the first plan that fits may, or lru's or tensorflowmem's.
TEST(PlanWork, HostMemoryThatIsEnoughForOtherPlansIsEnough) {
  const OpRegistry ops = TestOps();
  int first_needed = 0, lru_needed = 0, tensorflowmem_needed = 0;
  for (int seed = 0; seed < 500; ++seed) {
    const int devices = 1 + seed % 2;
    RandomGraph random(static_cast<uint32_t>(4'000'000 + seed), devices == 1 ? 0 : devices);
    StubOracle oracle;
    CompileRequest request = RequestOf(random, ops, oracle, devices);
    request.options.device_memory_bytes = 64 * (8 + random.Below(90));
    CompileRequest first = request, lru = request, tensorflowmem = request;
    first.options.plan_seconds = 1e-9;
    lru.options.strategy = "lru";
    tensorflowmem.options.strategy = "tensorflowmem";
    const absl::StatusOr<Compiled> fastest = Compile(request);
    if (!fastest.ok()) continue;
    std::set<int64_t> planned_for;  // bytes of host memory
    for (CompileRequest* const other : {&first, &lru, &tensorflowmem}) {
      SCOPED_TRACE(absl::StrCat("seed ", seed, other == &first ? " first" : other == &lru ? " lru" : " tensorflowmem"));
      const absl::StatusOr<Compiled> enough = Compile(*other);
      if (!enough.ok()) continue;
      request.options.host_memory_bytes = other->options.host_memory_bytes = enough->plan.host_bytes;
      if (!Compile(*other).ok()) continue;  // states of nodes
      if (planned_for.insert(request.options.host_memory_bytes).second) {
        const absl::StatusOr<Compiled> compiled = Compile(request);
        ASSERT_TRUE(compiled.ok()) << compiled.status();
        EXPECT_LE(compiled->plan.host_bytes, request.options.host_memory_bytes);
        EXPECT_EQ(compiled->plan.strategy, "planned");
      }
      int& needed = other == &first ? first_needed : other == &lru ? lru_needed : tensorflowmem_needed;
      if (fastest->plan.host_bytes > request.options.host_memory_bytes) ++needed;
    }
  }
  EXPECT_GT(first_needed, 0);
  EXPECT_GT(lru_needed, 0);
  EXPECT_GT(tensorflowmem_needed, 0);
}

}  // namespace
}  // namespace millrace
