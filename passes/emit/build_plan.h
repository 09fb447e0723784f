// Build plan: turns schedule and addresses into lanes of steps with waits, the plan that the runtime executes.
//
// The schedules of the devices are merged into one order, that of their operations; each copy keeps its place beside an
// operation. Waits come from three rules, each an order of earlier positions: a step waits for the last writer of what it reads;
// a writer for the readers before it; a residence's first step for every step that touched its bytes under their
// previous owner. Slots of host memory follow the same rules, which is how a Recv waits for its Send; control edges
// between devices add the waits of remote_waits. Waits that an earlier step of the same lane already made are dropped.
//
// Needs: everything above. Establishes: an ExecutionPlan.
#ifndef MILLRACE_PASSES_EMIT_BUILD_PLAN_H_
#define MILLRACE_PASSES_EMIT_BUILD_PLAN_H_

#include "absl/status/statusor.h"
#include "millrace/graph.h"
#include "millrace/options.h"
#include "millrace/plan.h"
#include "passes/device_plan.h"
#include "passes/emit/host_pool.h"
#include "passes/rewrite/prune.h"

namespace millrace {

// Everything that the passes established. `devices` give away what a finished plan is not told from: operations, instances, names of
// storages.
struct PlanInputs {
  const Graph& graph;
  const OpRegistry& ops;
  const Signature& signature;
  const Machine& machine;
  const std::vector<NodeId>& order;  // of all nodes but the copies
  std::vector<DevicePlan>& devices;
  // The first compute of a partition waits for the copies of the partitions before.
  bool finish_copies_first = false;
  // Of several devices: when the items of each one's schedule begin and end, so that no slot of the host pool makes one wait for another.
  // Empty: slots are taken again as soon as may be.
  std::vector<std::vector<CopyTimes>> item_times = {};
};

ExecutionPlan BuildPlan(const PlanInputs& inputs);

}  // namespace millrace

#endif  // MILLRACE_PASSES_EMIT_BUILD_PLAN_H_
