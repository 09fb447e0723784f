// Host budget: whether a finished plan's variables, states, constants and swapped tensors fit the host memory that there is.
#ifndef MILLRACE_PASSES_HOST_BUDGET_H_
#define MILLRACE_PASSES_HOST_BUDGET_H_

#include <cstdint>

#include "absl/status/status.h"
#include "millrace/graph.h"
#include "millrace/op.h"
#include "millrace/plan.h"

namespace millrace {

// Marked as OfHostMemory, with the bytes that it needs, where plans of which fewer bytes leave the devices may do. A budget of 0 is none.
absl::Status CheckHostMemory(const ExecutionPlan& plan, int64_t budget_bytes);

// Of all nodes: those of other plans, as of initializers, stay from plan to plan.
int64_t StatesOf(const Graph& graph, const OpRegistry& ops);

}  // namespace millrace

#endif  // MILLRACE_PASSES_HOST_BUDGET_H_
