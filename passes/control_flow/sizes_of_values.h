// Sizes of values: whether a graph may hold tensors whose sizes are known only when running.
//
// In a branch that is not taken such sizes may be those that the branch was there to avoid, so its nodes need guards
// (guard_failures.h). This looks before there are types, so it answers yes where it cannot tell.
#ifndef MILLRACE_PASSES_CONTROL_FLOW_SIZES_OF_VALUES_H_
#define MILLRACE_PASSES_CONTROL_FLOW_SIZES_OF_VALUES_H_

#include "millrace/graph.h"
#include "millrace/op.h"

namespace millrace {

// Of the graph and of the functions of its library.
bool MayHaveSizesOfValues(const Graph& graph, const OpRegistry& ops);

}  // namespace millrace

#endif  // MILLRACE_PASSES_CONTROL_FLOW_SIZES_OF_VALUES_H_
