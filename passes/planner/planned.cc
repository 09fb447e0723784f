#include "passes/planner/planned.h"

#include <algorithm>

#include "passes/assign_memory.h"
#include "passes/planner/gaps.h"
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
constexpr int kPackingRounds = 8;

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

// Packs the choice; true when it fits, and the addresses are in it then. `heap_bytes` says what it would take.
bool Pack(const AccessGraph& graph, int64_t budget_bytes, SwapChoice& choice, int64_t& heap_bytes) {
  MemoryAssignment memory = PackMemory(graph, BuildSchedule(graph, choice), choice, budget_bytes);
  heap_bytes = memory.arena_bytes;
  if (heap_bytes > budget_bytes) return false;
  choice.residence_offsets = std::move(memory.residence_offsets);
  choice.scratch_offsets = std::move(memory.scratch_offsets);
  return true;
}

}  // namespace

absl::StatusOr<SwapChoice> SwapPlanned(const AccessGraph& graph, const Machine& machine, int64_t budget_bytes) {
  SwapChoice choice = KeepEverything(graph);
  int64_t heap_bytes = 0;
  if (budget_bytes == 0 || Pack(graph, budget_bytes, choice, heap_bytes)) return choice;
  const GapGraph gaps = FindGaps(graph, machine);
  const int64_t largest = *std::max_element(gaps.working_set.begin(), gaps.working_set.end());
  int64_t target = budget_bytes;
  for (int round = 0; round < kPackingRounds && target >= largest; ++round) {
    choice = SwapChoice();
    choice.decisions = Portfolio(gaps, target).Run();
    if (Pack(graph, budget_bytes, choice, heap_bytes)) return choice;
    const double shrink = static_cast<double>(budget_bytes) / static_cast<double>(heap_bytes);
    target = static_cast<int64_t>(static_cast<double>(target) * std::min(0.995, shrink));
  }
  return SwapLeastRecentlyUsed(graph, budget_bytes);
}

}  // namespace millrace
