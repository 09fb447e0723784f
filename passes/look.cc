#include "passes/look.h"

#include <algorithm>
#include <utility>

#include "millrace/status.h"
#include "passes/plan_devices.h"

namespace millrace {
namespace {

// Units of WorkBudget for a node of what is looked at.
constexpr int64_t kLookWork = 300;

// Compute seconds, and those of feeds that no operation can hide: they come in when the step has begun.
double WithFeeds(const AccessGraph& access, const Machine& machine) {
  double compute = 0, fed = 0, start = 0, most = 0;
  for (const double seconds : access.seconds) compute += seconds;
  std::vector<bool> seen(access.storages.size(), false);
  for (int32_t i = 0; i < access.num_operations(); ++i) {
    for (const Access& a : access.of(i)) {
      const StorageInfo& info = access.storages[a.storage];
      if (info.kind != StorageKind::kFeed || seen[a.storage]) continue;
      seen[a.storage] = true;
      fed += static_cast<double>(info.size_bytes) / machine.to_device_bytes_per_second;
      most = std::max(most, fed - start);
    }
    start += access.seconds[i];
  }
  return compute + most;
}

}  // namespace

absl::StatusOr<Looked> Look(const CompileRequest& request, const Strategy& strategy, const PlanLimits& limits, OrderedGraph ordered,
                            double known_seconds) {
  Graph& graph = *ordered.graph;
  PlanLimits quick = limits;
  quick.effort = PlanEffort::kQuick;
  quick.known_seconds = known_seconds;
  quick.work->Spend(kLookWork * graph.num_nodes());
  MR_RETURN_IF_ERROR(VerifyPartitioning(graph, ordered.partitioning));
  Looked looked;
  looked.partitions.reserve(graph.num_ids());
  for (int32_t i = 0; i < graph.num_ids(); ++i) looked.partitions.push_back(graph.node(NodeId{i}).partition);
  MR_ASSIGN_OR_RETURN(looked.devices, DecideDevices(request, strategy, ordered.partitioning, *ordered.inferred, quick, graph));
  double lost = 0;  // to copies
  for (const DevicePlan& device : looked.devices) {
    const double compute = WithFeeds(device.device.access, request.machine);
    const double step = std::max(compute, device.choice.predicted_seconds);
    looked.compute_seconds = std::max({looked.compute_seconds, compute, device.timeline_seconds});
    looked.step_seconds = std::max(looked.step_seconds, step);
    lost += step - compute;
  }
  // What one device waits for its copies, others may wait for it.
  if (looked.devices.size() > 1) looked.step_seconds = looked.compute_seconds + lost;
  looked.ordered = std::move(ordered);
  return looked;
}

void UsePartitions(const Looked& looked) {
  Graph& graph = *looked.ordered.graph;
  for (int32_t i = 0; i < graph.num_ids(); ++i) graph.mutable_node(NodeId{i}).partition = looked.partitions[i];
}

void CutAsAsked(const CompileRequest& request, OrderedGraph& ordered) {
  const int64_t size = request.options.partition_size;
  if (size > 0) CutEvery(*ordered.graph, request.options.num_devices(), size, ordered.partitioning);
  ordered.partition_size = size;
}

}  // namespace millrace
