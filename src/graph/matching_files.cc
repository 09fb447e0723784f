#include "graph/matching_files.h"

#include <fnmatch.h>

#include <filesystem>
#include <string_view>
#include <system_error>

#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"

namespace millrace {
namespace {

constexpr absl::string_view kWild = "*?[\\";

bool IsWild(absl::string_view name) { return name.find_first_of(kWild) != absl::string_view::npos; }

std::string Joined(const std::string& folder, const std::string& name) {
  return folder.empty() || folder.back() == '/' ? folder + name : folder + "/" + name;
}

// The files in `folder` that the names from `at` on lead to, by names of folders and patterns of such.
void Collect(const std::string& folder, const std::vector<std::string>& names, size_t at, std::vector<std::string>& found) {
  std::error_code error;
  for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename();
    if (fnmatch(names[at].c_str(), name.c_str(), 0) != 0) continue;
    const std::string path = Joined(folder, name);
    if (at + 1 == names.size()) {
      found.push_back(path);
    } else if (std::error_code unknown; entry->is_directory(unknown)) {
      Collect(path, names, at + 1, found);
    }
  }
}

}  // namespace

std::vector<std::string> MatchingFiles(const std::string& pattern) {
  std::error_code error;
  std::vector<std::string> found;
  if (!IsWild(pattern)) {
    if (std::filesystem::exists(pattern, error)) found.push_back(pattern);
    return found;
  }
  const std::vector<std::string> names = absl::StrSplit(pattern, '/', absl::SkipEmpty());
  std::string folder = pattern[0] == '/' ? "/" : "";
  size_t at = 0;
  for (; !IsWild(names[at]); ++at) folder = Joined(folder, names[at]);
  Collect(folder.empty() ? "." : folder, names, at, found);
  return found;
}

}  // namespace millrace
