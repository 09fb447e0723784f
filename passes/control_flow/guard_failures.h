// Guard failures: what may fail when it runs does nothing in a branch that is not taken.
//
// Both sides of a conditional run. The side that is not taken may get sizes that do not fit together, where they are known only
// when running (a Reshape to what is there only if the branch is taken, the gradient of what the other side gave), and
// values that a kernel refuses for which nothing harmless can stand (harmless_inputs.h), be it that there are no rows or classes
// to choose from. With the guard as one more input (kGuarded, millrace/guard.h) such a node is passed over.
//
// Needs: types, so that shape rules have seen the node as it is; what lower_switches said of the graph. Establishes: kGuarded on nodes
// of branches that have dynamic inputs or outputs, check values, or look up where there is nothing.
#ifndef MILLRACE_PASSES_CONTROL_FLOW_GUARD_FAILURES_H_
#define MILLRACE_PASSES_CONTROL_FLOW_GUARD_FAILURES_H_

#include <vector>

#include "millrace/graph.h"
#include "passes/control_flow/lower_switches.h"

namespace millrace {

// Whether the graph was changed.
bool GuardFailures(Graph& graph, const std::vector<GuardedNode>& guarded);

}  // namespace millrace

#endif  // MILLRACE_PASSES_CONTROL_FLOW_GUARD_FAILURES_H_
