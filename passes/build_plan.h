// Build plan: turns schedule and addresses into lanes of steps with waits, the plan that the runtime executes.
//
// Waits come from three rules, each an order of earlier positions: a step waits for the last writer of what it reads;
// a writer for the readers before it; a residence's first step for every step that touched its bytes under their
// previous owner. Waits that an earlier step of the same lane already made are dropped.
//
// Needs: everything above. Establishes: an ExecutionPlan.
#ifndef MILLRACE_PASSES_BUILD_PLAN_H_
#define MILLRACE_PASSES_BUILD_PLAN_H_

#include "absl/status/statusor.h"
#include "millrace/graph.h"
#include "millrace/options.h"
#include "millrace/plan.h"
#include "passes/assign_memory.h"
#include "passes/insert_swaps.h"
#include "passes/prune.h"
#include "passes/schedule.h"
#include "passes/storage.h"

namespace millrace {

// Everything that the passes established. `device` gives its instances away.
struct PlanInputs {
  const Graph& graph;
  const OpRegistry& ops;
  const Signature& signature;
  const Machine& machine;
  DeviceGraph& device;
  const SwapChoice& choice;
  const Schedule& schedule;
  const MemoryAssignment& memory;
  const SwapNodes& swaps;
  // The first compute of a partition waits for the copies of the partitions before.
  bool finish_copies_first = false;
};

ExecutionPlan BuildPlan(PlanInputs inputs);

}  // namespace millrace

#endif  // MILLRACE_PASSES_BUILD_PLAN_H_
