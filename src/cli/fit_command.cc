// millrace fit: the largest batch, depth, image or number of steps at a budget, or the smallest budget.
#include <algorithm>
#include <iterator>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "cli/commands.h"
#include "cli/exit_status.h"
#include "cli/feeds.h"
#include "cli/fit_search.h"
#include "cli/outputs.h"
#include "cli/train.h"
#include "glog/logging.h"
#include "millrace/status.h"
#include "models/models.h"
#include "report/summary.h"

namespace millrace::cli {
namespace {

// What a model can be varied by, and how far the search goes.
struct Dimension {
  std::string_view name;
  int64_t ModelOptions::*field;
  int64_t most;
};
constexpr Dimension kDimensions[] = {{"batch", &ModelOptions::batch, 1 << 20},
                                     {"depth", &ModelOptions::depth, 1 << 13},
                                     {"image_size", &ModelOptions::image_size, 1 << 14},
                                     {"steps_unrolled", &ModelOptions::steps_unrolled, 1 << 13},
                                     {"layers", &ModelOptions::layers, 1 << 10}};

// Of the dimensions those that the model has.
std::vector<std::string> DimensionsOf(const std::string& name) {
  std::vector<std::string> dimensions;
  for (const ModelInfo& model : Models()) {
    if (model.name != name) continue;
    for (const Dimension& each : kDimensions) {
      const auto& options = model.options;
      if (std::find(options.begin(), options.end(), each.name) != options.end()) dimensions.emplace_back(each.name);
    }
  }
  return dimensions;
}

// What --vary asks for: null for the budget. A graph varies by its batch only, a model by what its network has: others
// would change nothing, and fit up to the end of the search.
absl::StatusOr<const Dimension*> FindDimension(const std::string& vary, const std::string& model) {
  if (vary == "budget") return nullptr;
  const std::vector<std::string> has = model.empty() ? std::vector<std::string>{"batch"} : DimensionsOf(model);
  if (has.empty()) return AsUsageError(BuildModel(model, {}).status());
  if (std::find(has.begin(), has.end(), vary) == has.end()) {
    return UsageError(absl::StrCat("--vary=", vary, ": ", model.empty() ? "a graph" : absl::StrCat("the model ", model),
                                   " has no such size to search; expected budget, ", absl::StrJoin(has, ", ")));
  }
  return std::find_if(std::begin(kDimensions), std::end(kDimensions), [&](const Dimension& each) { return each.name == vary; });
}

// Some depths have no network: how many smaller ones are tried before the first that has.
constexpr int64_t kSmallerTries = 12;

// Batches that a graph takes are often the multiples of a number (of a Split, say), which divides the batch that it has.
class PossibleBatches {
 public:
  explicit PossibleBatches(int64_t possible) : possible_(possible) {}

  void Remove(int64_t impossible) { impossible_.push_back(impossible); }

  // The largest up to `most` that may be one; 0 where none may.
  int64_t AtMost(int64_t most) const {
    for (int64_t divisor = 1; divisor <= possible_; ++divisor) {
      const auto is_multiple = [&](int64_t batch) { return batch % divisor == 0; };
      if (is_multiple(possible_) && std::none_of(impossible_.begin(), impossible_.end(), is_multiple)) return most / divisor * divisor;
    }
    return 0;
  }

 private:
  int64_t possible_;
  std::vector<int64_t> impossible_;
};

// Searching takes many plans, and where there is no terminal nothing else shows that it goes on.
void TellTried(std::string_view what, const std::string& value) { LOG(INFO) << "fit: trying " << what << " " << value; }

class Fitter {
 public:
  Fitter(const Options& options, SessionOptions session, const Environment& environment)
      : options_(options), session_(std::move(session)), environment_(environment) {}

  absl::StatusOr<Workload> MakeModel(ModelOptions model) const {
    Workload workload;
    model.devices = std::max<int64_t>(model.devices, static_cast<int64_t>(session_.planning.devices.size()));
    MR_ASSIGN_OR_RETURN(Graph graph, BuildModel(options_.argument, model));
    workload.graph = std::make_shared<const Graph>(std::move(graph));
    workload.fetches = workload.fetch_names = {"loss:0"};
    workload.targets = {"train"};
    workload.init.targets = {"init"};
    MR_ASSIGN_OR_RETURN(workload.feed_types,
                        SyntheticFeedTypes(*workload.graph, workload.fetches, workload.targets, {}, {}));
    return workload;
  }

  absl::StatusOr<bool> Try(const Workload& workload) {
    TrainResult tried = FirstPlan(workload, session_, environment_);
    const absl::StatusOr<bool> fits = Fits(tried.run.status);
    if (fits.ok() && !*fits) refused_ = std::move(tried);
    return fits;
  }

  // What was found, planned in full.
  absl::Status PlanBest(const Workload& workload) {
    best_ = PlanOnly(workload, session_, environment_);
    return best_.run.status;
  }

  absl::StatusOr<int64_t> LargestOfModel(const Dimension& dimension) {
    ModelOptions model = options_.model;
    int64_t start = model.*dimension.field;
    for (const ModelInfo& info : Models()) {
      if (info.name == options_.argument && start == 0) start = info.defaults.*dimension.field;
    }
    // A value without a network fits where the next smaller one that has some does, and where there is none: larger ones may.
    int64_t largest = 0;
    MR_RETURN_IF_ERROR(LargestThatFits(start, dimension.most, [&](int64_t value) -> absl::StatusOr<bool> {
      const bool first = largest == 0 && smallest_refused_ == kNone;
      absl::Status impossible;
      for (int64_t v = value; v > (first ? value - kSmallerTries : largest) && v >= 1; --v) {
        if (v == smallest_refused_) return false;
        model.*dimension.field = v;
        const auto workload = MakeModel(model);
        if (!workload.ok() && !absl::IsInvalidArgument(workload.status())) return workload.status();
        impossible.Update(workload.status());
        if (!workload.ok()) continue;
        TellTried(dimension.name, std::to_string(v));
        MR_ASSIGN_OR_RETURN(const bool fits, Try(*workload));
        (fits ? largest : smallest_refused_) = v;
        return fits;
      }
      if (first) return AsUsageError(impossible);
      return true;
    }).status());
    if (largest == 0) return 0;
    model.*dimension.field = largest;
    MR_ASSIGN_OR_RETURN(const Workload workload, MakeModel(model));
    MR_RETURN_IF_ERROR(PlanBest(workload));
    return largest;
  }

  absl::StatusOr<int64_t> LargestBatchOf(Workload workload) {
    if (WithBatch(workload, 1).empty()) {
      return UsageError("--vary=batch: every placeholder of the graph has a fixed first dimension; export it with an open one, or "
                        "give a model: millrace fit NAME");
    }
    const int64_t start = PresentBatch(workload);
    int64_t largest = 0;
    PossibleBatches possible(start);
    MR_RETURN_IF_ERROR(LargestThatFits(start, kDimensions[0].most, [&](int64_t value) -> absl::StatusOr<bool> {
      const bool first = largest == 0 && smallest_refused_ == kNone;
      const PossibleBatches before = possible;
      bool impossible = false;
      int64_t batch = possible.AtMost(value);
      for (; batch > largest && (smallest_refused_ == kNone || batch < smallest_refused_); batch = possible.AtMost(value)) {
        workload.feed_types = WithBatch(workload, batch);
        TellTried("batch", std::to_string(batch));
        const absl::StatusOr<bool> fits = Try(workload);
        if (fits.ok()) (*fits ? largest : smallest_refused_) = batch;
        if (fits.ok() || first || !absl::IsInvalidArgument(fits.status())) return fits;
        possible.Remove(batch);
        impossible = true;
      }
      if (!impossible || batch > largest) return batch <= largest;
      // No multiples explain it: above what fits the graph takes no more, below the batch that it has it may need more.
      possible = before;
      return largest == 0;
    }).status());
    if (largest == 0) return 0;
    workload.feed_types = WithBatch(workload, largest);
    MR_RETURN_IF_ERROR(PlanBest(workload));
    return largest;
  }

  const TrainResult& best() const { return best_; }
  // The last that did not fit: where nothing does, the smallest.
  const TrainResult& refused() const { return refused_; }
  int64_t smallest_refused() const { return smallest_refused_; }

 private:
  const Options& options_;
  const SessionOptions session_;
  const Environment& environment_;
  TrainResult best_, refused_;
  static constexpr int64_t kNone = 0;
  int64_t smallest_refused_ = kNone;
};

absl::Status FitBudget(const Workload& workload, SessionOptions session, const Environment& environment, Outputs& outputs) {
  session.planning.device_memory_bytes_of.clear();
  int64_t plans_left = std::numeric_limits<int64_t>::max();
  Environment telling = environment;
  telling.create_session = [&](std::shared_ptr<const Graph> graph, SessionOptions options) {
    const int64_t bytes = options.planning.device_memory_bytes;
    TellTried("budget", bytes == PlanningOptions::kNoLimit ? "none" : FormatBytes(bytes));
    return environment.create_session(std::move(graph), std::move(options));
  };
  MR_ASSIGN_OR_RETURN(const FoundBudget found, SmallestBudget(workload, session, telling, 0, 0, plans_left));
  session.planning.device_memory_bytes = found.bytes;
  const TrainResult result = PlanOnly(workload, session, environment);
  const absl::Status written = outputs.WriteReport({.graph = result.graph, .machine = session.machine, .runs = {result.run}}, nullptr);
  if (!result.run.status.ok()) return RunThenWritten(result.run.status, written);
  *environment.out << "smallest device memory, within 1 %, with " << session.planning.strategy << ": "
                   << session.planning.device_memory_bytes << " bytes (" << FormatBytes(session.planning.device_memory_bytes)
                   << ")\n" << RunSummary(result.run);
  return written;
}

}  // namespace

absl::Status FitCommand(const Options& options, const Environment& environment) {
  MR_ASSIGN_OR_RETURN(SessionOptions session, MakePlanningOptions(options));
  const bool model = !options.argument.empty();
  if (model && !(options.input.graph.empty() && options.input.saved_model.empty() && options.input.onnx.empty())) {
    return UsageError(absl::StrCat("fit what: the model ", options.argument, " or the graph of --graph, --saved_model or --onnx; not both"));
  }
  MR_ASSIGN_OR_RETURN(const Dimension* const dimension, FindDimension(options.vary, options.argument));
  MR_ASSIGN_OR_RETURN(const Budget budget, ParseBudget("device_memory", options.engine.device_memory));
  const bool in_bytes = budget.bytes > 0 || !budget.bytes_of.empty();
  const bool of_machine = !budget.given() && session.machine.device_memory_bytes > 0;
  if (dimension != nullptr && !in_bytes && !of_machine) {
    return UsageError("at what budget: give --device_memory in bytes, or a --machine that has it");
  }
  MR_RETURN_IF_ERROR(CheckSizePerDevice(budget, session.planning.num_devices()));
  DeviceBudgets{budget.given() ? budget.bytes : session.machine.device_memory_bytes, budget.bytes_of}.Apply(session.planning);
  MR_ASSIGN_OR_RETURN(Outputs outputs, Outputs::Open(options.output));
  Fitter fitter(options, session, environment);
  Workload workload;
  if (!model) {
    MR_ASSIGN_OR_RETURN(workload, LoadWorkload(options.input, FeedValues::kTypesOnly, environment));
  }
  if (dimension == nullptr) {
    if (model) {
      MR_ASSIGN_OR_RETURN(workload, fitter.MakeModel(options.model));
    }
    return FitBudget(workload, session, environment, outputs);
  }
  MR_ASSIGN_OR_RETURN(const int64_t largest,
                      model ? fitter.LargestOfModel(*dimension) : fitter.LargestBatchOf(std::move(workload)));
  const std::string at = absl::StrCat(budget.bytes_of.empty() ? FormatBytes(session.planning.device_memory_bytes) : budget.text,
                                      " with ", session.planning.strategy);
  if (largest == 0) {
    const TrainResult& refused = fitter.refused();
    return RunThenWritten(
        WithMessage(refused.run.status, absl::StrCat("not even ", options.vary, " ", fitter.smallest_refused(), " fits ", at, ": ",
                                                     refused.run.status.message())),
        outputs.WriteReport({.graph = refused.graph, .machine = session.machine, .runs = {refused.run}}, nullptr));
  }
  const TrainResult& best = fitter.best();
  const absl::Status written = outputs.WriteReport({.graph = best.graph, .machine = session.machine, .runs = {best.run}}, nullptr);
  *environment.out << "largest " << options.vary << " that fits " << at << ": " << largest
                   << (largest == dimension->most ? ", where the search ends" : "") << "\n" << RunSummary(best.run);
  return written;
}

}  // namespace millrace::cli
