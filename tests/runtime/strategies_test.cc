// What every strategy plans for a real model, run on the null device: the executor's events are the simulator's, one by
// one, and the memory that it touches is what was predicted.
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "millrace/device.h"
#include "millrace/session.h"
#include "models/models.h"
#include "null/null_device.h"
#include "passes/strategy.h"
#include "plan/simulator.h"
#include "testlib/executor_fixture.h"
#include "testlib/inline_task_runner.h"

namespace millrace::testing {
namespace {

struct PlanOrRefusal {
  std::shared_ptr<const ExecutionPlan> plan;
  bool refused = false;
};

PlanOrRefusal PlanModel(const std::string& strategy, int64_t budget) {
  auto graph = BuildModel("lstm", {.batch = 4, .layers = 2, .hidden = 32, .steps_unrolled = 12, .vocab = 50, .seed = 3});
  EXPECT_TRUE(graph.ok()) << graph.status();
  Session::FeedTypes feeds;
  for (int32_t i = 0; i < graph->num_ids(); ++i) {
    const Node& node = graph->node(NodeId{i});
    if (node.op != "Placeholder") continue;
    feeds.emplace(node.name, TensorType{node.attrs.GetOr<DataType>("dtype", DataType::kFloat), node.attrs.GetOr<Shape>("shape", {})});
  }
  SessionOptions options;
  options.device = "null";
  options.planning.strategy = strategy;
  options.planning.device_memory_bytes = budget;
  auto session = Session::Create(*std::move(graph), options);
  EXPECT_TRUE(session.ok()) << session.status();
  const auto plan = (*session)->Plan(feeds, {"loss:0"}, {"train"});
  if (absl::IsResourceExhausted(plan.status())) return {nullptr, true};
  EXPECT_TRUE(plan.ok()) << strategy << ": " << plan.status();
  return {plan.value_or(nullptr), false};
}

TEST(StrategiesOnTheNullDevice, EventsEqualTheSimulators) {
  const auto baseline = PlanModel("baseline", 0);
  ASSERT_NE(baseline.plan, nullptr);
  const int64_t peak = baseline.plan->devices[0].arena_bytes;
  const std::shared_ptr<const KernelRegistry> kernels(&CpuKernels(), [](const KernelRegistry*) {});
  int ran = 0, swapped = 0;
  for (const std::string& strategy : StrategyNames()) {
    for (const int64_t budget : {int64_t{0}, peak * 9 / 10, peak * 7 / 10}) {
      SCOPED_TRACE(absl::StrCat(strategy, " budget ", budget));
      const PlanOrRefusal planned = PlanModel(strategy, budget);
      if (planned.refused) continue;
      ASSERT_NE(planned.plan, nullptr);
      const auto simulation = SimulatePlan(*planned.plan, Machine());
      ASSERT_TRUE(simulation.ok()) << simulation.status();
      Runtime runtime(std::make_unique<InlineTaskRunner>(), MakeNullDevice(0, budget, kernels));
      auto executor = runtime.Make(*planned.plan);
      ASSERT_TRUE(executor.ok()) << executor.status();
      StepStats stats;
      const absl::Status status = (*executor)->RunStep({}, nullptr, &stats);
      ASSERT_TRUE(status.ok()) << status;
      ASSERT_EQ(stats.trace.size(), simulation->events.size());
      for (size_t i = 0; i < stats.trace.size(); ++i) {
        ASSERT_EQ(stats.trace[i].lane, simulation->events[i].lane);
        ASSERT_EQ(stats.trace[i].step, simulation->events[i].step);
        ASSERT_EQ(stats.trace[i].start_seconds, simulation->events[i].start_seconds) << i;
        ASSERT_EQ(stats.trace[i].end_seconds, simulation->events[i].end_seconds) << i;
      }
      EXPECT_EQ(AlignUp(stats.peak_device_bytes), planned.plan->devices[0].arena_bytes);
      ++ran;
      swapped += planned.plan->counts.swap_ins > 0 ? 1 : 0;
    }
  }
  EXPECT_GE(ran, 12);
  EXPECT_GE(swapped, 6);
}

}  // namespace
}  // namespace millrace::testing
