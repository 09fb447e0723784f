// Pack rows: what every time step does on its own with the same weight becomes one node over the rows of many steps.
//
//   m1 = MatMul(h1, w)    b1 = BiasAdd(m1, bias)    m2 = MatMul(h2, w)    b2 = BiasAdd(m2, bias)
//   h = ConcatV2(h1, h2)    m = MatMul(h, w)    b = BiasAdd(m, bias)    b1, b2 = Split(b)
//
// Products of few rows with the same right operand begin a pack; nodes of equal op, attributes and types that take what it
// makes, row for row, follow (biases, cross entropy, elementwise ops, further products). Only those who take a part of it need
// the Split. Packs are as large as the rows' weight or 16 MB, and 1024 rows: what waits for its last member is little.
//
// Members do not need one another, and the packs have an order (row_packs.h): recurrent products stay apart. What is
// guarded, fetched, awaited, or waits for others stays, too, and what takes a reference variable's memory behind a write.
//
// Needs: types; variable accesses not ordered yet, but none changes its place among those of its variable. Establishes:
// another creation order, in which a pack stands where its last operand is there. Depends on the graph alone, never on a
// budget. Products over more rows may round otherwise on a device, as vector loops' last elements do on the CPU. On for CUDA devices,
// where a product of 64 rows takes nearly the time of one of 1024.
#ifndef MILLRACE_PASSES_REWRITE_PACK_ROWS_H_
#define MILLRACE_PASSES_REWRITE_PACK_ROWS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "millrace/graph.h"
#include "millrace/op.h"

namespace millrace {

// Returns the number of nodes that went into packs. Nodes of the names in `targets` stay. `by_value` (per node id) follows.
absl::StatusOr<int64_t> PackRows(Graph& graph, const OpRegistry& ops, const std::vector<std::string>& targets,
                                 std::vector<uint64_t>& by_value);

}  // namespace millrace

#endif  // MILLRACE_PASSES_REWRITE_PACK_ROWS_H_
