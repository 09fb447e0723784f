// Work and time of one run of a node, before anything is measured.
#ifndef MILLRACE_PASSES_ACCESS_RUN_COST_H_
#define MILLRACE_PASSES_ACCESS_RUN_COST_H_

#include "absl/status/statusor.h"
#include "millrace/op.h"
#include "millrace/options.h"

namespace millrace {

// What the cost rule of `def`, which has one, says of a node. Errors name the node: Internal where it throws or says
// numbers that are no work (less than none, not finite), ResourceExhausted where it finds no memory.
absl::StatusOr<Cost> RuleCost(const OpDef& def, const OpInstance& instance);
// Time of one run of a node on `machine` by its cost rule: max(flops / rate, bytes / rate) + launch.
absl::StatusOr<double> PredictSeconds(const OpDef& def, const OpInstance& instance, const Machine& machine);

}  // namespace millrace

#endif  // MILLRACE_PASSES_ACCESS_RUN_COST_H_
