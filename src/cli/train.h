// One strategy over one workload: plan, initialise, step.
#ifndef MILLRACE_SRC_CLI_TRAIN_H_
#define MILLRACE_SRC_CLI_TRAIN_H_

#include <string>
#include <vector>

#include "cli/environment.h"
#include "cli/workload.h"
#include "millrace/report.h"

namespace millrace::cli {

struct TrainResult {
  GraphSummary graph;
  Machine machine;             // what was planned for
  RunReport run;               // run.status says how it ended; what was measured until then is there
  std::vector<Tensor> fetched;  // of the last step, one per fetch
  Arrays node_states;           // after the last step (Session::NodeStates)
  bool device_has_budget = true;  // false: refused before planning, by a device that has less memory than the budget
  bool has_variables = false;   // they had their first values, and the sink was given all of them
  absl::StatusOr<Profile> times = absl::UnavailableError("nothing ran");  // Session::MeasuredTimes
};

// Gets the variables that the last step left, however it ended, one by one in name order: all of them may be more than memory
// holds. Their digest is in the report in any case.
using VariableSink = std::function<void(const std::string& name, Tensor value)>;
inline void NoSink(const std::string& /*name*/, const Tensor& /*value*/) {}

// Plans the steps and the initialisers first, so that what does not fit is refused before anything runs (its
// status is marked, exit_status.h). Ends with Cancelled after the step in which the environment is interrupted.
// Shows its progress on a terminal.
TrainResult Train(const Workload& workload, const SessionOptions& options, const Environment& environment, const VariableSink& sink = NoSink);

// Tensors of `fetched` by name.
Arrays NamedFetches(const std::vector<Tensor>& fetched, const std::vector<std::string>& names);

// With --v=1: what each pass of the run's planning took. Train and PlanOnly log their own.
void LogPasses(const RunReport& run);

// What is told of the graph: of the result when something was planned, else of a plan without swapping and budgets, else of the
// graph as it came.
GraphSummary FactsOf(const TrainResult& result, const Workload& workload, SessionOptions session, const Environment& environment);

// Plans only: run.plan and the predicted figures.
TrainResult PlanOnly(const Workload& workload, const SessionOptions& options, const Environment& environment);
// The same of one of many plans: its passes are not logged.
TrainResult PlanTrial(const Workload& workload, const SessionOptions& options, const Environment& environment);

}  // namespace millrace::cli

#endif  // MILLRACE_SRC_CLI_TRAIN_H_
