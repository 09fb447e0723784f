// Accumulate products: a sum of matrix products becomes products that are added onto one sum as they are made. The
// gradient of a weight used in every time step is such a sum; its terms are not kept until the last of them is there.
//
//   a = MatMul(x1, g1)    b = MatMul(x2, g2)    c = MatMul(x3, g3)    s = AddN(a, b, c)
//   a = MatMul(x1, g1)    b = _AddProducts(a, x2, g2)    s = _AddProducts(b, x3, g3)
//
// Only terms whose factors are together no larger than the sum are taken: a factor that waits for its turn costs no more
// than a product that waits for the others. As many as are together smaller than it become one product with a longer inner
// dimension:
//
//   s = _SumProducts(x1, g1, x2, g2, x3, g3)
//
// Needs: types; variable accesses not ordered yet, since some reads come later now. Establishes: `_SumProducts` and
// `_AddProducts` nodes. Terms are added in creation order, whatever the plan, so the bits of a graph do not depend on the
// strategy; they differ in rounding from those of the separate sum.
#ifndef MILLRACE_PASSES_REWRITE_ACCUMULATE_PRODUCTS_H_
#define MILLRACE_PASSES_REWRITE_ACCUMULATE_PRODUCTS_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "millrace/graph.h"
#include "millrace/op.h"

namespace millrace {

// The inner dimension of terms taken together is at most this long: packing is paid for by then.
inline constexpr int64_t kMaxSummedDepth = 512;

// Returns the number of products that are added onto a sum. `by_value` (per node id) is cleared for changed nodes.
absl::StatusOr<int64_t> AccumulateProducts(Graph& graph, const OpRegistry& ops, std::vector<uint64_t>& by_value);

}  // namespace millrace

#endif  // MILLRACE_PASSES_REWRITE_ACCUMULATE_PRODUCTS_H_
