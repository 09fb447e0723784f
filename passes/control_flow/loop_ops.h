// Which ops the passes take away before a plan is made.
#ifndef MILLRACE_PASSES_CONTROL_FLOW_LOOP_OPS_H_
#define MILLRACE_PASSES_CONTROL_FLOW_LOOP_OPS_H_

#include <string>

#include "millrace/graph.h"

namespace millrace {

// Whether it takes or makes a list, or an array or stack.
bool IsListOp(const Node& node);
bool IsArrayOp(const Node& node);
// Kinds of lists: ragged and sparse tensors as variants, each row an item, and TensorMaps.
bool IsRaggedVariantOp(const Node& node);
bool IsSparseVariantOp(const Node& node);
bool IsMapOp(const Node& node);
bool IsOptionalOp(const Node& node);

// Whether unroll_loops takes an op away: loops, lists, arrays and stacks.
bool IsLoopOp(const Node& node);
// IsLoopOp, or another pass takes it away (conditionals, collectives, expanded ops, Optionals, tables, sparse matrices): ops that no device needs a kernel for.
bool IsPlannedAway(const std::string& op);

}  // namespace millrace

#endif  // MILLRACE_PASSES_CONTROL_FLOW_LOOP_OPS_H_
