// Several devices: the placer, Send and Recv and whole plans as golden text; random graphs over random devices through
// the verifier, the simulator and the executor on null devices.
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "graph/device_spec.h"
#include "graph/text.h"
#include "gtest/gtest.h"
#include "millrace/status.h"
#include "null/null_device.h"
#include "passes/access/does_not_fit.h"
#include "passes/devices/add_send_recv.h"
#include "passes/devices/place_devices.h"
#include "passes/pipeline.h"
#include "passes/rewrite/order_variable_accesses.h"
#include "passes/shapes/infer_shapes.h"
#include "passes/strategy.h"
#include "plan/plan_text.h"
#include "plan/plan_verifier.h"
#include "plan/simulator.h"
#include "runtime/executor.h"
#include "testlib/golden.h"
#include "testlib/inline_task_runner.h"
#include "testlib/random_graph.h"
#include "testlib/random_request.h"
#include "testlib/test_kernels.h"
#include "testlib/test_ops.h"

namespace millrace {
namespace {

std::string ErrorText(const absl::Status& status) { return status.ToString() + "\n"; }

// Types, variable order and placement; the text so far, or an error's.
struct PlacedGraph {
  Graph graph;
  OpRegistry ops = TestOps();
  DevicePlacement placement;
  std::vector<uint64_t> by_value;
  std::string error;
};

PlacedGraph Place(const GoldenCase& golden) {
  PlacedGraph placed;
  absl::StatusOr<Graph> graph = ParseGraphText(golden.input);
  if (!graph.ok()) return {.error = ErrorText(graph.status())};
  placed.graph = std::move(*graph);
  StubOracle oracle;
  auto inferred = InferShapesAndFold(placed.graph, placed.ops, oracle, {});
  if (!inferred.ok()) return {.error = ErrorText(inferred.status())};
  placed.by_value = std::move(inferred->by_value);
  EXPECT_TRUE(OrderVariableAccesses(placed.graph, placed.ops).ok());
  PlaceOptions options{.devices = golden.List("devices")};
  const std::vector<std::string> lacks = golden.List("gpu_lacks");
  options.supports = [&](const std::string& op, int32_t device) {
    return options.devices[device].substr(0, 3) != "gpu" || std::count(lacks.begin(), lacks.end(), op) == 0;
  };
  absl::StatusOr<DevicePlacement> placement = PlaceDevices(placed.graph, placed.ops, options);
  if (!placement.ok()) return {.error = ErrorText(placement.status())};
  placed.placement = *std::move(placement);
  return placed;
}

std::string PlaceText(const GoldenCase& golden) {
  const PlacedGraph placed = Place(golden);
  if (!placed.error.empty()) return placed.error;
  std::string text;
  for (const std::string& note : placed.placement.notes) absl::StrAppend(&text, note, "\n");
  for (int32_t i = 0; i < placed.graph.num_ids(); ++i) {
    const int32_t device = placed.placement.variable_device[i];
    absl::StrAppend(&text, NodeToText(placed.graph, NodeId{i}, {.attrs = false, .types = false}),
                    device >= 0 ? absl::StrCat("  (worked on by d", device, ")") : "", "\n");
  }
  return text;
}

std::string SendRecvText(const GoldenCase& golden) {
  PlacedGraph placed = Place(golden);
  if (!placed.error.empty()) return placed.error;
  const std::string before = GraphToText(placed.graph);
  const SendRecvOptions options{golden.List("devices"), golden.Int("share", 0) != 0};
  const bool changed = AddSendRecv(placed.graph, placed.ops, placed.placement, options, placed.by_value);
  EXPECT_EQ(changed, before != GraphToText(placed.graph)) << "the pass must say whether it changed the graph";
  EXPECT_TRUE(VerifySendRecv(placed.graph, placed.ops, placed.placement).ok());
  EXPECT_EQ(placed.by_value.size(), placed.graph.num_ids());
  return GraphToText(placed.graph, {.attrs = false, .types = false});
}

std::string PlanText(const GoldenCase& golden) {
  absl::StatusOr<Graph> graph = ParseGraphText(golden.input);
  if (!graph.ok()) return ErrorText(graph.status());
  const OpRegistry ops = TestOps();
  StubOracle oracle;
  CompileRequest request{*graph, ops, oracle, {}, {}, UnitMachine(), {}};
  for (const std::string& feed : golden.List("feeds")) request.signature.feeds[feed] = {DataType::kFloat, Shape({4})};
  request.signature.fetches = golden.List("fetches");
  request.signature.targets = golden.List("targets");
  request.options.strategy = golden.options.at("strategy");
  request.options.partition_size = golden.Int("partition_size", 1);
  request.options.swap_distance = golden.Int("swap_distance", 2);
  request.options.devices = golden.List("devices");
  for (const std::string& budget : golden.List("budgets")) {
    int64_t bytes = 0;
    EXPECT_TRUE(absl::SimpleAtoi(budget, &bytes));
    request.options.device_memory_bytes_of.push_back(bytes);
  }
  const absl::StatusOr<Compiled> compiled = Compile(request);
  if (!compiled.ok()) return ErrorText(compiled.status());
  return absl::StrCat(GraphToText(compiled->graph, {.attrs = false, .types = false}), "---\n",
                      PlanToText(compiled->plan));
}

TEST(Devices, ArePlacedByStringColocationKernelAndNeighbour) {
  for (const std::string& file : GoldenFiles("place")) CheckGolden(file, PlaceText);
}

TEST(Devices, ExchangeTensorsBySendAndRecv) {
  for (const std::string& file : GoldenFiles("send_recv")) CheckGolden(file, SendRecvText);
}

TEST(Devices, ArePlannedAsOneSchedule) {
  for (const std::string& file : GoldenFiles("devices")) CheckGolden(file, PlanText);
}

TEST(DeviceSpecs, AreRefusedWhenTheyAreNone) {
  for (const char* text : {"/gpu:x", "/job", "/task:-1", "a:b:c", "/device", "/device:GPU:1:2", "/job:"}) {
    EXPECT_FALSE(ParseDeviceSpec(text).ok()) << text;
  }
  for (const char* text : {"", "/gpu", "/GPU:0", "/device:gpu:*", "/job:a/replica:0/task:1/cpu:0", "cpu:3"}) {
    EXPECT_TRUE(ParseDeviceSpec(text).ok()) << text;
  }
}

// The executor on null devices, whose lanes wait as on real ones.
absl::StatusOr<StepStats> RunOnNullDevices(const ExecutionPlan& plan) {
  const auto kernels = testing::SharedTestKernels();
  testing::InlineTaskRunner runner;
  std::vector<std::unique_ptr<RuntimeDevice>> devices;
  RuntimeContext context;
  for (size_t d = 0; d < plan.devices.size(); ++d) {
    devices.push_back(MakeNullDevice(static_cast<int>(d), 0, kernels));
    context.devices.push_back(devices.back().get());
  }
  KernelCache cache(*kernels);
  HostMemory host(0);
  VariableStore variables(&host);
  context.runner = &runner;
  context.kernels = &cache;
  context.host = &host;
  context.variables = &variables;
  MR_ASSIGN_OR_RETURN(auto executor, Executor::Create(std::make_shared<ExecutionPlan>(plan), context, {}));
  StepStats stats;
  MR_RETURN_IF_ERROR(executor->RunStep({}, nullptr, &stats));
  return stats;
}

TEST(RandomDevices, PlansHoldTheirBudgetsAndRunAsSimulated) {
  const OpRegistry ops = TestOps();
  int planned = 0, refused = 0, sends = 0;
  int64_t recomputed = 0;
  for (uint32_t seed = 0; seed < 150; ++seed) {
    const int devices = 1 + static_cast<int>(seed % 4);
    RandomGraph random(seed, devices, /*backward=*/seed % 8 >= 4);
    StubOracle oracle;
    CompileRequest request = RequestOf(random, ops, oracle, devices);
    for (const std::string& strategy : StrategyNames()) {
      request.options.strategy = strategy;
      request.options.partition_size = strategy == "tensorflowmem" ? 1 + random.Below(8) : 0;
      request.options.share_recv = random.Below(2) == 0;
      request.options.device_memory_bytes_of.clear();
      const bool unlimited = random.Below(4) == 0;
      for (int d = 0; d < devices; ++d) {
        request.options.device_memory_bytes_of.push_back(unlimited ? 0 : 64 * (8 + random.Below(100)));
      }
      SCOPED_TRACE(absl::StrCat("seed ", seed, " strategy ", strategy, " devices ", devices));
      const absl::StatusOr<Compiled> compiled = Compile(request);
      if (absl::IsResourceExhausted(compiled.status())) {
        ++refused;
        continue;
      }
      ASSERT_TRUE(compiled.ok()) << compiled.status();
      ++planned;
      const ExecutionPlan& plan = compiled->plan;
      sends += static_cast<int>(plan.counts.sends);
      recomputed += devices > 1 ? plan.counts.recomputed_nodes : 0;
      EXPECT_LE(plan.lower_bound_seconds, plan.predicted_step_seconds * (1 + 1e-9));
      ASSERT_TRUE(VerifyPlan(plan).ok());
      ASSERT_EQ(plan.devices.size(), devices);
      for (int d = 0; d < devices; ++d) {
        const int64_t budget = request.options.device_memory_bytes_of[d];
        if (budget > 0) {
          EXPECT_LE(plan.devices[d].arena_bytes, budget);
        }
      }
      if (random.Below(4) != 0) continue;
      const absl::StatusOr<Simulation> simulation = SimulatePlan(plan, UnitMachine());
      ASSERT_TRUE(simulation.ok()) << simulation.status();
      const absl::StatusOr<StepStats> stats = RunOnNullDevices(plan);
      ASSERT_TRUE(stats.ok()) << stats.status();
      ASSERT_EQ(stats->trace.size(), simulation->events.size());
      for (size_t e = 0; e < stats->trace.size(); ++e) {
        EXPECT_EQ(stats->trace[e].start_seconds, simulation->events[e].start_seconds);
        EXPECT_EQ(stats->trace[e].end_seconds, simulation->events[e].end_seconds);
      }
      for (int d = 0; d < devices; ++d) EXPECT_LE(stats->device_peak_bytes[d], plan.devices[d].arena_bytes);
    }
  }
  EXPECT_GT(planned, 200);
  EXPECT_GT(refused, 20);
  EXPECT_GT(sends, 500);
  EXPECT_GT(recomputed, 0);
}

// Two devices in turn: the second has nothing to do until the first has sent, the first until the second has.
TEST(DeviceTimeline, HasWhatDevicesWaitForEachOther) {
  const OpRegistry ops = TestOps();
  StubOracle oracle;
  const absl::StatusOr<Graph> graph = ParseGraphText(R"(
a = Op() on "/gpu:0"
b = Op(a) on "/gpu:1"
c = Op(b) on "/gpu:0"
alone = Op() on "/gpu:1")");
  ASSERT_TRUE(graph.ok());
  CompileRequest request{*graph, ops, oracle, {}, {}, UnitMachine(), {}};
  request.signature.fetches = {"c:0", "alone:0"};
  request.options.strategy = "baseline";
  request.options.devices = {"gpu:0", "gpu:1"};
  const absl::StatusOr<Compiled> compiled = Compile(request);
  ASSERT_TRUE(compiled.ok()) << compiled.status();
  // Three operations in a row and two pairs of copies between them; what the second device does alone is hidden.
  double operations = 0, copies = 0;
  for (const Lane& lane : compiled->plan.lanes) {
    for (const ComputeStep& step : lane.compute) {
      if (compiled->plan.instances[step.instance].name != "alone") operations += step.predicted_seconds;
    }
    for (const CopyStep& copy : lane.copies) {
      if (!absl::StrContains(copy.name, "fetch")) copies += copy.predicted_seconds;
    }
  }
  EXPECT_DOUBLE_EQ(compiled->plan.lower_bound_seconds, operations + copies);
}

// In creation order the second device waits for what the first one does for itself. Nothing has to leave, yet another order is faster.
TEST(SeveralDevices, AreGivenTheOrderInWhichTheyWaitLeast) {
  const OpRegistry ops = TestOps();
  StubOracle oracle;
  const absl::StatusOr<Graph> graph = ParseGraphText(R"(
a1 = Op() on "/gpu:0"
own1 = Op() on "/gpu:0"
a2 = Op(a1) on "/gpu:0"
own2 = Op(own1) on "/gpu:0"
a3 = Op(a2) on "/gpu:0"
own3 = Op(own2) on "/gpu:0"
b1 = Op(a3) on "/gpu:1"
b2 = Op(b1) on "/gpu:1"
b3 = Op(b2) on "/gpu:1")");
  ASSERT_TRUE(graph.ok());
  CompileRequest request{*graph, ops, oracle, {}, {}, UnitMachine(), {}};
  request.verify_phases = true;
  request.signature.fetches = {"b3:0", "own3:0"};
  request.options.devices = {"gpu:0", "gpu:1"};
  for (const int64_t budget : {0, 1024}) {
    request.options.device_memory_bytes = budget;
    const absl::StatusOr<Compiled> compiled = Compile(request);
    ASSERT_TRUE(compiled.ok()) << compiled.status();
    // Three operations, two copies between the devices, three operations, a copy to the host.
    EXPECT_LE(compiled->plan.predicted_step_seconds, 3 + 2 + 3 + 1) << "budget " << budget;
  }
}

// Whoever looks for a budget that is enough begins with what is told.
TEST(SeveralDevices, SayWhatTheOneThatIsTooSmallNeeds) {
  const OpRegistry ops = TestOps();
  StubOracle oracle;
  const absl::StatusOr<Graph> graph = ParseGraphText(R"(
a = Op() on "/gpu:0"
b = Op(a) on "/gpu:1"
c = Op(b, a) on "/gpu:1")");
  ASSERT_TRUE(graph.ok());
  CompileRequest request{*graph, ops, oracle, {}, {}, UnitMachine(), {}};
  request.signature.fetches = {"c:0"};
  request.options.devices = {"gpu:0", "gpu:1"};
  for (const char* strategy : {"planned", "lru", "tensorflowmem", "tflms"}) {
    SCOPED_TRACE(strategy);
    request.options.strategy = strategy;
    request.options.device_memory_bytes = 100;
    const absl::Status refused = Compile(request).status();
    EXPECT_TRUE(absl::IsResourceExhausted(refused)) << refused;
    EXPECT_TRUE(absl::StartsWith(refused.message(), "gpu:1: ")) << refused;
    EXPECT_EQ(NeededBytes(refused), 3 * 64);
    request.options.device_memory_bytes = 3 * 64;
    EXPECT_TRUE(Compile(request).ok());
  }
}

TEST(SharedRecv, ReceivesOnceAndTheOtherOncePerUse) {
  const OpRegistry ops = TestOps();
  StubOracle oracle;
  const absl::StatusOr<Graph> graph = ParseGraphText(R"(
a = Op() on "/gpu:0"
b = Op(a) on "/gpu:1"
c = Op(b, a) on "/gpu:1"
d = Op(c, a) on "/gpu:1")");
  ASSERT_TRUE(graph.ok());
  CompileRequest request{*graph, ops, oracle, {}, {}, UnitMachine(), {}};
  request.signature.fetches = {"d:0"};
  request.options.strategy = "baseline";
  request.options.devices = {"gpu:0", "gpu:1"};
  for (const bool share : {false, true}) {
    request.options.share_recv = share;
    const absl::StatusOr<Compiled> compiled = Compile(request);
    ASSERT_TRUE(compiled.ok()) << compiled.status();
    EXPECT_EQ(compiled->plan.counts.sends, 1);
    EXPECT_EQ(compiled->plan.counts.recvs, share ? 1 : 3);
    EXPECT_EQ(compiled->plan.bytes_to_device, share ? 16 : 48);
  }
}

}  // namespace
}  // namespace millrace
