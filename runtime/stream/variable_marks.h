// What a step on streams has done to the plan's variables: noted when its steps are enqueued, set right when kernels turn out to have
// failed.
#ifndef MILLRACE_RUNTIME_STREAM_VARIABLE_MARKS_H_
#define MILLRACE_RUNTIME_STREAM_VARIABLE_MARKS_H_

#include <cstdint>
#include <limits>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "plan/step_order.h"
#include "runtime/program.h"

namespace millrace {

// Writes Program::variable_state(). `program` outlives it.
class VariableMarks {
 public:
  explicit VariableMarks(const Program& program) : program_(program) {}

  // Before the first step is enqueued.
  void BeginStep();
  const std::vector<bool>& initialized_at_start() const { return initialized_at_start_; }

  // Its kernel was refused, alone or with others: of several launches those that write may have gone before.
  void MarkBegun(const StepRef& step);
  // The step has been enqueued: the kernels that follow on the stream see what it writes.
  void Mark(const StepRef& step);
  // Nothing has run.
  void Forget();
  // The copies of a device that was lost may have got anywhere: whose home was older than the device's value is lost, too.
  void ForgetCopiesHome();
  // Where kernels of a device stopped: those behind `position` have written nothing, and the one there not all of it; nothing at all unless
  // it `began`.
  struct Stop {
    int64_t position = std::numeric_limits<int64_t>::max();
    bool began = true;
  };
  // `stop_of`: of a lane's device. `enqueued`: all that was, in that order.
  void MarkAfterFaults(absl::Span<const StepRef> enqueued, absl::FunctionRef<Stop(int32_t lane)> stop_of);

 private:
  const Program& program_;
  std::vector<bool> initialized_at_start_, at_home_at_start_;
  std::vector<StepRef> begun_;  // and not enqueued as a whole
};

}  // namespace millrace

#endif  // MILLRACE_RUNTIME_STREAM_VARIABLE_MARKS_H_
