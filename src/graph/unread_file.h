// Tables that are initialised from files which were of no use when the graph was loaded.
#ifndef MILLRACE_SRC_GRAPH_UNREAD_FILE_H_
#define MILLRACE_SRC_GRAPH_UNREAD_FILE_H_

#include <string_view>

namespace millrace {

// The attribute of a node that initialises such a table: the file's path and what is wrong. A note for messages, and no part of
// the graph's fingerprint.
inline constexpr std::string_view kWhyUnread = "_why_unread";

}  // namespace millrace

#endif  // MILLRACE_SRC_GRAPH_UNREAD_FILE_H_
