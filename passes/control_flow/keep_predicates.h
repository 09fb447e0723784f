// Keep predicates: a conditional is decided once. The predicate of TensorFlow 1's conditional may be the memory of a
// reference variable (VariableV2), which a branch may write; what would read it again behind that write finds another
// answer. Its Switches, and LogicalNot and Equal that they go by, take a copy of it.
//
//   flag ── Identity ──► Switch      flag ── Identity ── DeepCopy ──► Switch
//
// TensorFlow 1 converts a variable to a value for each Switch anew: those that go by one flag take one copy, or, of a variable by
// handle that nothing writes, one read.
//
// Needs: no calls. Establishes: no predicate of a Switch is the memory of a variable.
#ifndef MILLRACE_PASSES_CONTROL_FLOW_KEEP_PREDICATES_H_
#define MILLRACE_PASSES_CONTROL_FLOW_KEEP_PREDICATES_H_

#include "millrace/graph.h"
#include "millrace/op.h"

namespace millrace {

// How many predicates were changed.
int64_t KeepPredicates(Graph& graph, const OpRegistry& ops);

}  // namespace millrace

#endif  // MILLRACE_PASSES_CONTROL_FLOW_KEEP_PREDICATES_H_
