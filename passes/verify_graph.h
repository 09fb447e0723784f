// Between phases: what a graph is held to when one ends, so that later passes may rely on it. Each phase includes those above it.
//
//   phase      illegal from then on
//   kTyped     calls, loops, conditionals and all else that is planned away, but for ops that rewrites make again (_FusedConv2D); unknown ops; outputs
//              without a type or without bounds; edges to what is not there, a name of two nodes, cycles; fetches of anything but one tensor
//   kOrdered   two accesses of a variable, one of them a write, that no edges order; values that are read of a variable and used after the
//              next write, but where a reference's memory is what is read
//   kPlaced    devices that there are not; variables, constants and feeds on one; nodes that run elsewhere
//
// What crosses between devices is VerifySendRecv's, orders are VerifyPartitioning's, plans VerifyPlan's.
#ifndef MILLRACE_PASSES_VERIFY_GRAPH_H_
#define MILLRACE_PASSES_VERIFY_GRAPH_H_

#include <cstdint>

#include "absl/status/status.h"
#include "millrace/graph.h"
#include "millrace/op.h"

namespace millrace {

enum class GraphPhase { kTyped, kOrdered, kPlaced };

// Internal says behind which pass, `after`, which node is illegal, and why: the pass is to blame, not the graph's author. About linear in
// nodes and edges.
absl::Status VerifyPhase(const Graph& graph, const OpRegistry& ops, GraphPhase phase, const char* after, int32_t num_devices = 1);

}  // namespace millrace

#endif  // MILLRACE_PASSES_VERIFY_GRAPH_H_
