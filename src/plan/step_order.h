// All steps of a plan in position order: what text, simulation and verification walk over.
#ifndef MILLRACE_SRC_PLAN_STEP_ORDER_H_
#define MILLRACE_SRC_PLAN_STEP_ORDER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "millrace/plan.h"

namespace millrace {

struct StepRef {
  int32_t lane = 0;
  int64_t index = 0;  // on the lane
  int64_t position = 0;
};

// Sorted by position, then lane and index. Linear when lanes are in position order, as they should be.
std::vector<StepRef> StepsInOrder(const ExecutionPlan& plan);

inline const StepWaits& WaitsOf(const Lane& lane, int64_t index) {
  return lane.kind == LaneKind::kCompute ? lane.compute[index].waits : lane.copies[index].waits;
}
inline double SecondsOf(const Lane& lane, int64_t index) {
  return lane.kind == LaneKind::kCompute ? lane.compute[index].predicted_seconds : lane.copies[index].predicted_seconds;
}
inline int64_t PositionOf(const Lane& lane, int64_t index) {
  return lane.kind == LaneKind::kCompute ? lane.compute[index].position : lane.copies[index].position;
}
// The node's name.
const std::string& NameOf(const ExecutionPlan& plan, int32_t lane, int64_t index);
// "node 'conv1' (Conv2D)" or "copy 'swap1' of conv1:0", for messages.
std::string WordsFor(const ExecutionPlan& plan, const Lane& lane, int64_t index);

}  // namespace millrace

#endif  // MILLRACE_SRC_PLAN_STEP_ORDER_H_
