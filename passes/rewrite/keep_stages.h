// Keep staging areas: what Stage puts aside for Unstage is in a queue (keep_accumulators.h), which is found by its name. This pass declares
// it, so that those that use it take a handle, as those of queues do.
//
//   x ──► Stage {shared_name=A}, Unstage {shared_name=A}    becomes    _StagingArea {A} ──► Stage (of x, too), Unstage
#ifndef MILLRACE_PASSES_REWRITE_KEEP_STAGES_H_
#define MILLRACE_PASSES_REWRITE_KEEP_STAGES_H_

#include "absl/status/status.h"
#include "millrace/graph.h"
#include "millrace/op.h"
#include "passes/kernel_oracle.h"

namespace millrace {

// Needs: calls inlined, loops unrolled. `whole`: the graph that `graph` was pruned from, or `graph` itself; what fills an area may be the
// target of another run. Unimplemented names one whose elements have no shapes that are known.
absl::Status DeclareStagingAreas(Graph& graph, const Graph& whole, const OpRegistry& ops, KernelOracle& oracle);

}  // namespace millrace

#endif  // MILLRACE_PASSES_REWRITE_KEEP_STAGES_H_
