// What is fetched leaves beside the operations, and they need not wait for it.
#include <gtest/gtest.h>

#include <cstdint>

#include "absl/status/statusor.h"
#include "graph/text.h"
#include "passes/pipeline.h"
#include "passes/planner/planned.h"
#include "testlib/small_access_graph.h"
#include "testlib/test_ops.h"

namespace millrace {
namespace {

TEST(FetchedValues, AStepInWhichAllStaysEndsWithTheirCopies) {
  SmallAccessGraph graph;
  const int32_t a = graph.AddStorage(StorageKind::kActivation, 256), b = graph.AddStorage(StorageKind::kActivation);
  graph.AddOperation({Writes(a)}).AddOperation({Reads(a)}, 0).AddOperation({Writes(b)}).AddOperation({Reads(b)});
  graph.access().fetches = {1};
  const absl::StatusOr<SwapChoice> choice = SwapPlanned(graph.access(), UnitLink(), 4096);
  ASSERT_TRUE(choice.ok()) << choice.status();
  EXPECT_EQ(choice->predicted_seconds, 5);  // the copy from 1 on
}

// `a` goes to the host for four seconds, `b` may take its place.
double StepOf(int64_t budget_bytes, const char* strategy) {
  const absl::StatusOr<Graph> graph = ParseGraphText(R"(
a = Op() {shape=shape[16]}
b = InPlace(a) {shape=shape[16]}
c = Op(b)
d = Op(c)
e = Op(d)
f = Op(e)
)");
  EXPECT_TRUE(graph.ok()) << graph.status();
  const OpRegistry ops = TestOps();
  StubOracle oracle;
  CompileRequest request{*graph, ops, oracle, {}, {}, UnitMachine(), {}};
  request.signature.fetches = {"a:0"};
  request.signature.targets = {"f"};
  request.options.strategy = strategy;
  request.options.device_memory_bytes = budget_bytes;
  const absl::StatusOr<Compiled> compiled = Compile(request);
  EXPECT_TRUE(compiled.ok()) << compiled.status();
  return compiled.ok() ? compiled->plan.predicted_step_seconds : 0;
}

TEST(FetchedValues, AResultDoesNotWaitForTheirPlaceWhereThereIsAnother) {
  EXPECT_EQ(StepOf(4096, "planned"), 6);
  EXPECT_EQ(StepOf(512, "planned"), 10) << "they are too much of the budget";
  EXPECT_EQ(StepOf(4096, "baseline"), 10) << "which is as it always was";
}

// `a` goes to the host for four seconds; it may be made early, since `y` is gone then.
TEST(FetchedValues, AnOrderThatMakesThemEarlierIsLookedAt) {
  const absl::StatusOr<Graph> graph = ParseGraphText(R"(
y = Op() {shape=shape[64]}
c = Op()
d = Op(c)
e = Op(d)
f = Op(e)
a = Op(y) {shape=shape[16]}
)");
  ASSERT_TRUE(graph.ok()) << graph.status();
  const OpRegistry ops = TestOps();
  StubOracle oracle;
  CompileRequest request{*graph, ops, oracle, {}, {}, UnitMachine(), {}};
  request.signature.fetches = {"a:0"};
  request.signature.targets = {"f"};
  const absl::StatusOr<Compiled> compiled = Compile(request);
  ASSERT_TRUE(compiled.ok()) << compiled.status();
  EXPECT_LT(compiled->plan.predicted_step_seconds, 10);
}

}  // namespace
}  // namespace millrace
