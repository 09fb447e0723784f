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
#include "passes/order/partition.h"
#include "passes/prepare.h"
#include "passes/strategy.h"

namespace millrace {

// The machine as the policy has it: what leaves a device costs what the request says.
Machine WithCopyPrice(const CompileRequest& request);

// `graph` is a prepared graph as ordered by `partitioning`. ResourceExhausted when a device's budget is too small.
// With PlanEffort::kQuick only `device`, `gaps` and `choice` are made. `looked`: what that made of the same order, if that
// has been cut into partitions since; else empty. Aborted when its step is surely longer than limits.known_seconds.
absl::StatusOr<std::vector<DevicePlan>> DecideDevices(const CompileRequest& request, const Strategy& strategy,
                                                      const Partitioning& partitioning,
                                                      const InferenceResult& inferred, const PlanLimits& limits,
                                                      Graph& graph, std::vector<DevicePlan> looked = {});

// What a device has no memory for says which one that is, in plans for less memory than there is; -1 where it does not.
absl::Status OfDevice(absl::Status status, int32_t device);
int32_t DeviceOf(const absl::Status& status);

// Copies become nodes when all devices are decided: until then the graph's edges are those of the tensors.
absl::Status InsertCopies(const CompileRequest& request, std::vector<DevicePlan>& plans, Graph& graph);

}  // namespace millrace

#endif  // MILLRACE_PASSES_PLAN_DEVICES_H_
