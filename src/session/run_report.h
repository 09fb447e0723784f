// The run report of a session's last step, from its plan and from what was measured.
#ifndef MILLRACE_SRC_SESSION_RUN_REPORT_H_
#define MILLRACE_SRC_SESSION_RUN_REPORT_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "millrace/plan.h"
#include "millrace/session.h"
#include "millrace/tensor.h"
#include "runtime/step_stats.h"

namespace millrace {

// What the plan says of a step before any has run.
RunReport PredictedRun(const ExecutionPlan& plan);

// What is told of a step that has no plan.
RunReport RunWithoutPlan(const absl::Status& status, const PlanningOptions& planning, std::vector<PassTime> passes);

// Adds what a step that took `seconds` and ended with `status` has measured. `fetched` is empty where it failed.
void AddMeasuredStep(double seconds, const absl::Status& status, const StepStats& stats,
                     const std::vector<Tensor>& fetched, int64_t alignment, RunReport* report);

// Programs plan a graph in one session after another, trial by trial: what it asks for is told once.
void LogOnce(const std::string& note);

}  // namespace millrace

#endif  // MILLRACE_SRC_SESSION_RUN_REPORT_H_
