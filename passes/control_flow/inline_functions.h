// Inline functions: puts the body of a called function in the place of the call, calls inside it too.
//
// A call is a PartitionedCall or StatefulPartitionedCall, or a node whose op is the name of a function of the library. So is a
// BatchFunction, which joins the rows of requests that come at a time: here is one. The body's nodes are named call/node and stand
// where the call stood, so that creation order tells the same story as before. The call itself stays as a NoOp of its name, done
// when the function's effects are.
//
//   w ── ^before ─┐                            w ── ^before ── call/enter (NoOp)
//   x ──────────► call (f) ──► y    becomes                        ┊ ^
//                   ┊ ^                         x ─────────► call/mul ──► y
//                 after                                  call/assign ┄┄► call (NoOp) ┄┄► after
//
//   data      an argument is the tensor that was passed, a result the tensor of the body that it names
//   enter     nodes of the body wait for what the call waited for
//   call      waits for the function's control results; for its results where it has no control results
//
// Of functions that stand for one another (attributes api_implements and api_preferred_device) the one for CPUs is taken,
// as TensorFlow does on a CPU: one of them may draw other random numbers than another.
//
// Needs: nothing. Establishes: no calls are left; attributes that name a parameter of the function ($T) hold the
// call's value. Functions that other attributes name (While, If) stay in the library.
#ifndef MILLRACE_PASSES_CONTROL_FLOW_INLINE_FUNCTIONS_H_
#define MILLRACE_PASSES_CONTROL_FLOW_INLINE_FUNCTIONS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "millrace/graph.h"
#include "millrace/op.h"

namespace millrace {

struct InlineResult {
  bool changed = false;
  // Nodes that must run as targets do: calls of functions with control results, whose effects happen whenever the
  // call runs, whatever is used of its results.
  std::vector<std::string> effects;
};

// How many nodes calls may add: what the library holds, once, and `beyond` (PlanningOptions::max_unrolled_nodes). Calls in
// calls multiply: forty functions of two calls each are 2^40.
int64_t MostInlinedNodes(const Graph& graph, int64_t beyond);

// `ops`: a name that is an op there is not a call by name. InvalidArgument names the call: a function that the
// library lacks, another number of arguments, a parameter without a value, recursion. OutOfRange when bodies and
// calls are more than `max_nodes`.
absl::StatusOr<InlineResult> InlineFunctions(Graph& graph, const OpRegistry& ops, int64_t max_nodes);

// Whether an attribute names a function or a parameter of one.
bool SpeaksOfFunctions(const Node& node);

}  // namespace millrace

#endif  // MILLRACE_PASSES_CONTROL_FLOW_INLINE_FUNCTIONS_H_
