// A search of more work goes on where one of less ended: its plan is never longer.
#include <cstdint>

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

}  // namespace
}  // namespace millrace
