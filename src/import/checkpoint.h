// TensorFlow's checkpoints (tensor bundles): PREFIX.index, a sorted table of the tensors' types and places, and
// PREFIX.data-XXXXX-of-XXXXX, their bytes. ReadCheckpoint, WriteCheckpoint and kin are declared in millrace/import.h.
#ifndef MILLRACE_SRC_IMPORT_CHECKPOINT_H_
#define MILLRACE_SRC_IMPORT_CHECKPOINT_H_

#include <map>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "millrace/tensor.h"
#include "millrace/proto/saved_model.pb.h"

namespace millrace {

struct CheckpointIndex {
  proto::BundleHeaderProto header;
  std::map<std::string, proto::BundleEntryProto> entries;
};

// The index in the bytes of PREFIX.index. InvalidArgument when they are truncated or corrupt.
absl::StatusOr<CheckpointIndex> ParseCheckpointIndex(std::string_view bytes);

// The tensor that the entry describes, from the bytes of its data file. Errors say what is wrong, not where.
absl::StatusOr<Tensor> TensorFromEntry(const proto::BundleEntryProto& entry, std::string_view data);

}  // namespace millrace

#endif  // MILLRACE_SRC_IMPORT_CHECKPOINT_H_
