// Fuse elementwise ops: a tree of ops that work element by element on one shape becomes one node, whose kernel runs
// the tree over blocks that stay in the cache. What only the tree uses is never in memory as a whole.
//
// Needs: types, ordered variable accesses. Establishes: `_Fused` nodes under the names of the trees' roots. The float
// operations are those of the ops that were there, in their order, so results have the same bits either way.
#ifndef MILLRACE_PASSES_REWRITE_FUSE_ELEMENTWISE_H_
#define MILLRACE_PASSES_REWRITE_FUSE_ELEMENTWISE_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "millrace/graph.h"

namespace millrace {

// Ops of one fused node at most.
inline constexpr size_t kMaxFusedOps = 32;
// Tensors that a fused node takes at most.
inline constexpr size_t kMaxFusedInputs = 16;
// Longest row that an operand repeated over rows (a bias) may have.
inline constexpr int64_t kMaxFusedRow = 16384;
// A value that needs two tensors to stay alive instead of one is fused into users this near in creation order.
inline constexpr int32_t kMaxFusedDistance = 32;

// Returns the number of nodes that are gone. `by_value` (per node id) is cleared for fused nodes.
absl::StatusOr<int64_t> FuseElementwise(Graph& graph, std::vector<uint64_t>& by_value);

}  // namespace millrace

#endif  // MILLRACE_PASSES_REWRITE_FUSE_ELEMENTWISE_H_
