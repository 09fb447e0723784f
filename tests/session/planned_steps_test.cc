// How long the steps of plans are, by cost rules, on machines whose link is the narrow place.
#include <gtest/gtest.h>

#include "model_run.h"
#include "plan/simulator.h"

namespace millrace::testing {
namespace {

// A Tesla V100 behind PCIe 3.0 (configs/machines/v100_pcie.pbtxt).
Machine V100() {
  Machine machine;
  machine.flops_per_second = 14e12;
  machine.memory_bytes_per_second = 900e9;
  machine.to_host_bytes_per_second = machine.to_device_bytes_per_second = 12e9;
  machine.copy_latency_seconds = 10e-6;
  machine.launch_seconds = 3e-6;
  return machine;
}

ExecutionPlan PlanOf(const Graph& graph, const std::string& strategy, int64_t budget_bytes, double copy_launch_seconds = 0) {
  SessionOptions options = UnderBudget(strategy, budget_bytes);
  options.device = "null";
  options.machine = V100();
  options.machine.copy_launch_seconds = copy_launch_seconds;
  return *ModelRun(graph, options).TrainPlan();
}

// Three quarters of the memory are experts and their slots. What is swapped is spread over the step, and what is cheap is computed
// again to make room for slots: by trials of slots that leave at one end of the step neither seems to help.
TEST(PlannedStepsTest, WhereVariablesFillTheMemoryTheyShareTheLinkWithWhatIsComputedAgain) {
  const auto graph = BuildModel("moe_transformer", {.batch = 8, .layers = 4, .hidden = 512, .heads = 8, .experts = 16});
  ASSERT_TRUE(graph.ok()) << graph.status();
  const ExecutionPlan baseline = PlanOf(*graph, "baseline", 0);
  const int64_t peak = baseline.devices[0].peak_live_bytes;
  const ExecutionPlan planned = PlanOf(*graph, "planned", peak * 3 / 5);
  EXPECT_LT(planned.predicted_step_seconds, 1.65 * baseline.predicted_step_seconds);
  EXPECT_LT(planned.predicted_step_seconds, 1.05 * planned.lower_bound_seconds);
}

// The same in a graph too large for many trials: 11,600 nodes, nine tenths of the memory are variables.
TEST(PlannedStepsTest, OfManyExpertsIsNearItsBound) {
  const auto graph = BuildModel("moe_transformer", {.batch = 8, .experts = 48});
  ASSERT_TRUE(graph.ok()) << graph.status();
  const int64_t peak = PlanOf(*graph, "baseline", 0).devices[0].peak_live_bytes;
  for (const int64_t tenths : {5, 7, 9}) {
    const ExecutionPlan planned = PlanOf(*graph, "planned", peak * tenths / 10);
    EXPECT_LT(planned.predicted_step_seconds, 1.05 * planned.lower_bound_seconds) << tenths;
  }
}

// Its orders take about as long before anything is computed again, but depth first most updates come last, and computing again is then of little
// use.
TEST(PlannedStepsTest, OfWhatLooksAlikeIsRewrittenWhatGainsMost) {
  const auto graph = BuildModel("bert", {.batch = 4, .layers = 24, .hidden = 1024, .heads = 16});
  ASSERT_TRUE(graph.ok()) << graph.status();
  const int64_t peak = PlanOf(*graph, "baseline", 0).devices[0].peak_live_bytes;
  double shorter = 0;
  for (const int64_t percent : {50, 45, 40, 35}) {
    const ExecutionPlan planned = PlanOf(*graph, "planned", peak * percent / 100);
    EXPECT_GT(planned.predicted_step_seconds, shorter) << "less memory is faster: " << percent;
    shorter = planned.predicted_step_seconds;
  }
}

// Where copies cost nothing but the link, small variables are swapped as well as large activations.
TEST(PlannedStepsTest, WhereCopiesCostComputeThereAreFewer) {
  const auto graph = BuildModel("resnet", {.batch = 8, .image_size = 64, .layers = 50});
  ASSERT_TRUE(graph.ok()) << graph.status();
  const auto copies = [](const ExecutionPlan& plan) { return plan.counts.swap_ins + plan.counts.swap_outs; };
  const int64_t budget = PlanOf(*graph, "baseline", 0).devices[0].peak_live_bytes * 3 / 5;
  constexpr double kLaunch = 5e-6;
  ExecutionPlan without = PlanOf(*graph, "planned", budget), with = PlanOf(*graph, "planned", budget, kLaunch);
  EXPECT_LT(copies(with), copies(without) * 3 / 4);
  Machine machine = V100();
  machine.copy_launch_seconds = kLaunch;
  ASSERT_TRUE(FillPredictions(machine, &without).ok());
  EXPECT_LT(with.predicted_step_seconds, 0.95 * without.predicted_step_seconds);
}

}  // namespace
}  // namespace millrace::testing
