// ExecutionPlan to and from its message.
#ifndef MILLRACE_SRC_IMPORT_PLAN_PROTO_H_
#define MILLRACE_SRC_IMPORT_PLAN_PROTO_H_

#include "absl/status/statusor.h"
#include "millrace/plan.h"
#include "millrace/proto/plan.pb.h"

namespace millrace {

void PlanToProto(const ExecutionPlan& plan, proto::Plan* message);

// InvalidArgument for values that do not parse, and for indices (of lanes, instances, tensors, variables, devices …)
// that point outside the plan.
absl::StatusOr<ExecutionPlan> PlanFromProto(const proto::Plan& message);

}  // namespace millrace

#endif  // MILLRACE_SRC_IMPORT_PLAN_PROTO_H_
