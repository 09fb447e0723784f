// Training under plans in which variables stay on the device over the step's end and are elsewhere in the middle of the
// step: the same bits, whoever reads the variables in between and whatever goes wrong.
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "model_run.h"
#include "text_session.h"

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

Tensor Constant(int64_t size, float value) {
  Tensor tensor(DataType::kFloat, Shape({size}));
  for (float& element : tensor.mutable_as<float>()) element = value;
  return tensor;
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

struct Planned {
  int64_t budget = 0;
  std::shared_ptr<const ExecutionPlan> plan;
};

// Under budgets for which the planner makes such plans.
std::vector<Planned> MakePlans(int64_t peak_bytes) {
  std::vector<Planned> plans;
  for (int percent = 45; percent <= 85; percent += 10) {
    const int64_t budget = peak_bytes * percent / 100;
    ModelRun run(Layers(), UnderBudget("planned", budget));
    if (!run.status().ok()) continue;
    const std::shared_ptr<const ExecutionPlan> plan = run.TrainPlan();
    if (Leaving(*plan) > 0) plans.push_back({budget, plan});
  }
  EXPECT_GE(plans.size(), 2) << "no plan has a variable that leaves in mid-step";
  return plans;
}
// Made once: the tests run what a session planned in sessions of their own.
const std::vector<Planned>& Plans(int64_t peak_bytes) {
  static const int64_t of = peak_bytes;
  static const auto& plans = *new std::vector<Planned>(MakePlans(of));
  EXPECT_EQ(of, peak_bytes);
  return plans;
}

TEST(OverStepEndTest, BitsAreThoseOfBaselineWhoeverReadsInBetween) {
  constexpr int kSteps = 6;
  const Reference reference = Baseline(kSteps);
  const std::vector<Planned>& plans = Plans(reference.peak_bytes);
  for (const Planned& planned : plans) {
    SCOPED_TRACE(absl::StrCat("budget ", planned.budget));
    for (const bool reads : {false, true}) {
      ModelRun run(Layers(), UnderBudget("planned", planned.budget));
      if (!reads || &planned != &plans.front()) run.UseTrainPlan(planned.plan);  // one session plans for itself
      std::vector<float> losses;
      for (int step = 0; step < kSteps; ++step) {
        const std::vector<float> loss = run.Steps(1);
        losses.insert(losses.end(), loss.begin(), loss.end());
        if (reads && step % 2 == 0) run.Variables();
      }
      ASSERT_TRUE(run.status().ok()) << run.status();
      EXPECT_EQ(losses, reference.losses);
      EXPECT_TRUE(run.Variables() == reference.variables);
      EXPECT_LE(run.report().peak_device_bytes, planned.budget);
    }
  }
}

TEST(OverStepEndTest, AStepThatFailsInTheMiddleIsAsIfItHadNotBeen) {
  constexpr int kSteps = 4;
  const Reference reference = Baseline(kSteps);
  for (const Planned& planned : Plans(reference.peak_bytes)) {
    SCOPED_TRACE(absl::StrCat("budget ", planned.budget));
    ModelRun run(Layers(), UnderBudget("planned", planned.budget));
    run.UseTrainPlan(planned.plan);
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
  for (const Planned& planned : Plans(reference.peak_bytes)) {
    SessionOptions options = UnderBudget("planned", planned.budget);
    options.link_gbps = 1;
    options.replan = {.mode = ReplanOptions::Mode::kWait, .skipped_steps = 1, .measured_steps = 1, .least_gain = -100};
    ModelRun run(Layers(), options);
    EXPECT_EQ(run.Steps(kSteps), reference.losses);
    ASSERT_TRUE(run.status().ok()) << run.status();
    EXPECT_GT(run.report().replans, 0);
    EXPECT_TRUE(run.Variables() == reference.variables);
  }
}

// w is read, its place given to b, and all of it assigned at last; in between a step may fail, for an index out of range.
constexpr char kAssignedAtLast[] = R"(
w = VarHandleOp() {dtype=float, shape=shape[262144], shared_name="w"}
x = Placeholder() {dtype=float, shape=shape[262144]}
i = Placeholder() {dtype=int32, shape=shape[]}
zero = Const() {dtype=int32, value=int32[1]{0}}
axis = Const() {dtype=int32, value=int32[]{0}}
table = Const() {dtype=float, value=float[3]{1, 2, 3}}
r = ReadVariableOp(w) {dtype=float}
s = Sum(r, zero) {T=float, Tidx=int32, keep_dims=false}
b = Mul(x, s) {T=float}
c = Tanh(b) {T=float}
c2 = Mul(c, b) {T=float}
d = Sum(c2, zero) {T=float, Tidx=int32, keep_dims=false}
g = GatherV2(table, i, axis) {Tparams=float, Tindices=int32, Taxis=int32, batch_dims=0}
gd = Mul(g, d) {T=float}
e = Mul(c, gd) {T=float}
a = AssignVariableOp(w, e) {dtype=float}
)";

TEST(OverStepEndTest, WhatIsAssignedAtLastIsAsBeforeAStepThatFails) {
  const Tensor x = Constant(262144, 0.5f), w = Constant(262144, 1.0f / 262144);
  std::map<std::string, std::vector<std::string>> values;
  for (const char* strategy : {"lru", "planned"}) {
    const auto session = SessionOf(kAssignedAtLast, UnderBudget(strategy, 2'400'000));
    ASSERT_TRUE(session->SetVariable("w", w).ok());
    const auto step = [&](int index) {
      std::vector<Tensor> fetched;
      return session->Run({{"x", x}, {"i", Tensor::Scalar<int32_t>(index)}}, {"s:0"}, {"a"}, &fetched);
    };
    const auto read = [&] {
      const auto variables = session->Variables();
      EXPECT_TRUE(variables.ok()) << variables.status();
      const Tensor& value = variables->at("w");
      values[strategy].emplace_back(static_cast<const char*>(value.data()), value.size_bytes());
    };
    ASSERT_TRUE(step(0).ok() && step(0).ok());
    EXPECT_THAT(std::string(step(7).message()), HasSubstr("no variable has changed"));  // the device alone has the value of before
    read();
    EXPECT_THAT(std::string(step(7).message()), HasSubstr("no variable has changed"));  // the host has it, too
    ASSERT_TRUE(step(1).ok());
    read();
  }
  EXPECT_TRUE(values["planned"] == values["lru"]);
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
