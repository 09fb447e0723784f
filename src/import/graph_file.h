// Graph files. LoadGraph and SaveGraph are declared in millrace/import.h.
#ifndef MILLRACE_SRC_IMPORT_GRAPH_FILE_H_
#define MILLRACE_SRC_IMPORT_GRAPH_FILE_H_

#include <functional>
#include <string>
#include <string_view>

#include <google/protobuf/message.h>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "millrace/graph.h"

namespace millrace {

// The graph in the bytes of a GraphDef or MetaGraphDef, binary or text. LoadGraph without the file.
absl::StatusOr<Graph> GraphFromBytes(std::string_view bytes);

// Whether the bytes are a text message rather than a binary one.
bool LooksLikeText(std::string_view bytes);

// Parses a text message. InvalidArgument "12:5: …" gives line and column. Unknown fields are errors unless
// `skip_unknown_fields`.
absl::Status ParseText(std::string_view bytes, bool skip_unknown_fields, google::protobuf::Message* message);

// Parses a binary message; InvalidArgument when it is truncated or corrupt. Logs nothing.
absl::Status ParseBinary(std::string_view bytes, google::protobuf::Message* message);

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
