// Planning with measured times while a session trains: it changes how long a step takes and nothing else.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <vector>

#include "millrace/device.h"
#include "millrace/kernel.h"
#include "model_run.h"
#include "session/replanner.h"
#include "testlib/open_session.h"
#include "testlib/plan_builder.h"

namespace millrace::testing {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr int64_t kBudget = 60000;

SessionOptions Replanning(ReplanOptions::Mode mode, const std::string& strategy, int threads = 1) {
  SessionOptions options;
  options.threads = threads;
  options.planning.strategy = strategy;
  options.planning.device_memory_bytes = kBudget;
  options.link_gbps = 1;
  options.replan = {.mode = mode, .skipped_steps = 1, .measured_steps = 2, .least_gain = -100};  // always pays
  return options;
}

// A run that keeps its plan, which is made once for all tests.
ModelRun KeptRun() {
  const SessionOptions options = Replanning(ReplanOptions::Mode::kOff, "planned");
  static const auto& plan = *new std::shared_ptr<const ExecutionPlan>(ModelRun(options).TrainPlan());
  ModelRun run(options);
  run.UseTrainPlan(plan);
  return run;
}

TEST(ReplanTest, BitsAreThoseOfARunThatKeepsItsPlan) {
  using Case = std::pair<const char*, int>;  // strategy, threads
  for (const auto& [strategy, threads] : {Case{"planned", 1}, Case{"planned", 2}, Case{"tensorflowmem", 1}, Case{"lru", 1}}) {
    ModelRun kept(Replanning(ReplanOptions::Mode::kOff, strategy, threads));
    ModelRun switched(Replanning(ReplanOptions::Mode::kWait, strategy, threads));
    const std::vector<float> losses = kept.Steps(9);
    ASSERT_TRUE(kept.status().ok()) << strategy << ": " << kept.status();
    EXPECT_EQ(switched.Steps(9), losses) << strategy;
    ASSERT_TRUE(switched.status().ok()) << switched.status();
    EXPECT_EQ(switched.Variables(), kept.Variables()) << strategy;
    EXPECT_EQ(switched.report().replans, 2) << strategy;
    EXPECT_EQ(switched.report().switched_after, 6) << strategy;
    EXPECT_TRUE(switched.report().measured_times);
    EXPECT_LE(switched.report().peak_device_bytes, kBudget);
    EXPECT_EQ(kept.report().replans, 0);
    EXPECT_FALSE(kept.report().measured_times);
  }
}

// Two nodes of 1 s, each launched in another half of a second where it has events around it.
TEST(ReplanTest, TimesAreThoseOfTheFastestStepThatWasAGraph) {
  for (const bool replayed : {true, false}) {
    PlanBuilder builder(128);
    builder.Compute("x", "Mix", {}, {{0, 1}});
    builder.Compute("y", "Mix", {}, {{64, 1}});
    const ReplanOptions options{.mode = ReplanOptions::Mode::kWait, .skipped_steps = 2, .measured_steps = 1};
    Replanner replanner({options, {}, 0, 1}, std::make_shared<const ExecutionPlan>(builder.Build()));
    const auto compile = [](const Profile&, const Machine&, const std::atomic<bool>&) -> absl::StatusOr<Compiled> {
      return absl::InternalError("a plan without copies is not planned again");
    };
    StepStats stats;
    stats.replayed = replayed;
    EXPECT_FALSE(replanner.WantsTimes());
    for (const double seconds : replayed ? std::vector<double>{9, 2.5, 2, 2.2} : std::vector<double>{2, 2.5}) {
      EXPECT_FALSE(replanner.WantsTimes());
      replanner.AddStep(stats, seconds, compile);
    }
    EXPECT_TRUE(replanner.WantsTimes());
    stats.replayed = false;
    stats.trace = {{0, 0, 0, 1.5}, {0, 1, 1.5, 3}};
    replanner.AddStep(stats, 3, compile);
    ASSERT_NE(replanner.times(), nullptr);
    for (const auto& [name, time] : replanner.times()->nodes) EXPECT_NEAR(time.seconds, replayed ? 1 : 1.5, 1e-3) << name;
    const auto found = replanner.Take();
    ASSERT_TRUE(found.has_value());
    EXPECT_NEAR(found->plan->predicted_step_seconds, replayed ? 2 : 3, 1e-3);
  }
}

TEST(ReplanTest, StepsAreTimedAlsoWhereTheyAreReplayedNoMore) {
  PlanBuilder builder(128);
  builder.Compute("x", "Mix", {}, {{0, 1}});
  const ReplanOptions options{.mode = ReplanOptions::Mode::kWait};
  Replanner replanner({options, {}, 0, 1}, std::make_shared<const ExecutionPlan>(builder.Build()));
  int steps = 0;
  for (; steps < 20 && !replanner.WantsTimes(); ++steps) {
    StepStats stats;
    stats.replayed = steps == 1 || steps == 2;
    replanner.AddStep(stats, 1, nullptr);
  }
  EXPECT_EQ(steps, options.skipped_steps + 2 * options.replayed_steps);
}

// A plan of two nodes, and one of the first alone, which is therefore taken to be faster. It is, or its steps take longer.
TEST(ReplanTest, APlanWhoseStepsTakeLongerGivesWayToTheFormer) {
  for (const double seconds : {1.1, 2.105, 2.2}) {
    const bool longer = seconds > 2.15;  // by more than noise
    PlanBuilder both(128), first(64);
    both.Compute("x", "Mix", {}, {{0, 1}});
    both.Compute("y", "Mix", {}, {{64, 1}});
    first.Compute("x", "Mix", {}, {{0, 1}});
    ExecutionPlan plan = both.Build(), other = first.Build();
    plan.counts.swap_outs = other.counts.swap_outs = 1;
    const auto compile = [&](const Profile&, const Machine&, const std::atomic<bool>&) -> absl::StatusOr<Compiled> {
      return Compiled{Graph(), other, {}};
    };
    GraphSummary summary;
    summary.nodes = 2;
    const ReplanOptions options{.mode = ReplanOptions::Mode::kWait, .skipped_steps = 0, .measured_steps = 2};
    Replanner replanner({options, {}, 0, 1}, std::make_shared<const ExecutionPlan>(plan), summary);
    StepStats stats;
    stats.trace = {{0, 0, 0, 1}, {0, 1, 1, 2}};
    replanner.AddStep(stats, 2.1, compile);
    replanner.AddStep(stats, 2.1, compile);
    auto found = replanner.Take();
    ASSERT_TRUE(found.has_value());
    ASSERT_TRUE(found->switched);
    EXPECT_NEAR(found->plan->predicted_step_seconds, 1.1, 1e-9);  // what is not of nodes takes 0.1 s
    replanner.Use(*found);
    stats.trace = {{0, 0, 0, 1}};
    replanner.AddStep(stats, 9, compile);
    EXPECT_FALSE(replanner.Take().has_value());
    replanner.AddStep(stats, seconds, compile);
    found = replanner.Take();
    ASSERT_TRUE(found.has_value());
    EXPECT_EQ(found->switched, longer) << seconds;
    if (!longer) continue;
    EXPECT_EQ(found->seconds, 0);
    EXPECT_EQ(found->summary.nodes, 2);
    EXPECT_EQ(found->plan->lanes[0].num_steps(), 2);
    EXPECT_NEAR(found->plan->predicted_step_seconds, 2.1, 1e-9);
    replanner.Use(*found);
    // It stays.
    stats.trace = {{0, 0, 0, 1}, {0, 1, 1, 2}};
    replanner.AddStep(stats, 2, compile);
    replanner.AddStep(stats, 2, compile);
    found = replanner.Take();
    ASSERT_TRUE(found.has_value());
    EXPECT_FALSE(found->switched);
  }
}

TEST(ReplanTest, APlanThatDoesNotPayIsNotTakenButPredictionsAreMeasured) {
  SessionOptions options = Replanning(ReplanOptions::Mode::kWait, "planned");
  options.replan.least_gain = 1;  // not even a step in no time
  ModelRun run(options);
  run.Steps(3);
  const auto plan = run.report().plan;
  EXPECT_FALSE(run.report().measured_times);
  run.Steps(2);
  ASSERT_TRUE(run.status().ok()) << run.status();
  EXPECT_EQ(run.report().switched_after, 0);
  EXPECT_EQ(run.report().replans, 1);
  EXPECT_TRUE(run.report().measured_times);
  EXPECT_EQ(run.report().swap_outs, plan->counts.swap_outs);
  EXPECT_NE(run.report().predicted_step_seconds, plan->predicted_step_seconds);
}

// Links are measured, too: the step that is drawn is the one whose length is told.
TEST(ReplanTest, TheSimulatedTraceEndsWhenTheStepIsPredictedTo) {
  for (const char* strategy : {"planned", "tensorflowmem"}) {
    SessionOptions options = Replanning(ReplanOptions::Mode::kWait, strategy);
    options.trace = true;
    ModelRun run(options);
    for (const bool measured : {false, true}) {
      run.Steps(measured ? 4 : 1);
      ASSERT_TRUE(run.status().ok()) << run.status();
      EXPECT_EQ(run.report().measured_times, measured);
      double end = 0;
      for (const TraceEvent& event : run.report().simulated_trace) end = std::max(end, event.end_seconds);
      // What a step takes beside its events is of no lane.
      const double beside = measured ? run.session().MeasuredTimes()->step_overhead_seconds : 0;
      EXPECT_NEAR(end + beside, run.report().predicted_step_seconds, 0.01 * end) << strategy;
    }
  }
}

TEST(ReplanTest, PlanningBesideTheStepsEndsWithTheSession) {
  for (int steps = 3; steps < 7; steps += 2) {
    ModelRun kept = KeptRun();
    ModelRun run(Replanning(ReplanOptions::Mode::kAuto, "planned"));
    EXPECT_EQ(run.Steps(steps), kept.Steps(steps));
    ASSERT_TRUE(run.status().ok()) << run.status();
    EXPECT_EQ(run.Variables(), kept.Variables());
  }
}

TEST(ReplanTest, OtherSignaturesAndSetVariablesComeBetween) {
  ModelRun kept = KeptRun();
  ModelRun run(Replanning(ReplanOptions::Mode::kWait, "planned"));
  for (ModelRun* each : {&kept, &run}) {
    each->Steps(3);
    const auto variables = each->session().Variables();
    ASSERT_TRUE(variables.ok()) << variables.status();
    const auto& [name, value] = *variables->begin();
    ASSERT_TRUE(each->session().SetVariable(name, Tensor(value.dtype(), value.shape())).ok());
    std::vector<Tensor> loss;
    ASSERT_TRUE(each->session().Run(each->feeds(), {"loss:0"}, {}, &loss).ok());
    each->Steps(3);
  }
  EXPECT_EQ(run.Variables(), kept.Variables());
}

// A kernel of the CPU that asks for more scratch than it needs, as `extra` says.
class HungryKernel final : public Kernel {
 public:
  HungryKernel(std::unique_ptr<Kernel> kernel, std::function<int64_t()> extra)
      : kernel_(std::move(kernel)), extra_(std::move(extra)) {}
  int64_t scratch_bytes() const override { return kernel_->scratch_bytes() + extra_(); }
  absl::Status Run(const KernelContext& context) const override { return kernel_->Run(context); }

 private:
  const std::unique_ptr<Kernel> kernel_;
  const std::function<int64_t()> extra_;
};

// The kernels of the CPU, with such ones for `op`.
std::shared_ptr<const KernelRegistry> WithHungry(const std::string& op, const std::function<int64_t()>& extra) {
  auto kernels = std::make_shared<KernelRegistry>();
  for (const std::string& name : CpuKernels().Names()) {
    const KernelFactory make = *CpuKernels().Find(name);
    const KernelFactory hungry = [make, extra](const OpInstance& instance) -> absl::StatusOr<std::unique_ptr<Kernel>> {
      absl::StatusOr<std::unique_ptr<Kernel>> made = make(instance);
      if (!made.ok()) return made.status();
      return std::make_unique<HungryKernel>(*std::move(made), extra);
    };
    EXPECT_TRUE(kernels->Register(name, name == op ? hungry : make).ok());
  }
  return kernels;
}

TEST(ReplanTest, APlanThatCannotRunLeavesThePresentOneInForce) {
  int64_t extra = 0;
  bool grows = false;
  SessionOptions options = Replanning(ReplanOptions::Mode::kWait, "planned");
  options.kernels = WithHungry("Softmax", [&] { return grows ? extra += 64 : 0; });
  ModelRun kept = KeptRun();
  ModelRun run(options);
  const std::vector<float> losses = kept.Steps(9);
  std::vector<float> got = run.Steps(2);
  const auto plan = run.report().plan;
  grows = true;  // a plan made from now on has too little scratch for its kernels
  for (const float loss : run.Steps(7)) got.push_back(loss);
  ASSERT_TRUE(run.status().ok()) << run.status();
  EXPECT_GT(extra, 0);
  EXPECT_EQ(got, losses);
  EXPECT_EQ(run.Variables(), kept.Variables());
  EXPECT_EQ(run.report().plan, plan);
  EXPECT_EQ(run.report().replans, 1);
  EXPECT_EQ(run.report().switched_after, 0);
  EXPECT_FALSE(run.report().measured_times);
}

TEST(ReplanTest, APlanThatHostMemoryHasNoRoomForLeavesThePresentOneInForce) {
  constexpr int64_t kOthersBytes = 1 << 20;
  int64_t extra = 0;
  SessionOptions without = Replanning(ReplanOptions::Mode::kOff, "baseline");
  without.planning.device_memory_bytes = 0;
  ModelRun kept(without);
  const std::vector<float> losses = kept.Steps(9);
  ASSERT_TRUE(kept.status().ok()) << kept.status();
  // At first little leaves the device. Nor will anything be computed again, which needs no host memory.
  SessionOptions options = Replanning(ReplanOptions::Mode::kWait, "planned");
  options.planning.device_memory_bytes = kept.report().peak_device_bytes * 9 / 10;
  options.planning.recompute = Recompute::kOff;
  options.link_gbps = 0.01;  // what is computed takes no time beside copies
  // Where most activations are live.
  options.kernels = WithHungry("SparseSoftmaxCrossEntropyWithLogits", [&] { return extra; });
  ModelRun first(options);
  ASSERT_NE(first.TrainPlan(), nullptr) << first.status();
  options.planning.host_memory_bytes = first.TrainPlan()->host_bytes + kOthersBytes + 4096;  // states of nodes
  ModelRun run(options);
  std::vector<float> got = run.Steps(2);
  const auto plan = run.report().plan;
  const Tensor others(DataType::kUint8, Shape({kOthersBytes}));
  ASSERT_TRUE(run.session().SetVariable("of others", others).ok());
  extra = options.planning.device_memory_bytes / 2;  // so much must leave the device
  for (const float loss : run.Steps(7)) got.push_back(loss);
  ASSERT_TRUE(run.status().ok()) << run.status();
  EXPECT_EQ(got, losses);
  EXPECT_EQ(run.report().plan, plan);
  EXPECT_EQ(run.report().replans, 1);
  EXPECT_EQ(run.report().switched_after, 0);
}

TEST(ReplanTest, MeasuredTimesPlanALaterSessionFromItsFirstStep) {
  ModelRun run(Replanning(ReplanOptions::Mode::kWait, "planned"));
  EXPECT_EQ(run.session().MeasuredTimes().status().code(), absl::StatusCode::kFailedPrecondition);
  run.Steps(4);
  const auto times = run.session().MeasuredTimes();
  ASSERT_TRUE(times.ok()) << times.status();
  EXPECT_GT(times->nodes.size(), 50u);
  EXPECT_GT(times->copy_latency_seconds, 0);

  SessionOptions options = Replanning(ReplanOptions::Mode::kOff, "planned");
  options.profile = std::make_shared<const Profile>(*times);
  ModelRun later(options);
  ModelRun former = KeptRun();
  EXPECT_EQ(later.Steps(2), former.Steps(2));
  EXPECT_TRUE(later.report().measured_times);
  double compute = 0;
  size_t known = 0;
  for (const Lane& lane : later.report().plan->lanes) {
    for (const ComputeStep& step : lane.compute) {
      const std::string& name = later.report().plan->instances[step.instance].name;
      // What this plan alone computes again has the time of its kind.
      const auto measured = times->nodes.find(name);
      if (measured != times->nodes.end()) {
        ++known;
        EXPECT_EQ(step.predicted_seconds, measured->second.seconds) << name;
      }
      compute += step.predicted_seconds;
    }
  }
  EXPECT_GT(known, 50u);
  EXPECT_DOUBLE_EQ(later.report().plan->predicted_compute_seconds, compute);
}

TEST(ReplanTest, APlanSaysWhereItsTimesWereMeasuredUnderOtherConditions) {
  ModelRun run(Replanning(ReplanOptions::Mode::kWait, "planned"));
  run.Steps(4);
  const auto times = run.session().MeasuredTimes();
  ASSERT_TRUE(times.ok()) << times.status();
  EXPECT_EQ(times->threads, 1);
  const auto notes = [&](SessionOptions options) {
    options.profile = std::make_shared<const Profile>(*times);
    ModelRun later(options);
    const auto plan = later.TrainPlan();
    return plan != nullptr ? plan->notes : std::vector<std::string>{later.status().ToString()};
  };
  SessionOptions options = Replanning(ReplanOptions::Mode::kOff, "planned");
  EXPECT_THAT(notes(options), Not(Contains(HasSubstr("times of nodes"))));
  options.threads = 2;
  EXPECT_THAT(notes(options), Contains(HasSubstr("kernels on 1 threads, here they have 2")));
  options.device = "null";
  options.machine.name = "titanx";
  EXPECT_THAT(notes(options), Contains(HasSubstr("not those of machine titanx")));
}

TEST(ReplanTest, APlanSaysHowManyKernelsAProfileHasNoTimesOf) {
  ModelRun run(Replanning(ReplanOptions::Mode::kWait, "planned"));
  run.Steps(4);
  const auto times = run.session().MeasuredTimes();
  ASSERT_TRUE(times.ok()) << times.status();
  Profile first = *times;
  first.nodes.erase(std::next(first.nodes.begin()), first.nodes.end());
  SessionOptions options = Replanning(ReplanOptions::Mode::kOff, "planned");
  options.profile = std::make_shared<const Profile>(first);
  ModelRun later(options);
  const auto plan = later.TrainPlan();
  ASSERT_NE(plan, nullptr) << later.status();
  EXPECT_THAT(plan->notes, Contains(HasSubstr("the others are by the cost rules")));
}

TEST(ReplanTest, AProfileOfAnotherGraphIsRefused) {
  Profile profile;
  profile.nodes["nowhere"] = {"Relu", "float[2]->float[2]", 1};
  SessionOptions options;
  options.profile = std::make_shared<const Profile>(profile);
  const absl::Status status = OpenSession(SmallModel(), options).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("another graph"));
}

}  // namespace
}  // namespace millrace::testing
