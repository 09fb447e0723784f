#include "passes/planner/planned.h"

#include <algorithm>

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
constexpr double kLongLived[] = {-1, 0.02, 0.1, 0.3};  // of the step: PlacementPolicy's bounds, tried in turn
constexpr double kAnchorSlack = 0.05;    // of the step: how much earlier than necessary bytes may come back

class Portfolio {
 public:
  Portfolio(const GapGraph& gaps, int64_t budget_bytes) : gaps_(gaps), budget_(budget_bytes) {}

  std::vector<SwapDecision> Run() {
    const double goal = std::max(kHidden * gaps_.compute_seconds(), kNearBound * CutBound(gaps_, budget_));
    for (double window : kWindows) {
      Try(window, {});
      if (best_.step_seconds <= goal) return std::move(decisions_);
    }
    for (int round = 0; round < kCriticalRounds && best_.step_seconds > goal; ++round) {
      const TransferWeights weights = CriticalWeights(gaps_, best_);
      const double before = best_.step_seconds;
      for (double window : kCriticalWindows) Try(window, weights);
      if (best_.step_seconds > kLeastGain * before) break;
    }
    return std::move(decisions_);
  }

 private:
  void Try(double window, const TransferWeights& weights) {
    const Selection selection = SelectGaps(gaps_, budget_, window, weights);
    const std::vector<int32_t> anchors =
        ChooseAnchors(gaps_, budget_, selection, kAnchorSlack * gaps_.compute_seconds());
    std::vector<SwapDecision> decisions = DecisionsOf(gaps_, selection, anchors);
    TrialResult result = SimulateTrial(gaps_, budget_, decisions);
    if (tried_ && result.step_seconds >= best_.step_seconds * (1 - 1e-4)) return;
    tried_ = true;
    best_ = std::move(result);
    decisions_ = std::move(decisions);
  }

  const GapGraph& gaps_;
  const int64_t budget_;
  bool tried_ = false;
  TrialResult best_;
  std::vector<SwapDecision> decisions_;
};

// Packs the choice; true when it fits, and the addresses are in it then.
bool Pack(const AccessGraph& graph, int64_t budget_bytes, SwapChoice& choice) {
  MemoryAssignment memory = PackMemory(graph, BuildSchedule(graph, choice), choice, budget_bytes);
  if (memory.arena_bytes > budget_bytes) return false;
  choice.residence_offsets = std::move(memory.residence_offsets);
  choice.scratch_offsets = std::move(memory.scratch_offsets);
  return true;
}

}  // namespace

absl::StatusOr<SwapChoice> SwapPlanned(const AccessGraph& graph, const Machine& machine, int64_t budget_bytes) {
  SwapChoice choice = KeepEverything(graph);
  if (budget_bytes == 0 || Pack(graph, budget_bytes, choice)) return choice;
  const GapGraph gaps = FindGaps(graph, machine);
  const std::vector<SwapDecision> decisions = Portfolio(gaps, budget_bytes).Run();
  absl::StatusOr<Placement> best = absl::InternalError("nothing was placed");
  for (double long_lived : kLongLived) {
    absl::StatusOr<Placement> placed =
        PlaceDecisions(gaps, budget_bytes, decisions, {long_lived * gaps.compute_seconds()});
    if (placed.ok() && (!best.ok() || placed->step_seconds < best->step_seconds)) best = std::move(placed);
  }
  if (best.ok()) return std::move(best->choice);
  return SwapLeastRecentlyUsed(graph, budget_bytes);
}

}  // namespace millrace
