// Variables that only a SavedModel's object graph leads to their values. A variable may have two handles in the graph, as Keras 3 makes them:
//
//   train_x, "dense/kernel" ──► StatefulPartitionedCall {f=train}     object 15 ◄── bound_inputs[0] of train
//   RestoreV2 ──► "Variable_7"                                        object 15 ──► key "model/dense/_kernel/..." in the checkpoint
//
// TensorFlow's loader binds the functions' inputs to the objects; what the saver's operation restores is not what the function takes.
#ifndef MILLRACE_SRC_IMPORT_BOUND_VARIABLES_H_
#define MILLRACE_SRC_IMPORT_BOUND_VARIABLES_H_

#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "millrace/graph.h"
#include "millrace/import.h"
#include "millrace/proto/saved_model.pb.h"
#include "millrace/tensor.h"

namespace millrace {

// The variables that the graph's calls take behind their arguments.
BoundVariables FindBoundVariables(const Graph& graph, const proto::SavedObjectGraph& objects);

// By variable name the key of its value in a checkpoint that holds this object graph. Objects are found by the names that lead to them.
absl::StatusOr<std::map<std::string, std::string>> KeysOfBound(const BoundVariables& bound, const Tensor& object_graph);

}  // namespace millrace

#endif  // MILLRACE_SRC_IMPORT_BOUND_VARIABLES_H_
