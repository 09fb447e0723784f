// initial_shapes: shapes of variables that are declared without (validate_shape=False, shape=[None, 2]), where no variable
// exists yet: those of the values that their initialisers assign.
#ifndef MILLRACE_PASSES_INITIAL_SHAPES_H_
#define MILLRACE_PASSES_INITIAL_SHAPES_H_

#include <map>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "millrace/graph.h"
#include "millrace/op.h"
#include "millrace/tensor.h"

namespace millrace {

using VariableTypesByName = std::map<std::string, TensorType>;

// Adds to `known` what the graph tells of variables that are neither declared with a whole shape nor in `known`. `graph` is the
// whole graph, initialisers included; `type_of` says what a tensor ("w/init:0") is, given the variables in its second argument:
// an error where it does not follow. A variable that is assigned values of different shapes is left out.
void AddInitialShapes(const Graph& graph, const OpRegistry& ops,
                      absl::FunctionRef<absl::StatusOr<TensorType>(const std::string&, const VariableTypesByName&)> type_of,
                      VariableTypesByName& known);

}  // namespace millrace

#endif  // MILLRACE_PASSES_INITIAL_SHAPES_H_
