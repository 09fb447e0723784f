// Variables that are parts of one that TensorFlow's partitioners took apart: checkpoints have the whole, in slices.
#ifndef MILLRACE_SRC_CLI_PARTITIONED_VARIABLES_H_
#define MILLRACE_SRC_CLI_PARTITIONED_VARIABLES_H_

#include <map>
#include <string>

#include "millrace/graph.h"
#include "millrace/import.h"

namespace millrace::cli {

struct VariablePart {
  std::string key;  // of the whole in a checkpoint
  TensorSlice slice;
};

// By variable. A saver in the graph says which slice it saves of what; of variables that no saver knows, those named
// WHOLE/part_0, WHOLE/part_1 and so on are taken for parts, and with them their slots, WHOLE/part_0/Adam.
std::map<std::string, VariablePart> PartitionedVariables(const Graph& graph);

}  // namespace millrace::cli

#endif  // MILLRACE_SRC_CLI_PARTITIONED_VARIABLES_H_
