// TensorFlow's _FusedConv2D and _FusedConv3D as the passes make them: a convolution, the bias of its channels, perhaps a
// tensor of the result's shape that is added, perhaps a Relu, as one node. (input, filter, bias[, side]).
#ifndef MILLRACE_SRC_GRAPH_FUSED_CONV_H_
#define MILLRACE_SRC_GRAPH_FUSED_CONV_H_

#include <vector>

#include "absl/status/statusor.h"
#include "millrace/op.h"

namespace millrace {

// What `fused_ops` names behind the bias.
struct ConvEpilogue {
  bool side = false, relu = false;
};
// InvalidArgument says what may be there.
absl::StatusOr<ConvEpilogue> ConvEpilogueOf(const AttrMap& attrs);
std::vector<std::string> FusedOpsOf(const ConvEpilogue& epilogue);

// The convolution alone, as Conv2D or Conv3D of the first two inputs.
OpInstance ConvolutionOf(const OpInstance& node);

// What goes over its result, one after another: nodes whose first operand is that, the others being the whole node's inputs.
struct EpilogueNode {
  OpInstance node;
  std::vector<int> others;
};
std::vector<EpilogueNode> EpilogueNodesOf(const OpInstance& node, const ConvEpilogue& epilogue);

}  // namespace millrace

#endif  // MILLRACE_SRC_GRAPH_FUSED_CONV_H_
