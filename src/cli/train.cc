#include "cli/train.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "cli/exit_status.h"
#include "cli/progress.h"
#include "glog/logging.h"
#include "graph/digest.h"
#include "graph/graph_summary.h"
#include "millrace/status.h"
#include "passes/unroll/questions.h"
#include "report/text_table.h"

namespace millrace::cli {
namespace {

bool IsLoss(const Tensor& tensor) {
  return tensor.shape().rank() == 0 && (IsFloating(tensor.dtype()) || IsInteger(tensor.dtype()));
}

// One session's way through the workload; run.status is left to the caller.
class Trainer {
 public:
  Trainer(const Workload& workload, const Environment& environment, TrainResult& result)
      : workload_(workload), environment_(environment), result_(result), progress_(environment) {}

  absl::Status Plan(SessionOptions options) {
    const std::string strategy = options.planning.strategy;
    const bool runs = options.device != "null";
    progress_.Show(strategy, 0, workload_.steps, "planning");
    options.planning_progress = [this, strategy](const std::string& pass) {
      progress_.Show(strategy, 0, workload_.steps, absl::StrCat("planning: ", pass));
    };
    options.cancelled = environment_.interrupted;
    // A tier on disk takes its buffer of the host's budget, a device the arena of its own.
    const bool has_tier = !options.disk.empty();
    result_.machine = options.machine;
    auto created = environment_.create_session(workload_.graph, std::move(options));
    result_.device_has_budget = created.ok() || has_tier;
    if (!created.ok()) return AsPlanningError(created.status());
    session_ = *std::move(created);
    result_.machine = session_->machine();
    session_->PlanWithFeeds(workload_.feeds);
    // The steps come last: last_run() is theirs then.
    MR_RETURN_IF_ERROR(PlanInitialiser(workload_.init, "init_targets"));
    const absl::Status own = PlanInitialiser(workload_.model_init, "the SavedModel's own initialisation");
    if (NeedsAnswer(own) && runs) {  // of values that the model has: they are set, then it is run
      MR_RETURN_IF_ERROR(Initialise(workload_, *session_, environment_.interrupted, /*own_is_left_out=*/false));
      initialised_ = true;
    } else if (absl::IsUnimplemented(own) && !NeedsAnswer(own)) {
      LOG(WARNING) << own.message() << "; it is left out";
      own_is_left_out_ = true;
    } else if (!NeedsAnswer(own)) {
      MR_RETURN_IF_ERROR(own);
    }
    if (workload_.plan != nullptr) {
      MR_RETURN_IF_ERROR(
          AsPlanningError(session_->UsePlan(workload_.plan, workload_.feed_types, workload_.fetches, workload_.targets)));
    }
    auto plan = session_->Plan(workload_.feed_types, workload_.fetches, workload_.targets);
    if (NeedsAnswer(plan.status()) && runs && !initialised_) {
      MR_RETURN_IF_ERROR(Initialise(workload_, *session_, environment_.interrupted, own_is_left_out_));
      initialised_ = true;
      plan = session_->Plan(workload_.feed_types, workload_.fetches, workload_.targets);
    }
    MR_RETURN_IF_ERROR(AsPlanningError(plan.status()));
    result_.run = session_->last_run();
    result_.graph = session_->graph_summary();
    return absl::OkStatus();
  }

  absl::Status Steps() {
    const absl::Status status = RunSteps();
    result_.run.changed_variables = session_->last_run().changed_variables;
    return status;
  }

  bool initialised() const { return initialised_; }

  // What is left when the last step is over, however it ended.
  absl::Status Collect(const VariableSink& sink) {
    NamedTensorsDigest digest;
    MR_RETURN_IF_ERROR(session_->ReadVariables([&](const std::string& name, Tensor value) {
      digest.Add(name, value);
      sink(name, std::move(value));
      return absl::OkStatus();
    }));
    result_.run.variables_digest = digest.ToHex();
    MR_ASSIGN_OR_RETURN(result_.node_states, session_->NodeStates());
    result_.times = session_->MeasuredTimes();
    return absl::OkStatus();
  }

 private:
  absl::Status RunSteps() {
    if (!initialised_) MR_RETURN_IF_ERROR(Initialise(workload_, *session_, environment_.interrupted, own_is_left_out_));
    initialised_ = true;
    progress_.Show(result_.run.strategy, 0, workload_.steps, "");
    for (int64_t step = 0; step < workload_.steps; ++step) {
      if (environment_.interrupted()) {
        return absl::CancelledError(absl::StrCat("interrupted after step ", step, " of ", workload_.steps));
      }
      std::vector<Tensor> fetched;
      MR_RETURN_IF_ERROR(OfStep(session_->Run(workload_.feeds, workload_.fetches, workload_.targets, &fetched)));
      result_.fetched = std::move(fetched);
      Record();
      progress_.Show(result_.run.strategy, step + 1, workload_.steps,
                    absl::StrCat(FormatSeconds(result_.run.step_seconds.back()), " a step"));
    }
    return absl::OkStatus();
  }

  // Steps and initialisers are planned apart, the latter without the steps' feeds: errors say which of them was refused.
  absl::Status PlanInitialiser(const Initialiser& init, const char* name) {
    if (init.targets.empty()) return absl::OkStatus();
    const absl::Status status = session_->Plan(init.feed_types, {}, init.targets).status();
    const bool of_a_flag = absl::StartsWith(status.message(), "--");  // of all
    if (status.ok() || of_a_flag) return AsPlanningError(status);
    return AsPlanningError(WithMessage(status, absl::StrCat(name, " ", absl::StrJoin(init.targets, ","), ", before the first step: ", status.message())));
  }

  // Sizes that follow from variables grow from step to step: a later step is planned anew, and may be the one that does not fit.
  absl::Status OfStep(const absl::Status& status) const {
    return session_->last_run().plan == nullptr ? AsPlanningError(status) : status;
  }

  // The last run's figures, with the seconds and losses of all steps so far.
  void Record() {
    RunReport run = session_->last_run();
    run.plan_seconds = result_.run.plan_seconds;
    run.passes = result_.run.passes;
    // Moved: copies of all former steps' would make the time of a step grow with their number.
    std::vector<double> seconds = std::move(result_.run.step_seconds);
    seconds.insert(seconds.end(), run.step_seconds.begin(), run.step_seconds.end());
    run.step_seconds = std::move(seconds);
    run.losses = std::move(result_.run.losses);
    for (const Tensor& tensor : result_.fetched) {
      if (!IsLoss(tensor)) continue;
      run.losses.push_back(tensor.DoubleAt(0));
      break;
    }
    result_.run = std::move(run);
  }

  const Workload& workload_;
  const Environment& environment_;
  TrainResult& result_;
  Progress progress_;
  std::unique_ptr<Session> session_;
  bool initialised_ = false;  // perhaps before planning, which may need values of variables
  bool own_is_left_out_ = false;  // the SavedModel's own initialisation
};

TrainResult EmptyResult(const SessionOptions& options) {
  TrainResult result;
  result.run.strategy = options.planning.strategy;
  result.run.partition_size = options.planning.partition_size;
  return result;
}

void Finish(absl::Status status, const SessionOptions& options, TrainResult& result) {
  result.run.status = std::move(status);
  result.run.device_memory_budget_bytes = 0;
  for (int32_t d = 0; d < options.planning.num_devices(); ++d) {
    result.run.device_memory_budget_bytes += options.planning.BudgetOf(d);
  }
}

}  // namespace

Arrays NamedFetches(const std::vector<Tensor>& fetched, const std::vector<std::string>& names) {
  Arrays arrays;
  for (size_t i = 0; i < fetched.size(); ++i) arrays[names[i]] = fetched[i];
  return arrays;
}

void LogPasses(const RunReport& run) {
  for (const PassTime& pass : run.passes) {
    VLOG(1) << absl::StrCat("planning: ", pass.name, " took ", pass.seconds, " s in ", pass.runs, " runs");
  }
}

TrainResult Train(const Workload& workload, const SessionOptions& options, const Environment& environment, const VariableSink& sink) {
  TrainResult result = EmptyResult(options);
  Trainer trainer(workload, environment, result);
  absl::Status status = trainer.Plan(options);
  LogPasses(result.run);
  if (status.ok()) {
    status = trainer.Steps();
    const absl::Status collected = trainer.Collect(sink);
    result.has_variables = collected.ok() && trainer.initialised();
    if (!collected.ok() && (status.ok() || absl::IsCancelled(status))) status = collected;
  }
  Finish(status, options, result);
  return result;
}

GraphSummary FactsOf(const TrainResult& result, const Workload& workload, SessionOptions session, const Environment& environment) {
  if (result.graph.nodes > 0) return result.graph;
  session.planning = BaselineOf(session.planning);
  session.disk.clear();
  session.profile = nullptr;
  session.measure_convolutions = false;
  const TrainResult baseline = PlanOnly(workload, session, environment);
  return baseline.graph.nodes > 0 ? baseline.graph : SummaryOf(*workload.graph);
}

TrainResult PlanOnly(const Workload& workload, const SessionOptions& options, const Environment& environment) {
  TrainResult result = PlanTrial(workload, options, environment);
  LogPasses(result.run);
  return result;
}

TrainResult PlanTrial(const Workload& workload, const SessionOptions& options, const Environment& environment) {
  TrainResult result = EmptyResult(options);
  Finish(Trainer(workload, environment, result).Plan(options), options, result);
  return result;
}

}  // namespace millrace::cli
