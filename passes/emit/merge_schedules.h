// Merge schedules: one order of the items of all devices, that of the operations' nodes; copies go with the operation beside which
// they stand.
//
// Needs: a total order of nodes, a Schedule per device.
#ifndef MILLRACE_PASSES_EMIT_MERGE_SCHEDULES_H_
#define MILLRACE_PASSES_EMIT_MERGE_SCHEDULES_H_

#include <cstdint>
#include <vector>

#include "millrace/graph.h"
#include "passes/device_plan.h"

namespace millrace {

// The device whose next item comes, for every item of all of them. `order`: of all nodes but the copies.
std::vector<int32_t> MergeSchedules(const Graph& graph, const std::vector<NodeId>& order, const std::vector<DevicePlan>& devices);

}  // namespace millrace

#endif  // MILLRACE_PASSES_EMIT_MERGE_SCHEDULES_H_
