// Names and messages about input that may hold anything.
#ifndef MILLRACE_SRC_GRAPH_ONE_LINE_H_
#define MILLRACE_SRC_GRAPH_ONE_LINE_H_

#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace millrace {

// The text with bytes that do not print as \xNN.
std::string OnOneLine(std::string_view text);

// The status with bytes that do not print (of a name in a corrupt file, say) as \xNN, and at most 500 bytes of text.
absl::Status OneLine(const absl::Status& status);

}  // namespace millrace

#endif  // MILLRACE_SRC_GRAPH_ONE_LINE_H_
