// What groups of elementwise ops are made of, and what they may take along: reductions of what they compute, and ops that are
// cheaper to compute wherever they are read than to keep.
#ifndef MILLRACE_PASSES_REWRITE_GROUP_OPS_H_
#define MILLRACE_PASSES_REWRITE_GROUP_OPS_H_

#include <optional>
#include <string>
#include <vector>

#include "millrace/graph.h"

namespace millrace {

// Ops whose every element follows from the operands' elements at the same place, and whose kernels need no scratch.
bool IsElementwise(const std::string& op);

// One that adds two tensors.
bool IsSum(const std::string& op);

// A reduction of its first input. Dimensions of one element are not reduced.
struct ReducedAxes {
  std::string op;  // Sum, Mean, Max or Min
  std::vector<bool> reduced;
};
// Of Sum, Mean, Max, Min and BiasAddGrad of floating tensors over axes that are known; none of other nodes, where there is no
// dimension to reduce, and where the reduction alone is the faster, or its result not much smaller than the tensor.
std::optional<ReducedAxes> ReductionOf(const Graph& graph, NodeId id);

// Whether the elementwise op is a sum, a difference or a product of one tensor of its own size with much smaller ones, or of it alone.
// The tensor is no constant and no part of another one.
bool IsCheapOfOne(const Graph& graph, NodeId id);

}  // namespace millrace

#endif  // MILLRACE_PASSES_REWRITE_GROUP_OPS_H_
