// Whether the nodes of a plan are what their ops allow.
//
// A plan that was read may say anything of its nodes, and kernels trust what they are told. So each is held to its op's definition: numbers
// of inputs and outputs, their types by the shape rule, known values of the inputs' types, the variables that it reads and writes, bytes
// of state, outputs in the memory of inputs. What a kernel needs beside that (scratch) is the session's to ask. Attributes that no rule looks at
// (a scale, a seed) may be anything: whether they are the graph's, same_values.h tells.
#ifndef MILLRACE_SRC_PLAN_CHECK_INSTANCES_H_
#define MILLRACE_SRC_PLAN_CHECK_INSTANCES_H_

#include "absl/status/status.h"
#include "millrace/op.h"
#include "millrace/plan.h"

namespace millrace {

// InvalidArgument names the node. Needs: VerifyPlan.
absl::Status CheckInstances(const ExecutionPlan& plan, const OpRegistry& ops);

}  // namespace millrace

#endif  // MILLRACE_SRC_PLAN_CHECK_INSTANCES_H_
