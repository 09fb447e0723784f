// Shapes of a node whose inputs have shapes or values that are known only when running.
//
// Words: the *bound* of a tensor is the largest shape it may have, from which memory is planned; its *partial* shape is
// what is known for certain, with -1 in the dimensions that are not. A bound may be guessed too small for graphs that
// stretch the rules below: the runtime checks every real shape against the planned memory and fails by name.
#ifndef MILLRACE_PASSES_SHAPES_DYNAMIC_SHAPES_H_
#define MILLRACE_PASSES_SHAPES_DYNAMIC_SHAPES_H_

#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "millrace/op.h"
#include "passes/shapes/value_bounds.h"

namespace millrace {

struct DynamicTypes {
  std::vector<TensorType> outputs;  // bounds
  std::vector<Shape> partial;       // per output; without -1 where the shape is known after all
  // Per output: shapes that it may have, too, larger in a dimension than the bound but with no more elements: a Reshape's, or along another axis.
  std::vector<std::vector<Shape>> others;
  uint64_t run_time_values = 0;     // Node::run_time_values
  uint64_t by_value = 0;  // inputs that the shape rule asked for, known or not
  // The node as if its inputs had one set of possible shapes and values or another: the largest first, for its cost,
  // smaller ones for kernels that take more scratch then.
  std::vector<OpInstance> possible;
};

// Outputs of `instance`, whose input types are bounds and whose input_values are the known ones. Errors name the node:
// the shape rule's, or Unimplemented when no bound is known.
absl::StatusOr<DynamicTypes> InferDynamic(const OpDef& def, const OpInstance& instance,
                                          absl::Span<const BoundedInput> inputs);

}  // namespace millrace

#endif  // MILLRACE_PASSES_SHAPES_DYNAMIC_SHAPES_H_
