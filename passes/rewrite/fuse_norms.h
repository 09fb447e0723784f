// Fuse norms: a batch norm, a tensor that is added to its result and the Relu behind become one node, and the gradient of the Relu
// goes into that of the batch norm, so that what lies between is neither written nor read.
//
//   n = FusedBatchNormV3(x, scale, offset, mean, variance)    a = AddV2(n, z)    r = Relu(a)
//   n = _FusedBatchNormEx(x, scale, offset, mean, variance, z) {activation_mode="Relu", num_side_inputs=1}
//
//   n = FusedBatchNormV3(x, scale, offset, ...)    r = Relu(n)    dn = ReluGrad(dr, r)    d = FusedBatchNormGradV3(dn, x, scale, n:3, n:4, n:5)
//   d = _FusedBatchNormReluGrad(dr, x, scale, n:3, n:4, offset)
//
// All versions of the ops, training or not; the sum may be missing. Only the Relu's result may be needed elsewhere, of the Relu's
// gradient nothing: that is computed again from x where it is used. The batch norm runs where it was, so what is added must
// come before it; of two that are added to one another the later one takes the sum.
//
// Needs: types; variable accesses not ordered yet, since gradients read the offset anew. Establishes: TensorFlow's
// `_FusedBatchNormEx` and `_FusedBatchNormReluGrad` (graph/fused_norm.h) under the names of the batch norm and of its gradient;
// who waited for a node that is gone waits for what came before it. The bits are those of the ops, on every device.
#ifndef MILLRACE_PASSES_REWRITE_FUSE_NORMS_H_
#define MILLRACE_PASSES_REWRITE_FUSE_NORMS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "millrace/graph.h"
#include "millrace/op.h"

namespace millrace {

// Returns the number of batch norms and gradients that took in others; `targets` by name stay. `by_value` (per node id) follows.
absl::StatusOr<int64_t> FuseNorms(Graph& graph, const OpRegistry& ops, const std::vector<std::string>& targets, std::vector<uint64_t>& by_value);

}  // namespace millrace

#endif  // MILLRACE_PASSES_REWRITE_FUSE_NORMS_H_
