// Real runs in little more than the largest working set: what a plan says of it holds for the kernels that run.
#include <cmath>

#include "absl/strings/str_cat.h"
#include "model_run.h"

namespace millrace::testing {
namespace {

SessionOptions Options(const std::string& strategy, int64_t budget_bytes) {
  SessionOptions options;
  options.planning.strategy = strategy;
  options.planning.device_memory_bytes = budget_bytes;
  options.threads = 2;
  return options;
}

// The init step may hold a variable and its initial value, which training never does.
void ExpectRunsInLittleMemory(const std::string& model, const ModelOptions& sizes) {
  const auto graph = BuildModel(model, sizes);
  ASSERT_TRUE(graph.ok()) << graph.status();
  ModelRun reference(*graph, Options("baseline", 0));
  const std::vector<float> losses = reference.Steps(2);
  ASSERT_TRUE(reference.status().ok()) << reference.status();
  const int64_t largest = reference.session().graph_summary().largest_node_bytes;
  const int64_t peak = reference.report().peak_device_bytes;
  const auto budget = static_cast<int64_t>(std::ceil(1.05 * static_cast<double>(largest)));
  EXPECT_LT(budget, peak) << "nothing is to be swapped";
  for (const char* strategy : {"planned", "tensorflowmem", "lru"}) {
    SCOPED_TRACE(absl::StrCat(strategy, " in ", budget, " of ", peak, " bytes"));
    ModelRun run(*graph, Options(strategy, budget));
    EXPECT_EQ(run.Steps(2), losses) << run.status();
    EXPECT_LE(run.report().peak_device_bytes, budget);
    EXPECT_TRUE(run.Variables() == reference.Variables());
  }
}

TEST(LittleMemoryTest, TensorsSmallerThanTheirAlignment) {
  ExpectRunsInLittleMemory("mlp", {.batch = 3, .classes = 3, .layers = 8, .hidden = 3, .channels = 3});
}

TEST(LittleMemoryTest, Convolutions) {
  ExpectRunsInLittleMemory("resnet", {.batch = 2, .image_size = 32, .classes = 10, .depth = 14});
}

TEST(LittleMemoryTest, VolumesWhoseFiltersAreLargerThanTheirTensors) {
  ExpectRunsInLittleMemory("unet3d", {.batch = 1, .image_size = 16, .channels = 8});
}

TEST(LittleMemoryTest, Recurrences) {
  ExpectRunsInLittleMemory("lstm", {.batch = 4, .layers = 2, .hidden = 32, .steps_unrolled = 6, .vocab = 50});
}

TEST(LittleMemoryTest, SpeechWithConvolutions) {
  ExpectRunsInLittleMemory("deepspeech", {.batch = 1, .layers = 2, .hidden = 16, .steps_unrolled = 40});
}

TEST(LittleMemoryTest, Experts) {
  ExpectRunsInLittleMemory("moe_transformer", {.batch = 2, .layers = 2, .hidden = 32, .heads = 2, .steps_unrolled = 8,
                                               .vocab = 60, .experts = 4});
}

}  // namespace
}  // namespace millrace::testing
