// millrace plan: what would happen, on any machine, without a device.
#include "cli/commands.h"
#include "cli/exit_status.h"
#include "cli/fit_search.h"
#include "cli/outputs.h"
#include "cli/reuse_memory.h"
#include "cli/train.h"
#include "millrace/status.h"
#include "report/summary.h"

namespace millrace::cli {

absl::Status PlanCommand(const Options& options, const Environment& environment) {
  MR_ASSIGN_OR_RETURN(SessionOptions session, MakePlanningOptions(options));
  MR_ASSIGN_OR_RETURN(const Budget budget, ParseBudget("device_memory", options.engine.device_memory));
  MR_ASSIGN_OR_RETURN(Outputs outputs, Outputs::Open(options.output));
  MR_RETURN_IF_ERROR(CheckWritable(options.plan_out));
  MR_ASSIGN_OR_RETURN(const Workload workload, LoadWorkload(options.input, FeedValues::kTypesOnly, environment));
  MR_ASSIGN_OR_RETURN(const DeviceBudgets budgets, ResolveBudget(budget, workload, session, environment));
  budgets.Apply(session.planning);

  TrainResult result = PlanOnly(workload, session, environment);
  KeepUntilTheEnd(workload.graph);
  KeepUntilTheEnd(result.run.plan);
  RunReport unswapped;
  if (outputs.wants_picture() && result.run.plan != nullptr) {
    SessionOptions without = session;
    without.planning = BaselineOf(session.planning);
    without.disk.clear();
    unswapped = PlanOnly(workload, without, environment).run;
  }
  if (ExitStatus(result.run.status) == kExitDoesNotFit) result.run.advice = Advise(workload, session, result.run.status, environment);
  if (outputs.wants_report()) result.graph = FactsOf(result, workload, session, environment);
  const Report report{.graph = result.graph, .machine = session.machine, .runs = {result.run}};
  absl::Status written = outputs.WriteReport(report, &unswapped);
  if (result.run.status.ok()) {
    AddError(WritePlan(*result.run.plan, options.plan_out, environment), written);
    *environment.out << "graph          " << GraphLine(result.graph) << "\n"
                     << "machine        " << session.machine.name << "\n"
                     << RunSummary(result.run);
  }
  return RunThenWritten(WithAdvice(result.run), written);
}

}  // namespace millrace::cli
