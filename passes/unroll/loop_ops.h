// Which ops the passes take away before a plan is made.
#ifndef MILLRACE_PASSES_UNROLL_LOOP_OPS_H_
#define MILLRACE_PASSES_UNROLL_LOOP_OPS_H_

#include <string>

#include "millrace/graph.h"

namespace millrace {

// Whether unroll_loops takes an op away: loops, lists, arrays and stacks.
bool IsLoopOp(const Node& node);
// IsLoopOp, or another pass takes it away (conditionals, collectives, expanded ops, Optionals, tables, sparse matrices): ops that no device needs a kernel for.
bool IsPlannedAway(const std::string& op);

}  // namespace millrace

#endif  // MILLRACE_PASSES_UNROLL_LOOP_OPS_H_
