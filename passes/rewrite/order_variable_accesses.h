// Order variable accesses: makes the result of every read and write of a variable the same under any order that
// respects the graph's edges. Needs: types. Establishes: accesses of one variable that conflict are ordered by
// edges; a read is a view of the variable's memory exactly as long as no write follows, else a copy.
//
// TensorFlow leaves a read and a write that no edge orders to chance. Here they happen in creation order (the
// fixed topological order of graph.h), which is what a graph's author wrote down; every schedule then gives the
// same bits. A read's consumers get control edges to the next write; a consumer that comes after that write in
// creation order reads a copy made before it.
//
// What is read of a reference variable (VariableV2) is its memory, as in TensorFlow: a consumer that the graph's own
// edges put after a write finds what was written, be its read older (averages or clipping after an update), and a
// fetch finds what the step leaves.
//
//   w ── read ──► matmul            w ── read ──► matmul ┄┄► apply(w)        (edge added: matmul before apply)
//   └─── apply(w)                   └────────────────────────►
#ifndef MILLRACE_PASSES_REWRITE_ORDER_VARIABLE_ACCESSES_H_
#define MILLRACE_PASSES_REWRITE_ORDER_VARIABLE_ACCESSES_H_

#include "absl/status/statusor.h"
#include "millrace/graph.h"
#include "millrace/op.h"

namespace millrace {

// True when an edge or a copy was added.
absl::StatusOr<bool> OrderVariableAccesses(Graph& graph, const OpRegistry& ops);

// The variable node whose memory the tensor is (through handles, returned references and views), or invalid.
NodeId VariableOf(const Graph& graph, const OpRegistry& ops, OutputRef ref);
// The same where it is a reference variable: what takes the tensor later may find what was written since, so it may take neither a
// copy from an earlier place nor the tensor from a later one.
NodeId ReferenceOf(const Graph& graph, const OpRegistry& ops, OutputRef ref);

}  // namespace millrace

#endif  // MILLRACE_PASSES_REWRITE_ORDER_VARIABLE_ACCESSES_H_
