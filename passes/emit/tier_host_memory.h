// Tier host memory: the device planner one level up. The plan's copies to and from the host are the operations, what
// they touch in host memory (values of variables, swapped tensors) the storages, the disk the next tier:
//
//   device          |compute, as planned before                    |
//   to-host         |    | a> |    |    |    |    |                    a goes to its place in the host pool
//   to-disk         |    |    | a> |    |    |    |                    … whose room others need
//   from-disk       |    |    |    |    | a< |    |                    anchored ahead of the copy that needs it
//   to-device       |    |    |    |    |    | a< |
//
// The same policy chooses what leaves, the same packing gives addresses in the pool, and every step that touches a
// place waits for those that used its bytes before; so the host budget is as hard as a device's. Homes of variables are
// on disk: a variable whose gap over the step's end is kept lives in the pool, one that lives on a device is nowhere
// else.
//
// Needs: a plan whose device side is complete. Establishes: a tiered plan; the pool within the budget, or
// ResourceExhausted.
#ifndef MILLRACE_PASSES_EMIT_TIER_HOST_MEMORY_H_
#define MILLRACE_PASSES_EMIT_TIER_HOST_MEMORY_H_

#include "absl/status/status.h"
#include "millrace/options.h"
#include "millrace/plan.h"

namespace millrace {

// `host_budget_bytes` > 0 is for the pool, constants, and what plan/disk_layout.h sets aside.
// `other_state_bytes`: states of nodes of the session's other plans that may be there, too.
absl::Status TierHostMemory(const Machine& machine, int64_t host_budget_bytes, int64_t other_state_bytes, ExecutionPlan* plan);

}  // namespace millrace

#endif  // MILLRACE_PASSES_EMIT_TIER_HOST_MEMORY_H_
