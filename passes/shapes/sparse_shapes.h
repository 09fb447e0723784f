// Dense shapes of sparse results: they follow from those of the operands, whatever the indices are. So do row splits of ragged rows
// that are gathered, whatever is in them. Shape rules of dense results need them when planning.
#ifndef MILLRACE_PASSES_SHAPES_SPARSE_SHAPES_H_
#define MILLRACE_PASSES_SHAPES_SPARSE_SHAPES_H_

#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "millrace/op.h"
#include "passes/shapes/value_bounds.h"

namespace millrace {

// Outputs that are such shapes or splits and their values, as far as input_values of the node give them.
std::vector<std::pair<int, Tensor>> SparseShapes(const OpInstance& instance);
// Bounds of dense shapes that depend on data: of decoded sequences and of ragged rows. Outputs and their bounds.
std::vector<std::pair<int, ValueBounds>> SparseShapeBounds(const OpInstance& instance, absl::Span<const BoundedInput> inputs);

}  // namespace millrace

#endif  // MILLRACE_PASSES_SHAPES_SPARSE_SHAPES_H_
