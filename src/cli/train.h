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
  RunReport run;               // run.status says how it ended; what was measured until then is there
  std::vector<Tensor> fetched;  // of the last step, one per fetch
  Arrays variables;             // after the last step
  Arrays node_states;           // likewise (Session::NodeStates)
  absl::StatusOr<Profile> times = absl::UnavailableError("nothing ran");  // Session::MeasuredTimes
};

// Plans the steps and the initialisers first, so that what does not fit is refused before anything runs (its
// status is marked, exit_status.h). Ends with Cancelled after the step in which the environment is interrupted.
// Shows its progress on a terminal.
TrainResult Train(const Workload& workload, const SessionOptions& options, const Environment& environment);

// Tensors of `fetched` by name.
Arrays NamedFetches(const std::vector<Tensor>& fetched, const std::vector<std::string>& names);

// With --v=1: what each pass of the run's planning took. Train logs its own.
void LogPasses(const RunReport& run);

// What is told of the graph: of the result when something was planned, else of a plan without swapping and budgets, else of the
// graph as it came.
GraphSummary FactsOf(const TrainResult& result, const Workload& workload, SessionOptions session, const Environment& environment);

// Plans only: run.plan and the predicted figures.
TrainResult PlanOnly(const Workload& workload, const SessionOptions& options, const Environment& environment);

}  // namespace millrace::cli

#endif  // MILLRACE_SRC_CLI_TRAIN_H_
