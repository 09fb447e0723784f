// Keep tables: tables that steps change become variables, so that they live, move and are ordered as variables do.
//
//   MutableHashTableV2 ──► LookupTableFindV2 (of x, else d) ──► y    becomes    VarHandleOp {uint8[n]}, x, d ──► _TableFind ──► y
//
// The variable NAME/table holds the table's bytes (graph/mutable_table.h), all zero in the beginning: an empty table. A session makes it
// larger between steps, before a step that might fill it; plans are then made again.
//
// Words have no memory, so where the keys are words the table's own are two hashes of each, 126 bits, by keys of this pass:
//
//   x (string) ──► StringToHashBucketStrong twice ──► Pack ──► _TableFind {key_dtype=int64, key_shape=shape[2]}
//
// That two words have both in common does not happen. The words themselves are not to be had from it: what exports them is refused.
#ifndef MILLRACE_PASSES_REWRITE_KEEP_TABLES_H_
#define MILLRACE_PASSES_REWRITE_KEEP_TABLES_H_

#include <set>
#include <string>

#include "absl/status/status.h"
#include "millrace/graph.h"

namespace millrace {

// From integers to numbers.
bool CanKeepTable(const Node& table);
// From words to numbers.
bool CanKeepTableOfWords(const Node& table);

// Rewrites the tables of these names (NameOfResource), which can be kept, and all that uses them. InvalidArgument and Unimplemented name
// a table whose attributes or keys for empty buckets are not what TensorFlow's are.
absl::Status KeepTables(Graph& graph, const std::set<std::string>& names);

}  // namespace millrace

#endif  // MILLRACE_PASSES_REWRITE_KEEP_TABLES_H_
