// millrace compare: one table over strategies, and whether their results agree bit by bit.
#include <cstring>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "cli/commands.h"
#include "cli/exit_status.h"
#include "cli/outputs.h"
#include "cli/train.h"
#include "graph/digest.h"
#include "millrace/status.h"
#include "report/summary.h"

namespace millrace::cli {
namespace {

constexpr char kOverBudgetMark[] = " *";

bool SameBits(const std::vector<double>& a, const std::vector<double>& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(double)) == 0);
}

// By name. All variables of two strategies may be more than memory holds.
using Digests = std::map<std::string, std::string>;

Digests DigestsOf(const std::vector<Tensor>& tensors, const std::vector<std::string>& names) {
  Digests digests;
  for (size_t i = 0; i < tensors.size(); ++i) digests[names[i]] = TensorsDigest({tensors[i]});
  return digests;
}

// Appends what of `got` is missing, extra or different: the first few names.
void AddDifferences(const Digests& want, const Digests& got, std::vector<std::string>& differences) {
  constexpr size_t kMost = 3;
  size_t count = 0;
  const auto add = [&](const std::string& name) {
    if (++count <= kMost) differences.push_back(name);
  };
  for (const auto& [name, digest] : want) {
    const auto other = got.find(name);
    if (other == got.end() || digest != other->second) add(name);
  }
  for (const auto& [name, digest] : got) {
    if (want.count(name) == 0) add(name);
  }
  if (count > kMost) differences.push_back(absl::StrCat("and ", count - kMost, " more"));
}

constexpr char kReference[] = "reference", kEqual[] = "equal";
constexpr char kNothingRan[] = "-";  // --steps=0: what is the same are initial values

class Comparison {
 public:
  Comparison(const Options& options, const Environment& environment, const Workload& workload)
      : options_(options), environment_(environment), workload_(workload) {}

  // Runs every strategy, the first one that succeeds being the reference of the others.
  absl::Status Run(const DeviceBudgets& budgets) {
    std::vector<SessionOptions> sessions;  // a wrong name is found before anything runs
    for (const std::string& strategy : options_.strategy.strategies) {
      MR_ASSIGN_OR_RETURN(SessionOptions session, MakeSessionOptions(options_, strategy));
      sessions.push_back(std::move(session));
    }
    for (SessionOptions& session : sessions) {
      const std::string& strategy = session.planning.strategy;
      budgets.Apply(session.planning);
      Digests variables;
      const VariableSink keep = [&](const std::string& variable, const Tensor& value) { variables[variable] = TensorsDigest({value}); };
      TrainResult result = Train(workload_, session, environment_, keep);
      std::string name = strategy;
      if (strategy == "baseline" && ExitStatus(result.run.status) == kExitDoesNotFit && budgets.total(1) > 0) {
        // What the budget costs is measured against what it would be without one.
        DeviceBudgets().Apply(session.planning);
        TrainResult unlimited = Train(workload_, session, environment_, keep);
        if (unlimited.run.status.ok()) name += kOverBudgetMark;
        if (ExitStatus(unlimited.run.status) != kExitDoesNotFit) result = std::move(unlimited);
      }
      machine_ = result.machine;
      Add(std::move(name), std::move(result), std::move(variables));
      if (environment_.interrupted()) break;
    }
    return absl::OkStatus();
  }

  // `session` is baseline's: the table's facts are of the graph as it came, not as a strategy rewrote it.
  Report MakeReport(const SessionOptions& session) const {
    Report report;
    report.machine = machine_;
    TrainResult baseline;
    for (const Row& row : rows_) {
      if (row.result.run.strategy == "baseline" && row.result.run.plan != nullptr) baseline.graph = row.result.graph;
      report.runs.push_back(row.result.run);
    }
    report.graph = FactsOf(baseline, workload_, session, environment_);
    return report;
  }

  std::string Table() const {
    std::vector<ComparedRun> rows;
    bool over_budget = false, as_reference = false;
    for (const Row& row : rows_) {
      rows.push_back({&row.result.run, row.name, row.verdict});
      if (!absl::EndsWith(row.name, kOverBudgetMark)) continue;
      over_budget = true;
      as_reference |= row.verdict == kReference;
    }
    const char* const how = as_reference ? ", as the reference" : "";
    return absl::StrCat(ComparisonTable(rows), over_budget ? absl::StrCat("* does not fit the budget; ran without one", how, "\n") : "");
  }

  // The first failure; results that differ are one, and so are strategies that an interrupt left out.
  absl::Status Outcome() const {
    for (const Row& row : rows_) MR_RETURN_IF_ERROR(row.result.run.status);
    const size_t asked = options_.strategy.strategies.size();
    if (rows_.size() < asked) return absl::CancelledError(absl::StrCat("interrupted after strategy ", rows_.size(), " of ", asked));
    for (const Row& row : rows_) {
      if (row.verdict != kEqual && row.verdict != kReference && row.verdict != kNothingRan) {
        return absl::InternalError(absl::StrCat(row.name, " does not give the same bits as ", rows_[reference_].name));
      }
    }
    return absl::OkStatus();
  }

 private:
  // "equal", or what differs from the reference.
  std::string Verdict(const TrainResult& got, const Digests& variables) const {
    const TrainResult& want = rows_[reference_].result;
    const std::vector<std::string>& fetches = workload_.fetch_names;
    std::vector<std::string> differences;
    if (!SameBits(want.run.losses, got.run.losses)) differences.push_back("losses");
    AddDifferences(DigestsOf(want.fetched, fetches), DigestsOf(got.fetched, fetches), differences);
    AddDifferences(reference_variables_, variables, differences);
    return differences.empty() ? kEqual : absl::StrCat("DIFFERS: ", absl::StrJoin(differences, ", "));
  }

  struct Row {
    std::string name;
    TrainResult result;
    std::string verdict;
  };

  void Add(std::string name, TrainResult result, Digests variables) {
    std::string verdict;
    if (result.run.status.ok()) {
      const bool first = reference_ == kNone;
      std::string found = first ? kReference : Verdict(result, variables);
      const bool nothing = workload_.steps == 0 && (first || found == kEqual);
      verdict = nothing ? std::string(kNothingRan) : std::move(found);
      if (first) reference_ = rows_.size();
      if (first) reference_variables_ = std::move(variables);
    }
    rows_.push_back({std::move(name), std::move(result), std::move(verdict)});
  }

  static constexpr size_t kNone = static_cast<size_t>(-1);
  const Options& options_;
  const Environment& environment_;
  const Workload& workload_;
  Machine machine_;
  std::vector<Row> rows_;
  size_t reference_ = kNone;
  Digests reference_variables_;
};

}  // namespace

absl::Status CompareCommand(const Options& options, const Environment& environment) {
  if (options.strategy.strategies.empty()) return UsageError("no strategies: give --strategies=baseline,tensorflowmem,...");
  MR_ASSIGN_OR_RETURN(const SessionOptions session, MakeSessionOptions(options, "baseline"));
  MR_RETURN_IF_ERROR(CheckRuns(session));
  MR_ASSIGN_OR_RETURN(const Budget budget, ParseBudget("device_memory", options.engine.device_memory));
  MR_ASSIGN_OR_RETURN(Outputs outputs, Outputs::Open(options.output));
  MR_ASSIGN_OR_RETURN(const Workload workload, LoadWorkload(options.input, FeedValues::kMade, environment));
  environment.catch_interrupts();
  MR_ASSIGN_OR_RETURN(const DeviceBudgets budgets, ResolveBudget(budget, workload, session, environment));
  const int64_t budget_bytes = budgets.total(session.planning.num_devices());

  Comparison comparison(options, environment, workload);
  MR_RETURN_IF_ERROR(comparison.Run(budgets));
  const Report report = comparison.MakeReport(session);
  const RunReport* unswapped = nullptr;
  for (const RunReport& run : report.runs) {
    if (run.strategy == "baseline" && run.plan != nullptr) unswapped = &run;
  }
  const absl::Status written = outputs.WriteReport(report, unswapped);
  *environment.out << "graph: " << GraphLine(report.graph) << "\nbudget: "
                   << (budget_bytes == 0 ? "none" : FormatBytes(budget_bytes))
                   << (budget.percent > 0 ? absl::StrCat(", ", budget.text, " of baseline's predicted peak") : "") << "; "
                   << workload.steps << " steps, seed " << options.input.seed << "\n\n"
                   << comparison.Table();
  return RunThenWritten(comparison.Outcome(), written);
}

}  // namespace millrace::cli
