// Accumulate reductions: a sum of equal reductions becomes one reduction over all that they took. Losses of all time steps,
// gradients of a bias and of an embedding that are used in every one are such sums.
//
//   a = BiasAddGrad(g1)    b = BiasAddGrad(g2)    s = AddN(a, b)
//   s = _SumColumns(g1, g2)
//   a = UnsortedSegmentSum(d1, i1, n)    b = UnsortedSegmentSum(d2, i2, n)    s = AddN(a, b)
//   s = UnsortedSegmentSum(Pack(d1, d2), Pack(i1, i2), n)
//
// Taken are BiasAddGrad, and Sum and Mean over all elements, as far as what waits for the last of them is small or there
// anyway (a factor of a product that comes later); and UnsortedSegmentSum, as many at once as have together no more data
// than the sum, which is added up chunk after chunk.
//
// Needs: types; variable accesses not ordered yet; sums of products are one node already. Establishes: `_SumColumns` nodes,
// Pack before segment sums. Terms are added in creation order, whatever the plan; the bits differ in rounding from those of
// the separate sums.
#ifndef MILLRACE_PASSES_REWRITE_ACCUMULATE_REDUCTIONS_H_
#define MILLRACE_PASSES_REWRITE_ACCUMULATE_REDUCTIONS_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "millrace/graph.h"
#include "millrace/op.h"

namespace millrace {

// Of one reduction; a device's kernel takes no more.
inline constexpr size_t kMaxReducedTogether = 32;
// Bytes that may wait for the last one of them though nobody else needs them.
inline constexpr int64_t kMaxWaitingBytes = 256 << 10;
// Other terms of a sum that is taken apart: they stay until its end.
inline constexpr size_t kMaxOtherTerms = 2;

// Returns the number of reductions that became part of another one. `by_value` (per node id) follows.
absl::StatusOr<int64_t> AccumulateReductions(Graph& graph, const OpRegistry& ops, std::vector<uint64_t>& by_value);

}  // namespace millrace

#endif  // MILLRACE_PASSES_REWRITE_ACCUMULATE_REDUCTIONS_H_
