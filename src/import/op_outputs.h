// Names of op outputs. A function's nodes name their inputs "node:output_name:index"; graphs count outputs.
#ifndef MILLRACE_SRC_IMPORT_OP_OUTPUTS_H_
#define MILLRACE_SRC_IMPORT_OP_OUTPUTS_H_

#include <string>

#include "absl/status/statusor.h"
#include "millrace/graph.h"

namespace millrace {

// Element `index` of output `name` of a node <-> the number of that output. Functions of `library` that are called
// by their name are ops too. An op that is not in the table is taken to have one output (perhaps a list).
absl::StatusOr<int32_t> OutputNumber(const Node& node, const Graph::Library& library, const std::string& name,
                                     int32_t index);
absl::StatusOr<std::string> OutputName(const Node& node, const Graph::Library& library, int32_t number);

// The table: "Op out1 out2*N" (a list of attribute N elements), and "out Op1 Op2 …" for ops whose only output is not
// called "output". Each ends with a nullptr.
extern const char* const kOpsWithSeveralOutputs[];
extern const char* const kOpsByOutputName[];

}  // namespace millrace

#endif  // MILLRACE_SRC_IMPORT_OP_OUTPUTS_H_
