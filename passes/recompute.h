// Recompute: values that would be swapped are computed again, by copies of the nodes that made them, just before their
// far use.
//
//   order       x = f(w)   near(x)  …  far(x)              x swapped over the gap
//   becomes     x = f(w)   near(x)  …  x' = f(w)  far(x')
//
// Words: the *chain* of a value are the nodes that make it from *leaves*: variables, constants and feeds that nothing
// writes in between, and values that are used again at or after the far use, so that the copy prolongs no life.
// Values are the same bits: the chain's nodes have no state, and the leaves hold what they held.
//
// Needs: an ordered graph, its device graph, swap decisions for it. Establishes: a graph whose nodes `NAME/recompute`
// have a reason, ordered just before the operations that need them.
#ifndef MILLRACE_PASSES_RECOMPUTE_H_
#define MILLRACE_PASSES_RECOMPUTE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "millrace/graph.h"
#include "millrace/op.h"
#include "millrace/options.h"
#include "passes/access/storage.h"
#include "passes/access/swap_choice.h"
#include "passes/order/partition.h"

namespace millrace {

// A graph in one of its orders. Orders that are looked at one after another may share the graph.
struct OrderedGraph {
  std::shared_ptr<Graph> graph;
  Partitioning partitioning;
  InferenceResult inferred;
  int64_t partition_size = 0;
  int64_t recomputed_nodes = 0;
  std::vector<std::string> notes;  // what the order has to tell
};

struct RecomputeLimits {
  double fraction = 1;  // of the bytes of all candidates
  int max_depth = 3;    // nodes with a kernel in a chain, from a leaf to the value
};

// Recomputes what saves most transfer per second of compute, within the limits; nothing whose chain takes longer than its
// copy back. `device` and `choice` are of `ordered`.
OrderedGraph RecomputeSwapped(const OrderedGraph& ordered, const DeviceGraph& device, const SwapChoice& choice,
                              const Machine& machine, const RecomputeLimits& limits);

}  // namespace millrace

#endif  // MILLRACE_PASSES_RECOMPUTE_H_
