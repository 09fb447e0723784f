// Lower sparse matrices: what TensorFlow keeps in a variant (CSRSparseMatrix) is a sparse tensor here, indices in lexical order,
// values and dense shape, so that ops of sparse tensors do the work and every part has a place in memory.
//
//   i, v, s ──► SparseTensorToCSRSparseMatrix ──► SparseMatrixMatMul (with b)     becomes     i, v, s, b ──► SparseTensorDenseMatMul
//
// Nodes whose result is such a matrix become the op that makes its values, or its shape; their name and control edges stay.
//
// Needs: calls inlined. Establishes: no op of the list in the source is left. Unimplemented for batches of matrices, complex
// numbers and for matrices that go through loops or conditionals.
#ifndef MILLRACE_PASSES_CONTROL_FLOW_LOWER_SPARSE_MATRICES_H_
#define MILLRACE_PASSES_CONTROL_FLOW_LOWER_SPARSE_MATRICES_H_

#include <string>

#include "absl/status/statusor.h"
#include "millrace/graph.h"

namespace millrace {

// Whether the graph was changed.
absl::StatusOr<bool> LowerSparseMatrices(Graph& graph);

// Whether an op is one of those that this pass takes away.
bool IsSparseMatrixOp(const std::string& op);

}  // namespace millrace

#endif  // MILLRACE_PASSES_CONTROL_FLOW_LOWER_SPARSE_MATRICES_H_
