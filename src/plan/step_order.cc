#include "plan/step_order.h"

#include <algorithm>
#include <tuple>

#include "absl/strings/str_cat.h"

namespace millrace {

std::string_view LaneKindName(LaneKind kind) {
  switch (kind) {
    case LaneKind::kCompute: return "compute";
    case LaneKind::kToHost: return "to-host";
    case LaneKind::kToDevice: return "to-device";
    case LaneKind::kToDisk: return "to-disk";
    case LaneKind::kFromDisk: return "from-disk";
  }
  return "unknown";
}

std::vector<StepRef> StepsInOrder(const ExecutionPlan& plan) {
  const auto before = [](const StepRef& a, const StepRef& b) {
    return std::tie(a.position, a.lane, a.index) < std::tie(b.position, b.lane, b.index);
  };
  std::vector<StepRef> order, lane_steps, merged;
  for (int32_t l = 0; l < static_cast<int32_t>(plan.lanes.size()); ++l) {
    const Lane& lane = plan.lanes[l];
    lane_steps.clear();
    lane_steps.reserve(lane.num_steps());
    for (int64_t i = 0; i < lane.num_steps(); ++i) lane_steps.push_back({l, i, PositionOf(lane, i)});
    if (!std::is_sorted(lane_steps.begin(), lane_steps.end(), before)) {
      std::sort(lane_steps.begin(), lane_steps.end(), before);
    }
    if (order.empty()) {
      order.swap(lane_steps);
      continue;
    }
    merged.resize(order.size() + lane_steps.size());
    std::merge(order.begin(), order.end(), lane_steps.begin(), lane_steps.end(), merged.begin(), before);
    order.swap(merged);
  }
  return order;
}

const std::string& NameOf(const ExecutionPlan& plan, int32_t lane, int64_t index) {
  const Lane& l = plan.lanes[lane];
  return l.kind == LaneKind::kCompute ? plan.instances[l.compute[index].instance].name : l.copies[index].name;
}

std::string WordsFor(const ExecutionPlan& plan, const Lane& lane, int64_t index) {
  if (lane.kind != LaneKind::kCompute) return absl::StrCat("copy '", lane.copies[index].name, "' of ", lane.copies[index].tensor.str());
  const OpInstance& instance = plan.instances[lane.compute[index].instance];
  return absl::StrCat("node '", instance.name, "' (", instance.op, ")");
}

}  // namespace millrace
