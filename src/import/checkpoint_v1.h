// Checkpoints of TensorFlow's format V1 (tensorflow/core/util/saved_tensor_slice.proto): files that are tables of slices of tensors, as
// tf.train.Saver wrote them before V2. They are read only.
#ifndef MILLRACE_SRC_IMPORT_CHECKPOINT_V1_H_
#define MILLRACE_SRC_IMPORT_CHECKPOINT_V1_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "millrace/import.h"

namespace millrace {

// The files that `given` names: a file itself, PREFIX of PREFIX-00000-of-00002 and so on, or PREFIX-?????-of-00002, as Saver.save returns it.
// None where there is no such file, or where an index beside it makes it a checkpoint of format V2. InvalidArgument: PREFIX is that of several.
absl::StatusOr<std::vector<std::string>> CheckpointV1Files(const std::string& given);

// InvalidArgument names the file that is truncated or corrupt, or no checkpoint.
absl::StatusOr<std::unique_ptr<TensorReader>> OpenCheckpointV1(const std::vector<std::string>& files);

}  // namespace millrace

#endif  // MILLRACE_SRC_IMPORT_CHECKPOINT_V1_H_
