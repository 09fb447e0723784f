// Symbolic gradients: gradients of functions (SymbolicGradient, tf.gradients of what calls a Defun) for which the library names no
// function become functions of it: the body, and behind it the gradients of its ops from its results back to its arguments, summed in
// TensorFlow's order.
//
//   f(x) = y    gets    fGrad(x, dy) = dx, named by f's attribute kGradientFunctionAttr
#ifndef MILLRACE_PASSES_CONTROL_FLOW_SYMBOLIC_GRADIENTS_H_
#define MILLRACE_PASSES_CONTROL_FLOW_SYMBOLIC_GRADIENTS_H_

#include "millrace/graph.h"

namespace millrace {

// A function's attribute: why it has no such gradient.
inline constexpr const char* kWhyNoGradientAttr = "_why_no_gradient";

// Of all functions whose gradient a node of the graph or of its functions calls.
void AddSymbolicGradients(Graph& graph);

}  // namespace millrace

#endif  // MILLRACE_PASSES_CONTROL_FLOW_SYMBOLIC_GRADIENTS_H_
