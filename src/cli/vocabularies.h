// Tables that a text file initialises (tf.lookup.index_table_from_file, columns with a vocabulary file): the graph has the file's
// name only. What it says becomes constants of the graph.
#ifndef MILLRACE_SRC_CLI_VOCABULARIES_H_
#define MILLRACE_SRC_CLI_VOCABULARIES_H_

#include "absl/status/status.h"
#include "millrace/graph.h"

namespace millrace::cli {

// InitializeTableFromTextFile nodes become LookupTableImportV2 of constants, where the file that they name holds lines; for those in
// functions that the graph calls, such nodes are added. Planning refuses those that are left where something looks in their table,
// and says why their file is of no use. Errors name node, file and line; of functions they are warnings.
absl::Status ReadVocabularies(Graph& graph);

}  // namespace millrace::cli

#endif  // MILLRACE_SRC_CLI_VOCABULARIES_H_
