// Dense shapes of sparse results: they follow from those of the operands, whatever the indices are. Shape rules of dense
// results need them when planning.
#ifndef MILLRACE_PASSES_SHAPES_SPARSE_SHAPES_H_
#define MILLRACE_PASSES_SHAPES_SPARSE_SHAPES_H_

#include <utility>
#include <vector>

#include "millrace/op.h"

namespace millrace {

// Outputs and their values, as far as input_values of the node give them.
std::vector<std::pair<int, Tensor>> SparseShapes(const OpInstance& instance);

}  // namespace millrace

#endif  // MILLRACE_PASSES_SHAPES_SPARSE_SHAPES_H_
