// TensorFlow's _FusedMatMul: a product of two matrices, a bias along its rows and an activation as one node. The passes make
// such nodes, too.
#ifndef MILLRACE_SRC_GRAPH_FUSED_MATMUL_H_
#define MILLRACE_SRC_GRAPH_FUSED_MATMUL_H_

#include <string>

#include "absl/status/statusor.h"
#include "millrace/op.h"

namespace millrace {

// Activations that no op of TensorFlow computes alone: x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3))), and
// x / 2 * (1 + erf(x / sqrt(2))).
inline constexpr char kGeluApproximate[] = "GeluApproximate", kGeluExact[] = "GeluExact";

// What `fused_ops` names behind the bias: an op of one input, a Gelu, or "". InvalidArgument says what may be there.
absl::StatusOr<std::string> ActivationOf(const AttrMap& attrs);

// What a _FusedMatMul stands for. Its product as a MatMul of the first two inputs; bias (input 1 of the group) and
// activation as a group of elementwise ops on that product. Requires an activation that is an op, or a bias.
OpInstance ProductOf(const OpInstance& node);
OpInstance ElementwiseOf(const OpInstance& node, bool bias, const std::string& activation);

}  // namespace millrace

#endif  // MILLRACE_SRC_GRAPH_FUSED_MATMUL_H_
