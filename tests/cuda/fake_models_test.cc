// Whole models through the plugin's own code on the faked CUDA (runtime/devices/cuda/fake): its streams, events, captures and
// graphs, and its kernels on a grid of threads.
#include <cstdlib>
#include <map>
#include <string>

#include <gtest/gtest.h>

#include "session/model_run.h"

namespace millrace::testing {
namespace {

struct SmallModelOf {
  const char* name;
  ModelOptions options;
};

class FakeModelsTest : public ::testing::TestWithParam<SmallModelOf> {};

TEST_P(FakeModelsTest, GraphsStreamsAndBudgetsHaveTheSameBits) {
  ASSERT_EQ(setenv("MILLRACE_CUDA_PLUGIN", MILLRACE_CUDA_FAKE, 1), 0);
  const auto graph = BuildModel(GetParam().name, GetParam().options);
  ASSERT_TRUE(graph.ok()) << graph.status();
  SessionOptions options;
  options.threads = 1;
  std::vector<float> expected_losses = ModelRun(*graph, options).Steps(4);
  std::map<std::string, std::string> expected;
  int64_t peak = 0;
  options.device = "cuda";
  for (const char* cuda_graph : {"off", "on"}) {
    for (const char* strategy : {"baseline", "planned"}) {
      SCOPED_TRACE(std::string(strategy) + ", graph " + cuda_graph);
      options.cuda_graph = cuda_graph;
      options.planning.strategy = strategy;
      options.planning.device_memory_bytes = strategy == std::string("planned") ? peak * 7 / 10 : 0;
      ModelRun run(*graph, options);
      // After the first step one is captured and the others are replayed.
      const std::vector<float> losses = run.Steps(4);
      ASSERT_EQ(losses.size(), 4) << run.status();
      for (size_t i = 0; i < losses.size(); ++i) EXPECT_NEAR(losses[i], expected_losses[i], 1e-3 * std::abs(expected_losses[i]));
      if (peak == 0) peak = run.report().predicted_peak_device_bytes;
      const auto variables = run.Variables();
      if (expected.empty()) expected = variables;
      EXPECT_TRUE(variables == expected);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, FakeModelsTest,
                         ::testing::Values(SmallModelOf{"resnet", {.batch = 1, .image_size = 16, .classes = 10, .depth = 11, .variant = "cifar"}},
                                           SmallModelOf{"lstm", {.batch = 2, .layers = 1, .hidden = 8, .steps_unrolled = 4, .vocab = 20, .dropout = 0}},
                                           SmallModelOf{"moe_transformer",
                                                        {.batch = 2, .layers = 1, .hidden = 8, .heads = 2, .steps_unrolled = 4, .vocab = 20, .experts = 2}}),
                         [](const auto& param) { return std::string(param.param.name); });

}  // namespace
}  // namespace millrace::testing
