// millrace plan: what would happen, on any machine, without a device.
#include "cli/commands.h"
#include "cli/outputs.h"
#include "cli/train.h"
#include "millrace/status.h"
#include "plan/plan_text.h"
#include "report/summary.h"

namespace millrace::cli {

absl::Status PlanCommand(const Options& options, const Environment& environment) {
  MR_ASSIGN_OR_RETURN(SessionOptions session, MakeSessionOptions(options, options.strategy.strategy));
  session.device = "null";
  MR_ASSIGN_OR_RETURN(const Budget budget, ParseBudget(options.engine.device_memory));
  MR_ASSIGN_OR_RETURN(Outputs outputs, Outputs::Open(options.output));
  OutputFile plan_file;
  MR_RETURN_IF_ERROR(plan_file.Open(options.plan_out));
  MR_ASSIGN_OR_RETURN(const Workload workload, LoadWorkload(options.input, FeedValues::kTypesOnly, environment));
  MR_ASSIGN_OR_RETURN(const DeviceBudgets budgets, ResolveBudget(budget, workload, session, environment));
  budgets.Apply(session.planning);

  const TrainResult result = PlanOnly(workload, session, environment);
  RunReport unswapped;
  if (outputs.wants_plot() && result.run.plan != nullptr) {
    SessionOptions without = session;
    without.planning = BaselineOf(session.planning);
    without.disk.clear();
    unswapped = PlanOnly(workload, without, environment).run;
  }
  const Report report{.graph = result.graph, .machine = session.machine, .runs = {result.run}};
  MR_RETURN_IF_ERROR(outputs.WriteReport(report, &unswapped));
  MR_RETURN_IF_ERROR(result.run.status);
  if (plan_file.wanted()) MR_RETURN_IF_ERROR(plan_file.Write(PlanToText(*result.run.plan, {.seconds = true, .types = true})));
  *environment.out << "graph          " << GraphLine(result.graph) << "\n"
                   << "machine        " << session.machine.name << "\n"
                   << RunSummary(result.run);
  return absl::OkStatus();
}

}  // namespace millrace::cli
