// Look: an order as a quick plan (PlanEffort::kQuick) of every device has it, by which a search compares orders.
//
// Orders of one graph may share it as long as they are looked at one after another: nodes' partitions are those of the last.
#ifndef MILLRACE_PASSES_LOOK_H_
#define MILLRACE_PASSES_LOOK_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "passes/access/swap_choice.h"
#include "passes/device_plan.h"
#include "passes/prepare.h"
#include "passes/recompute.h"
#include "passes/strategy.h"

namespace millrace {

struct Looked {
  OrderedGraph ordered;
  std::vector<int32_t> partitions;  // per node: other orders of the same graph have others
  std::vector<DevicePlan> devices;
  double step_seconds = 0;
  double compute_seconds = 0;       // with what feeds make it wait and how long fetches hang over: no step in this order is shorter
  double fed_seconds = 0;           // the same without fetches, which other orders may make earlier
};

// Shares the work of `limits`. Aborted where the step is surely longer than `known_seconds`.
absl::StatusOr<Looked> Look(const CompileRequest& request, const Strategy& strategy, const PlanLimits& limits, OrderedGraph ordered,
                            double known_seconds = kNotKnown);

// Gives the nodes the partitions that they were looked at with.
void UsePartitions(const Looked& looked);

// Partitions as `partition_size` asks for them, before anything is looked at: nodes of different partitions do not run at once.
void CutAsAsked(const CompileRequest& request, OrderedGraph& ordered);

}  // namespace millrace

#endif  // MILLRACE_PASSES_LOOK_H_
