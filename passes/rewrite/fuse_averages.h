// Fuse averages: a variable's step towards a value, as moving averages take it, becomes one update, of which a device launches
// many at once (gather_updates).
//
//   old = ReadVariableOp(v)    d = Sub(old, value)    m = Mul(d, rate)    u = AssignSubVariableOp(v, m)
//   u = _AssignMovingAverage(v, rate, value)
//
// Only where nobody else needs the difference or the step, and no other node writes the variable, so that it is the same
// when the update reads it; float and double, which are not rounded in between.
//
// Needs: types, ordered variable accesses. Establishes: `_AssignMovingAverage` under the names of the assignments; who waited for a
// node that is gone waits for what came before it. The float operations are those that were there: the same bits.
#ifndef MILLRACE_PASSES_REWRITE_FUSE_AVERAGES_H_
#define MILLRACE_PASSES_REWRITE_FUSE_AVERAGES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "millrace/graph.h"
#include "millrace/op.h"

namespace millrace {

// Returns the number of assignments that took in their step; `targets` by name stay. `by_value` (per node id) follows.
int64_t FuseAverages(Graph& graph, const OpRegistry& ops, const std::vector<std::string>& targets, std::vector<uint64_t>& by_value);

}  // namespace millrace

#endif  // MILLRACE_PASSES_REWRITE_FUSE_AVERAGES_H_
