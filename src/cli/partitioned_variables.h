// Variables that are parts of one that TensorFlow's partitioners took apart: checkpoints have the whole, in slices.
#ifndef MILLRACE_SRC_CLI_PARTITIONED_VARIABLES_H_
#define MILLRACE_SRC_CLI_PARTITIONED_VARIABLES_H_

#include <map>
#include <optional>
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

// "10 4 0,3:-", as savers write slices: the whole's dimensions, then where the slice begins in each and how many it has, - for all.
// Nothing where it is none.
std::optional<TensorSlice> SliceFromText(const std::string& text);

// The strings of a constant, or of what is one unless it is fed; empty where there is none.
Tensor StringsAt(const Graph& graph, OutputRef ref);

}  // namespace millrace::cli

#endif  // MILLRACE_SRC_CLI_PARTITIONED_VARIABLES_H_
