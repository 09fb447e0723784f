// millrace explain: why a tensor or node is kept, swapped or cut where it is.
#include "cli/commands.h"
#include "cli/exit_status.h"
#include "cli/outputs.h"
#include "cli/reuse_memory.h"
#include "cli/train.h"
#include "millrace/status.h"
#include "report/explain.h"

namespace millrace::cli {

absl::Status ExplainCommand(const Options& options, const Environment& environment) {
  if (options.argument.empty()) return UsageError("explain what: millrace explain TENSOR or NODE, as conv1/Conv2D:0 or conv1/Conv2D");
  MR_ASSIGN_OR_RETURN(SessionOptions session, MakePlanningOptions(options));
  MR_ASSIGN_OR_RETURN(const Budget budget, ParseBudget("device_memory", options.engine.device_memory));
  MR_ASSIGN_OR_RETURN(Outputs outputs, Outputs::Open(options.output));
  MR_ASSIGN_OR_RETURN(const Workload workload, LoadWorkload(options.input, FeedValues::kTypesOnly, environment));
  MR_ASSIGN_OR_RETURN(const DeviceBudgets budgets, ResolveBudget(budget, workload, session, environment));
  budgets.Apply(session.planning);
  TrainResult result = PlanOnly(workload, session, environment);
  KeepUntilTheEnd(workload.graph);
  KeepUntilTheEnd(result.run.plan);
  if (outputs.wants_report()) result.graph = FactsOf(result, workload, session, environment);
  const absl::Status written = outputs.WriteReport({.graph = result.graph, .machine = session.machine, .runs = {result.run}}, nullptr);
  if (!result.run.status.ok()) return RunThenWritten(result.run.status, written);
  const auto text = Explain(*result.run.plan, session.planning, session.machine, options.argument);
  if (text.ok()) *environment.out << *text;
  return RunThenWritten(text.status(), written);
}

}  // namespace millrace::cli
