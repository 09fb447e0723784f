#include "passes/planner/trial_maker.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <optional>
#include <utility>

#include "passes/planner/lanes_left.h"

namespace millrace {
namespace {

// Of the budget: what the link brings in the time that bytes come back early, at most, in a large graph, whose step may move many
// times its memory. What comes much earlier takes the room of what is about to leave, and operations wait.
constexpr double kSlackOfLarge = 1.0 / 16;
// Units of WorkBudget for deciding alone, of a decision.
constexpr int64_t kDecisionWork = 30;
// A trial that does not pack gives way where it reaches beyond the budget, by so much more than it must (relative, and in parts of the budget).
constexpr double kRelief = 1.2, kLeastRelief = 0.0005;
// Where that is dear, less room everywhere may cost less: so much of what reaches beyond the budget, at least.
constexpr double kLessEverywhere = 0.1;

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

Trial TrialMaker::Relieved(const Trial& trial, const std::vector<int64_t>& excess_bytes, std::vector<int64_t>& set_aside) {
  for (int32_t i = 0; i < gaps_.num_operations(); ++i) {
    if (excess_bytes[i] == 0) continue;
    const double more = kRelief * static_cast<double>(excess_bytes[i]) + kLeastRelief * static_cast<double>(budget_);
    const int64_t room = TargetBytes(trial.settings) - gaps_.working_set[i];
    set_aside[i] = std::min(set_aside[i] + static_cast<int64_t>(more), room);
  }
  Trial relieved = Make(trial.settings, set_aside);
  if (relieved.result.step_seconds <= kDearRelief * trial.result.step_seconds) return relieved;
  TrialSettings less = trial.settings;
  if (!LowerTarget(*std::max_element(excess_bytes.begin(), excess_bytes.end()), less)) return relieved;
  Trial everywhere = Make(less);
  if (everywhere.result.step_seconds >= relieved.result.step_seconds) return relieved;
  std::fill(set_aside.begin(), set_aside.end(), 0);
  return everywhere;
}

bool TrialMaker::LowerTarget(int64_t excess_bytes, TrialSettings& settings) const {
  const double most = kTargets[settings.target] - kLessEverywhere * static_cast<double>(excess_bytes) / static_cast<double>(budget_);
  std::optional<size_t> lower;
  for (size_t t = 0; t < std::size(kTargets); ++t) {
    if (kTargets[t] <= most && (!lower || kTargets[t] > kTargets[*lower])) lower = t;
  }
  if (!lower) return false;
  settings.target = *lower;
  return HasRoom(settings);
}

}  // namespace millrace
