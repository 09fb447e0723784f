// Expand ops: what TensorFlow's own graph optimizers have fused or lowered, ops of its first versions, and ops that speak to XLA or
// of locks, in today's single ops.
//
//   x, w, b ──► _FusedConv2D {BiasAdd, Relu} ──► y     becomes     x, w ──► Conv2D ──► BiasAdd (of b) ──► Relu ──► y
//
// The node itself becomes the last of them, so that its name, its control edges and what fetches it stay. Where only one result
// of several is changed by what was fused behind (_FusedBatchNormEx), the node stays the op of all, and that result is redirected.
//
// So are slices and marks for XLA, sums of strings, a Switch of many outputs and a Merge of many inputs. RefSelect becomes Switches and
// Merges; SobolSample of constants is a constant (sobol_points.h).
//
// Needs: calls inlined. Establishes: no op of the list in the source is left. Unimplemented names a combination of fused ops that
// is not known.
#ifndef MILLRACE_PASSES_CONTROL_FLOW_EXPAND_OPS_H_
#define MILLRACE_PASSES_CONTROL_FLOW_EXPAND_OPS_H_

#include <string>

#include "absl/status/statusor.h"
#include "millrace/graph.h"

namespace millrace {

// Whether the graph was changed.
absl::StatusOr<bool> ExpandOps(Graph& graph);

// Whether an op is one of those that this pass takes away.
bool IsExpanded(const std::string& op);
// It takes away some nodes of other ops, too: a product with a bias and an activation is an op of Millrace's own, one to which a
// tensor is added is not; a Merge has two sides, one of a _SwitchN more; a sum of strings joins them.
bool IsExpandedForInputs(const Node& node);
bool IsExpanded(const Node& node);  // for either

}  // namespace millrace

#endif  // MILLRACE_PASSES_CONTROL_FLOW_EXPAND_OPS_H_
