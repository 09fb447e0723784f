#include "cli/fit_search.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "cli/train.h"
#include "millrace/status.h"
#include "passes/strategy.h"

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

absl::StatusOr<int64_t> SmallestBudget(const Workload& workload, SessionOptions session, const Environment& environment) {
  session.planning.device_memory_bytes = 0;
  session.planning.device_memory_bytes_of.clear();
  const TrainResult unlimited = PlanOnly(workload, session, environment);
  MR_RETURN_IF_ERROR(unlimited.run.status);
  int64_t fitting = std::max<int64_t>(unlimited.run.predicted_peak_device_bytes, 1), failing = 0;
  // Initialisers may need more than the steps.
  constexpr int kDoublings = 30;
  for (int i = 0; i < kDoublings; ++i) {
    session.planning.device_memory_bytes = fitting;
    MR_ASSIGN_OR_RETURN(const bool fit, Fits(PlanOnly(workload, session, environment).run.status));
    if (fit) break;
    failing = fitting;
    fitting *= 2;
  }
  while (fitting - failing > std::max<int64_t>(fitting / 100, 1)) {
    session.planning.device_memory_bytes = failing + (fitting - failing) / 2;
    MR_ASSIGN_OR_RETURN(const bool fit, Fits(PlanOnly(workload, session, environment).run.status));
    (fit ? fitting : failing) = session.planning.device_memory_bytes;
  }
  return fitting;
}

Session::FeedTypes WithBatch(const Workload& workload, int64_t batch) {
  Session::FeedTypes types = workload.feed_types;
  bool open = false;
  for (auto& [name, type] : types) {
    const NodeId id = workload.graph.Find(name.substr(0, name.find(':')));
    if (!id.valid() || type.shape.rank() == 0) continue;
    const Shape declared = workload.graph.node(id).attrs.GetOr<Shape>("shape", Shape::UnknownRank());
    if (declared.rank() > 0 && declared.dim(0) >= 0) continue;
    type.shape.set_dim(0, batch);
    open = true;
  }
  return open ? types : Session::FeedTypes();
}

std::vector<std::string> Advise(const Workload& workload, const SessionOptions& session, const Environment& environment) {
  std::vector<std::string> advice;
  const std::string& strategy = session.planning.strategy;
  const auto smallest = SmallestBudget(workload, session, environment);
  if (smallest.ok()) {
    advice.push_back(absl::StrCat("--device_memory=", *smallest, " (", FormatBytes(*smallest), ") would fit with ", strategy));
  }
  std::vector<std::string> others;
  for (const std::string& name : StrategyNames()) {
    SessionOptions other = session;
    other.planning.strategy = name;
    if (name != strategy && PlanOnly(workload, other, environment).run.status.ok()) others.push_back(name);
  }
  if (!others.empty()) advice.push_back(absl::StrCat("this budget is enough for --strategy=", absl::StrJoin(others, " or ")));
  if (!WithBatch(workload, 1).empty()) {
    const int64_t present = workload.feed_types.begin()->second.shape.rank() > 0
                                ? std::max<int64_t>(workload.feed_types.begin()->second.shape.dim(0), 1)
                                : 1;
    Workload smaller = {.graph = workload.graph.Clone(), .fetches = workload.fetches, .targets = workload.targets};
    const auto largest = LargestThatFits(present / 2, present, [&](int64_t batch) -> absl::StatusOr<bool> {
      smaller.feed_types = WithBatch(workload, batch);
      return Fits(PlanOnly(smaller, session, environment).run.status);
    });
    if (largest.ok() && *largest > 0) advice.push_back(absl::StrCat("a batch of ", *largest, " would fit with ", strategy));
  }
  return advice;
}

absl::Status WithAdvice(const RunReport& run) {
  if (run.status.ok() || run.advice.empty()) return run.status;
  std::string message(run.status.message());
  for (const std::string& line : run.advice) absl::StrAppend(&message, "\nhint: ", line);
  absl::Status status(run.status.code(), message);
  run.status.ForEachPayload([&](absl::string_view url, const absl::Cord& payload) { status.SetPayload(url, payload); });
  return status;
}

}  // namespace millrace::cli
