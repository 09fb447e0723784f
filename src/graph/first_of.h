// Many names in one message.
#ifndef MILLRACE_SRC_GRAPH_FIRST_OF_H_
#define MILLRACE_SRC_GRAPH_FIRST_OF_H_

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace millrace {

// "a, b, c, d, e and 7 more".
inline std::string FirstOf(std::vector<std::string> names) {
  constexpr size_t kMost = 5;
  const size_t more = names.size() - std::min(names.size(), kMost);
  names.resize(names.size() - more);
  return absl::StrCat(absl::StrJoin(names, ", "), more > 0 ? absl::StrCat(" and ", more, " more") : "");
}

}  // namespace millrace

#endif  // MILLRACE_SRC_GRAPH_FIRST_OF_H_
