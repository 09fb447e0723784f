#include "stream/variable_marks.h"

#include <utility>

namespace millrace {
namespace {

bool MayHaveRun(const StepRef& step, const VariableMarks::Stop& stop) {
  return step.position < stop.position || (stop.began && step.position == stop.position);
}

}  // namespace

void VariableMarks::BeginStep() {
  const VariableState& state = program_.variable_state();
  const size_t variables = program_.plan().variables.size();
  initialized_at_start_.assign(state.initialized.get(), state.initialized.get() + variables);
  at_home_at_start_.assign(state.at_home.get(), state.at_home.get() + variables);
  begun_.clear();
}

void VariableMarks::MarkBegun(const StepRef& step) {
  const ProgramLane& lane = program_.lanes()[step.lane];
  begun_.push_back(step);
  program_.MarkWrites(lane, lane.compute[step.index], /*finished=*/false);
}

void VariableMarks::Mark(const StepRef& step) {
  const ProgramLane& lane = program_.lanes()[step.lane];
  if (lane.lane->kind != LaneKind::kCompute) {
    const CopyOp& copy = lane.copies[step.index];
    return program_.MarkCopy(copy, copy.carries_former_value);
  }
  program_.MarkWrites(lane, lane.compute[step.index], /*finished=*/true);
}

void VariableMarks::Forget() {
  begun_.clear();
  VariableState& state = program_.variable_state();
  for (size_t v = 0; v < initialized_at_start_.size(); ++v) {
    state.initialized[v] = initialized_at_start_[v];
    state.changed[v] = state.perhaps[v] = false;
    state.at_home[v] = at_home_at_start_[v];
  }
}

void VariableMarks::ForgetCopiesHome() {
  VariableState& state = program_.variable_state();
  for (size_t v = 0; v < at_home_at_start_.size(); ++v) {
    if (!at_home_at_start_[v]) state.at_home[v] = false;
  }
}

// What a copy home has carried then is the value from before the step, unless a kernel that ran has written it, or one that did not
// should have written all of it.
void VariableMarks::MarkAfterFaults(absl::Span<const StepRef> enqueued, absl::FunctionRef<Stop(int32_t lane)> stop_of) {
  const std::vector<StepRef> begun = std::exchange(begun_, {});
  Forget();
  std::vector<bool> differs(initialized_at_start_.size());
  for (const StepRef& step : enqueued) {
    const ProgramLane& lane = program_.lanes()[step.lane];
    if (lane.lane->kind != LaneKind::kCompute) {
      const CopyOp& copy = lane.copies[step.index];
      const int32_t v = copy.step->writes_variable;
      program_.MarkCopy(copy, copy.carries_former_value || v < 0 || !differs[v]);
      continue;
    }
    const Stop stop = stop_of(step.lane);
    const bool ran = MayHaveRun(step, stop);
    const ComputeStep& planned = lane.lane->compute[step.index];
    for (const int32_t v : planned.writes_variables) differs[v] = differs[v] || ran || planned.overwrites_variables;
    if (ran) program_.MarkWrites(lane, lane.compute[step.index], /*finished=*/step.position != stop.position);
  }
  for (const StepRef& step : begun) {
    if (MayHaveRun(step, stop_of(step.lane))) MarkBegun(step);
  }
}

}  // namespace millrace
