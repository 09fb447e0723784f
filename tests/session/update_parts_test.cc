// Optimizers that update large variables part by part, each with a part of the slots: the same bits as whole updates,
// whoever reads the variables in between, and less memory.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "graph/text.h"
#include "model_run.h"
#include "plan_use.h"
#include "plan/plan_verifier.h"
#include "report/explain.h"
#include "testlib/open_session.h"

namespace millrace::testing {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

// Nearly all of its memory is weights and their slots.
Graph Layers(const std::string& optimizer) {
  auto graph = BuildModel("mlp", {.batch = 4, .classes = 8, .layers = 4, .hidden = 96, .channels = 96,
                                  .optimizer = optimizer, .seed = 3});
  EXPECT_TRUE(graph.ok()) << graph.status();
  return *std::move(graph);
}

SessionOptions Under(const std::string& strategy, int64_t budget_bytes, int64_t part_bytes) {
  SessionOptions options = UnderBudget(strategy, budget_bytes);
  options.planning.update_part_bytes = part_bytes;
  return options;
}

// Variables of the plan that are parts.
int Parts(const ExecutionPlan& plan) {
  return static_cast<int>(std::count_if(plan.variables.begin(), plan.variables.end(),
                                        [](const PlanVariable& variable) { return !variable.whole.empty(); }));
}

int64_t PeakOf(const Graph& graph) {
  ModelRun run(graph, Under("baseline", 0, 0));
  run.Steps(1);
  EXPECT_TRUE(run.status().ok()) << run.status();
  return run.report().peak_device_bytes;
}

TEST(UpdatePartsTest, ThereAreNoMorePartsThanCanBePlanned) {
  const auto graph = BuildModel("mlp", {.batch = 4, .classes = 8, .layers = 2, .hidden = 1024, .optimizer = "momentum"});
  ASSERT_TRUE(graph.ok()) << graph.status();
  ModelRun run(*graph, Under("planned", PeakOf(*graph), 8));
  run.Steps(1);
  ASSERT_TRUE(run.status().ok()) << run.status();
  const int parts = Parts(*run.report().plan);
  EXPECT_GE(parts, 128);
  EXPECT_LE(parts, 3 * 256);  // two layers and what classifies
}

TEST(UpdatePartsTest, BitsAreThoseOfWholeUpdatesWhoeverReadsInBetween) {
  int turn = 0;
  for (const char* optimizer : {"adam", "momentum", "rmsprop", "adagrad"}) {
    const Graph graph = Layers(optimizer);
    ModelRun whole(graph, Under("baseline", 0, 0));
    const std::vector<float> losses = whole.Steps(4);
    const auto variables = whole.Variables();
    const int64_t peak = whole.report().peak_device_bytes;
    for (const int percent : {40, 60, 90}) {
      const int64_t part_bytes = turn++ % 2 == 0 ? 4096 : 12'000;  // both for every optimizer and every budget
      SCOPED_TRACE(absl::StrCat(optimizer, " at ", percent, " %, parts of ", part_bytes));
      ModelRun run(graph, Under("planned", peak * percent / 100, part_bytes));
      std::vector<float> got = run.Steps(2);
      run.Variables();  // what is newer on the device goes home, part by part
      for (const float loss : run.Steps(2)) got.push_back(loss);
      ASSERT_TRUE(run.status().ok()) << run.status();
      EXPECT_GT(Parts(*run.TrainPlan()), 4);
      EXPECT_EQ(got, losses);
      EXPECT_TRUE(run.Variables() == variables);
    }
  }
}

TEST(UpdatePartsTest, StreamsCopyPartsToo) {
  const Graph graph = Layers("adam");
  const int64_t budget = PeakOf(graph) / 2;
  SessionOptions in_parts = Under("planned", budget, 4096), whole = Under("planned", budget, 0);
  in_parts.device = whole.device = "cuda_emulated";
  ModelRun streams(graph, in_parts), reference(graph, whole);
  EXPECT_GT(Parts(*streams.TrainPlan()), 4);
  EXPECT_EQ(streams.Steps(3), reference.Steps(3));
  ASSERT_TRUE(streams.status().ok()) << streams.status();
  EXPECT_TRUE(streams.Variables() == reference.Variables());
}

TEST(UpdatePartsTest, SeveralDevicesUpdatePartsEachOfItsOwn) {
  Graph graph = Layers("adam");
  for (int32_t i = 0; i < graph.num_ids(); ++i) {
    Node& node = graph.mutable_node(NodeId{i});
    const bool second = absl::StrContains(node.name, "layer1") || absl::StrContains(node.name, "layer3");
    node.requested_device = absl::StrCat("/device:CPU:", second ? 1 : 0);
  }
  ModelRun whole(graph, Under("baseline", 0, 0));
  const std::vector<float> losses = whole.Steps(4);
  const auto variables = whole.Variables();
  const int64_t peak = whole.report().peak_device_bytes;
  for (const int percent : {30, 45}) {
    SCOPED_TRACE(absl::StrCat(percent, " % each"));
    SessionOptions options = Under("planned", peak * percent / 100, 4096);
    options.planning.devices = {"cpu:0", "cpu:1"};
    ModelRun run(graph, options);
    const std::shared_ptr<const ExecutionPlan> plan = run.TrainPlan();
    ASSERT_NE(plan, nullptr) << run.status();
    std::set<int32_t> devices;
    for (const PlanVariable& variable : plan->variables) {
      if (!variable.whole.empty()) devices.insert(variable.device);
    }
    EXPECT_EQ(devices.size(), 2);
    std::vector<float> got = run.Steps(2);
    EXPECT_FALSE(run.Variables().empty());  // what is newer on the devices goes home, part by part
    for (const float loss : run.Steps(2)) got.push_back(loss);
    ASSERT_TRUE(run.status().ok()) << run.status();
    EXPECT_EQ(got, losses);
    EXPECT_TRUE(run.Variables() == variables);
  }
}

TEST(UpdatePartsTest, PlansThatShareVariablesMayCutThemDifferently) {
  const Graph graph = Layers("adam");
  ModelRun whole(graph, Under("baseline", 0, 0));
  const std::vector<float> losses = whole.Steps(6);
  ModelRun run(graph, Under("planned", PeakOf(graph) / 2, 8192));
  std::vector<float> got;
  for (int step = 0; step < 6; ++step) {
    // Another signature, whose plan has the whole variables.
    std::vector<Tensor> out;
    ASSERT_TRUE(run.session().Run(run.feeds(), {"loss:0"}, {}, &out).ok());
    got.push_back(out[0].as<float>()[0]);
    EXPECT_EQ(run.Steps(1), std::vector<float>{got.back()});
  }
  EXPECT_EQ(got, losses);
  EXPECT_TRUE(run.Variables() == whole.Variables());
}

TEST(UpdatePartsTest, TheLargestWorkingSetIsSmaller) {
  const Graph graph = Layers("adam");
  const int64_t largest = 96 * 96 * 4;  // a weight
  // Less than a weight, its gradient and both slots together.
  const int64_t budget = 3 * largest + largest / 2;
  ModelRun whole(graph, Under("planned", budget, 0));
  whole.Steps(1);
  EXPECT_TRUE(absl::IsResourceExhausted(whole.status())) << whole.status();
  ModelRun parts(graph, Under("planned", budget, 4096));
  const std::vector<float> got = parts.Steps(3);
  ASSERT_TRUE(parts.status().ok()) << parts.status();
  EXPECT_LE(parts.report().peak_device_bytes, budget);
  ModelRun reference(graph, Under("baseline", 0, 0));
  EXPECT_EQ(got, reference.Steps(3));
}

TEST(UpdatePartsTest, OtherStrategiesUpdateWholeVariables) {
  const Graph graph = Layers("adam");
  const int64_t peak = PeakOf(graph);
  for (const char* strategy : {"tensorflowmem", "lru", "tflms", "baseline"}) {
    ModelRun run(graph, Under(strategy, peak, 4096));
    EXPECT_EQ(Parts(*run.TrainPlan()), 0) << strategy;
  }
  ModelRun run(graph, Under("planned", peak, 4096));
  EXPECT_GT(Parts(*run.TrainPlan()), 0);
}

TEST(UpdatePartsTest, APlanSaysWhatWasAskedForAndIsNotDone) {
  const auto notes = [](SessionOptions options) {
    ModelRun run(Layers("adam"), options);
    const auto plan = run.TrainPlan();
    return plan != nullptr ? plan->notes : std::vector<std::string>{run.status().ToString()};
  };
  EXPECT_THAT(notes(Under("planned", 0, 1024)), Contains("update parts: updates stay whole without a budget"));
  EXPECT_THAT(notes(Under("planned", 0, PlanningOptions::kAutoBytes)), Not(Contains(HasSubstr("update parts"))));
}

TEST(UpdatePartsTest, PartsAreExplainedByTheNameOfTheWhole) {
  const Graph graph = Layers("adam");
  const SessionOptions options = Under("planned", PeakOf(graph) / 2, 4096);
  ModelRun run(graph, options);
  const auto text = Explain(*run.TrainPlan(), options.planning, options.machine, "layer3/kernel/m");
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_THAT(*text, HasSubstr("layer3/kernel/m is updated in 9 parts"));
  EXPECT_THAT(*text, HasSubstr("layer3/kernel/m[0:1024]"));
}

TEST(UpdatePartsTest, APlanFileKeepsTheParts) {
  const Graph graph = Layers("adam");
  const SessionOptions options = Under("planned", PeakOf(graph) / 2, 4096);
  ModelRun planned(graph, options), read(graph, options);
  const auto plan = Reread(*planned.TrainPlan());
  EXPECT_EQ(Parts(*plan), Parts(*planned.TrainPlan()));
  const absl::Status used = read.session().UsePlan(plan, TypesOf(read.feeds()), {"loss:0"}, {"train"});
  ASSERT_TRUE(used.ok()) << used;
  EXPECT_EQ(read.Steps(3), planned.Steps(3));
  EXPECT_TRUE(read.Variables() == planned.Variables());
}

// The first step that updates a part, and the place of the weight among its inputs.
ComputeStep& FirstPart(ExecutionPlan& plan) {
  for (ComputeStep& step : plan.lanes[0].compute) {
    if (absl::StrContains(plan.instances[step.instance].name, "/part_")) return step;
  }
  ADD_FAILURE() << "no update in parts";
  return plan.lanes[0].compute[0];
}

TEST(UpdatePartsTest, WrongPartsAreRefused) {
  const Graph graph = Layers("adam");
  ModelRun run(graph, Under("planned", PeakOf(graph) / 2, 4096));
  const ExecutionPlan right = *run.TrainPlan();
  ASSERT_TRUE(VerifyPlan(right).ok());
  const auto verdict = [&](auto change) {
    ExecutionPlan plan = right;
    change(plan);
    return VerifyPlan(plan).ToString();
  };
  EXPECT_THAT(verdict([](ExecutionPlan& plan) {
                for (PlanVariable& variable : plan.variables) {
                  if (!variable.whole.empty()) variable.home_offset = variable.whole_type.size_bytes();
                }
              }),
              HasSubstr("is not a part of"));
  // Bytes that reach beyond the weight, or are those of a tensor beside it.
  EXPECT_THAT(verdict([](ExecutionPlan& plan) {
                ComputeStep& step = FirstPart(plan);
                const int64_t weight = plan.variables[step.input_variables[0]].type.size_bytes();
                step.inputs[0] += weight - plan.instances[step.instance].inputs[0].size_bytes() + kTensorAlignment;
              }),
              ::testing::Not(HasSubstr("OK")));
  // A write that names no place.
  EXPECT_THAT(verdict([](ExecutionPlan& plan) {
                ComputeStep& step = FirstPart(plan);
                step.input_variables.set(0, -1);
              }),
              HasSubstr("without an address for it"));
}

TEST(UpdatePartsTest, WhereSlotsFillTheMemoryPartsAreChosenAndPay) {
  const auto graph = BuildModel("mlp", {.batch = 4, .classes = 8, .layers = 4, .hidden = 1024, .channels = 1024,
                                        .optimizer = "adam", .seed = 3});
  ASSERT_TRUE(graph.ok()) << graph.status();
  const auto plan = [&](int64_t budget_bytes, int64_t part_bytes) {
    SessionOptions options = Under(budget_bytes > 0 ? "planned" : "baseline", budget_bytes, part_bytes);
    options.device = "null";
    return *ModelRun(*graph, options).TrainPlan();
  };
  const int64_t peak = plan(0, 0).devices[0].arena_bytes;
  const ExecutionPlan whole = plan(peak / 2, 0), chosen = plan(peak / 2, PlanningOptions::kAutoBytes);
  EXPECT_EQ(Parts(whole), 0);
  EXPECT_GT(Parts(chosen), 0);
  EXPECT_LT(chosen.predicted_step_seconds, 0.95 * whole.predicted_step_seconds);
}

TEST(UpdatePartsTest, APartitionSizeIsKeptWherePartsAreChosen) {
  const auto graph = BuildModel("mlp", {.batch = 4, .classes = 8, .layers = 4, .hidden = 1024, .channels = 1024,
                                        .optimizer = "adam", .seed = 3});
  ASSERT_TRUE(graph.ok()) << graph.status();
  const auto plan = [&](int64_t budget_bytes, int64_t partition_size) {
    SessionOptions options = Under(budget_bytes > 0 ? "planned" : "baseline", budget_bytes, PlanningOptions::kAutoBytes);
    options.device = "null";
    options.planning.partition_size = partition_size;
    return *ModelRun(*graph, options).TrainPlan();
  };
  const int64_t budget = plan(0, 0).devices[0].arena_bytes / 2;
  ASSERT_GT(Parts(plan(budget, 0)), 0);
  const ExecutionPlan small = plan(budget, 5), large = plan(budget, 40);
  EXPECT_EQ(small.partition_size, 5);
  EXPECT_EQ(large.partition_size, 40);
  EXPECT_GT(small.devices[0].num_partitions, 4 * large.devices[0].num_partitions);
}

// Of layer @, on what $ makes.
constexpr char kLayer[] = R"(
w@ = VarHandleOp() {dtype=float, shape=shape[64,64], shared_name="w@"}
m@ = VarHandleOp() {dtype=float, shape=shape[64,64], shared_name="m@"}
v@ = VarHandleOp() {dtype=float, shape=shape[64,64], shared_name="v@"}
random_w@ = RandomUniform(dims) {T=int32, dtype=float, seed=7, seed2=@}
random_m@ = RandomUniform(dims) {T=int32, dtype=float, seed=8, seed2=@}
random_v@ = RandomUniform(dims) {T=int32, dtype=float, seed=9, seed2=@}
init_w@ = AssignVariableOp(w@, random_w@) {dtype=float}
init_m@ = AssignVariableOp(m@, random_m@) {dtype=float}
init_v@ = AssignVariableOp(v@, random_v@) {dtype=float}
read_w@ = ReadVariableOp(w@) {dtype=float}
product@ = MatMul($, read_w@) {T=float}
layer@ = Tanh(product@) {T=float}
grad@ = MatMul($, layer@) {T=float, transpose_a=true}
)";
constexpr char kDecay[] = R"(
less@ = Mul(read_w@, small) {T=float}
decayed@ = Sub(read_w@, less@) {T=float}
decay@ = AssignVariableOp(w@, decayed@) {dtype=float}
)";
constexpr char kMomentum[] = R"(
old_m@ = ReadVariableOp(m@) {dtype=float}
kept_m@ = Mul(old_m@, rate) {T=float}
next_m@ = Sub(kept_m@, grad@) {T=float}
assign_m@ = AssignVariableOp(m@, next_m@) {dtype=float}
new_m@ = ReadVariableOp(m@) ^assign_m@ {dtype=float}
update@ = AssignAddVariableOp(w@, new_m@) {dtype=float}
)";
constexpr char kAdam[] = R"(
old_m@ = ReadVariableOp(m@) {dtype=float}
change_m@ = Sub(grad@, old_m@) {T=float}
part_m@ = Mul(change_m@, rate) {T=float}
assign_m@ = AssignAddVariableOp(m@, part_m@) {dtype=float}
square@ = Square(grad@) {T=float}
old_v@ = ReadVariableOp(v@) {dtype=float}
change_v@ = Sub(square@, old_v@) {T=float}
part_v@ = Mul(change_v@, rate) {T=float}
assign_v@ = AssignAddVariableOp(v@, part_v@) {dtype=float}
new_m@ = ReadVariableOp(m@) ^assign_m@ {dtype=float}
new_v@ = ReadVariableOp(v@) ^assign_v@ {dtype=float}
scaled@ = Mul(new_m@, small) {T=float}
root@ = Sqrt(new_v@) {T=float}
divisor@ = AddV2(root@, small) {T=float}
quotient@ = RealDiv(scaled@, divisor@) {T=float}
update@ = AssignSubVariableOp(w@, quotient@) {dtype=float}
)";

// Layers whose weights are updated by single ops, as Keras 3 writes its optimizers.
Graph LayersOfSingleOps(const std::string& updates) {
  std::string text = R"(
x = Placeholder() {dtype=float, shape=shape[4,64]} : float[4,64]
rate = Const() {dtype=float, value=float[]{0.125}}
small = Const() {dtype=float, value=float[]{0.0625}}
dims = Const() {dtype=int32, value=int32[2]{64, 64}}
axes = Const() {dtype=int32, value=int32[2]{0, 1}}
)";
  std::string train = "train = NoOp()", init = "init = NoOp()", below = "x";
  for (int k = 1; k <= 4; ++k) {
    const std::string number = absl::StrCat(k);
    absl::StrAppend(&text, absl::StrReplaceAll(absl::StrCat(kLayer, updates), {{"@", number}, {"$", below}}));
    below = absl::StrCat("layer", k);
    absl::StrAppend(&train, " ^update", k);
    absl::StrAppend(&init, " ^init_w", k, " ^init_m", k, " ^init_v", k);
  }
  absl::StrAppend(&text, "loss = Sum(", below, ", axes) {T=float, Tidx=int32}\n", train, "\n", init, "\n");
  auto graph = ParseGraphText(text);
  EXPECT_TRUE(graph.ok()) << graph.status();
  return *std::move(graph);
}

TEST(UpdatePartsTest, UpdatesOfSingleOpsHaveTheSameBitsInParts) {
  int64_t part_bytes = 4096, other_bytes = 8000;
  for (const std::string& updates : {std::string(kMomentum), std::string(kAdam), absl::StrCat(kDecay, kAdam)}) {
    const Graph graph = LayersOfSingleOps(updates);
    ModelRun whole(graph, Under("baseline", 0, 0));
    const std::vector<float> losses = whole.Steps(4);
    ASSERT_TRUE(whole.status().ok()) << whole.status();
    const auto variables = whole.Variables();
    const int64_t peak = whole.report().peak_device_bytes;
    std::swap(part_bytes, other_bytes);  // both for every budget
    const std::vector<std::pair<int, int64_t>> ways = {{45, part_bytes}, {60, part_bytes}, {60, other_bytes}, {90, other_bytes}};
    for (const auto& [percent, bytes] : ways) {
      SCOPED_TRACE(absl::StrCat(updates, " at ", percent, " %, parts of ", bytes));
      SessionOptions options = Under("planned", peak * percent / 100, bytes);
      options.planning.fuse = percent == 60;
      ModelRun run(graph, options);
      std::vector<float> got = run.Steps(2);
      run.Variables();
      for (const float loss : run.Steps(2)) got.push_back(loss);
      ASSERT_TRUE(run.status().ok()) << run.status();
      EXPECT_GT(Parts(*run.TrainPlan()), 4);
      EXPECT_EQ(got, losses);
      EXPECT_TRUE(run.Variables() == variables);
    }
  }
}

TEST(UpdatePartsTest, MissingValuesAreNamedByTheWholeVariable) {
  const Graph graph = Layers("adam");
  auto session = OpenSession(graph.Clone(), Under("planned", PeakOf(graph) / 2, 4096));
  ASSERT_TRUE(session.ok()) << session.status();
  const absl::Status status = (*session)->Run(FeedsOf(graph), {"loss:0"}, {"train"}, nullptr);
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(std::string(status.message()), ::testing::Not(HasSubstr("[0:")));
}

}  // namespace
}  // namespace millrace::testing
