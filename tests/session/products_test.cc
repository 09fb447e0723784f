// Sums of products that are added up as they are made, and products over the rows of several steps: the same bits under every
// plan, and rounding away from the graph as it is.
#include <cmath>

#include "model_run.h"

namespace millrace::testing {
namespace {

Graph Recurrent() {
  auto graph = BuildModel("lstm", {.batch = 4, .layers = 2, .hidden = 48, .steps_unrolled = 10, .vocab = 50, .seed = 3});
  EXPECT_TRUE(graph.ok()) << graph.status();
  return *std::move(graph);
}

int64_t CountOf(const ExecutionPlan& plan, const std::string& op) {
  int64_t count = 0;
  for (const Lane& lane : plan.lanes) {
    for (const ComputeStep& step : lane.compute) count += plan.instances[step.instance].op == op;
  }
  return count;
}

SessionOptions Options(const std::string& strategy, bool accumulate, int threads) {
  SessionOptions options;
  options.planning.strategy = strategy;
  options.planning.accumulate_products = accumulate;
  options.threads = threads;
  return options;
}

// As the baseline's.
void ExpectTheSameBitsUnderEveryPlan(const Graph& graph, ModelRun& reference, bool pack_rows) {
  const std::vector<float> losses = reference.Steps(3);
  ASSERT_TRUE(reference.status().ok()) << reference.status();
  const auto variables = reference.Variables();
  const int64_t peak = reference.TrainPlan()->devices[0].arena_bytes;
  for (const char* strategy : {"baseline", "planned", "tensorflowmem", "tflms", "lru"}) {
    for (const double part : {0.0, 0.7}) {
      for (const int64_t partition_size : {int64_t{0}, int64_t{7}}) {
        SCOPED_TRACE(absl::StrCat(strategy, " ", part, " of the peak, partitions of ", partition_size));
        SessionOptions options = Options(strategy, true, partition_size == 0 ? 2 : 3);
        options.planning.pack_rows = pack_rows;
        options.planning.device_memory_bytes = static_cast<int64_t>(part * static_cast<double>(peak));
        options.planning.partition_size = partition_size;
        ModelRun run(graph, options);
        const std::vector<float> got = run.Steps(3);
        if (absl::IsResourceExhausted(run.status())) continue;
        ASSERT_TRUE(run.status().ok()) << run.status();
        EXPECT_EQ(got, losses);
        EXPECT_TRUE(run.Variables() == variables);
      }
    }
  }
}

TEST(AccumulateProducts, SameBitsUnderEveryPlan) {
  const Graph graph = Recurrent();
  ModelRun reference(graph, Options("baseline", true, 1));
  ExpectTheSameBitsUnderEveryPlan(graph, reference, /*pack_rows=*/false);
  EXPECT_GT(CountOf(*reference.TrainPlan(), "_SumProducts"), 0);
  EXPECT_GT(CountOf(*reference.TrainPlan(), "_SumColumns"), 0);
  EXPECT_EQ(CountOf(*reference.TrainPlan(), "UnsortedSegmentSum"), 1);
}

// The logits of all ten steps are one product, and those with their gradients another; all others need one another.
TEST(PackRows, SameBitsUnderEveryPlanAndTheSameLossesButForRounding) {
  const Graph graph = Recurrent();
  ModelRun apart(graph, Options("baseline", true, 1));
  const std::vector<float> expected = apart.Steps(3);
  SessionOptions options = Options("baseline", true, 1);
  options.planning.pack_rows = true;
  ModelRun reference(graph, options), again(graph, options);
  ExpectTheSameBitsUnderEveryPlan(graph, reference, /*pack_rows=*/true);
  const std::vector<float> losses = again.Steps(3);
  ASSERT_EQ(losses.size(), expected.size());
  for (size_t i = 0; i < losses.size(); ++i) EXPECT_NEAR(losses[i], expected[i], 1e-5f * std::abs(expected[i])) << i;
  EXPECT_EQ(CountOf(*apart.TrainPlan(), "SparseSoftmaxCrossEntropyWithLogits"), 10);
  EXPECT_EQ(CountOf(*reference.TrainPlan(), "SparseSoftmaxCrossEntropyWithLogits"), 1);
  EXPECT_EQ(CountOf(*apart.TrainPlan(), "MatMul") - CountOf(*reference.TrainPlan(), "MatMul"), 18);
}

TEST(AccumulateProducts, LessMemoryAndTheSameLossesButForRounding) {
  const Graph graph = Recurrent();
  ModelRun apart(graph, Options("baseline", false, 2)), together(graph, Options("baseline", true, 2));
  const std::vector<float> expected = apart.Steps(5), losses = together.Steps(5);
  ASSERT_EQ(losses.size(), expected.size());
  for (size_t i = 0; i < losses.size(); ++i) EXPECT_NEAR(losses[i], expected[i], 1e-5f * std::abs(expected[i])) << i;
  EXPECT_EQ(CountOf(*apart.TrainPlan(), "_SumProducts"), 0);
  EXPECT_LT(together.TrainPlan()->devices[0].arena_bytes, apart.TrainPlan()->devices[0].arena_bytes);
}

}  // namespace
}  // namespace millrace::testing
