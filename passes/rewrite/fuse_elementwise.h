// Fuse elementwise ops: ops that work element by element on one shape become one node, which is one launch on a device
// with streams; on the CPU its kernel runs the ops over blocks that stay in the cache. What only they use is never in memory.
//
// A group is what its root, the last one in creation order, is computed from, as far as nobody outside needs any of it
// before the root runs. Results that others need later are outputs of their own, where tensors are so small that the
// launch is what takes time. A Split or Slice that nobody else reads is left out and what it copies from is read by rows,
// a BiasAdd before it is made of the parts; of a BroadcastTo what it repeats is read; a ConcatV2 whose parts are all results
// is written by rows. The gates of an LSTM with their biases and states are one node so, and all their gradients another.
//
// Reductions (group_ops.h) of what a group computes, or of a tensor that it reads, run in its pass, as far as they go over
// the same dimensions: what only they take is never in memory. A sum, difference or product of one tensor with much smaller ones
// that only groups and their reductions read (repeated_ops.h) is computed in each of them, and the one tensor is kept in its place:
//
//   m = Mean(x)   d = x - m   v = Mean(Square(d))   y = d * Rsqrt(v)    normalisation, of which y's gradient needs d, too
//   m = Mean(x)   v = _FusedReduce(x, m)   y = _Fused(x, m, Rsqrt(v))   three passes read x, one writes y; d is never there
//
// Operands that repeat within the tensor (a mean of each row, a weight of each channel) are read as they are. On for CUDA devices, where a
// node is a launch and what lies between is not in memory; off on the CPU, where tensors that stay in the cache gain nothing
// (bench/results/fusion.md).
//
// Needs: types, ordered variable accesses. Establishes: `_Fused` nodes (fused_writer.h), `_FusedReduce` and `_FusedMapReduce`
// nodes (graph/fused_reduce.h) under the names of the roots. The float operations are those of the ops that were there, in
// their order, so results have the same bits either way.
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
// Results of one fused node at most, parts of what it concatenates included.
inline constexpr size_t kMaxFusedResults = 8;
// Largest result beside the root's. Writing and reading as much takes a device about as long as a launch.
inline constexpr int64_t kMaxSideResultBytes = 4 << 20;
// Of a group, an AddN counted as two for each input and one more. A device's kernel takes 64 (cuda/launch/fused.h).
inline constexpr size_t kMaxOneKernelSteps = 48;
// Longest row that an operand repeated over rows (a bias) may have.
inline constexpr int64_t kMaxFusedRow = 16384;
// A value that needs two tensors to stay alive instead of one is fused into users this near in creation order.
inline constexpr int32_t kMaxFusedDistance = 32;

// Returns the number of nodes that are gone. `by_value` (per node id) is cleared for fused nodes.
absl::StatusOr<int64_t> FuseElementwise(Graph& graph, std::vector<uint64_t>& by_value);

}  // namespace millrace

#endif  // MILLRACE_PASSES_REWRITE_FUSE_ELEMENTWISE_H_
