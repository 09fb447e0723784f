// Reading protobuf messages, text or binary, with errors a person can use.
#ifndef MILLRACE_PROTO_PARSE_H_
#define MILLRACE_PROTO_PARSE_H_

#include <google/protobuf/message.h>

#include <string_view>

#include "absl/status/status.h"

namespace millrace {

// Whether the bytes are a text message rather than a binary one.
bool LooksLikeText(std::string_view bytes);

// Parses a text message. InvalidArgument "line 12, column 5: …" gives the first error's place. Unknown fields are errors
// unless `skip_unknown_fields`.
absl::Status ParseText(std::string_view bytes, bool skip_unknown_fields, google::protobuf::Message* message);

// Parses a binary message; InvalidArgument when it is truncated, corrupt or over 2 GiB. Logs nothing.
absl::Status ParseBinary(std::string_view bytes, google::protobuf::Message* message);

}  // namespace millrace

#endif  // MILLRACE_PROTO_PARSE_H_
