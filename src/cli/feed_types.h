// Arrays of a file become what the graph takes: NumPy makes float64 and int64 where nobody says otherwise, and TensorFlow's
// sessions convert what they are fed.
#ifndef MILLRACE_SRC_CLI_FEED_TYPES_H_
#define MILLRACE_SRC_CLI_FEED_TYPES_H_

#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "millrace/graph.h"
#include "millrace/session.h"

namespace millrace::cli {

// Gives feeds of numbers the element types that their placeholders declare, with a warning for each. A floating type takes any
// number, rounded, and the warning says how many become infinite; integers and bool take only what they hold exactly:
// InvalidArgument names the first element that is not. Feeds of other types, and of tensors whose type the graph does not declare, stay as they are.
absl::Status ConvertFeeds(const Graph& graph, Session::Feeds& feeds);

// NumPy's byte strings lose NULs at their ends. So a feed of bytes, uint8[n], is strings where `declared` says that: an array
// NAME/row_splits beside it says where each begins and the last ends, and is no feed unless it is declared, too. They have the declared
// shape where that is known but for at most one dimension, else one dimension. InvalidArgument where the numbers are none of the bytes',
// or of a count that the declared shape does not take.
absl::Status JoinByteStrings(absl::FunctionRef<TensorType(const std::string& name)> declared, Session::Feeds& feeds);
absl::Status JoinByteStrings(const Graph& graph, Session::Feeds& feeds);

}  // namespace millrace::cli

#endif  // MILLRACE_SRC_CLI_FEED_TYPES_H_
