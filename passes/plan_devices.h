// Plan devices: the memory of each device, one after another, by the same code: storages, swaps, schedule, addresses.
//
// Needs: a prepared graph and a total order of its nodes. Establishes: a DevicePlan per device; SwapOut and SwapIn
// nodes in the graph.
#ifndef MILLRACE_PASSES_PLAN_DEVICES_H_
#define MILLRACE_PASSES_PLAN_DEVICES_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "millrace/graph.h"
#include "passes/device_plan.h"
#include "passes/partition.h"
#include "passes/prepare.h"
#include "passes/strategy.h"

namespace millrace {

// `graph` is prepared.graph as ordered by `partitioning`. ResourceExhausted when a device's budget is too small.
absl::StatusOr<std::vector<DevicePlan>> PlanDevices(const CompileRequest& request, const Strategy& strategy,
                                                    const Partitioning& partitioning,
                                                    const InferenceResult& inferred, Graph& graph);

}  // namespace millrace

#endif  // MILLRACE_PASSES_PLAN_DEVICES_H_
