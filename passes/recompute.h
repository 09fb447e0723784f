// Recompute: values that would be moved, or would take room, are computed again, by copies of the nodes that made them,
// just before their far use.
//
//   order       x = f(w)   near(x)  …  far(x)              x is away over the gap
//   becomes     x = f(w)   near(x)  …  x' = f(w)  far(x')
//
// Words: the *chain* of a value are the nodes that make it from *leaves*: variables, constants and feeds that nothing
// writes in between, and values that are used again at or after the far use, so that the copy prolongs no life.
// Values are the same bits: the chain's nodes have no state, and the leaves hold what they held.
//
// Needs: an ordered graph, its device graph, what to compute again (weigh_recompute.h). Establishes: a graph whose nodes
// `NAME/recompute` have a reason, ordered just before the operations that need them.
#ifndef MILLRACE_PASSES_RECOMPUTE_H_
#define MILLRACE_PASSES_RECOMPUTE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "millrace/graph.h"
#include "millrace/op.h"
#include "millrace/options.h"
#include "passes/access/storage.h"
#include "passes/order/partition.h"

namespace millrace {

// A graph in one of its orders. Orders that are looked at one after another may share the graph.
struct OrderedGraph {
  std::shared_ptr<Graph> graph;
  Partitioning partitioning;
  std::shared_ptr<const InferenceResult> inferred;  // orders of one graph share it
  int64_t partition_size = 0;
  int64_t recomputed_nodes = 0;
  std::vector<std::pair<NodeId, NodeId>> copies;  // what computes a value again, and the node that did so first
  std::vector<std::string> notes;  // what the order has to tell
  double looked_seconds = 0;       // of a step, as a quick plan has it
};

// The uses of a storage from operation `before` on.
struct FarUses {
  int32_t storage = 0;
  int32_t before = 0;
  bool operator==(const FarUses&) const = default;
};

struct Chain {
  bool possible = false;
  double seconds = 0;
  std::vector<int32_t> leaves;  // storages
};
// What it takes to compute again what these uses take, each as if it were alone. A chain has at most `max_depth` nodes with
// a kernel from a leaf to the value.
std::vector<Chain> FindChains(const OrderedGraph& ordered, const DeviceGraph& device, const std::vector<FarUses>& uses,
                              int max_depth);

// Computes these values again, but for those whose chains former ones took away: what is computed again is no leaf, and what
// is a leaf stays. `device` is of `ordered`.
OrderedGraph ComputeAgain(const OrderedGraph& ordered, const DeviceGraph& device, const std::vector<FarUses>& uses,
                          int max_depth);

}  // namespace millrace

#endif  // MILLRACE_PASSES_RECOMPUTE_H_
