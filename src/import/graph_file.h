// Graph files. LoadGraph and SaveGraph are declared in millrace/import.h.
#ifndef MILLRACE_SRC_IMPORT_GRAPH_FILE_H_
#define MILLRACE_SRC_IMPORT_GRAPH_FILE_H_

#include <functional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "millrace/graph.h"
#include "millrace/import.h"
#include "millrace/proto/saved_model.pb.h"

namespace millrace {

// The graph in the bytes of a GraphDef or MetaGraphDef, binary or text. LoadGraph without the file.
absl::StatusOr<Graph> GraphFromBytes(std::string_view bytes);

// The same with the saver of a MetaGraphDef: an empty one of other files, an error where it cannot be read.
struct GraphWithSaver {
  Graph graph;
  absl::StatusOr<proto::SaverDef> saver;
};
absl::StatusOr<GraphWithSaver> GraphWithSaverFromBytes(std::string_view bytes);

// As LoadMetaGraph gives them.
absl::StatusOr<CheckpointNames> SaverNames(const GraphWithSaver& of);

// One field at the top of a binary message.
struct WireField {
  int number = 0;
  bool is_bytes = false;     // length-delimited: a message, string or packed list
  uint64_t value = 0;        // of a varint
  std::string_view payload;  // of bytes
  int64_t offset = 0;        // of the field in the message
};
// Calls `visit` for each until it fails. InvalidArgument names the offset where the bytes stop making sense.
absl::Status ForEachField(std::string_view bytes, const std::function<absl::Status(const WireField&)>& visit);

}  // namespace millrace

#endif  // MILLRACE_SRC_IMPORT_GRAPH_FILE_H_
