// Whether two plans compute the same, whatever they keep where and when.
//
// A plan is followed step by step with numbers in place of values: that of a node's output follows from its op, attributes, types and
// known values, and the numbers of what lies at the addresses of its inputs; a copy carries numbers. Where steps run, in which order, on
// which device, what leaves memory and comes back, and what is computed again has no part in it. So a plan that was read is held to one
// that is made of the graph: of the same nodes, with the same inputs, results and values of variables.
//
// What it does not see: what a kernel chose among ways to compute (kKernelChoice), which a plan holds so that it gives the same bits
// again; and times.
#ifndef MILLRACE_SRC_PLAN_SAME_VALUES_H_
#define MILLRACE_SRC_PLAN_SAME_VALUES_H_

#include "absl/status/status.h"
#include "millrace/plan.h"

namespace millrace {

// InvalidArgument names the first step of `plan` that computes what no step of `wanted` does, or what `plan` leaves out, or the fetch
// or variable whose value is another. Needs: VerifyPlan of both. Nearly linear in the steps.
absl::Status CheckSameValues(const ExecutionPlan& plan, const ExecutionPlan& wanted);

}  // namespace millrace

#endif  // MILLRACE_SRC_PLAN_SAME_VALUES_H_
