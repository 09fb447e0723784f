// Messages about input that may hold anything.
#ifndef MILLRACE_SRC_GRAPH_ONE_LINE_H_
#define MILLRACE_SRC_GRAPH_ONE_LINE_H_

#include "absl/status/status.h"

namespace millrace {

// The status with bytes that do not print (of a name in a corrupt file, say) as \xNN, and at most 500 bytes of text.
absl::Status OneLine(const absl::Status& status);

}  // namespace millrace

#endif  // MILLRACE_SRC_GRAPH_ONE_LINE_H_
