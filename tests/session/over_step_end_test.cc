// Training under plans in which variables stay on the device over the step's end and are elsewhere in the middle of the
// step: the same bits, whoever reads the variables in between and whatever goes wrong.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "model_run.h"

namespace millrace::testing {
namespace {

using ::testing::HasSubstr;

// Nearly all of its memory is weights and their slots, and copies take longer than computing.
Graph Layers() {
  auto graph = BuildModel("mlp", {.batch = 4, .classes = 8, .layers = 7, .hidden = 64, .channels = 64,
                                  .optimizer = "adam", .seed = 3});
  EXPECT_TRUE(graph.ok()) << graph.status();
  return *std::move(graph);
}

// Variables that are on the device when a step begins, and come in within it.
int Leaving(const ExecutionPlan& plan) {
  int count = 0;
  for (const Lane& lane : plan.lanes) {
    for (const CopyStep& copy : lane.copies) {
      const bool in = lane.kind == LaneKind::kToDevice && copy.host.kind == HostRef::Kind::kVariable;
      count += in && plan.variables[copy.host.index].resident_offset != kNoAddress ? 1 : 0;
    }
  }
  return count;
}

struct Reference {
  std::vector<float> losses;
  std::map<std::string, std::string> variables;
  int64_t peak_bytes = 0;
};

Reference Baseline(int steps) {
  ModelRun run(Layers(), UnderBudget("baseline", 0));
  Reference reference{run.Steps(steps), run.Variables(), run.report().peak_device_bytes};
  EXPECT_TRUE(run.status().ok()) << run.status();
  return reference;
}

// Budgets under which the planner makes such plans.
std::vector<int64_t> Budgets(int64_t peak_bytes) {
  std::vector<int64_t> budgets;
  for (int percent = 45; percent <= 85; percent += 5) {
    ModelRun run(Layers(), UnderBudget("planned", peak_bytes * percent / 100));
    if (run.status().ok() && Leaving(*run.TrainPlan()) > 0) budgets.push_back(peak_bytes * percent / 100);
  }
  EXPECT_GE(budgets.size(), 2) << "no plan has a variable that leaves in mid-step";
  return budgets;
}

TEST(OverStepEndTest, BitsAreThoseOfBaselineWhoeverReadsInBetween) {
  constexpr int kSteps = 6;
  const Reference reference = Baseline(kSteps);
  for (int64_t budget : Budgets(reference.peak_bytes)) {
    SCOPED_TRACE(absl::StrCat("budget ", budget));
    for (const bool reads : {false, true}) {
      ModelRun run(Layers(), UnderBudget("planned", budget));
      std::vector<float> losses;
      for (int step = 0; step < kSteps; ++step) {
        const std::vector<float> loss = run.Steps(1);
        losses.insert(losses.end(), loss.begin(), loss.end());
        if (reads && step % 2 == 0) run.Variables();
      }
      ASSERT_TRUE(run.status().ok()) << run.status();
      EXPECT_EQ(losses, reference.losses);
      EXPECT_TRUE(run.Variables() == reference.variables);
      EXPECT_LE(run.report().peak_device_bytes, budget);
    }
  }
}

TEST(OverStepEndTest, AStepThatFailsInTheMiddleIsAsIfItHadNotBeen) {
  constexpr int kSteps = 4;
  const Reference reference = Baseline(kSteps);
  for (int64_t budget : Budgets(reference.peak_bytes)) {
    SCOPED_TRACE(absl::StrCat("budget ", budget));
    ModelRun run(Layers(), UnderBudget("planned", budget));
    Session::Feeds wrong = run.feeds();
    Tensor labels(DataType::kInt32, wrong.at("labels").shape());
    labels.mutable_as<int32_t>()[0] = 100;  // no such class: the loss fails when all layers have been computed
    wrong["labels"] = labels;
    std::vector<float> losses;
    for (int step = 0; step < kSteps; ++step) {
      const auto before = run.Variables();
      std::vector<Tensor> out;
      const absl::Status failed = run.session().Run(wrong, {"loss:0"}, {"train"}, &out);
      EXPECT_THAT(std::string(failed.message()), HasSubstr("no variable has changed"));
      if (step % 2 == 0) {
        EXPECT_TRUE(run.Variables() == before);
      }
      const std::vector<float> loss = run.Steps(1);
      losses.insert(losses.end(), loss.begin(), loss.end());
    }
    ASSERT_TRUE(run.status().ok()) << run.status();
    EXPECT_EQ(losses, reference.losses);
    EXPECT_TRUE(run.Variables() == reference.variables);
  }
}

TEST(OverStepEndTest, PlansChangeBetweenSteps) {
  constexpr int kSteps = 8;
  const Reference reference = Baseline(kSteps);
  for (int64_t budget : Budgets(reference.peak_bytes)) {
    SessionOptions options = UnderBudget("planned", budget);
    options.link_gbps = 1;
    options.replan = {.mode = ReplanOptions::Mode::kWait, .skipped_steps = 1, .measured_steps = 1, .least_gain = -100};
    ModelRun run(Layers(), options);
    EXPECT_EQ(run.Steps(kSteps), reference.losses);
    ASSERT_TRUE(run.status().ok()) << run.status();
    EXPECT_GT(run.report().replans, 0);
    EXPECT_TRUE(run.Variables() == reference.variables);
  }
}

// Copies home and back on streams, steps replayed as graphs.
TEST(OverStepEndTest, StreamsGiveTheBitsOfOnesWithoutBudget) {
  constexpr int kSteps = 5;
  const auto on_streams = [](const std::string& strategy, int64_t budget) {
    SessionOptions options = UnderBudget(strategy, budget);
    options.device = "cuda_emulated";
    return options;
  };
  ModelRun reference(Layers(), on_streams("baseline", 0));
  const std::vector<float> losses = reference.Steps(kSteps);
  ASSERT_TRUE(reference.status().ok()) << reference.status();
  int leaving = 0;
  for (const int percent : {50, 60, 70, 80}) {
    SCOPED_TRACE(absl::StrCat(percent, " %"));
    ModelRun run(Layers(), on_streams("planned", reference.report().peak_device_bytes * percent / 100));
    const std::vector<float> made = run.Steps(kSteps);
    if (absl::IsResourceExhausted(run.status())) continue;
    ASSERT_TRUE(run.status().ok()) << run.status();
    EXPECT_EQ(made, losses);
    EXPECT_TRUE(run.Variables() == reference.Variables());
    leaving += Leaving(*run.TrainPlan());
  }
  EXPECT_GT(leaving, 0);
}

}  // namespace
}  // namespace millrace::testing
