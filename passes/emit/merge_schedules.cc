#include "passes/emit/merge_schedules.h"

#include <limits>

namespace millrace {
namespace {

std::vector<int64_t> KeysOf(const DevicePlan& device, const std::vector<int64_t>& time) {
  std::vector<int64_t> keys;
  int64_t last = -1;
  for (const ScheduleItem& item : device.schedule.items) {
    int32_t operation = -1;
    if (item.kind == ScheduleItem::Kind::kOperation) operation = item.index;
    if (item.kind == ScheduleItem::Kind::kCopyIn) operation = device.choice.decisions[item.index].anchor;
    if (operation >= 0) last = time[device.device.operations[operation].nodes.back().node.value];
    keys.push_back(last);
  }
  return keys;
}

}  // namespace

std::vector<int32_t> MergeSchedules(const Graph& graph, const std::vector<NodeId>& order, const std::vector<DevicePlan>& devices) {
  if (devices.size() == 1) return std::vector<int32_t>(devices[0].schedule.items.size(), 0);
  std::vector<int64_t> time(graph.num_ids(), -1);
  for (size_t k = 0; k < order.size(); ++k) time[order[k].value] = static_cast<int64_t>(k);
  std::vector<std::vector<int64_t>> keys;
  size_t total = 0;
  for (const DevicePlan& device : devices) {
    keys.push_back(KeysOf(device, time));
    total += keys.back().size();
  }
  std::vector<int32_t> merged;
  merged.reserve(total);
  std::vector<size_t> next(devices.size(), 0);
  while (merged.size() < total) {
    int32_t first = -1;
    int64_t least = std::numeric_limits<int64_t>::max();
    for (size_t d = 0; d < devices.size(); ++d) {
      if (next[d] == keys[d].size() || keys[d][next[d]] >= least) continue;
      least = keys[d][next[d]];
      first = static_cast<int32_t>(d);
    }
    ++next[first];
    merged.push_back(first);
  }
  return merged;
}

}  // namespace millrace
