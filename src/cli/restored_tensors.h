// RestoreV2 in a graph, as tf.train.init_from_checkpoint leaves it behind variables: no device runs it. What it reads is fed in its
// place when the init targets run.
#ifndef MILLRACE_SRC_CLI_RESTORED_TENSORS_H_
#define MILLRACE_SRC_CLI_RESTORED_TENSORS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cli/environment.h"

namespace millrace::cli {

// By tensor name, what the targets need of such nodes, read from the checkpoints that they name. Needs names and slices that are
// constants. Errors name the node.
absl::StatusOr<Session::Feeds> RestoredTensors(const Graph& graph, const std::vector<std::string>& targets, const Environment& environment);

}  // namespace millrace::cli

#endif  // MILLRACE_SRC_CLI_RESTORED_TENSORS_H_
