// Copies that other devices wait for go first, and plans stay plans.
#include "passes/urgent_copies.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "graph/lazy_fanout.h"
#include "graph/text.h"
#include "gtest/gtest.h"
#include "passes/emit/build_plan.h"
#include "passes/order/partition.h"
#include "passes/plan_devices.h"
#include "passes/prepare.h"
#include "passes/strategy.h"
#include "passes/swaps/choose_swaps.h"
#include "plan/plan_verifier.h"
#include "plan/simulator.h"
#include "testlib/random_graph.h"
#include "testlib/random_request.h"
#include "testlib/test_ops.h"

namespace millrace {
namespace {

// A graph in creation order, decided by `strategy` for every device alone.
class Decided {
 public:
  Decided(CompileRequest request, const Strategy& strategy) : request_(std::move(request)) { status_ = Decide(strategy); }

  const absl::Status& status() const { return status_; }
  const DevicePlan& device(size_t d) const { return plans_[d]; }
  double Seconds() { return ReplayDevices(prepared_.graph, partitioning_.order, request_.machine, plans_).step_seconds; }
  bool LetPass() { return LetUrgentCopiesPass(prepared_.graph, partitioning_.order, request_.machine, plans_); }
  // The finished plan, which takes the decisions away.
  ExecutionPlan Plan() {
    const DevicesTimes times = ReplayDevices(prepared_.graph, partitioning_.order, request_.machine, plans_);
    EXPECT_TRUE(InsertCopies(request_, plans_, prepared_.graph).ok());
    ExecutionPlan plan = BuildPlan({prepared_.graph, request_.ops, request_.signature, request_.machine, partitioning_.order, plans_,
                                    /*finish_copies_first=*/false, times.items});
    for (size_t d = 0; d < plans_.size(); ++d) plan.devices[d].budget_bytes = request_.options.BudgetOf(static_cast<int32_t>(d));
    EXPECT_TRUE(FillPredictions(request_.machine, &plan).ok());
    return plan;
  }

 private:
  absl::Status Decide(const Strategy& strategy) {
    absl::StatusOr<Prepared> prepared = Prepare(request_);
    if (!prepared.ok()) return prepared.status();
    prepared_ = *std::move(prepared);
    LazyFanout fanout(prepared_.graph);
    absl::StatusOr<Partitioning> partitioning = KeepCreationOrder(prepared_.graph, fanout);
    if (!partitioning.ok()) return partitioning.status();
    partitioning_ = *std::move(partitioning);
    absl::StatusOr<std::vector<DevicePlan>> plans =
        DecideDevices(request_, strategy, partitioning_, prepared_.inferred, PlanLimits(), prepared_.graph);
    if (plans.ok()) plans_ = *std::move(plans);
    return plans.status();
  }

  CompileRequest request_;
  Prepared prepared_;
  Partitioning partitioning_;
  std::vector<DevicePlan> plans_;
  absl::Status status_;
};

// One strategy for all devices, as it is without what this file is about.
Strategy Alone(const std::string& name) {
  Strategy strategy = **FindStrategy(name);
  strategy.order = Strategy::Order::kCreation;
  return strategy;
}

// The variable's copy home, of two seconds, is under way when s is made.
//
//   time                0    1    2    3    4    5    6    7
//   gpu:0               | x  |    | u  | s  |
//   to host                            | v >     | s >|
//   to host, s first                        | s >| v >     |
TEST(UrgentCopies, ASendGoesBeforeACopyThatCanWait) {
  const OpRegistry ops = TestOps();
  StubOracle oracle;
  const absl::StatusOr<Graph> graph = ParseGraphText(R"(
v = Var() {shape=shape[2,4]} on "/gpu:0"
x = Op() on "/gpu:0"
u = Update(v) {shape=shape[2,4]} on "/gpu:0"
s = InPlace(x) on "/gpu:0"
y = Op(s) on "/gpu:1"
z = Op(y) on "/gpu:0")");
  ASSERT_TRUE(graph.ok()) << graph.status();
  CompileRequest request{*graph, ops, oracle, {}, {}, UnitMachine(), {}};
  request.signature.targets = {"u", "z"};
  request.options.devices = {"gpu:0", "gpu:1"};
  Strategy strategy = Alone("baseline");
  strategy.swaps = [](const SwapRequest& swaps) -> absl::StatusOr<SwapChoice> {
    SwapChoice choice = KeepEverything(swaps.graph);
    for (size_t s = 0; s < swaps.graph.storages.size(); ++s) {
      if (swaps.graph.storages[s].kind != StorageKind::kVariable) continue;
      const SwapDecision fetched{.storage = static_cast<int32_t>(s), .before = 1, .anchor = 0};
      const SwapDecision home{.storage = static_cast<int32_t>(s), .after = 1, .copy_in = false, .copy_out = true, .out_after = 1};
      choice.decisions.insert(choice.decisions.begin(), {fetched, home});
    }
    return choice;
  };
  Decided decided(std::move(request), strategy);
  ASSERT_TRUE(decided.status().ok()) << decided.status();
  const double before = decided.Seconds();
  EXPECT_TRUE(decided.LetPass());
  EXPECT_DOUBLE_EQ(decided.Seconds(), before - 1);
  const ExecutionPlan plan = decided.Plan();
  EXPECT_TRUE(VerifyPlan(plan).ok()) << VerifyPlan(plan);
  EXPECT_DOUBLE_EQ(plan.predicted_step_seconds, before - 1);
}

TEST(UrgentCopies, PlansOfRandomGraphsStayPlansAndGetShorter) {
  const OpRegistry ops = TestOps();
  int planned = 0, shorter = 0;
  for (uint32_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    const int devices = 2 + static_cast<int>(seed % 3);
    RandomGraph random(seed, devices, /*backward=*/seed % 2 == 0);
    StubOracle oracle;
    CompileRequest request = RequestOf(random, ops, oracle, devices);
    request.options.device_memory_bytes = 1200 + 64 * random.Below(60);
    const int64_t budget = request.options.device_memory_bytes;
    Decided decided(std::move(request), Alone("planned"));
    if (absl::IsResourceExhausted(decided.status())) continue;
    ASSERT_TRUE(decided.status().ok()) << decided.status();
    ++planned;
    const double before = decided.Seconds();
    const bool passed = decided.LetPass();
    shorter += passed ? 1 : 0;
    const double after = decided.Seconds();
    EXPECT_TRUE(passed ? after < before : after == before);
    const ExecutionPlan plan = decided.Plan();
    ASSERT_TRUE(VerifyPlan(plan).ok()) << VerifyPlan(plan);
    EXPECT_NEAR(plan.predicted_step_seconds, after, 1e-9 * after);
    for (const PlanDevice& device : plan.devices) EXPECT_LE(device.arena_bytes, budget);
  }
  EXPECT_GT(planned, 150);
  EXPECT_GT(shorter, 30);
}

}  // namespace
}  // namespace millrace
