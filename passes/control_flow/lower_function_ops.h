// Lower function ops: what calls a function in a way of its own is a While or a call.
//
//   For         a While that carries the number, the limit, the step and the values; an Assert that the limit is ahead
//   MapDefun    a While over the rows of what it maps, which are TensorLists, as tf.map_fn writes it; Asserts that all have as many
//   RemoteCall  a call: where nodes run is the planner's choice
//   BatchFunction  stays a call, of as many rows as it allows: the first one again in place of those that lack
//
// The functions of the library are looked through as well, so that calls and loops may hold such ops. The functions that loops
// need are added to it. A function that such an op calls, and that names no effects to be run, has all effects of its body run.
//
// Needs: nothing. Establishes: no such ops, but those that lack inputs, which are refused as unknown later, and those whose types or
// function are parameters of the function around them, which stay until its calls are inlined.
#ifndef MILLRACE_PASSES_CONTROL_FLOW_LOWER_FUNCTION_OPS_H_
#define MILLRACE_PASSES_CONTROL_FLOW_LOWER_FUNCTION_OPS_H_

#include <string>

#include "absl/functional/function_ref.h"
#include "millrace/graph.h"
#include "millrace/op.h"

namespace millrace {

bool IsFunctionOp(const std::string& op);

using OpPredicate = absl::FunctionRef<bool(const std::string& op)>;

// `writes`: whether an op, which `ops` may not have yet, changes variables, tables, queues or accumulators (shapes/effects.h).
// Whether the graph or its functions changed.
bool LowerFunctionOps(Graph& graph, const OpRegistry& ops, OpPredicate writes);

}  // namespace millrace

#endif  // MILLRACE_PASSES_CONTROL_FLOW_LOWER_FUNCTION_OPS_H_
