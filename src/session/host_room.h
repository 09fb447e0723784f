// Whether host memory has room for what the plans of one session keep there together: homes of variables and states of nodes
// stay from plan to plan, the pool and the constants are the running plan's.
#ifndef MILLRACE_SRC_SESSION_HOST_ROOM_H_
#define MILLRACE_SRC_SESSION_HOST_ROOM_H_

#include <vector>

#include "absl/status/status.h"
#include "millrace/plan.h"
#include "runtime/host_memory.h"
#include "runtime/variable_store.h"

namespace millrace {

// `others`: plans that are made and may not have run yet. ResourceExhausted says how much is needed in all. `budget_bytes` 0:
// no limit.
absl::Status CheckHostRoom(const ExecutionPlan& plan, const std::vector<const ExecutionPlan*>& others, const HostMemory& host,
                           const VariableStore& store, int64_t budget_bytes);

}  // namespace millrace

#endif  // MILLRACE_SRC_SESSION_HOST_ROOM_H_
