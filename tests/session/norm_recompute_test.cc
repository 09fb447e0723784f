// Batch norms are computed again with the statistics that their first run saved, in one pass over x, with the same bits.
#include <gtest/gtest.h>

#include "absl/strings/match.h"
#include "graph/fused_norm.h"
#include "model_run.h"

namespace millrace {
namespace {

using testing::ModelRun;

class NormRecompute : public ::testing::TestWithParam<bool> {};

TEST_P(NormRecompute, IsGivenTheStatisticsAndHasTheSameBits) {
  const auto model = BuildModel("resnet", {.batch = 4, .image_size = 16, .depth = 20, .variant = "cifar", .seed = 1});
  ASSERT_TRUE(model.ok()) << model.status();
  SessionOptions options = testing::UnderBudget("baseline", 0);
  options.planning.fuse = GetParam();
  ModelRun baseline(*model, options);
  const auto losses = baseline.Steps(3);
  ASSERT_TRUE(baseline.status().ok()) << baseline.status();

  options = testing::UnderBudget("planned", baseline.report().predicted_peak_device_bytes * 45 / 100);
  options.planning.fuse = GetParam();
  options.planning.recompute = Recompute::kOn;
  options.machine.to_host_bytes_per_second = options.machine.to_device_bytes_per_second = 2e8;
  ModelRun run(*model, options);
  EXPECT_EQ(run.Steps(3), losses) << run.status();
  EXPECT_EQ(run.Variables(), baseline.Variables());
  int64_t given = 0;
  for (const OpInstance& instance : run.TrainPlan()->instances) {
    if (!absl::StrContains(instance.op, "FusedBatchNorm") || !absl::StrContains(instance.name, "/recompute")) continue;
    EXPECT_FALSE(instance.attrs.GetOr<bool>("is_training", true)) << instance.name;
    given += instance.attrs.Has(kGivenStatistics) ? 1 : 0;
  }
  EXPECT_GT(given, 0);
}

INSTANTIATE_TEST_SUITE_P(Fused, NormRecompute, ::testing::Bool(), [](const auto& info) { return info.param ? "Fused" : "NodeByNode"; });

}  // namespace
}  // namespace millrace
