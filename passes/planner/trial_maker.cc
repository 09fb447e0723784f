#include "passes/planner/trial_maker.h"

#include <algorithm>
#include <utility>

#include "passes/planner/lanes_left.h"

namespace millrace {
namespace {

// Of the budget: what the link brings in the time that bytes come back early, at most, in a large graph, whose step may move many
// times its memory. What comes much earlier takes the room of what is about to leave, and operations wait.
constexpr double kSlackOfLarge = 1.0 / 16;
// Graphs of more operations have that, and few of their selections are alike.
constexpr int32_t kLargeGraph = 50'000;
// Units of WorkBudget for deciding alone, of a decision.
constexpr int64_t kDecisionWork = 30;
constexpr double kNotKnown = std::numeric_limits<double>::infinity();

}  // namespace

TrialMaker::TrialMaker(const GapGraph& gaps, int64_t budget_bytes, WorkBudget& work)
    : gaps_(gaps), budget_(budget_bytes), small_(SmallBytes(gaps, budget_bytes)), work_(work) {}

int64_t TrialMaker::TargetBytes(const TrialSettings& settings) const {
  return static_cast<int64_t>(kTargets[settings.target] * static_cast<double>(budget_));
}

double TrialMaker::SlackSeconds(const TrialSettings& settings) const {
  const double slack = kAnchorSlack[settings.slack] * gaps_.compute_seconds();
  if (gaps_.num_operations() <= kLargeGraph) return slack;
  return std::min(slack, kSlackOfLarge * static_cast<double>(budget_) * gaps_.seconds_per_byte_in);
}

SelectionStarts* TrialMaker::starts() { return gaps_.num_operations() <= kLargeGraph ? &starts_ : nullptr; }

Trial TrialMaker::Make(const TrialSettings& settings, std::vector<int64_t> set_aside, double known_seconds) {
  const MemoryTarget target{TargetBytes(settings), std::move(set_aside), small_};
  Carrying carrying{settings.carried > 0};
  Selection selection = SelectGaps(gaps_, target, settings.window, settings.weights, carrying, starts());
  work_.Spend(selection.work);
  if (settings.carried > 0 && kCarried[settings.carried] > 0) {
    const double bytes = kCarried[settings.carried] * static_cast<double>(home_bytes_);
    carrying.late_home = WrittenLast(gaps_, selection, static_cast<int64_t>(bytes));
    selection = SelectGaps(gaps_, target, settings.window, settings.weights, carrying, starts());
    work_.Spend(selection.work);
  }
  Trial trial{settings, {}, DecisionsOf(gaps_, selection)};
  if (known_seconds < kNotKnown) {
    work_.Spend(LanesLeft::Work(gaps_, trial.decisions.size()) + kDecisionWork * static_cast<int64_t>(trial.decisions.size()));
    const double least = LanesLeft(gaps_, trial.decisions).LeastSeconds() + gaps_.LaunchSeconds(trial.decisions);
    if (least >= known_seconds) return Trial{settings, {.step_seconds = kNotKnown}, {}};
  }
  SetAnchors(gaps_, ChooseAnchors(gaps_, target.budget_bytes, selection, SlackSeconds(settings)), trial.decisions);
  trial.result = SimulateTrial(gaps_, {budget_, target.set_aside, 0}, trial.decisions);
  work_.Spend(TrialWork(gaps_, trial.decisions.size()));
  return trial;
}

}  // namespace millrace
