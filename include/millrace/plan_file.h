// Plans as files: what --plan_out writes and --plan_in reads (src/proto/plan.proto), as text (.pbtxt) or binary.
#ifndef MILLRACE_PLAN_FILE_H_
#define MILLRACE_PLAN_FILE_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "millrace/plan.h"

namespace millrace {

// The same plan gives the same bytes. ResourceExhausted for a plan of 2 GiB or more, which may hold large feeds.
absl::StatusOr<std::string> PlanToBytes(const ExecutionPlan& plan, bool text);

// InvalidArgument says where the bytes are no plan, that they are not as they were written (a digest at their end tells), or
// what about the plan cannot be. A plan from a file is verified as one from the passes is (src/plan/plan_verifier.h), with
// indices checked first.
absl::StatusOr<ExecutionPlan> PlanFromBytes(const std::string& bytes);

// By the end of the name: .pbtxt is text, anything else binary. The file appears when it is whole.
absl::Status SavePlan(const ExecutionPlan& plan, const std::string& path);
absl::StatusOr<ExecutionPlan> LoadPlan(const std::string& path);

}  // namespace millrace

#endif  // MILLRACE_PLAN_FILE_H_
