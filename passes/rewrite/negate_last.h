// Negate last: the sum of a negated tensor is the negated sum of the tensor, and the tensor is passed over once less. Gradients
// of what is subtracted from many elements (means, biases) are such sums.
//
//   n = Neg(x)    s = Sum(n)    becomes    s/positive = Sum(x)    s = Neg(s/positive)
//
// Needs: types. Establishes: no Neg of floats that a Sum or a Mean of fewer elements alone takes. Rounding is the same for
// numbers and their negatives, so results have the same bits but for the sign of a zero.
#ifndef MILLRACE_PASSES_REWRITE_NEGATE_LAST_H_
#define MILLRACE_PASSES_REWRITE_NEGATE_LAST_H_

#include <cstdint>
#include <string>
#include <vector>

#include "millrace/graph.h"

namespace millrace {

// Returns the number of sums that are negated now. Nodes of these names stay as they are. `by_value` (per node id) follows.
int64_t NegateLast(Graph& graph, const std::vector<std::string>& targets, std::vector<uint64_t>& by_value);

}  // namespace millrace

#endif  // MILLRACE_PASSES_REWRITE_NEGATE_LAST_H_
