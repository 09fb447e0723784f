// millrace sweep: partition sizes x budgets x strategies.
#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "cli/commands.h"
#include "cli/exit_status.h"
#include "cli/outputs.h"
#include "cli/settings.h"
#include "cli/train.h"
#include "millrace/status.h"
#include "report/sweep.h"

namespace millrace::cli {
namespace {

struct SweepBudget {
  std::string name;
  DeviceBudgets budgets;
};

absl::StatusOr<std::vector<int64_t>> PartitionSizes(const std::vector<std::string>& texts) {
  std::vector<int64_t> sizes;
  for (const std::string& text : texts) {
    int64_t size = 0;
    if (!absl::SimpleAtoi(text, &size) || size < 0) {
      return UsageError(absl::StrCat("--partition_sizes: \"", text, "\" is not a number of nodes (0: chosen)"));
    }
    sizes.push_back(size);
  }
  if (sizes.empty()) sizes.push_back(0);
  return sizes;
}

// Every budget resolved to bytes; one "none" (or the machine's) when none is given.
absl::StatusOr<std::vector<SweepBudget>> Budgets(const std::vector<Budget>& given, const Workload& workload,
                                                 const SessionOptions& session, const Environment& environment) {
  std::vector<SweepBudget> budgets;
  for (const Budget& budget : given) {
    MR_ASSIGN_OR_RETURN(DeviceBudgets resolved, ResolveBudget(budget, workload, session, environment));
    const bool none = resolved.total(1) == 0;
    budgets.push_back({budget.given() ? budget.text : none ? "none" : session.machine.name, std::move(resolved)});
  }
  return budgets;
}

class Sweep {
 public:
  Sweep(const Options& options, const Environment& environment, const Workload& workload)
      : options_(options), environment_(environment), workload_(workload) {}

  absl::Status Run(const std::vector<SweepBudget>& budgets, const std::vector<int64_t>& sizes) {
    const int64_t total =
        static_cast<int64_t>(options_.strategy.strategies.size() * budgets.size() * sizes.size());
    for (const std::string& strategy : options_.strategy.strategies) {
      for (const SweepBudget& budget : budgets) {
        for (const int64_t size : sizes) {
          MR_RETURN_IF_ERROR(RunPoint(strategy, budget, size));
          if (environment_.interrupted()) {
            const auto done = points_.size() - (absl::IsCancelled(points_.back().run.status) ? 1 : 0);
            return absl::CancelledError(absl::StrCat("interrupted after row ", done, " of ", total));
          }
          // A strategy without partitions by count gives the same for every size.
          if (!CutsBySize(strategy) || points_.back().partition_size != size) break;
        }
      }
    }
    return absl::OkStatus();
  }

  // A failure other than "does not fit", which is a finding here; then bits that differ; then nothing that fits.
  absl::Status Outcome() const {
    std::optional<std::pair<std::string, std::string>> first;
    absl::Status refused;
    for (const SweepPoint& point : points_) {
      const absl::Status& status = point.run.status;
      if (ExitStatus(status) == kExitDoesNotFit) {
        refused = status;
        continue;
      }
      MR_RETURN_IF_ERROR(status);
      const std::pair digests(point.run.variables_digest, point.run.fetch_digest);
      if (!first) first = digests;
      if (*first != digests) {
        return absl::InternalError(absl::StrCat(point.strategy, ", budget ", point.budget, ", partition size ",
                                                point.partition_size, " does not give the same bits as the points before"));
      }
    }
    return first ? absl::OkStatus() : refused;
  }

  const std::vector<SweepPoint>& points() const { return points_; }
  bool has_figures() const {
    return std::any_of(points_.begin(), points_.end(), [](const SweepPoint& point) { return point.run.status.ok(); });
  }

 private:
  absl::Status RunPoint(const std::string& strategy, const SweepBudget& budget, int64_t size) {
    MR_ASSIGN_OR_RETURN(SessionOptions session, MakeSessionOptions(options_, strategy));
    budget.budgets.Apply(session.planning);
    session.planning.partition_size = CutsBySize(strategy) ? size : 0;
    session.trace = false;
    const TrainResult result = session.device == "null" ? PlanOnly(workload_, session, environment_)
                                                        : Train(workload_, session, environment_);
    SweepPoint point{strategy, budget.name, session.planning.partition_size, result.run};
    if (result.run.plan != nullptr && result.run.plan->partition_size == 0) point.partition_size = 0;
    // Hundreds of plans of large graphs would not fit in memory.
    point.run.plan = nullptr;
    points_.push_back(std::move(point));
    return absl::OkStatus();
  }

  const Options& options_;
  const Environment& environment_;
  const Workload& workload_;
  std::vector<SweepPoint> points_;
};

}  // namespace

absl::Status SweepCommand(const Options& options, const Environment& environment) {
  if (options.strategy.strategies.empty()) return UsageError("no strategies: give --strategies=tensorflowmem,...");
  MR_ASSIGN_OR_RETURN(const SessionOptions session, MakeSessionOptions(options, "baseline"));
  for (const std::string& strategy : options.strategy.strategies) {
    MR_RETURN_IF_ERROR(MakeSessionOptions(options, strategy).status());
  }
  MR_ASSIGN_OR_RETURN(const std::vector<int64_t> sizes, PartitionSizes(options.sweep.partition_sizes));
  std::vector<Budget> given;
  for (const std::string& text : options.sweep.budgets) {
    MR_ASSIGN_OR_RETURN(const Budget budget, ParseBudget("budgets", text));
    given.push_back(budget);
  }
  if (given.empty()) given.push_back(Budget());
  MR_ASSIGN_OR_RETURN(Outputs outputs, Outputs::Open(options.output));
  OutputFile csv_file;
  MR_RETURN_IF_ERROR(csv_file.Open(options.sweep.csv_out));
  const FeedValues values = session.device == "null" ? FeedValues::kTypesOnly : FeedValues::kMade;
  MR_ASSIGN_OR_RETURN(const Workload workload, LoadWorkload(options.input, values, environment));
  environment.catch_interrupts();
  MR_ASSIGN_OR_RETURN(const std::vector<SweepBudget> budgets, Budgets(given, workload, session, environment));

  Sweep sweep(options, environment, workload);
  absl::Status run = sweep.Run(budgets, sizes), written;
  if (run.ok()) run = sweep.Outcome();
  const std::string csv = SweepCsv(sweep.points());
  if (csv_file.wanted()) {
    written = csv_file.Write(csv);
  } else {
    *environment.out << csv;
  }
  Report report{.machine = session.machine};
  if (outputs.wants_report()) report.graph = FactsOf({}, workload, session, environment);
  for (const SweepPoint& point : sweep.points()) report.runs.push_back(point.run);
  AddError(outputs.WriteReport(report, nullptr), written);
  const bool ended = run.ok() || (absl::IsCancelled(run) && sweep.has_figures());
  if (outputs.wants_plot() && ended) AddError(outputs.WritePlot(SweepPlot(sweep.points())), written);
  return RunThenWritten(run, written);
}

}  // namespace millrace::cli
