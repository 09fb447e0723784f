#include "passes/planner/planned.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "passes/assign_memory.h"
#include "passes/planner/gaps.h"
#include "passes/planner/place.h"
#include "passes/planner/select_gaps.h"
#include "passes/planner/trial.h"
#include "passes/schedule.h"

namespace millrace {
namespace {

constexpr double kWindows[] = {1, 0.5, 2, 4, 0};
constexpr double kCriticalWindows[] = {1, 0.5, 2};
constexpr int kCriticalRounds = 3;
constexpr double kHidden = 1.002;        // step / compute at which there is nothing left to gain
constexpr double kNearBound = 1.01;      // step / cut bound, likewise
constexpr double kLeastGain = 0.999;     // a round must gain this much to be followed by another
constexpr double kAnchorSlack = 0.05;    // of the step: how much earlier than necessary bytes may come back
// Of the step: PlacementPolicy's bounds, tried in turn.
constexpr double kLongLived[] = {0.1, -1, 0.3, 0.02, 0.05, 0.2, 0.5};
constexpr size_t kQuickPolicies = 2, kPolicies = 4;
// Parts of the budget that trials may plan for, so that placing finds holes.
constexpr double kTargets[] = {0.97, 0.94, 0.9, 0.85, 0.8};
// Trials that are placed, the best first.
constexpr size_t kPlacedTrials = 3;
constexpr auto kNoDeadline = std::chrono::steady_clock::time_point::max();

// How many trials and placements a graph of n operations may take: what keeps planning within a second. A count, not
// a clock, so that plans do not depend on the machine's load.
int EvaluationsFor(int32_t operations, PlanEffort effort) {
  const int64_t limit = effort == PlanEffort::kQuick ? 4 : 100;
  return static_cast<int>(std::clamp<int64_t>(300'000 / std::max(operations, 1), 4, limit));
}

class Portfolio {
 public:
  Portfolio(const GapGraph& gaps, int64_t budget_bytes, const PlanLimits& limits)
      : gaps_(gaps),
        budget_(budget_bytes),
        effort_(limits.effort),
        deadline_(limits.deadline),
        goal_(std::max(kHidden * gaps.compute_seconds(), kNearBound * CutBound(gaps, budget_bytes))),
        left_(EvaluationsFor(gaps.num_operations(), limits.effort)) {}

  // ResourceExhausted when nothing could be placed.
  absl::StatusOr<Placement> Run() {
    TryWindows();
    if (effort_ == PlanEffort::kFull) TryCriticalWeights();
    PlaceTheBest();
    if (effort_ == PlanEffort::kFull || !best_.ok()) TrySmallerTargets();
    return std::move(best_);
  }

 private:
  struct Trial {
    double window = 0;
    TransferWeights weights;
    TrialResult result;
    std::vector<SwapDecision> decisions;
  };

  // Every phase leaves a share of the evaluations to the next.
  bool MayTry(int reserve) const {
    return left_ > reserve && (deadline_ == kNoDeadline || std::chrono::steady_clock::now() < deadline_);
  }

  Trial MakeTrial(double window, const TransferWeights& weights, int64_t target) {
    --left_;
    const Selection selection = SelectGaps(gaps_, target, window, weights);
    const std::vector<int32_t> anchors =
        ChooseAnchors(gaps_, target, selection, kAnchorSlack * gaps_.compute_seconds());
    Trial trial{window, weights, {}, DecisionsOf(gaps_, selection, anchors)};
    trial.result = SimulateTrial(gaps_, target, trial.decisions);
    return trial;
  }

  void Try(double window, const TransferWeights& weights) {
    Trial trial = MakeTrial(window, weights, budget_);
    const auto slower = [&](const Trial& other) {
      return trial.result.step_seconds < other.result.step_seconds * (1 - 1e-4);
    };
    trials_.insert(std::find_if(trials_.begin(), trials_.end(), slower), std::move(trial));
    if (trials_.size() > kPlacedTrials) trials_.pop_back();
  }

  double best_trial() const { return trials_.front().result.step_seconds; }

  void TryWindows() {
    for (double window : kWindows) {
      if (!trials_.empty() && (best_trial() <= goal_ || !MayTry(2))) return;
      Try(window, {});
    }
  }

  void TryCriticalWeights() {
    for (int round = 0; round < kCriticalRounds && best_trial() > goal_; ++round) {
      const TransferWeights weights = CriticalWeights(gaps_, trials_.front().result);
      const double before = best_trial();
      for (double window : kCriticalWindows) {
        if (!MayTry(3)) return;
        Try(window, weights);
      }
      if (best_trial() > kLeastGain * before) return;
    }
  }

  // Places `decisions` under policy p; notes how good the policy was.
  void Place(const std::vector<SwapDecision>& decisions, size_t p) {
    --left_;
    absl::StatusOr<Placement> placed =
        PlaceDecisions(gaps_, budget_, decisions, {kLongLived[p] * gaps_.compute_seconds()});
    if (!placed.ok()) {
      if (!best_.ok()) best_ = placed.status();
      return;
    }
    if (best_.ok() && placed->step_seconds >= best_->step_seconds * (1 - 1e-4)) return;
    best_ = std::move(placed);
    best_policy_ = p;
  }

  bool Done() const { return best_.ok() && best_->step_seconds <= goal_; }

  void PlaceTheBest() {
    const bool quick = effort_ == PlanEffort::kQuick || left_ < 30;
    const size_t policies = quick ? kQuickPolicies : std::size(kLongLived);
    for (size_t t = 0; t < trials_.size(); ++t) {
      // The first trial under all policies, the others under the best two so far.
      for (size_t p = 0; p < (t == 0 ? policies : kQuickPolicies); ++p) {
        if (Done() || (best_.ok() && !MayTry(0))) return;
        Place(trials_[t].decisions, t == 0 ? p : p == 0 ? best_policy_ : (best_policy_ + 1) % kPolicies);
      }
      if (quick) return;
    }
  }

  void TrySmallerTargets() {
    int64_t largest = 0;
    for (int64_t bytes : gaps_.working_set) largest = std::max(largest, bytes);
    for (double part : kTargets) {
      const auto target = static_cast<int64_t>(part * static_cast<double>(budget_));
      if (Done() || !MayTry(1) || target < largest) return;
      const double before = best_.ok() ? best_->step_seconds : 0;
      const size_t windows = left_ > 20 ? trials_.size() : 1;
      for (size_t t = 0; t < windows && MayTry(1); ++t) {
        const Trial trial = MakeTrial(trials_[t].window, trials_[t].weights, target);
        Place(trial.decisions, best_policy_);
        for (size_t p = 0; p < kPolicies && left_ > 20; ++p) {
          if (p != best_policy_) Place(trial.decisions, p);
        }
      }
      // Less memory only costs once the holes are there.
      if (before > 0 && best_->step_seconds >= before && part < 0.9) return;
    }
  }

  const GapGraph& gaps_;
  const int64_t budget_;
  const PlanEffort effort_;
  const std::chrono::steady_clock::time_point deadline_;
  const double goal_;
  int left_;
  std::vector<Trial> trials_;  // the fastest first
  absl::StatusOr<Placement> best_ = absl::InternalError("nothing was placed");
  size_t best_policy_ = 0;
};

// Packs the choice; true when it fits, and the addresses are in it then.
bool Pack(const AccessGraph& graph, int64_t budget_bytes, SwapChoice& choice) {
  MemoryAssignment memory = PackMemory(graph, BuildSchedule(graph, choice), choice, budget_bytes);
  if (memory.arena_bytes > budget_bytes) return false;
  choice.residence_offsets = std::move(memory.residence_offsets);
  choice.scratch_offsets = std::move(memory.scratch_offsets);
  return true;
}

void GiveReasons(std::vector<SwapDecision>& decisions) {
  for (SwapDecision& d : decisions) {
    if (d.reason.empty()) d.reason = absl::StrCat("idle for ", d.before - d.after, " operations");
  }
}

}  // namespace

absl::StatusOr<SwapChoice> SwapPlanned(const AccessGraph& graph, const Machine& machine, int64_t budget_bytes,
                                       const PlanLimits& limits) {
  SwapChoice choice = KeepEverything(graph);
  if (budget_bytes == 0) return choice;
  const GapGraph gaps = FindGaps(graph, machine);
  const bool fits = gaps.full.empty() || *std::max_element(gaps.full.begin(), gaps.full.end()) <= budget_bytes;
  if (fits && Pack(graph, budget_bytes, choice)) {
    choice.predicted_seconds = gaps.compute_seconds();
    return choice;
  }
  absl::StatusOr<Placement> best = Portfolio(gaps, budget_bytes, limits).Run();
  if (!best.ok()) return SwapLeastRecentlyUsed(graph, budget_bytes);
  GiveReasons(best->choice.decisions);
  best->choice.predicted_seconds = best->step_seconds;
  return std::move(best->choice);
}

}  // namespace millrace
