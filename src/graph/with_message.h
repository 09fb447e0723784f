// A status in other words.
#ifndef MILLRACE_SRC_GRAPH_WITH_MESSAGE_H_
#define MILLRACE_SRC_GRAPH_WITH_MESSAGE_H_

#include <string_view>

#include "absl/status/status.h"
#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace millrace {

// The same error with another message; its marks (payloads) are kept.
inline absl::Status WithMessage(const absl::Status& status, std::string_view message) {
  absl::Status result(status.code(), absl::string_view(message.data(), message.size()));
  status.ForEachPayload([&](absl::string_view url, const absl::Cord& payload) { result.SetPayload(url, payload); });
  return result;
}

// The same with "prefix: " before its message: what it is about. OK stays OK.
inline absl::Status WithPrefix(const absl::Status& status, std::string_view prefix) {
  return WithMessage(status, absl::StrCat(absl::string_view(prefix.data(), prefix.size()), ": ", status.message()));
}

}  // namespace millrace

#endif  // MILLRACE_SRC_GRAPH_WITH_MESSAGE_H_
