// Mutable tables in checkpoints. TensorFlow saves what a table exports, its keys and its values, each under a key of its own; here a
// table is a variable of bytes (passes/rewrite/keep_tables.h), whose name checkpoints of this program have beside them.
#ifndef MILLRACE_SRC_CLI_CHECKPOINT_TABLES_H_
#define MILLRACE_SRC_CLI_CHECKPOINT_TABLES_H_

#include <map>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "graph/mutable_table.h"
#include "millrace/graph.h"
#include "millrace/import.h"

namespace millrace::cli {

struct CheckpointTable {
  std::string table;  // its name
  TableLayout layout;
  Tensor empty_key, deleted_key;  // of a dense table: what its buckets without a key are exported with
  SavedTable saved;
};

// The graph's tables that can be kept, by the names of their variables, saved under what `names` says; a table that it does not know under
// NAME-keys and NAME-values, as TensorFlow's savers do, with `names_by_default`, else left out.
std::map<std::string, CheckpointTable> CheckpointTables(const Graph& graph, const std::map<std::string, SavedTable>& names, bool names_by_default);

// The bytes of a table that holds what was exported. InvalidArgument where these are no keys and values of such a table.
absl::StatusOr<Tensor> TableFrom(const CheckpointTable& table, const Tensor& keys, const Tensor& values);

// The keys and values that TensorFlow exports of it; of a dense table all buckets. InvalidArgument where the bytes are no such table.
absl::StatusOr<std::pair<Tensor, Tensor>> KeysAndValues(const CheckpointTable& table, Tensor bytes);

// The bytes of a table without keys.
Tensor EmptyTable(const CheckpointTable& table);

}  // namespace millrace::cli

#endif  // MILLRACE_SRC_CLI_CHECKPOINT_TABLES_H_
