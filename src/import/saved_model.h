// Reading a SavedModel. LoadSavedModel is declared in millrace/import.h.
#ifndef MILLRACE_SRC_IMPORT_SAVED_MODEL_H_
#define MILLRACE_SRC_IMPORT_SAVED_MODEL_H_

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "millrace/import.h"
#include "millrace/proto/saved_model.pb.h"

namespace millrace {

// Graph and signatures from the bytes of saved_model.pb (or .pbtxt), and the checkpoint keys of all that the model's restore function
// sets. LoadSavedModel without the checkpoint. The model's assets are files in `dir`/assets.
absl::StatusOr<SavedModel> SavedModelFromBytes(std::string_view bytes, const std::vector<std::string>& tags, const std::string& dir);

// Read off what runs for the saver's restore operation: the names that RestoreV2 is given, and the variables to which its outputs are
// assigned, the tables into which they are imported.
absl::StatusOr<CheckpointNames> NamesOfSaver(const Graph& graph, const proto::SaverDef& saver);
// The same of all such nodes in a graph, but for its functions.
CheckpointNames RestoredIn(const Graph& graph);

}  // namespace millrace

#endif  // MILLRACE_SRC_IMPORT_SAVED_MODEL_H_
