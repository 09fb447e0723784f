// What the runtime costs per node: plans of empty kernels, so that nothing but scheduling is left.
//
//   build/bin/scheduling_bench        ns_per_node, wall time
#include <benchmark/benchmark.h>

#include <chrono>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "cpu/cpu_device.h"
#include "plan/plan_verifier.h"
#include "plan/simulator.h"
#include "runtime/executor.h"

namespace millrace {
namespace {

constexpr int kNodes = 10000;
constexpr int64_t kSlot = 64;

class EmptyKernel final : public Kernel {
 public:
  absl::Status Run(const KernelContext&) const override { return absl::OkStatus(); }
};

std::shared_ptr<const KernelRegistry> EmptyKernels() {
  auto registry = std::make_shared<KernelRegistry>();
  const absl::Status status = registry->Register(
      "Empty", [](const OpInstance&) -> absl::StatusOr<std::unique_ptr<Kernel>> { return std::make_unique<EmptyKernel>(); });
  return status.ok() ? registry : nullptr;
}

struct PlanShape {
  int group = 1;       // independent nodes that may run at once
  int copy_every = 0;  // a tensor goes out and comes back every so many nodes
};

// Nodes with two inputs and an output each, on a ring of 64 addresses.
ExecutionPlan MakePlan(const PlanShape& shape) {
  ExecutionPlan plan;
  plan.devices.push_back({"cpu:0", 0, 128 * kSlot, 0, 1});
  plan.lanes.resize(3);
  plan.lanes[1].kind = LaneKind::kToHost;
  plan.lanes[2].kind = LaneKind::kToDevice;
  plan.host_pool_bytes = kSlot;
  int64_t position = 0;
  StepWaits waits;
  for (int i = 0; i < kNodes; ++i) {
    OpInstance instance;
    instance.name = absl::StrCat("n", i);
    instance.op = "Empty";
    instance.inputs.assign(2, {DataType::kFloat, Shape({16})});
    instance.outputs.assign(1, {DataType::kFloat, Shape({16})});
    ComputeStep step;
    step.instance = i;
    step.group = i / shape.group + 1;
    step.inputs = {64 * kSlot, 65 * kSlot};
    step.outputs = {i % 64 * kSlot};
    step.position = position++;
    step.predicted_seconds = shape.group > 1 ? 20e-6 : 1e-6;
    step.waits = std::move(waits);
    waits.clear();
    plan.instances.push_back(std::move(instance));
    plan.lanes[0].compute.push_back(std::move(step));
    if (shape.copy_every == 0 || (i + 1) % shape.copy_every != 0) continue;
    CopyStep copy;
    copy.bytes = kSlot;
    copy.device_offset = i % 64 * kSlot;
    copy.position = position++;
    copy.waits = {{0, i + 1}, {2, plan.lanes[2].num_steps()}};
    plan.lanes[1].copies.push_back(copy);
    copy.position = position++;
    copy.waits = {{1, plan.lanes[1].num_steps()}};
    plan.lanes[2].copies.push_back(copy);
    waits = {{2, plan.lanes[2].num_steps()}};
  }
  return plan;
}

void SetNsPerNode(benchmark::State& state, std::chrono::steady_clock::time_point start) {
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  state.counters["ns_per_node"] = seconds * 1e9 / kNodes / static_cast<double>(state.iterations());
}

void RunPlan(benchmark::State& state, const PlanShape& shape, int threads, bool trace) {
  const auto registry = EmptyKernels();
  const auto device = cpu::MakeCpuDevice(0, registry);
  const auto runner = MakeTbbTaskRunner(threads);
  KernelCache kernels(*registry);
  HostMemory host;
  VariableStore variables(&host);
  ExecutorOptions options;
  options.trace = trace;
  auto executor = Executor::Create(std::make_shared<ExecutionPlan>(MakePlan(shape)),
                                   {{device.get()}, runner.get(), &kernels, &host, &variables}, options);
  if (!executor.ok()) return state.SkipWithError(executor.status().ToString().c_str());
  const auto start = std::chrono::steady_clock::now();
  for (auto _ : state) {
    const absl::Status status = (*executor)->RunStep({}, nullptr, nullptr);
    if (!status.ok()) return state.SkipWithError(status.ToString().c_str());
  }
  SetNsPerNode(state, start);
}

void BM_Baseline(benchmark::State& state) { RunPlan(state, {}, 1, false); }
void BM_BaselineTraced(benchmark::State& state) { RunPlan(state, {}, 1, true); }
void BM_GroupsOf4(benchmark::State& state) {
  PlanShape shape;
  shape.group = 4;
  RunPlan(state, shape, static_cast<int>(state.range(0)), false);
}
void BM_CopyEvery100Nodes(benchmark::State& state) {
  PlanShape shape;
  shape.copy_every = 100;
  RunPlan(state, shape, 1, false);
}

// Planning's own cost of checking and simulating, per step.
void BM_Verify(benchmark::State& state) {
  const ExecutionPlan plan = MakePlan({});
  ExecutionPlan checked = plan;
  for (ComputeStep& step : checked.lanes[0].compute) step.inputs = {kNoAddress, kNoAddress};
  const auto start = std::chrono::steady_clock::now();
  for (auto _ : state) {
    const absl::Status status = VerifyPlan(checked);
    if (!status.ok()) return state.SkipWithError(status.ToString().c_str());
  }
  SetNsPerNode(state, start);
}
void BM_Simulate(benchmark::State& state) {
  LaneSchedule schedule;
  schedule.Clear(3);
  for (int i = 0; i < kNodes; ++i) {
    const std::vector<Wait> waits = i % 10 == 9 ? std::vector<Wait>{{1, i / 10}} : std::vector<Wait>{};
    schedule.Add(0, 1e-6, waits);
    if (i % 10 == 0) schedule.Add(1, 1e-6, std::vector<Wait>{{0, i}});
  }
  LaneTimes times;
  const auto start = std::chrono::steady_clock::now();
  for (auto _ : state) {
    const absl::Status status = SimulateLanes(schedule, &times);
    if (!status.ok()) return state.SkipWithError(status.ToString().c_str());
  }
  SetNsPerNode(state, start);
}

BENCHMARK(BM_Baseline)->Unit(benchmark::kMillisecond)->UseRealTime();
BENCHMARK(BM_BaselineTraced)->Unit(benchmark::kMillisecond)->UseRealTime();
BENCHMARK(BM_GroupsOf4)->Arg(1)->Arg(2)->Unit(benchmark::kMillisecond)->UseRealTime();
BENCHMARK(BM_CopyEvery100Nodes)->Unit(benchmark::kMillisecond)->UseRealTime();
BENCHMARK(BM_Verify)->Unit(benchmark::kMillisecond);
BENCHMARK(BM_Simulate)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace millrace

int main(int argc, char** argv) {
  char help[] = "--help";
  if (argc > 1 && std::string(argv[1]) == "-h") argv[1] = help;
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
