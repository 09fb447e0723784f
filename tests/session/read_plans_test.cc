// Plans that were read: those that sessions make are taken, whatever strategy and rewritings made them, and one that says of any node what the
// graph does not is refused before anything runs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "millrace/kernel.h"
#include "model_run.h"
#include "plan/check_instances.h"
#include "plan/same_values.h"
#include "plan/plan_verifier.h"
#include "plan_use.h"
#include "text_session.h"

namespace millrace::testing {
namespace {

using ::testing::HasSubstr;

// Every node takes and gives matrices of one type, so that the checks of sizes see nothing.
constexpr char kGraph[] = R"(
a = Placeholder() {dtype=float, shape=shape[3,3]}
b = Placeholder() {dtype=float, shape=shape[3,3]}
c = Const() {dtype=float, value=float[3,3]{1,2,3,4,5,6,7,8,9}}
dims = Const() {dtype=int32, value=int32[2]{3,3}}
axes = Const() {dtype=int32, value=int32[1]{0}}
v = VarHandleOp() {dtype=float, shape=shape[3,3], shared_name="v"}
product = MatMul(a, b) {T=float, transpose_a=false, transpose_b=false}
scaled = Sub(product, c) {T=float}
noise = RandomUniform(dims) {T=int32, dtype=float, seed=3, seed2=5}
noisy = AddV2(scaled, noise) {T=float}
sum = Sum(noisy, axes) {T=float, Tidx=int32, keep_dims=false}
read = ReadVariableOp(v) {dtype=float}
last = Mul(noisy, read) {T=float}
update = AssignSubVariableOp(v, product) ^last {dtype=float}
)";

const Session::FeedTypes& MatrixFeeds() {
  static const auto& feeds = *new Session::FeedTypes{{"a", {DataType::kFloat, Shape({3, 3})}}, {"b", {DataType::kFloat, Shape({3, 3})}}};
  return feeds;
}
const std::vector<std::string>& Fetches() {
  static const auto& fetches = *new std::vector<std::string>{"last:0", "scaled:0", "sum:0"};
  return fetches;
}

ComputeStep& StepOf(ExecutionPlan& plan, const std::string& name) {
  for (ComputeStep& step : plan.lanes[0].compute) {
    if (plan.instances[step.instance].name == name) return step;
  }
  ADD_FAILURE() << "no step of " << name;
  return plan.lanes[0].compute[0];
}
OpInstance& InstanceOf(ExecutionPlan& plan, const std::string& name) { return plan.instances[StepOf(plan, name).instance]; }

CopyStep& CopyOf(ExecutionPlan& plan, HostRef::Kind kind, int32_t index) {
  for (Lane& lane : plan.lanes) {
    for (CopyStep& copy : lane.copies) {
      if (copy.host.kind == kind && copy.host.index == index) return copy;
    }
  }
  ADD_FAILURE() << "no such copy";
  return plan.lanes[1].copies[0];
}

struct Case {
  const char* what;
  std::function<void(ExecutionPlan&)> change;
  const char* message;
};

std::vector<Case> Cases() {
  using Plan = ExecutionPlan;
  return {
      {"an op that is not there", [](Plan& p) { InstanceOf(p, "scaled").op = "Substract"; }, "node 'scaled' (Substract) is of an op that is not known"},
      {"an op that does not run", [](Plan& p) { InstanceOf(p, "scaled").op = "NoOp"; }, "node 'scaled' (NoOp) is of an op that has nothing to run"},
      {"another op of the same types", [](Plan& p) { InstanceOf(p, "scaled").op = "Maximum"; }, "node 'scaled' (Maximum) has another op, other attributes"},
      {"another attribute", [](Plan& p) { InstanceOf(p, "product").attrs.Set("transpose_a", true); },
       "node 'product' (MatMul) has another op, other attributes"},
      {"an attribute less", [](Plan& p) { InstanceOf(p, "product").attrs.Erase("transpose_b"); }, "node 'product' (MatMul) has another op, other attributes"},
      {"another seed", [](Plan& p) { InstanceOf(p, "noise").attrs.Set("seed", int64_t{4}); }, "node 'noise' (RandomUniform) has another op, other attributes"},
      {"another stream", [](Plan& p) { InstanceOf(p, "noise").attrs.Set("_stream", "other"); },
       "node 'noise' (RandomUniform) has another op, other attributes"},
      {"another known value",
       [](Plan& p) {
         Tensor value(DataType::kInt32, Shape({1}));
         value.mutable_as<int32_t>()[0] = 1;
         InstanceOf(p, "sum").input_values[1] = value;
       },
       "node 'sum' (Sum) has another op, other attributes, types or known values"},
      {"a known value of another type", [](Plan& p) { InstanceOf(p, "sum").input_values[1] = Tensor(DataType::kInt64, Shape({1})); },
       "input 1 has neither an address nor a known value"},
      {"another shape of an output",
       [](Plan& p) { InstanceOf(p, "scaled").outputs[0].shape = Shape({9}); }, "node 'scaled' (Sub) has an output 0 of type float[9]"},
      {"another type of an output",
       [](Plan& p) { InstanceOf(p, "scaled").outputs[0].dtype = DataType::kInt32; }, "node 'scaled' (Sub) has an output 0 of type int32[3,3]"},
      {"a shape that is not known",
       [](Plan& p) { InstanceOf(p, "scaled").outputs[0].shape = Shape({-1, 3}); }, "'scaled' has a type float[?,3], expected a known shape"},
      {"an input less",
       [](Plan& p) {
         InstanceOf(p, "scaled").inputs.pop_back();
         StepOf(p, "scaled").inputs.pop_back();
         StepOf(p, "scaled").input_owners.pop_back();
       },
       "node 'scaled' (Sub)"},
      {"an output more",
       [](Plan& p) {
         InstanceOf(p, "scaled").outputs.push_back({DataType::kFloat, Shape({0})});
         StepOf(p, "scaled").outputs.push_back(kNoAddress);
         StepOf(p, "scaled").output_owners.push_back(-1);
       },
       "node 'scaled' (Sub) has 2 outputs, its op has 1"},
      {"inputs in another order",
       [](Plan& p) {
         ComputeStep& step = StepOf(p, "product");
         std::swap(step.inputs[0], step.inputs[1]);
         std::swap(step.input_owners[0], step.input_owners[1]);
       },
       "node 'product' (MatMul) takes other values than such nodes take here"},
      {"feeds in another order", [](Plan& p) { std::swap(CopyOf(p, HostRef::Kind::kFeed, 0).host.index, CopyOf(p, HostRef::Kind::kFeed, 1).host.index); },
       "node 'product' (MatMul) takes other values"},
      {"another constant", [](Plan& p) { p.constants[0].value = Tensor(DataType::kFloat, Shape({3, 3})); }, "node 'scaled' (Sub) takes other values"},
      {"fetches in another order", [](Plan& p) { std::swap(CopyOf(p, HostRef::Kind::kFetch, 0).host.index, CopyOf(p, HostRef::Kind::kFetch, 1).host.index); },
       "what is fetched as last:0 is another"},
      {"another size of a state", [](Plan& p) { StepOf(p, "noise").state_bytes = 4; }, "node 'noise' (RandomUniform) has 4 bytes of state, its op has"},
      {"no state", [](Plan& p) { StepOf(p, "noise").state_bytes = 0; }, "node 'noise' (RandomUniform) has 0 bytes of state"},
      {"a write that is not told",
       [](Plan& p) { StepOf(p, "update").writes_variables.clear(); }, "node 'update' (AssignSubVariableOp) writes other variables than its op does"},
      {"a write that overwrites",
       [](Plan& p) { StepOf(p, "update").overwrites_variables = true; }, "node 'update' (AssignSubVariableOp) writes other variables"},
      {"a view that is none", [](Plan& p) { StepOf(p, "scaled").is_view = true; }, "scaled"},
      {"a feed's type", [](Plan& p) { p.feeds[0].type.shape = Shape::UnknownRank(); }, "expected a known shape"},
      {"a time that is none", [](Plan& p) { StepOf(p, "scaled").predicted_seconds = std::nan(""); }, "expected a time"},
      {"a copy that writes no variable",
       [](Plan& p) { CopyOf(p, HostRef::Kind::kFeed, 0).writes_variable = 0; },
       "writes another variable's home than it says"},
      {"a place in no variable", [](Plan& p) { p.variables[0].home_offset = 4; }, "'v' is at 4 of no variable"},
      {"a disk that is not there", [](Plan& p) { p.disk_scratch_bytes = 4096; }, "4096 bytes of disk, and nothing is there"},
      {"a variable of another name",
       [](Plan& p) {
         p.variables[0].name = "w";
         std::replace(p.tensors.begin(), p.tensors.end(), SharedText("v"), SharedText("w"));
       },
       "node 'last' (Mul) takes other values than such nodes take here"},
  };
}

TEST(ReadPlans, WhatTheGraphDoesNotSayIsRefused) {
  const auto session = SessionOf(kGraph);
  const auto plan = session->Plan(MatrixFeeds(), Fetches(), {"update"});
  ASSERT_TRUE(plan.ok()) << plan.status();
  ASSERT_TRUE(session->UsePlan(Reread(**plan), MatrixFeeds(), Fetches(), {"update"}).ok());
  for (const Case& wrong : Cases()) {
    auto changed = std::make_shared<ExecutionPlan>(**plan);
    wrong.change(*changed);
    const absl::Status used = session->UsePlan(changed, MatrixFeeds(), Fetches(), {"update"});
    EXPECT_TRUE(absl::IsInvalidArgument(used)) << wrong.what << ": " << used;
    EXPECT_THAT(std::string(used.message()), HasSubstr(wrong.message)) << wrong.what;
  }
}

TEST(ReadPlans, WhatHasNoPartInResultsMayBeAnything) {
  const auto session = SessionOf(kGraph);
  const auto plan = session->Plan(MatrixFeeds(), Fetches(), {"update"});
  ASSERT_TRUE(plan.ok()) << plan.status();
  auto changed = std::make_shared<ExecutionPlan>(**plan);
  InstanceOf(*changed, "product").name = "another name";
  InstanceOf(*changed, "scaled").attrs.Set(kKernelChoice, "a way to compute");
  for (ComputeStep& step : changed->lanes[0].compute) step.predicted_seconds *= 2;
  const absl::Status used = session->UsePlan(changed, MatrixFeeds(), Fetches(), {"update"});
  EXPECT_TRUE(used.ok()) << used;
}

TEST(ReadPlans, AKernelMustNotWriteWhereItReads) {
  const auto session = SessionOf(kGraph);
  const auto plan = session->Plan(MatrixFeeds(), Fetches(), {"update"});
  ASSERT_TRUE(plan.ok()) << plan.status();
  const auto verdict = [&](const std::string& node, auto change) {
    ExecutionPlan changed = **plan;
    change(StepOf(changed, node));
    return CheckInstances(changed, OpRegistry::Builtin()).ToString();
  };
  EXPECT_EQ(verdict("last", [](ComputeStep&) {}), "OK");
  EXPECT_EQ(verdict("last", [](ComputeStep& step) { step.outputs[0] = step.inputs[0]; }), "OK");
  EXPECT_THAT(verdict("product", [](ComputeStep& step) { step.outputs[0] = step.inputs[0]; }),
              HasSubstr("node 'product' (MatMul) has output 0 in the memory of input 0, where its op must not write"));
}

// A plan of `graph` as these options make it, read by a session with none of them: the same bits.
void ExpectTaken(const std::string& what, const Graph& graph, const SessionOptions& options) {
  SCOPED_TRACE(what);
  ModelRun made(graph, options);
  const auto plan = made.TrainPlan();
  SessionOptions others;
  others.threads = 2;
  others.planning.devices = options.planning.devices;
  others.planning.host_memory_bytes = options.disk.empty() ? 0 : options.planning.host_memory_bytes;
  others.disk = options.disk;
  ModelRun reads(graph, others);
  const absl::Status used = reads.session().UsePlan(Reread(*plan), TypesOf(reads.feeds()), {"loss:0"}, {"train"});
  ASSERT_TRUE(used.ok()) << used;
  EXPECT_EQ(reads.Steps(2), made.Steps(2)) << reads.status();
  EXPECT_EQ(reads.Variables(), made.Variables());
}

int64_t PeakOf(const Graph& graph) {
  ModelRun run(graph, UnderBudget("baseline", 0));
  run.Steps(1);
  return run.report().predicted_peak_device_bytes;
}

TEST(ReadPlans, PlansOfEveryStrategyAreTaken) {
  const Graph graph = SmallModel();
  const int64_t peak = PeakOf(graph);
  for (const char* strategy : {"baseline", "tensorflowmem", "lru", "reactive", "tflms", "planned"}) {
    const bool bounded = std::string(strategy) != "baseline";
    ExpectTaken(strategy, graph, UnderBudget(strategy, bounded ? peak * 3 / 4 : 0));
  }
}

TEST(ReadPlans, PlansWithRewritingsAreTakenBySessionsWithoutThem) {
  const auto graph = BuildModel("resnet", {.batch = 4, .image_size = 8, .depth = 20, .variant = "cifar", .seed = 1});
  ASSERT_TRUE(graph.ok()) << graph.status();
  const int64_t peak = PeakOf(*graph);
  for (const bool fuse : {false, true}) {
    for (const bool channels_first : {false, true}) {
      SessionOptions options = UnderBudget("planned", peak / 2);
      options.machine.to_host_bytes_per_second = options.machine.to_device_bytes_per_second = 2e8;
      options.planning.recompute = Recompute::kOn;
      options.planning.fuse = fuse;
      options.planning.channels_first = channels_first;
      ExpectTaken(absl::StrCat("fuse ", fuse, ", channels first ", channels_first), *graph, options);
    }
  }
  const auto lstm = BuildModel("lstm", {.batch = 4, .layers = 1, .hidden = 16, .steps_unrolled = 6, .vocab = 20, .seed = 1});
  ASSERT_TRUE(lstm.ok()) << lstm.status();
  SessionOptions packed = UnderBudget("tensorflowmem", 0);
  packed.planning.pack_rows = true;
  ExpectTaken("packed rows", *lstm, packed);
  packed.planning.accumulate_products = false;
  ExpectTaken("packed rows, no sums of products", *lstm, packed);
}

TEST(ReadPlans, PlansOfPartsAndTiersAndSeveralDevicesAreTaken) {
  const auto layers = BuildModel("mlp", {.batch = 4, .classes = 8, .layers = 4, .hidden = 96, .channels = 96, .optimizer = "adam", .seed = 3});
  ASSERT_TRUE(layers.ok()) << layers.status();
  const int64_t peak = PeakOf(*layers);
  SessionOptions parts = UnderBudget("planned", peak / 2);
  parts.planning.update_part_bytes = 4096;
  ExpectTaken("parts", *layers, parts);
  SessionOptions tiered = UnderBudget("planned", peak / 2);
  tiered.planning.host_memory_bytes = peak + (int64_t{2} << 20);  // with the buffer of the disk
  tiered.disk = ::testing::TempDir();
  ExpectTaken("disk", *layers, tiered);
  const auto experts = BuildModel("moe_transformer", {.batch = 2, .layers = 1, .hidden = 16, .heads = 2, .steps_unrolled = 4, .vocab = 20,
                                                      .experts = 2, .devices = 2});
  ASSERT_TRUE(experts.ok()) << experts.status();
  SessionOptions devices = UnderBudget("planned", 0);
  devices.planning.devices = {"cpu:0", "cpu:1"};
  ExpectTaken("two devices", *experts, devices);
}

TEST(ReadPlans, PartsAreComparedWithUpdatesInSuchParts) {
  const auto graph = BuildModel("mlp", {.batch = 4, .classes = 8, .layers = 4, .hidden = 96, .channels = 96, .optimizer = "adam", .seed = 3});
  ASSERT_TRUE(graph.ok()) << graph.status();
  SessionOptions options = UnderBudget("planned", PeakOf(*graph) / 2);
  options.planning.update_part_bytes = 4096;
  ModelRun made(*graph, options), reads(*graph, UnderBudget("baseline", 0));
  const auto plan = made.TrainPlan();
  const auto is_part = [](const PlanVariable& variable) { return !variable.whole.empty(); };
  ASSERT_TRUE(std::any_of(plan->variables.begin(), plan->variables.end(), is_part));
  const auto use = [&](auto change) {
    auto changed = std::make_shared<ExecutionPlan>(*plan);
    change(*changed);
    return reads.session().UsePlan(changed, TypesOf(reads.feeds()), {"loss:0"}, {"train"}).ToString();
  };
  EXPECT_EQ(use([](ExecutionPlan&) {}), "OK");
  EXPECT_THAT(use([](ExecutionPlan& p) { InstanceOf(p, "layer2/MatMul").attrs.Set("transpose_b", true); }),
              HasSubstr("node 'layer2/MatMul' (MatMul) takes other values"));
  EXPECT_THAT(use([&](ExecutionPlan& p) { std::find_if(p.variables.begin(), p.variables.end(), is_part)->home_offset += 64; }),
              HasSubstr("are not the whole of it"));
}

// Where shapes are known only when running, types are bounds.
constexpr char kOwnShapes[] = R"(
x = Placeholder() {dtype=float, shape=shape[6]}
zero = Const() {dtype=float, value=float[]{0}}
column = Const() {dtype=int32, value=int32[2]{-1,1}}
positive = Greater(x, zero) {T=float}
where = Where(positive) {T=bool}
taken = GatherNd(x, where) {Tparams=float, Tindices=int64}
shaped = Reshape(taken, column) {T=float, Tshape=int32}
out = Square(shaped) {T=float}
)";

TEST(ReadPlans, ShapesOfTheStepsOwnAreHeldToWhatMakesThem) {
  const Session::FeedTypes feeds = {{"x", {DataType::kFloat, Shape({6})}}};
  const auto session = SessionOf(kOwnShapes);
  const auto plan = session->Plan(feeds, {"out:0"}, {});
  ASSERT_TRUE(plan.ok()) << plan.status();
  ASSERT_FALSE((*plan)->dynamic_tensors.empty());
  const auto use = [&](auto change) {
    auto changed = std::make_shared<ExecutionPlan>(**plan);
    change(*changed);
    return session->UsePlan(changed, feeds, {"out:0"}, {}).ToString();
  };
  EXPECT_EQ(use([](ExecutionPlan&) {}), "OK");
  Tensor x(DataType::kFloat, Shape({6}));
  for (int i = 0; i < 6; ++i) x.mutable_as<float>()[i] = static_cast<float>(i - 3);
  std::vector<Tensor> out;
  const absl::Status ran = session->Run({{"x", x}}, {"out:0"}, {}, &out);
  ASSERT_TRUE(ran.ok()) << ran;
  EXPECT_EQ(Numbers(out[0]), (std::vector<double>{1, 4}));
  EXPECT_THAT(use([](ExecutionPlan& p) { InstanceOf(p, "out").inputs[0].shape = InstanceOf(p, "out").outputs[0].shape = Shape({5, 1}); }),
              HasSubstr("node 'out' (Square) takes at most float[5,1] as input 0, which may be float[6,1]"));
  EXPECT_THAT(use([](ExecutionPlan& p) { StepOf(p, "shaped").is_view = false; }), HasSubstr("node 'shaped' (Reshape) is a view, or is none, against its op"));
  EXPECT_THAT(use([](ExecutionPlan& p) {
                ComputeStep& step = StepOf(p, "where");
                step.input_shapes = step.output_shapes = RareIndices();
              }),
              HasSubstr("before it is known"));
}

}  // namespace
}  // namespace millrace::testing
