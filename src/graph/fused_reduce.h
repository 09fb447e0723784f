// Groups of elementwise ops with reductions of what they compute, as the passes make them: `_FusedReduce`, of which nothing
// else is left, and `_FusedMapReduce`, which writes some of it, too. Beside the attributes of `_Fused` (passes/rewrite/
// fused_writer.h):
//
//   axes           of `shape`, over which all reductions go
//   reductions     for each its op: Sum, Mean, Max or Min
//   reduced        for each an operand, input i of that shape or -1 - k for the result of op k, and the output
//   results        what is written, to the first outputs; none of `_FusedReduce`
//   output_shapes  of all outputs
#ifndef MILLRACE_SRC_GRAPH_FUSED_REDUCE_H_
#define MILLRACE_SRC_GRAPH_FUSED_REDUCE_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "millrace/op.h"

namespace millrace {

// Reductions of a node at most.
inline constexpr size_t kMaxGroupReductions = 4;

struct GroupReduction {
  std::string op;
  int64_t operand = 0, output = 0;
};

// InvalidArgument where `reductions`, `reduced` and `axes` do not go with the group, and these many inputs and outputs.
absl::StatusOr<std::vector<GroupReduction>> GroupReductionsOf(const AttrMap& attrs, size_t inputs, size_t outputs);

// Which dimensions of the group's shape are reduced. Axes as GroupReductionsOf takes them.
std::vector<bool> ReducedDims(const AttrMap& attrs);

// What such a node stands for: `group`, a `_Fused` node whose first outputs are those that are written, the others
// tensors between; and a reduction of an input (`of_input`) or of an output of the group, for each.
struct GroupWithReductions {
  struct Reduced {
    OpInstance node;
    bool of_input = false;
    size_t operand = 0;  // input of the node, or output of the group
    size_t output = 0;
  };
  OpInstance group;
  size_t written = 0;
  std::vector<Reduced> reductions;
};
absl::StatusOr<GroupWithReductions> TakenApart(const OpInstance& node);

}  // namespace millrace

#endif  // MILLRACE_SRC_GRAPH_FUSED_REDUCE_H_
