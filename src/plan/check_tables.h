// What must hold of a plan's tables: places within their memory, indices within their tables, figures that are some. Parts of
// the plan verifier.
#ifndef MILLRACE_SRC_PLAN_CHECK_TABLES_H_
#define MILLRACE_SRC_PLAN_CHECK_TABLES_H_

#include "absl/status/status.h"
#include "millrace/plan.h"

namespace millrace {

// Internal names the first entry that is wrong. Afterwards every step can be printed.
absl::Status CheckTables(const ExecutionPlan& plan);

// Stays lie within the step and within the arena. Steps do not follow them, but pictures and reports do.
absl::Status CheckResidences(const ExecutionPlan& plan);

}  // namespace millrace

#endif  // MILLRACE_SRC_PLAN_CHECK_TABLES_H_
