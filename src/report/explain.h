// Why a tensor or a node is where it is, in words: kept, swapped, recomputed, cut there. From the plan alone.
#ifndef MILLRACE_SRC_REPORT_EXPLAIN_H_
#define MILLRACE_SRC_REPORT_EXPLAIN_H_

#include <string>

#include "absl/status/statusor.h"
#include "millrace/options.h"
#include "millrace/plan.h"

namespace millrace {

// `name` is a node ("conv1"), a tensor ("conv1:0"), a variable, a constant, a feed or a copy. `options` and `machine` are
// those that the plan was made with. NotFound names what is like it.
absl::StatusOr<std::string> Explain(const ExecutionPlan& plan, const PlanningOptions& options, const Machine& machine,
                                    const std::string& name);

}  // namespace millrace

#endif  // MILLRACE_SRC_REPORT_EXPLAIN_H_
