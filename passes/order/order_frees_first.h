// Order frees first: an order in which whatever gives back more memory than it takes runs as soon as it can.
//
//   base order      dy   dx = f(dy, w)   …   dw = g(a, dy)     the activation a is held, or comes back late
//   frees first     dy   dw = g(a, dy)   dx = f(dy, w)   …
//
// Gradients of weights, updates of variables and sums move up to their inputs; everything else keeps its place.
//
// Needs: inferred shapes, a topological order. Establishes: another one, in one partition.
#ifndef MILLRACE_PASSES_ORDER_ORDER_FREES_FIRST_H_
#define MILLRACE_PASSES_ORDER_ORDER_FREES_FIRST_H_

#include <vector>

#include "millrace/graph.h"
#include "millrace/op.h"
#include "passes/order/partition.h"

namespace millrace {

// `base` holds every node of `graph`, topological.
Partitioning FreesFirst(Graph& graph, const OpRegistry& ops, const std::vector<NodeId>& base);

}  // namespace millrace

#endif  // MILLRACE_PASSES_ORDER_ORDER_FREES_FIRST_H_
