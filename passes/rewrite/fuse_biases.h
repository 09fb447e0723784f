// Fuse biases: a product of matrices or a convolution, the bias that is added to it and a Relu behind that become one node,
// which a device's library computes in one launch and without the tensors between.
//
//   m = MatMul(x, w)    b = BiasAdd(m, bias)    r = Relu(b)
//   r = _FusedMatMul(x, w, bias) {fused_ops=[BiasAdd, Relu]}
//   c = Conv2D(x, w)    b = BiasAdd(c, bias)    s = AddV2(b, z)    r = Relu(s)
//   r = _FusedConv2D(x, w, bias, z) {fused_ops=[BiasAdd, Add, Relu]}
//
// An addition of a vector (AddV2) is a bias, too, and a Reshape that keeps the columns may lie between product and bias: it
// comes last then. A sum of a convolution with another tensor of its shape may lie between bias and Relu; a bias alone stays
// with elementwise ops behind it. The node runs where the last of them was. Only the last one's result may be needed elsewhere.
//
// Needs: types, ordered variable accesses. Establishes: TensorFlow's `_FusedMatMul`, `_FusedConv2D` and `_FusedConv3D` nodes
// under the names of the last ones (of the products, where a Reshape comes last). On the CPU they have the bits of the ops; a
// device rounds halves once where the ops would round after each, and may add the sum before the bias, whatever the plan.
#ifndef MILLRACE_PASSES_REWRITE_FUSE_BIASES_H_
#define MILLRACE_PASSES_REWRITE_FUSE_BIASES_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "millrace/graph.h"

namespace millrace {

// Creation order between a product and its bias is at most this far: factors stay until the bias is added.
inline constexpr int32_t kMaxBiasDistance = 32;

// Returns the number of products and convolutions that were given their bias. `by_value` (per node id) follows.
absl::StatusOr<int64_t> FuseBiases(Graph& graph, std::vector<uint64_t>& by_value);

}  // namespace millrace

#endif  // MILLRACE_PASSES_REWRITE_FUSE_BIASES_H_
