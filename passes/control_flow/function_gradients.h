// Gradients of single ops, as TensorFlow has them for functions (symbolic_gradients.h): of the ops that it has any for, of the same nodes,
// so that the numbers are the same. No shape need be known.
#ifndef MILLRACE_PASSES_CONTROL_FLOW_FUNCTION_GRADIENTS_H_
#define MILLRACE_PASSES_CONTROL_FLOW_FUNCTION_GRADIENTS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "millrace/graph.h"

namespace millrace {

// Whether nothing that comes into such an op has a gradient by it: shapes, comparisons, indices.
bool PassesNoGradient(const std::string& op);
// None has one that multiplies matrices of complex numbers.
bool HasGradientRule(const Node& node);

// The type of the inputs of such a node that have gradients, as its attributes say; it may be a parameter of the function that the node is in.
AttrValue TypeOfGradient(const Node& node);

// Adds nodes that make the gradients with respect to the inputs of node `id`, given those with respect to its outputs. An invalid one is
// zero. Requires HasGradientRule. InvalidArgument where the node lacks inputs; what has been added is of no use then.
absl::StatusOr<std::vector<OutputRef>> AddGradient(Graph& graph, NodeId id, const std::vector<OutputRef>& of_outputs);

}  // namespace millrace

#endif  // MILLRACE_PASSES_CONTROL_FLOW_FUNCTION_GRADIENTS_H_
