// The values that variables have before the first step: a SavedModel's, or those of --checkpoint_in.
#ifndef MILLRACE_SRC_CLI_INITIAL_VALUES_H_
#define MILLRACE_SRC_CLI_INITIAL_VALUES_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cli/environment.h"
#include "cli/workload.h"

namespace millrace::cli {

// What checkpoints call the variables and tables of a graph: as its saver says, else by their own names.
void NameForCheckpoints(const Graph& graph, const CheckpointNames& names, Workload& workload);
// The same of a SavedModel, and the values that it comes with.
void TakeValuesOf(const SavedModel& model, Workload& workload);

// --checkpoint_in.
absl::StatusOr<std::shared_ptr<TensorReader>> OpenCheckpoint(const std::string& prefix, const Environment& environment);
// The checkpoint's values instead of those that the model came with. Keys are what checkpoint_out writes; a SavedModel tells those of all
// its variables, which must be there, or else be there under the variables' own names.
absl::Status ReadCheckpoint(const std::string& prefix, bool of_saved_model, const Environment& environment, Workload& workload);

// A variable whose shape the graph leaves open is declared with the shape of its value, unless the step assigns it or the graph has an
// initializer of it, which tells the shape: the graph, and with it the plans that are its, stay the same there.
absl::Status DeclareShapes(Workload& workload);
// Variables of strings are constants when the graph is planned: those that have values, and that the step or an
// initialisation uses, are declared with them.
absl::Status DeclareWords(Workload& workload);

}  // namespace millrace::cli

#endif  // MILLRACE_SRC_CLI_INITIAL_VALUES_H_
