// Which step of a plan is surely done before which other starts, whatever the timing.
#ifndef MILLRACE_SRC_PLAN_HAPPENS_BEFORE_H_
#define MILLRACE_SRC_PLAN_HAPPENS_BEFORE_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "millrace/plan.h"
#include "plan/step_order.h"

namespace millrace {

// A vector clock per step: how many steps of each lane are done when it starts. Steps of one group on a lane may run
// at once, so they are not ordered among themselves.
class HappensBefore {
 public:
  // `order` is StepsInOrder(plan). Internal when positions do not rise along a lane or repeat, or a wait names a lane
  // or count that is not there or not earlier.
  static absl::StatusOr<HappensBefore> Create(const ExecutionPlan& plan, const std::vector<StepRef>& order);

  // Whether step `a` is done before step `b` starts.
  bool operator()(const StepRef& a, const StepRef& b) const {
    return clocks_[b.lane][b.index * num_lanes_ + a.lane] > a.index;
  }

 private:
  int32_t num_lanes_ = 0;
  std::vector<std::vector<int32_t>> clocks_;  // per lane: num_lanes entries per step
};

}  // namespace millrace

#endif  // MILLRACE_SRC_PLAN_HAPPENS_BEFORE_H_
