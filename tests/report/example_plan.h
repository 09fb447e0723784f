// A plan small enough to check by eye: three operations of 1 s, tensor a (16 B) swapped out and in again.
//
//   time       0    1    2    3    4    5
//   compute    | f  | g  |         | h  |      h waits for a: a stall of 2 s
//   to-host         | a> |
//   to-device            |<a       |
//   memory     16   32   16   32   32
#ifndef MILLRACE_TESTS_REPORT_EXAMPLE_PLAN_H_
#define MILLRACE_TESTS_REPORT_EXAMPLE_PLAN_H_

#include <memory>

#include "millrace/report.h"

namespace millrace {

inline OpInstance ExampleInstance(const char* name, const char* op) {
  OpInstance instance;
  instance.name = name;
  instance.op = op;
  return instance;
}

inline ComputeStep ExampleCompute(int32_t instance, int32_t partition, int64_t position) {
  ComputeStep step;
  step.instance = instance;
  step.partition = partition;
  step.position = position;
  step.predicted_seconds = 1;
  return step;
}

inline CopyStep ExampleCopy(const char* name, int32_t partition, int64_t position, double seconds) {
  CopyStep step;
  step.name = name;
  step.tensor = "f:0";
  step.reason = "h is 3 partitions away";
  step.bytes = 16;
  step.partition = partition;
  step.position = position;
  step.predicted_seconds = seconds;
  return step;
}

inline RunReport ExampleRun() {
  auto plan = std::make_shared<ExecutionPlan>();
  plan->strategy = "tensorflowmem";
  plan->partition_size = 1;
  plan->devices = {{.name = "cpu:0", .budget_bytes = 48, .arena_bytes = 32, .peak_live_bytes = 32, .num_partitions = 3}};
  plan->instances = {ExampleInstance("f", "Relu"), ExampleInstance("g", "Relu"), ExampleInstance("h", "ReluGrad")};
  Lane compute, to_host, to_device;
  compute.compute = {ExampleCompute(0, 0, 0), ExampleCompute(1, 1, 2), ExampleCompute(2, 2, 4)};
  to_host.kind = LaneKind::kToHost;
  to_host.copies = {ExampleCopy("f/out", 0, 1, 1)};
  to_device.kind = LaneKind::kToDevice;
  to_device.copies = {ExampleCopy("f/in", 1, 3, 2)};
  plan->lanes = {compute, to_host, to_device};
  plan->residences = {{.tensor = "f:0", .bytes = 16, .first = 0, .last = 2},
                      {.tensor = "g:0", .bytes = 16, .offset = 16, .first = 2, .last = 4},
                      {.tensor = "f:0", .bytes = 16, .first = 3, .last = 4}};

  RunReport run;
  run.strategy = "tensorflowmem";
  run.partition_size = 1;
  run.partitions = 3;
  run.swap_outs = 1;
  run.swap_ins = 1;
  run.device_memory_budget_bytes = 48;
  run.predicted_peak_device_bytes = 32;
  run.peak_device_bytes = 32;
  run.bytes_to_host = 16;
  run.bytes_to_device = 16;
  run.predicted_step_seconds = 5;
  run.lower_bound_seconds = 4;
  run.step_seconds = {6, 5, 5};
  run.compute_seconds = 3;
  run.stall_seconds = 2;
  run.losses = {0.5, 0.25, 0.125};
  run.fetch_digest = "aaaa";
  run.variables_digest = "bbbb";
  run.trace = {{0, 0, 0, 1}, {1, 0, 1, 2}, {0, 1, 1, 2}, {2, 0, 2, 4}, {0, 2, 4, 5}};
  run.simulated_trace = run.trace;
  run.plan = std::move(plan);
  return run;
}

// The same with a disk below: a goes there while it is away, from 2 s to 3 s, and comes back until 4 s.
inline RunReport TieredRun() {
  RunReport run = ExampleRun();
  auto plan = std::make_shared<ExecutionPlan>(*run.plan);
  plan->tiered = true;
  Lane to_disk, from_disk;
  to_disk.kind = LaneKind::kToDisk;
  to_disk.copies = {ExampleCopy("f/to_disk", 1, 5, 1)};
  from_disk.kind = LaneKind::kFromDisk;
  from_disk.copies = {ExampleCopy("f/from_disk", 1, 6, 1)};
  plan->lanes.push_back(to_disk);
  plan->lanes.push_back(from_disk);
  run.trace.push_back({3, 0, 2, 3});
  run.trace.push_back({4, 0, 3, 4});
  run.simulated_trace = run.trace;
  run.plan = std::move(plan);
  return run;
}

}  // namespace millrace

#endif  // MILLRACE_TESTS_REPORT_EXAMPLE_PLAN_H_
