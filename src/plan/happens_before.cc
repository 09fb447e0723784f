#include "plan/happens_before.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "plan/plan_text.h"

namespace millrace {
namespace {

// Clocks along one lane. A group starts from what was known before it; all of it is known after.
struct LaneState {
  std::vector<int32_t> before_group;
  std::vector<int32_t> after;
  int32_t group = 0;
};

absl::Status CheckWait(const ExecutionPlan& plan, const StepRef& step, const Wait& wait) {
  const bool there = wait.lane >= 0 && wait.lane < static_cast<int32_t>(plan.lanes.size()) && wait.count >= 0 &&
                     wait.count <= plan.lanes[wait.lane].num_steps();
  const char* problem = nullptr;
  if (!there) {
    problem = "waits for more steps than that lane has";
  } else if (wait.count > 0 && PositionOf(plan.lanes[wait.lane], wait.count - 1) >= step.position) {
    problem = "waits for a step that does not come before it";
  }
  if (problem == nullptr) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("plan: step ", StepToText(plan, step.lane, step.index), ": ", problem, " (",
                                          LaneName(plan, wait.lane), ">=", wait.count, ")"));
}

}  // namespace

absl::StatusOr<HappensBefore> HappensBefore::Create(const ExecutionPlan& plan, const std::vector<StepRef>& order) {
  HappensBefore result;
  const int32_t n = result.num_lanes_ = static_cast<int32_t>(plan.lanes.size());
  for (const Lane& lane : plan.lanes) result.clocks_.emplace_back(lane.num_steps() * n);
  std::vector<LaneState> lanes(n, {std::vector<int32_t>(n, 0), std::vector<int32_t>(n, 0), 0});
  std::vector<int64_t> next(n, 0);
  for (size_t i = 0; i < order.size(); ++i) {
    const StepRef& step = order[i];
    if (step.index != next[step.lane]++ || (i > 0 && order[i - 1].position == step.position)) {
      return absl::InternalError(absl::StrCat("plan: step ", StepToText(plan, step.lane, step.index),
                                              ": its position repeats or does not rise along its lane"));
    }
    const Lane& lane = plan.lanes[step.lane];
    LaneState& state = lanes[step.lane];
    const int32_t group = lane.kind == LaneKind::kCompute ? lane.compute[step.index].group : 0;
    if (group == 0 || group != state.group) state.before_group = state.after;
    state.group = group;
    int32_t* clock = &result.clocks_[step.lane][step.index * n];
    std::copy(state.before_group.begin(), state.before_group.end(), clock);
    for (const Wait& wait : WaitsOf(lane, step.index)) {
      absl::Status valid = CheckWait(plan, step, wait);
      if (!valid.ok()) return valid;
      if (wait.count == 0) continue;
      // What the awaited step knew when it started, and that it and those before it on its lane are done.
      const int32_t* other = &result.clocks_[wait.lane][(wait.count - 1) * n];
      for (int32_t l = 0; l < n; ++l) clock[l] = std::max(clock[l], other[l]);
      clock[wait.lane] = std::max(clock[wait.lane], static_cast<int32_t>(wait.count));
    }
    for (int32_t l = 0; l < n; ++l) state.after[l] = std::max(state.after[l], clock[l]);
    state.after[step.lane] = static_cast<int32_t>(step.index) + 1;
  }
  return result;
}

}  // namespace millrace
