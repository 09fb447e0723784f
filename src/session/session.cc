// Session: plans per signature, runs plans, keeps variables.
#include "millrace/session.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "glog/logging.h"
#include "graph/verify.h"
#include "millrace/device.h"
#include "millrace/status.h"
#include "plan/check_instances.h"
#include "plan/measured_times.h"
#include "plan/plan_verifier.h"
#include "plan/resolve_options.h"
#include "plan/simulator.h"
#include "runtime/executor.h"
#include "runtime/op_evaluator.h"
#include "session/asker.h"
#include "session/checks.h"
#include "session/compiler.h"
#include "session/cpu_check.h"
#include "session/exclusive_session.h"
#include "session/graph_checks.h"
#include "session/hidden_states.h"
#include "session/host_room.h"
#include "session/open_device.h"
#include "session/replanner.h"
#include "session/run_report.h"
#include "session/signature_key.h"
#include "session/step_programs.h"

namespace millrace {
namespace {

double Now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Of one signature, planned for several values: programs and executors, unless they are small together (step_programs.h); and programs of all,
// beside those that UsePlan was given.
constexpr size_t kMaxProgramsByValue = 8;
constexpr size_t kMaxExecutorsByValue = 8;
constexpr size_t kMaxNodesByValue = 32768;
constexpr size_t kMaxPrograms = 64;
// That ask: of a loop those of the first powers of two of turns, and some that were told.
constexpr size_t kMaxAsking = 16;
// So many steps with the same answers make it likely that they are those of the next.
constexpr int64_t kStepsAlike = 3;

class SessionImpl final : public Session {
 public:
  // No `devices` where nothing can run.
  SessionImpl(std::shared_ptr<const Graph> graph, SessionOptions options, std::vector<std::unique_ptr<RuntimeDevice>> devices)
      : shared_graph_(std::move(graph)),
        options_(std::move(options)),
        ops_(options_.ops ? *options_.ops : OpRegistry::Builtin()),
        kernels_(options_.kernels ? *options_.kernels : CpuKernels()),
        devices_(std::move(devices)),
        host_(options_.planning.host_memory_bytes),
        variables_(&host_),
        kernel_cache_(Registries()),
        compiler_({graph_, options_, ops_, kernels_, *Registries()[0], kernel_cache_}) {
    if (!devices_.empty()) host_.set_listener(devices_[0]->host_memory_listener());
  }

  absl::Status Init() {
    MR_RETURN_IF_ERROR(CheckOptions(options_));
    MR_RETURN_IF_ERROR(CheckOps(ops_));
    MR_RETURN_IF_ERROR(CheckNodeIds(graph_));
    MR_RETURN_IF_ERROR(CheckAttrsOf(graph_));
    if (options_.profile != nullptr) MR_RETURN_IF_ERROR(CheckProfileIsOf(graph_, *options_.profile));
    options_.machine = PacedMachine(options_);
    if (!options_.disk.empty()) MR_RETURN_IF_ERROR(OpenDisk());
    if (!devices_.empty()) {
      runner_ = MakeTbbTaskRunner(options_.threads);
      options_.threads = runner_->threads();  // of kernels, which measured times are told with
      constexpr int kThreadsOfDevice = 4;  // lanes, of which the caller's is one, and planning again
      MR_RETURN_IF_ERROR(CheckThreads(options_.threads - 1 + kThreadsOfDevice * static_cast<int>(devices_.size())));
      options_.machine = MachineOf(*devices_[0], options_.machine);
    }
    return OfferArenas();
  }

  absl::Status Run(const Feeds& feeds, const std::vector<std::string>& fetches,
                   const std::vector<std::string>& targets, std::vector<Tensor>* outputs) override {
    if (devices_.empty()) {
      return absl::FailedPreconditionError("the null device only plans; run on --device=cpu");
    }
    last_run_.changed_variables.clear();  // whatever refuses this step before it begins
    FeedTypes types;
    for (const auto& [name, tensor] : feeds) types.emplace(name, tensor.type());
    std::map<std::string, Tensor> by_tensor;
    for (const auto& [name, tensor] : feeds) by_tensor.emplace(TensorNameOf(name), tensor);
    SignatureKey key{types, fetches, targets, {}};
    seconds_asking_ = 0;
    MR_ASSIGN_OR_RETURN(StepProgram* program, FindReady(key, by_tensor));
    MR_RETURN_IF_ERROR(SwitchPlan(*program));
    MR_RETURN_IF_ERROR(EnsureExecutor(*program));
    std::vector<Tensor> ordered;
    for (const PlanFeed& feed : program->plan->feeds) ordered.push_back(by_tensor.at(feed.name));
    std::vector<Tensor> fetched;
    StepStats stats;
    program->executor->set_recording(program->replanner->WantsTimes());
    const double start = Now();
    const absl::Status status = program->executor->RunStep(ordered, &fetched, &stats);
    const double seconds = Now() - start + seconds_asking_;
    AddMeasuredStep(seconds, status, stats, fetched, options_.machine.tensor_alignment_bytes, &last_run_);
    if (options_.trace) last_run_.trace = stats.trace;
    MR_RETURN_IF_ERROR(status);
    ++program->steps;
    Measure(*program, stats, seconds, key);
    if (outputs != nullptr) *outputs = std::move(fetched);
    return absl::OkStatus();
  }

  absl::StatusOr<std::shared_ptr<const ExecutionPlan>> Plan(const FeedTypes& feeds,
                                                            const std::vector<std::string>& fetches,
                                                            const std::vector<std::string>& targets) override {
    SignatureKey key{feeds, fetches, targets, {}};
    MR_ASSIGN_OR_RETURN(StepProgram* program, FindOrCompile(key, planned_feeds_));
    return program->plan;
  }

  void PlanWithFeeds(const Feeds& values) override {
    for (const auto& [name, tensor] : values) planned_feeds_[TensorNameOf(name)] = tensor;
  }

  absl::Status UsePlan(std::shared_ptr<const ExecutionPlan> plan, const FeedTypes& feeds,
                       const std::vector<std::string>& fetches, const std::vector<std::string>& targets) override {
    if (plan == nullptr) return absl::InvalidArgumentError("there is no plan");
    if (const absl::Status whole = VerifyPlan(*plan); !whole.ok()) return absl::InvalidArgumentError(whole.message());
    MR_RETURN_IF_ERROR(CheckPlanIsOf(*plan, compiler_.GraphFingerprint(), targets));
    MR_RETURN_IF_ERROR(CheckPlanFeeds(*plan, feeds));
    MR_RETURN_IF_ERROR(CheckPlanFetches(*plan, fetches));
    MR_RETURN_IF_ERROR(CheckPlanVariables(*plan, variables_.Types()));
    MR_RETURN_IF_ERROR(CheckPlanInputs(*plan, ops_));
    MR_RETURN_IF_ERROR(CheckInstances(*plan, ops_));
    MR_RETURN_IF_ERROR(CheckPlanFits(*plan, options_.planning));
    MR_RETURN_IF_ERROR(OfferArenas());
    const SignatureKey key{feeds, fetches, targets, plan->feed_values, plan->answers};
    const absl::StatusOr<Compiled> here = compiler_.InCreationOrder(key, variables_.Types());
    MR_RETURN_IF_ERROR(CheckHasValues(here.status()));
    MR_RETURN_IF_ERROR(CheckSameSizes(*plan, here->plan));
    MR_RETURN_IF_ERROR(compiler_.CheckComputesTheGraph(*plan, here->plan, key, variables_.Types()));
    // Kernels last, which trust what a node says.
    MR_RETURN_IF_ERROR(CheckPlanScratch(*plan, devices_, kernel_cache_));
    auto program = std::make_unique<StepProgram>();
    program->summary = here->summary;
    program->plan = compiler_.NamedHere(std::move(plan));
    // It is the plan that was asked for: it stays.
    ReplanOptions stays = options_.replan;
    stays.mode = ReplanOptions::Mode::kOff;
    program->replanner = MakeReplanner(stays, *program);
    program->stays = true;
    FillPredicted(*program);
    const std::string base = ProgramKey({feeds, fetches, targets, {}});
    for (const auto& [name, value] : key.feed_values) by_value_[base].insert(name);
    programs_[ProgramKey(key)] = std::move(program);
    return absl::OkStatus();
  }

  absl::StatusOr<Graph> RewrittenGraph(const FeedTypes& feeds, const std::vector<std::string>& fetches,
                                       const std::vector<std::string>& targets) override {
    SignatureKey key{feeds, fetches, targets, {}};
    PassClock clock = MakeClock();
    MR_ASSIGN_OR_RETURN(Compiled compiled, CompileByValue(key, planned_feeds_, &clock));
    StepProgram program;
    program.passes = clock.passes();
    program.plan = std::make_shared<const ExecutionPlan>(std::move(compiled.plan));
    program.summary = std::move(compiled.summary);
    FillPredicted(program);
    return std::move(compiled.graph);
  }

  absl::StatusOr<Profile> MeasuredTimes() const override {
    if (measured_.nodes.empty()) {
      return absl::FailedPreconditionError(absl::StrCat(
          "no times have been measured: it takes ", options_.replan.steps_to_measure(options_.replays_steps()),
          " steps of one plan (other shapes, or loops of other turns, are other plans), and re-planning must not be off"));
    }
    return measured_;
  }

  const RunReport& last_run() const override { return last_run_; }
  const GraphSummary& graph_summary() const override { return summary_; }
  const Machine& machine() const override { return options_.machine; }

  absl::StatusOr<std::map<std::string, Tensor>> Variables() override { return variables_.Read(); }
  absl::Status ReadVariables(absl::FunctionRef<absl::Status(const std::string& name, Tensor value)> take) override {
    return variables_.ReadEach(take);
  }
  absl::Status SetVariable(const std::string& name, const Tensor& value) override {
    if (value.dtype() == DataType::kString) {
      return absl::UnimplementedError(absl::StrCat("variable '", name, "' is given ", value.type().ToString(),
                                                   "; strings are known only of variables that the graph assigns once, with constants"));
    }
    hidden_states_.WasSet(name);
    const StoredVariable* const former = variables_.Find(name);
    if (former != nullptr && !former->declared && former->type != value.type()) MR_RETURN_IF_ERROR(AbandonPlansOf(name, /*of_its_shape=*/true));
    return variables_.Set(name, value);
  }
  absl::StatusOr<std::map<std::string, Tensor>> NodeStates() override { return variables_.ReadStates(); }
  absl::Status SetNodeState(const std::string& node, const Tensor& state) override {
    MR_RETURN_IF_ERROR(CheckMayKeepState(graph_, node));
    return variables_.SetState(node, state);
  }

 private:
  std::vector<const KernelRegistry*> Registries() const {
    std::vector<const KernelRegistry*> registries;
    for (const auto& device : devices_) registries.push_back(&device->kernels());
    if (registries.empty()) registries.push_back(&kernels_);
    return registries;
  }

  absl::Status OpenDisk() {
    if (options_.planning.host_memory_bytes == 0) {
      return absl::InvalidArgumentError("a disk tier holds what the host budget has no room for, and there is no budget");
    }
    if (devices_.empty()) return absl::OkStatus();
    MR_ASSIGN_OR_RETURN(disk_, DiskTier::Create({.folder = options_.disk}, &host_));
    variables_.UseDisk(disk_.get());
    return absl::OkStatus();
  }

  // The arenas of budgets, which no executor uses then: kernels that are planned next are tried there, and take nothing beside it.
  absl::Status OfferArenas() {
    for (size_t d = 0; d < devices_.size(); ++d) {
      const int64_t budget_bytes = options_.planning.BudgetOf(static_cast<int32_t>(d));
      if (budget_bytes == 0 || !devices_[d]->tries_kernels()) continue;
      MR_RETURN_IF_ERROR(variables_.LeaveDevices());
      MR_RETURN_IF_ERROR(devices_[d]->OfferArena(budget_bytes));
    }
    return absl::OkStatus();
  }

  // Tells the passes as they begin.
  PassClock MakeClock() const {
    return PassClock([this](const std::string& pass) {
      VLOG(2) << "planning: " << pass;
      if (options_.planning_progress) options_.planning_progress(pass);
    });
  }

  absl::StatusOr<Compiled> CompileByValue(SignatureKey& signature, const std::map<std::string, Tensor>& values, PassClock* clock) {
    MR_RETURN_IF_ERROR(OfferArenas());
    return compiler_.CompileByValue(signature, values, variables_.Types(), clock);
  }

  // Hands the step that has just run to the replanner.
  void Measure(StepProgram& program, const StepStats& stats, double seconds, const SignatureKey& key) {
    const bool wanted = program.replanner->WantsTimes();
    program.replanner->AddStep(stats, seconds, wanted ? compiler_.Later(key, variables_.Types()) : nullptr);
    if (!wanted || program.replanner->WantsTimes() || program.replanner->times() == nullptr) return;
    std::map<std::string, NodeTime> nodes = program.replanner->times()->nodes;
    nodes.merge(measured_.nodes);
    measured_ = *program.replanner->times();
    measured_.nodes = std::move(nodes);
  }

  // Between steps: takes what planning with measured times has found. The executor that goes hands the variables' values
  // to their homes. A plan for which there is no room, or that cannot run, leaves the present one in force.
  absl::Status SwitchPlan(StepProgram& program) {
    if (program.replanner == nullptr) return absl::OkStatus();
    std::optional<Replanner::Replanned> found = program.replanner->Take();
    if (!found) return absl::OkStatus();
    if (found->seconds > 0) ++program.replans;
    if (found->switched) {
      MR_RETURN_IF_ERROR(variables_.Acquire(nullptr));
      const absl::Status room = CheckRoom(*found->plan);
      absl::StatusOr<std::unique_ptr<Executor>> executor = room.ok() ? MakeExecutor(found->plan) : room;
      absl::Status taken_over = executor.status();
      if (taken_over.ok()) {
        program.executor = nullptr;  // before the new one shares its constants
        taken_over = (*executor)->Activate();
      }
      if (!taken_over.ok()) {
        LOG(WARNING) << "a plan from measured times: " << taken_over << "; the present plan stays";
        FillPredicted(program);
        return absl::OkStatus();
      }
      program.executor = *std::move(executor);
      program.summary = found->summary;
      program.switched_after = program.steps;
    }
    program.replanner->Use(*found);
    program.measured_times = true;
    program.plan = found->plan;
    FillPredicted(program);
    return absl::OkStatus();
  }

  // Whether host memory holds it beside what other programs keep there.
  absl::Status CheckRoom(const ExecutionPlan& plan) const {
    std::vector<const ExecutionPlan*> others;
    for (const auto& [name, program] : programs_) others.push_back(program->plan.get());
    return CheckHostRoom(plan, others, host_, variables_, options_.planning.host_memory_bytes);
  }

  // A program whose hidden states are there and have room for its step.
  absl::StatusOr<StepProgram*> FindReady(SignatureKey& signature, const std::map<std::string, Tensor>& values) {
    const SignatureKey given = signature;
    for (;;) {
      signature = given;
      MR_ASSIGN_OR_RETURN(StepProgram* const program, FindOrCompile(signature, values));
      if (program->hidden == nullptr) {
        MR_ASSIGN_OR_RETURN(program->hidden, FindHiddenStateUses(*program->plan));
      }
      MR_ASSIGN_OR_RETURN(const bool outgrown, MakeReady(program->hidden));
      if (!outgrown) return program;
    }
  }

  // Whether it was planned for hidden states that were too small.
  absl::StatusOr<bool> MakeReady(std::shared_ptr<const HiddenStateUses> uses) {
    return hidden_states_.MakeReady(*uses, [this](const std::string& name) { return AbandonPlansOf(name); });
  }

  // The variable gets another type, or has got one: plans that use it are forgotten. FailedPrecondition where one was given by UsePlan.
  // `of_its_shape`: so are those that may have nothing of it but its shape.
  absl::Status AbandonPlansOf(const std::string& name, bool of_its_shape = false) {
    const auto uses = [&](const ExecutionPlan& plan) {
      return std::any_of(plan.variables.begin(), plan.variables.end(), [&](const PlanVariable& v) { return v.home_name() == name; });
    };
    for (const auto& [key, program] : programs_) {
      if (!program->stays || !uses(*program->plan)) continue;
      return absl::FailedPreconditionError(absl::StrCat("'", name, "' has, or needs, another size than in the plan that was given; plan again"));
    }
    MR_RETURN_IF_ERROR(variables_.Acquire(nullptr));
    std::erase_if(programs_, [&](const auto& entry) { return (of_its_shape && !entry.second->stays) || uses(*entry.second->plan); });
    std::erase_if(asking_, [&](const auto& entry) { return of_its_shape || uses(*entry.second.plan); });
    kernel_cache_.ForgetUnused();
    return absl::OkStatus();
  }

  absl::Status NotPlanned(const absl::Status& status, std::vector<PassTime> passes) {
    last_run_ = RunWithoutPlan(status, options_.planning, std::move(passes));
    return status;
  }

  // Fills in the feed values that planning takes of `values`.
  absl::StatusOr<StepProgram*> FindOrCompile(SignatureKey& signature, const std::map<std::string, Tensor>& values) {
    const std::string base = ProgramKey(signature);
    if (const auto by_value = by_value_.find(base); by_value != by_value_.end()) {
      for (const std::string& name : by_value->second) {
        const auto value = values.find(name);
        if (value != values.end()) signature.feed_values.insert(*value);
      }
    }
    if (const auto last = answers_.find(base); last != answers_.end() && last->second.found) {
      const absl::Status answered = AnswerFor(base, signature, values);
      if (!answered.ok()) return NotPlanned(answered, {});
    }
    absl::StatusOr<StepPrograms::iterator> found = FindMade(base, signature);
    if (!found.ok()) return NotPlanned(found.status(), {});
    if (*found == programs_.end()) {
      MR_ASSIGN_OR_RETURN(*found, AskAndCompile(base, signature, values));
    }
    StepProgram& program = *(*found)->second;
    program.last_use = ++uses_;
    program.siblings = absl::StrCat(base, ";");
    FillPredicted(program);
    return &program;
  }

  // The program that is there for what is known of the step; end() where none is, or more must be known to tell. Where UsePlan gave plans for
  // values no others are made for their signature: FailedPrecondition where the step is of none of those.
  absl::StatusOr<StepPrograms::iterator> FindMade(const std::string& base, const SignatureKey& step, bool all_known = false) {
    const auto made = programs_.find(ProgramKey(step));
    if (made != programs_.end()) return made;
    const std::string prefix = absl::StrCat(base, ";");
    absl::Status another;
    bool may_be = false;
    for (auto given = programs_.lower_bound(prefix); given != programs_.end() && absl::StartsWith(given->first, prefix); ++given) {
      if (!given->second->stays) continue;
      const ExecutionPlan& plan = *given->second->plan;
      if (CheckPlanValues(plan, step, true).ok()) return given;
      const absl::Status so_far = CheckPlanValues(plan, step, all_known);
      may_be = may_be || so_far.ok();
      another.Update(so_far);
    }
    if (!may_be) MR_RETURN_IF_ERROR(another);
    return programs_.end();
  }

  // The program of what is asked for, which may be there for what the answers are. Fills in what planning takes of `values`, and answers.
  absl::StatusOr<StepPrograms::iterator> AskAndCompile(const std::string& base, SignatureKey& signature, const std::map<std::string, Tensor>& values) {
    const double start = Now(), seconds_asking = seconds_asking_;
    PassClock clock = MakeClock();
    absl::StatusOr<Compiled> compiled = CompileByValue(signature, values, &clock);
    absl::Status answered;
    for (int tries = 0; tries < 2 && answered.ok() && NeedsAnswer(compiled.status()); ++tries) {
      if (!signature.answers.empty()) answers_[base].more_follows = true;
      answered = AnswerFor(base, signature, values);
      if (answered.ok()) {
        const absl::StatusOr<StepPrograms::iterator> there = FindMade(base, signature);
        if (!there.ok()) return NotPlanned(there.status(), clock.passes());
        if (*there != programs_.end()) return *there;
      }
      compiled = answered.ok() ? CompileByValue(signature, values, &clock) : NotAnswered(compiled.status(), answered);
      seconds_asking_ = seconds_asking;  // what this took is told with planning
    }
    if (compiled.ok()) {
      absl::Status allowed = FindMade(base, signature, /*all_known=*/true).status();
      allowed.Update(CheckRoom(compiled->plan));
      if (!allowed.ok()) compiled = allowed;
    }
    if (!compiled.ok()) return NotPlanned(compiled.status(), clock.passes());
    for (const std::string& note : compiled->placement_notes) LogOnce(note);
    if (!signature.feed_values.empty() || !signature.answers.empty()) {
      for (const auto& [name, value] : signature.feed_values) by_value_[base].insert(name);
      MR_RETURN_IF_ERROR(ForgetOldest(absl::StrCat(base, ";"), kMaxProgramsByValue, kMaxNodesByValue, variables_, kernel_cache_, programs_));
    }
    MR_RETURN_IF_ERROR(ForgetOldest("", kMaxPrograms, 0, variables_, kernel_cache_, programs_));
    auto program = std::make_unique<StepProgram>();
    program->plan_seconds = Now() - start;
    program->passes = clock.passes();
    program->plan = std::make_shared<const ExecutionPlan>(std::move(compiled->plan));
    program->summary = std::move(compiled->summary);
    program->measured_times = options_.profile != nullptr;
    program->replanner = MakeReplanner(options_.replan, *program);
    return programs_.insert_or_assign(ProgramKey(signature), std::move(program)).first;
  }

  // Fills in what planning must know of this step's own results.
  absl::Status AnswerFor(const std::string& base, SignatureKey& signature, const std::map<std::string, Tensor>& values) {
    if (devices_.empty()) return absl::FailedPreconditionError("there is no device to run it on");
    LastAnswers& last = answers_[base];
    signature.answers = last.answers;
    const double start = Now();
    const auto ask_for = [&](const Answers& so_far, int64_t guesses) -> absl::StatusOr<Asked> {
      SignatureKey asking{signature.feeds, signature.fetches, signature.targets, signature.feed_values, so_far, true, guesses};
      const absl::StatusOr<const AskingProgram*> program = ReadyToAsk(asking, values);
      // What the questions were asked by, the plan goes by, too.
      signature.feed_values.insert(asking.feed_values.begin(), asking.feed_values.end());
      if (!program.ok()) {
        if (so_far.empty() && guesses > 1) last.NotMade(guesses, program.status());
        return program.status();
      }
      if ((*program)->end != nullptr && (*program)->end->watches()) last.most_watched = std::max(last.most_watched, guesses);
      return RunAsking(**program, values, variables_);
    };
    const auto is_made = [&](int64_t guesses) {
      return asking_.count(ProgramKey({signature.feeds, signature.fetches, signature.targets, signature.feed_values, {}, true, guesses})) > 0;
    };
    const auto ask = [&](const Answers& so_far, int64_t guesses) { return AskOfMost(ask_for, is_made, last, so_far, guesses); };
    // Where no more was asked than how often one loop turns, planning tells whether there is more to ask.
    const auto enough = [&](const Answers& certain, bool ended) {
      if (ended && !last.more_follows) return true;
      return programs_.count(ProgramKey({signature.feeds, signature.fetches, signature.targets, signature.feed_values, certain})) > 0;
    };
    const absl::Status found = FindAnswers(ask, enough, last.steps_alike >= kStepsAlike, last.too_many, signature.answers);
    seconds_asking_ += Now() - start;
    last.Update(found, signature.answers);
    return found;
  }

  // What answers, with hidden states that are there. Fills in the feed values that planning takes.
  absl::StatusOr<const AskingProgram*> ReadyToAsk(SignatureKey& signature, const std::map<std::string, Tensor>& values) {
    if (options_.cancelled && options_.cancelled()) return absl::CancelledError("planning was interrupted");
    auto program = asking_.find(ProgramKey(signature));
    if (program == asking_.end()) {
      if (asking_.size() >= kMaxAsking) {
        MR_RETURN_IF_ERROR(variables_.Acquire(nullptr));
        asking_.erase(std::min_element(asking_.begin(), asking_.end(), [](const auto& a, const auto& b) {
          return a.second.last_use < b.second.last_use;
        }));
      }
      MR_ASSIGN_OR_RETURN(Compiled compiled, CompileByValue(signature, values, nullptr));
      AskingProgram made{.plan = std::make_shared<const ExecutionPlan>(std::move(compiled.plan)), .stopped = compiled.stopped};
      if (signature.answers.empty() && signature.guesses > 1 && devices_[0]->memory_bytes() == 0) made.end = std::make_unique<EndOfTurns>();
      MR_ASSIGN_OR_RETURN(made.executor, MakeExecutor(made.plan, /*undone=*/true, made.end.get()));
      if (made.end != nullptr) made.end->Watch(made.executor->program());
      MR_ASSIGN_OR_RETURN(made.hidden, FindHiddenStateUses(*made.plan));
      program = asking_.emplace(ProgramKey(signature), std::move(made)).first;
    }
    program->second.last_use = ++uses_;
    MR_ASSIGN_OR_RETURN(const bool outgrown, MakeReady(program->second.hidden));
    if (outgrown) return ReadyToAsk(signature, values);
    return &program->second;
  }

  std::unique_ptr<Replanner> MakeReplanner(const ReplanOptions& replan, const StepProgram& program) const {
    return std::make_unique<Replanner>(
        Replanner::Settings{replan, options_.machine, options_.link_gbps, options_.threads}, program.plan, program.summary);
  }

  absl::Status EnsureExecutor(StepProgram& program) {
    if (program.executor == nullptr) {
      MR_RETURN_IF_ERROR(StopOldest(program.siblings, kMaxExecutorsByValue, kMaxNodesByValue, variables_, kernel_cache_, programs_));
      MR_ASSIGN_OR_RETURN(program.executor, MakeExecutor(program.plan));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<std::unique_ptr<Executor>> MakeExecutor(std::shared_ptr<const ExecutionPlan> plan, bool undone = false,
                                                         LaneObserver* observer = nullptr) {
    ExecutorOptions options;
    options.observer = observer;
    options.undone = undone;
    options.seed = options_.seed;
    options.link_gbps = options_.link_gbps;
    options.disk_gbps = options_.disk_gbps;
    options.trace = options_.trace;
    std::vector<RuntimeDevice*> devices;
    for (const auto& device : devices_) devices.push_back(device.get());
    return Executor::Create(std::move(plan),
                            {.devices = devices,
                             .runner = runner_.get(),
                             .kernels = &kernel_cache_,
                             .host = &host_,
                             .variables = &variables_,
                             .disk = disk_.get(),
                             .infer_shapes = [this](OpInstance& i) { return InferShapes(i); }},
                            options);
  }

  absl::Status InferShapes(OpInstance& instance) const {
    const OpDef* def = ops_.Find(instance.op);
    if (def == nullptr) return absl::InternalError(absl::StrCat("op '", instance.op, "' is not known"));
    return InferOutputs(*def, instance);
  }

  void FillPredicted(const StepProgram& program) {
    summary_ = program.summary;
    last_run_ = PredictedRun(*program.plan);
    last_run_.plan_seconds = program.plan_seconds;
    last_run_.passes = program.passes;
    last_run_.replans = program.replans;
    last_run_.switched_after = program.switched_after;
    last_run_.measured_times = program.measured_times;
    last_run_.plan = program.plan;
    last_run_.disk_bytes_per_second = program.plan->tiered ? options_.machine.disk_bytes_per_second : 0;
    if (!options_.trace) return;
    const bool replanned = program.replanner != nullptr && program.replanner->times() != nullptr;
    const Profile* const times = replanned ? program.replanner->times() : options_.profile.get();
    const bool measured = program.measured_times && times != nullptr;
    absl::StatusOr<Simulation> simulation = measured ? SimulateWithMeasuredTimes(*times, options_.machine, options_.link_gbps, *program.plan)
                                                     : SimulatePlan(*program.plan, options_.machine);
    if (simulation.ok()) last_run_.simulated_trace = std::move(simulation->events);
  }

  const std::shared_ptr<const Graph> shared_graph_;
  const Graph& graph_ = *shared_graph_;
  SessionOptions options_;
  const OpRegistry& ops_;
  const KernelRegistry& kernels_;  // of the host
  std::vector<std::unique_ptr<RuntimeDevice>> devices_;
  HostMemory host_;
  std::unique_ptr<DiskTier> disk_;
  VariableStore variables_;
  HiddenStates hidden_states_{&variables_};
  KernelCache kernel_cache_;
  StepCompiler compiler_;
  std::unique_ptr<TaskRunner> runner_;
  Profile measured_;
  // Last: a planner that still runs uses what is above.
  StepPrograms programs_;
  std::map<std::string, AskingProgram> asking_;
  std::map<std::string, LastAnswers> answers_;  // by program key
  double seconds_asking_ = 0;                   // of the step that runs, beside planning
  std::map<std::string, std::set<std::string>> by_value_;  // by program key: feeds that planning takes by value
  std::map<std::string, Tensor> planned_feeds_;            // what Plan takes for them
  int64_t uses_ = 0;
  RunReport last_run_;
  GraphSummary summary_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Session>> Session::Create(Graph graph, SessionOptions options) {
  return Create(std::make_shared<const Graph>(std::move(graph)), std::move(options));
}

absl::StatusOr<std::unique_ptr<Session>> Session::Create(std::shared_ptr<const Graph> graph, SessionOptions options) {
  if (graph == nullptr) return absl::InvalidArgumentError("a session needs a graph, none was given");
  MR_RETURN_IF_ERROR(CheckCpu());
  MR_ASSIGN_OR_RETURN(std::vector<std::unique_ptr<RuntimeDevice>> devices,
                      OpenDevices(options, options.planning.num_devices()));
  ResolveBudgets(options);
  auto session = std::make_unique<SessionImpl>(std::move(graph), std::move(options), std::move(devices));
  MR_RETURN_IF_ERROR(session->Init());
  return MakeExclusive(std::move(session));
}

}  // namespace millrace
