// Paths of files that patterns of a shell name.
#ifndef MILLRACE_SRC_GRAPH_MATCHING_FILES_H_
#define MILLRACE_SRC_GRAPH_MATCHING_FILES_H_

#include <string>
#include <vector>

namespace millrace {

// Those that are there now, in any order (for the op of that name: when the graph is planned, once for the same pattern); a pattern without
// *, ?, [ and \ names itself, and one that begins with a pattern is of "./". Hidden files are like others. Folders that cannot be read have no
// files.
std::vector<std::string> MatchingFiles(const std::string& pattern);

}  // namespace millrace

#endif  // MILLRACE_SRC_GRAPH_MATCHING_FILES_H_
