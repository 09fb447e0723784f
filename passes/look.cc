#include "passes/look.h"

#include <algorithm>
#include <utility>

#include "millrace/status.h"
#include "passes/plan_devices.h"

namespace millrace {
namespace {

// Units of WorkBudget for a node of what is looked at.
constexpr int64_t kLookWork = 300;

struct LeastSeconds {
  double fed = 0;      // of compute, and of feeds that no operation can hide: they come in when the step has begun
  double fetched = 0;  // and of fetches that none can hide: they go out when they are made
};

LeastSeconds LeastSecondsOf(const AccessGraph& access, const Machine& machine) {
  double end = 0, in = 0, out = 0;
  std::vector<bool> seen(access.storages.size(), false);
  auto fetch = access.fetches.begin();
  for (int32_t i = 0; i < access.num_operations(); ++i) {
    for (const Access& a : access.of(i)) {
      const StorageInfo& info = access.storages[a.storage];
      if (info.kind != StorageKind::kFeed || seen[a.storage]) continue;
      seen[a.storage] = true;
      in += static_cast<double>(info.size_bytes) / machine.to_device_bytes_per_second;
    }
    end = std::max(end, in) + access.seconds[i];
    if (fetch == access.fetches.end() || *fetch != i) continue;
    ++fetch;
    for (const Access& a : access.of(i)) {
      out = std::max(out, end) + static_cast<double>(access.storages[a.storage].size_bytes) / machine.to_host_bytes_per_second;
    }
  }
  return {end, std::max(end, out)};
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
    const LeastSeconds least = LeastSecondsOf(device.device.access, request.machine);
    const double compute = least.fetched, step = std::max(compute, device.choice.predicted_seconds);
    looked.fed_seconds = std::max({looked.fed_seconds, least.fed, device.timeline_seconds});
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
