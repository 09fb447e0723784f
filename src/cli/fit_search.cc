#include "cli/fit_search.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "cli/exit_status.h"
#include "cli/train.h"
#include "millrace/status.h"
#include "passes/access/does_not_fit.h"
#include "passes/frugal_plans.h"
#include "passes/strategy.h"
#include "plan/disk_layout.h"

namespace millrace::cli {

absl::StatusOr<int64_t> LargestThatFits(int64_t start, int64_t most, const FitTest& fits) {
  int64_t fitting = 0, failing = most + 1;
  int64_t value = std::clamp<int64_t>(start, 1, most);
  while (failing - fitting > 1) {
    MR_ASSIGN_OR_RETURN(const bool fit, fits(value));
    (fit ? fitting : failing) = value;
    const bool doubling = failing == most + 1 && fit;
    value = doubling ? std::min(most, value * 2) : fitting + (failing - fitting) / 2;
    if (doubling && fitting == most) break;
  }
  return fitting;
}

absl::StatusOr<bool> Fits(const absl::Status& status) {
  if (status.ok()) return true;
  if (absl::IsResourceExhausted(status)) return false;
  return status;
}

TrainResult FirstPlan(const Workload& workload, SessionOptions session, const Environment& environment) {
  constexpr double kNoTime = 1e-9;
  session.planning.plan_seconds = kNoTime;
  return PlanTrial(workload, session, environment);
}

namespace {

// Of plans_left: where host memory was too small for a plan, others of which less leaves the devices were looked for, some by a search.
int64_t PlansMade(const RunReport& run) {
  constexpr int64_t kOthers = 5;
  return IsOfHostMemory(run.status) || (run.plan != nullptr && IsFrugal(*run.plan)) ? 1 + kOthers : 1;
}

}  // namespace

absl::StatusOr<FoundBudget> SmallestBudget(const Workload& workload, SessionOptions session, const Environment& environment,
                                           int64_t too_small, int64_t likely, int64_t& plans_left) {
  session.planning.device_memory_bytes_of.clear();
  const auto plan = [&](int64_t budget) {
    session.planning.device_memory_bytes = budget;
    RunReport run = FirstPlan(workload, session, environment).run;
    plans_left -= PlansMade(run);
    return run;
  };
  const auto fits = [&](int64_t budget) -> absl::StatusOr<bool> { return Fits(plan(budget).status); };
  int64_t fitting = likely, failing = std::max<int64_t>(too_small, 0);
  bool fit = false;
  if (likely > failing) {
    MR_ASSIGN_OR_RETURN(fit, fits(likely));
    if (!fit) failing = likely;
  }
  if (!fit) {
    const RunReport unlimited = plan(PlanningOptions::kNoLimit);
    MR_RETURN_IF_ERROR(unlimited.status);
    fitting = std::max<int64_t>(unlimited.predicted_peak_device_bytes, 1);
  }
  // Initialisers may need more.
  constexpr int kDoublings = 30;
  for (int i = 0; i < kDoublings && !fit && plans_left > 0; ++i) {
    if (fitting <= failing) fitting = 2 * failing;
    MR_ASSIGN_OR_RETURN(fit, fits(fitting));
    if (!fit) failing = fitting;
  }
  if (!fit) return absl::NotFoundError("no budget was found that is enough");
  // A need that was told is mostly the least: what is a little less is asked first, then the middle.
  bool edge = fitting == likely;
  while (fitting - failing > std::max<int64_t>(fitting / 100, 1) && plans_left > 0) {
    const int64_t below = edge ? fitting - std::max<int64_t>(fitting / 100, 1) : failing + (fitting - failing) / 2;
    edge = false;
    MR_ASSIGN_OR_RETURN(const bool enough, fits(below));
    (enough ? fitting : failing) = below;
  }
  return FoundBudget{fitting, fitting - failing <= std::max<int64_t>(fitting / 100, 1)};
}

namespace {

// Whether the graph leaves the first dimension of that feed open.
bool HasOpenBatch(const Workload& workload, const std::string& name, const TensorType& type) {
  const NodeId id = workload.graph->Find(name.substr(0, name.find(':')));
  if (!id.valid() || type.shape.rank() == 0) return false;
  const Shape declared = workload.graph->node(id).attrs.GetOr<Shape>("shape", Shape::UnknownRank());
  return declared.rank() <= 0 || declared.dim(0) < 0;
}

}  // namespace

int64_t PresentBatch(const Workload& workload) {
  int64_t batch = 1;
  for (const auto& [name, type] : workload.feed_types) {
    if (HasOpenBatch(workload, name, type)) batch = std::max(batch, type.shape.dim(0));
  }
  return batch;
}

Session::FeedTypes WithBatch(const Workload& workload, int64_t batch) {
  Session::FeedTypes types = workload.feed_types;
  bool open = false;
  for (auto& [name, type] : types) {
    if (!HasOpenBatch(workload, name, type)) continue;
    type.shape.set_dim(0, batch);
    open = true;
  }
  return open ? types : Session::FeedTypes();
}

namespace {

// The host memory that would do, above a disk if the session has one; 0 when none was found. `likely` may be enough without one.
int64_t SmallestHostMemory(const Workload& workload, const SessionOptions& session, const Environment& environment,
                           int64_t likely, int64_t& plans_left) {
  SessionOptions other = session;
  const auto fits = [&](int64_t bytes) {
    other.planning.host_memory_bytes = bytes;
    const RunReport run = FirstPlan(workload, other, environment).run;
    plans_left -= PlansMade(run);
    return run.status.ok();
  };
  // Without a disk first. Initialisers and states of nodes may need more than the plan of the steps, and plans of less memory less.
  other.disk.clear();
  int64_t failing = session.planning.host_memory_bytes, fitting = std::max(likely, failing + 1);
  bool fit = false;
  while (plans_left > 0 && !fit) {
    fit = fits(fitting);
    if (fit) break;
    failing = fitting;
    fitting *= 2;
  }
  if (!fit) return 0;
  if (!session.disk.empty()) {
    // The tier has a buffer of its own, and moves what it must. Beside it devices may be too small, whatever host memory there is.
    constexpr int kDoublings = 4;
    other.disk = session.disk;
    failing = session.planning.host_memory_bytes;
    fitting += kDiskBounceBytes;
    fit = false;
    for (int i = 0; i < kDoublings && plans_left > 0 && !fit; ++i) {
      fit = fits(fitting);
      if (!fit) fitting *= 2;
    }
    if (!fit) return 0;
  }
  while (plans_left > 0 && fitting - failing > fitting / 100) {
    const int64_t middle = failing + (fitting - failing) / 2;
    (fits(middle) ? fitting : failing) = middle;
  }
  return fitting;
}

// When host memory is what is missing: how much would do. The device's memory is not the question then.
std::vector<std::string> AdviseOnHost(const Workload& workload, const SessionOptions& session, const Environment& environment,
                                      int64_t& plans_left) {
  if (session.planning.host_memory_bytes == PlanningOptions::kNoLimit) return {};
  SessionOptions other = session;
  other.disk.clear();
  other.planning.host_memory_bytes = PlanningOptions::kNoLimit;
  const TrainResult unlimited = FirstPlan(workload, other, environment);
  if (!unlimited.run.status.ok() || unlimited.run.plan == nullptr) return {};
  std::vector<std::string> advice;
  const auto would_fit = [&](int64_t enough, const char* how) {
    if (enough == 0) return;
    advice.push_back(absl::StrCat("--host_memory=", enough, " (", FormatBytes(enough), ") would fit with ", session.planning.strategy, how));
  };
  const int64_t likely = unlimited.run.plan->host_bytes;
  would_fit(SmallestHostMemory(workload, session, environment, likely, plans_left), "");
  if (!session.disk.empty()) {
    other.planning.host_memory_bytes = session.planning.host_memory_bytes;
    const RunReport without = FirstPlan(workload, other, environment).run;
    plans_left -= PlansMade(without);
    if (without.status.ok()) {
      advice.push_back("without --disk it would fit");
    } else if (advice.empty()) {
      would_fit(SmallestHostMemory(workload, other, environment, likely, plans_left), " without --disk");
    }
  }
  SessionOptions tiered = session;
  tiered.device = "null";  // makes no file
  tiered.disk = "DIR";
  const bool would_do = session.disk.empty() && FirstPlan(workload, tiered, environment).run.status.ok();
  if (would_do) advice.push_back("--disk=DIR keeps in a file there what host memory has no room for");
  return advice;
}

}  // namespace

std::vector<std::string> Advise(const Workload& workload, const SessionOptions& session, const absl::Status& refused,
                                const Environment& environment) {
  constexpr int64_t kPlannedNodes = 200'000, kMostPlans = 32;
  int64_t plans_left = std::min<int64_t>(kPlannedNodes / std::max(workload.graph->num_nodes(), 1), kMostPlans);
  std::vector<std::string> advice;
  if (plans_left == 0) {
    const std::string planned = PlanningOptions().strategy;
    if (session.planning.strategy != planned) {
      advice.push_back(absl::StrCat("the graph is too large to try what would fit; --strategy=", planned, " needs least memory"));
    }
    return advice;
  }
  if (plans_left >= 4) advice = AdviseOnHost(workload, session, environment, plans_left);
  if (!advice.empty()) return advice;
  const std::string& strategy = session.planning.strategy;
  if (plans_left >= 4) {
    int64_t for_budget = plans_left / 2;
    plans_left -= for_budget;
    const int64_t likely = IsOfHostMemory(refused) ? 0 : NeededBytes(refused);
    const int64_t too_small = session.planning.device_memory_bytes_of.empty() ? session.planning.BudgetOf(0) : 0;
    const auto smallest = SmallestBudget(workload, session, environment, too_small, likely, for_budget);
    plans_left += for_budget;
    if (smallest.ok()) {
      advice.push_back(absl::StrCat("--device_memory=", smallest->bytes, " (", FormatBytes(smallest->bytes), ") would fit with ", strategy,
                                    smallest->smallest ? "" : "; at most that is needed: millrace fit --vary=budget finds the least"));
    }
  }
  // The default first: it mostly fits where anything does.
  std::vector<std::string> strategies = StrategyNames(), others;
  std::stable_partition(strategies.begin(), strategies.end(),
                        [](const std::string& name) { return name == PlanningOptions().strategy; });
  for (const std::string& name : strategies) {
    if (name == strategy || plans_left-- <= 0) continue;
    SessionOptions other = session;
    other.planning.strategy = name;
    if (FirstPlan(workload, other, environment).run.status.ok()) others.push_back(name);
  }
  if (!others.empty()) advice.push_back(absl::StrCat("this budget is enough for --strategy=", absl::StrJoin(others, " or ")));
  if (!WithBatch(workload, 1).empty()) {
    const int64_t present = PresentBatch(workload);
    Workload smaller = workload;
    smaller.plan = nullptr;
    smaller.feeds.clear();  // of another batch
    const auto largest = LargestThatFits(present / 2, present, [&](int64_t batch) -> absl::StatusOr<bool> {
      if (plans_left <= 0) return false;
      smaller.feed_types = WithBatch(workload, batch);
      const RunReport run = FirstPlan(smaller, session, environment).run;
      plans_left -= PlansMade(run);
      return Fits(run.status);
    });
    if (largest.ok() && *largest > 0) advice.push_back(absl::StrCat("a batch of ", *largest, " would fit with ", strategy));
  }
  return advice;
}

std::vector<std::string> AdviseOnLaterStep(const RunReport& run) {
  const int64_t needed = NeededBytes(run.status);
  if (needed == 0) return {};
  const char* const flag = IsOfHostMemory(run.status) ? "--host_memory=" : "--device_memory=";
  return {absl::StrCat("step ", run.step_seconds.size() + 1, " needs about ", flag, needed, " (", FormatBytes(needed), ") with ", run.strategy,
                       "; its sizes follow from the steps before it, so later ones may need more")};
}

absl::Status WithAdvice(const RunReport& run) {
  if (run.status.ok() || run.advice.empty()) return run.status;
  std::string message(run.status.message());
  for (const std::string& line : run.advice) absl::StrAppend(&message, "\nhint: ", line);
  return WithMessage(run.status, message);
}

}  // namespace millrace::cli
