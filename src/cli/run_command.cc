// millrace run: one strategy, all steps.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cli/commands.h"
#include "cli/exit_status.h"
#include "cli/fit_search.h"
#include "cli/outputs.h"
#include "cli/train.h"
#include "cli/variable_files.h"
#include "millrace/status.h"
#include "report/summary.h"

namespace millrace::cli {

namespace {

// A profile is of the steps that are measured: where there will be none is better known before them than after.
absl::Status CheckProfileSteps(const Options& options, const SessionOptions& session) {
  const ReplanOptions& replan = session.replan;
  const int64_t least = replan.steps_to_measure(session.replays_steps());
  if (options.output.profile_out.empty()) return absl::OkStatus();
  if (replan.mode == ReplanOptions::Mode::kOff) return UsageError("--profile_out: no times are measured with --replan=off");
  if (!options.input.plan_in.empty()) return UsageError("--profile_out: no times are measured in steps whose plan is that of --plan_in");
  if (options.input.steps >= least) return absl::OkStatus();
  return UsageError(absl::StrCat("--profile_out: times are measured in steps ", least - replan.measured_steps + 1, " to ", least,
                                 ", it takes --steps=", least, " or more, not ", options.input.steps));
}

// What an interrupt came too early for.
absl::Status LeftOut(const Options& options, const TrainResult& result) {
  absl::Status left_out;
  const auto add = [&](const std::vector<std::string>& paths, const char* why) {
    for (const std::string& path : paths) {
      if (!path.empty()) AddError(absl::CancelledError(absl::StrCat(path, " is not written: ", why)), left_out);
    }
  };
  const OutputOptions& out = options.output;
  if (!result.has_variables) add({out.variables_out, out.checkpoint_out}, "no step could begin yet");
  if (result.run.step_seconds.empty()) add({out.fetches_out}, "no step has ended");
  if (result.run.plan == nullptr) add({out.trace_out, out.plot_out, out.html_out, options.plan_out}, "nothing was planned");
  return left_out;
}

}  // namespace

absl::Status RunCommand(const Options& options, const Environment& environment) {
  MR_ASSIGN_OR_RETURN(SessionOptions session, MakeSessionOptions(options, options.strategy.strategy));
  MR_RETURN_IF_ERROR(CheckRuns(session));
  MR_RETURN_IF_ERROR(CheckProfileSteps(options, session));
  MR_ASSIGN_OR_RETURN(const Budget budget, ParseBudget("device_memory", options.engine.device_memory));
  MR_ASSIGN_OR_RETURN(Outputs outputs, Outputs::Open(options.output));
  MR_RETURN_IF_ERROR(CheckWritable(options.plan_out));
  MR_ASSIGN_OR_RETURN(const Workload workload, LoadWorkload(options.input, FeedValues::kMade, environment));
  environment.catch_interrupts();
  MR_ASSIGN_OR_RETURN(const DeviceBudgets budgets, ResolveBudget(budget, workload, session, environment));
  budgets.Apply(session.planning);

  VariableFiles variables(options.output, workload, environment);
  TrainResult result = Train(workload, session, environment,
                             [&](const std::string& name, const Tensor& value) { variables.Add(name, value); });
  absl::Status written;  // every file is tried, what was trained first
  // An interrupt comes between steps: the variables are as the last one left them. While planning, there is nothing of them yet, and
  // former files stay.
  if (result.run.status.ok() || absl::IsCancelled(result.run.status)) {
    if (result.has_variables) written = variables.Finish(result.node_states);
    AddError(outputs.WriteResults(result, workload, environment), written);
    if (!result.run.status.ok()) AddError(LeftOut(options, result), written);
  }
  if (ExitStatus(result.run.status) == kExitDoesNotFit && result.device_has_budget) {
    const bool first = result.run.step_seconds.empty();
    result.run.advice = first ? Advise(workload, session, result.run.status, environment) : AdviseOnLaterStep(result.run);
  }
  if (outputs.wants_report()) result.graph = FactsOf(result, workload, session, environment);
  Report report{.graph = result.graph, .machine = result.machine, .runs = {result.run}};
  RunReport unswapped;
  if (outputs.wants_picture() && session.planning.strategy != "baseline" && result.run.plan != nullptr) {
    SessionOptions without = session;
    without.planning = BaselineOf(session.planning);
    without.disk.clear();
    without.measure_convolutions = false;
    unswapped = PlanOnly(workload, without, environment).run;
  }
  AddError(outputs.WriteReport(report, &unswapped), written);
  if (result.run.plan != nullptr) {
    AddError(WritePlan(*result.run.plan, options.plan_out, environment), written);
    *environment.out << "graph          " << GraphLine(result.graph) << "\n" << RunSummary(result.run);
  }
  return RunThenWritten(WithAdvice(result.run), written);
}

}  // namespace millrace::cli
