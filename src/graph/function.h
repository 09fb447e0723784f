// Functions of a graph's library.
#ifndef MILLRACE_SRC_GRAPH_FUNCTION_H_
#define MILLRACE_SRC_GRAPH_FUNCTION_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "millrace/graph.h"

namespace millrace {

// The op that calls the gradient of a function, and the function's attribute that names it, a FunctionRef, where one was given.
inline constexpr const char* kSymbolicGradientOp = "SymbolicGradient";
inline constexpr const char* kGradientFunctionAttr = "_gradient_func";

// A function with its arguments and results read off the body's kArgOp and kRetvalOp nodes: names are the nodes'
// names, types their attribute T (kInvalid when that is a parameter of the function). InvalidArgument when indices
// do not run 0, 1, 2 … or a control result is not a node of the body; the message leaves the function's name to the
// caller.
absl::StatusOr<Function> MakeFunction(std::string name, AttrMap attrs, Graph body,
                                      std::vector<std::string> control_rets);

}  // namespace millrace

#endif  // MILLRACE_SRC_GRAPH_FUNCTION_H_
