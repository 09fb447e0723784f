// Device memory on the faked CUDA: what is allocated, trials of convolutions included, stays within the budget.
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "fake_library.h"
#include "session/model_run.h"

namespace millrace::testing {
namespace {

constexpr int64_t kFaultWordBytes = 1024;  // at most

class FakeTrialsTest : public ::testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    ASSERT_EQ(setenv("MILLRACE_CUDA_PLUGIN", MILLRACE_CUDA_FAKE, 1), 0);
    auto graph = BuildModel("resnet", {.batch = 1, .image_size = 8, .classes = 10, .depth = 11, .variant = "cifar"});
    ASSERT_TRUE(graph.ok()) << graph.status();
    graph_ = *std::move(graph);
    options_.device = "cuda";
    options_.threads = 1;
    options_.measure_convolutions = GetParam();
    options_.replan.mode = ReplanOptions::Mode::kOff;
  }
  void TearDown() override { Throw(""); }

  Graph graph_;
  SessionOptions options_;
};

TEST_P(FakeTrialsTest, ArenaAndTrialsTogetherAreTheBudgetAtMost) {
  Throw("");
  int64_t peak = 0;
  std::map<std::string, std::string> expected;
  {
    ModelRun run(graph_, options_);
    ASSERT_EQ(run.Steps(4).size(), 4) << run.status();
    peak = run.report().predicted_peak_device_bytes;
    expected = run.Variables();
    EXPECT_GT(Count("alloc"), 2) << "without a budget there are trials";
  }
  const struct {
    int percent;
    bool replans;
  } cases[] = {{70, false}, {70, true}, {1000, false}};
  for (const auto& [percent, replans] : cases) {
    SCOPED_TRACE(absl::StrCat(percent, " %", replans ? ", planned again" : ""));
    options_.planning.device_memory_bytes = peak * percent / 100;
    options_.replan = {.mode = replans ? ReplanOptions::Mode::kWait : ReplanOptions::Mode::kOff,
                       .skipped_steps = 1,
                       .measured_steps = 1,
                       .least_gain = -1};
    Throw("");
    ModelRun run(graph_, options_);
    ASSERT_EQ(run.Steps(4).size(), 4) << run.status();
    EXPECT_EQ(run.report().replans > 0, replans);
    EXPECT_LE(Count("bytes"), options_.planning.device_memory_bytes + kFaultWordBytes);
    EXPECT_EQ(Count("alloc"), 2) << "the fault word and the arena";
    // Engines that are ranked are tried wherever the node fits; the fastest measured may be another one.
    EXPECT_TRUE(GetParam() || run.Variables() == expected);
  }
}

// A plan that is made while another one's variables are on the device takes the arena from them for a while.
TEST_P(FakeTrialsTest, ValuesOnTheDeviceOutliveTrialsInTheirArena) {
  Throw("");
  ModelRun alone(graph_, options_);
  const std::vector<float> expected = alone.Steps(2);
  ASSERT_EQ(expected.size(), 2) << alone.status();
  options_.planning.device_memory_bytes = 10 * alone.report().predicted_peak_device_bytes;
  options_.planning.strategy = "baseline";
  ModelRun run(graph_, options_);
  ASSERT_EQ(run.Steps(1).size(), 1) << run.status();
  // Another signature: its convolutions are those of the forward pass alone, in one plan of their own.
  std::vector<Tensor> out;
  const absl::Status status = run.session().Run(run.feeds(), {"loss:0"}, {}, &out);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_NEAR(out[0].as<float>()[0], expected[1], 1e-5);
  EXPECT_NEAR(run.Steps(1).at(0), expected[1], 1e-5);
}

TEST_P(FakeTrialsTest, ADeviceThatHangsWhileConvolutionsAreTriedIsGivenUp) {
  options_.device_timeout_seconds = 0.002;
  for (const int64_t budget : {int64_t{0}, int64_t{64} << 20}) {
    options_.planning.device_memory_bytes = budget;
    for (int n = 1; n < 300; n *= 3) {
      SCOPED_TRACE(absl::StrCat("hang@", n, ", budget ", budget));
      Throw(absl::StrCat("hang@", n));
      ModelRun run(graph_, options_);
      EXPECT_THAT(run.Steps(1), ::testing::IsEmpty());
      EXPECT_TRUE(absl::IsUnavailable(run.status())) << run.status();
      EXPECT_THAT(std::string(run.status().message()), ::testing::HasSubstr("did not answer for "));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Choices, FakeTrialsTest, ::testing::Bool(),
                         [](const auto& param) { return param.param ? "Measured" : "Ranked"; });

}  // namespace
}  // namespace millrace::testing
