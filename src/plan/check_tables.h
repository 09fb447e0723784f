// What must hold of a plan's tables before its steps are looked at: places within their memory, indices within their
// tables. A part of the plan verifier.
#ifndef MILLRACE_SRC_PLAN_CHECK_TABLES_H_
#define MILLRACE_SRC_PLAN_CHECK_TABLES_H_

#include "absl/status/status.h"
#include "millrace/plan.h"

namespace millrace {

// Internal names the first entry that is wrong. Afterwards every step can be printed.
absl::Status CheckTables(const ExecutionPlan& plan);

}  // namespace millrace

#endif  // MILLRACE_SRC_PLAN_CHECK_TABLES_H_
