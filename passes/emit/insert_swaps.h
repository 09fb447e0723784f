// Insert swaps: writes the swap decisions into the graph as SwapOut and SwapIn nodes, in the order and partitions
// in which they run, and wires the consumers to them. What `export` shows; the plan's copies carry these names.
//
//   a ──► f ┄┄┄┄┄┄► g        a ──► f ─► SwapOut(f) ─► SwapIn(f) ─► g
//
// SwapOut: input the tensor, attr "bytes". SwapIn: input the SwapOut (or the variable, constant or feed whose home
// is host memory), output the tensor again; a control edge to its anchor's predecessor says when it may begin.
//
// What another device sent comes in by its Recv the first time, and by a SwapIn of the Send when it left in between.
//
// Needs: DeviceGraph, Schedule. Establishes: a graph whose edges go through the copies; Node::partition and reason
// of every copy; the copy nodes' names per decision.
#ifndef MILLRACE_PASSES_EMIT_INSERT_SWAPS_H_
#define MILLRACE_PASSES_EMIT_INSERT_SWAPS_H_

#include <vector>

#include "absl/status/status.h"
#include "millrace/graph.h"
#include "passes/access/schedule.h"
#include "passes/access/storage.h"

namespace millrace {

// Copy nodes of decision k; invalid where it makes none.
struct SwapNodes {
  std::vector<NodeId> swap_out;
  std::vector<NodeId> swap_in;
};

SwapNodes InsertSwaps(Graph& graph, const DeviceGraph& device, const SwapChoice& choice, const Schedule& schedule);

// Every SwapIn takes a SwapOut or something at home on the host; copies do not cross partitions backwards.
absl::Status VerifySwapNodes(const Graph& graph, const OpRegistry& ops);

}  // namespace millrace

#endif  // MILLRACE_PASSES_EMIT_INSERT_SWAPS_H_
