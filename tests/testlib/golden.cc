#include "testlib/golden.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "absl/strings/str_split.h"
#include "gtest/gtest.h"

namespace millrace {
namespace {

std::string ReadFile(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

}  // namespace

int64_t GoldenCase::Int(const std::string& name, int64_t fallback) const {
  auto found = options.find(name);
  return found == options.end() ? fallback : std::stoll(found->second);
}

std::vector<std::string> GoldenCase::List(const std::string& name) const {
  auto found = options.find(name);
  if (found == options.end()) return {};
  return absl::StrSplit(found->second, ',');
}

std::vector<std::string> GoldenFiles(const std::string& folder) {
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(MILLRACE_SOURCE_DIR "/tests/golden/" + folder)) {
    if (entry.path().extension() == ".txt") files.push_back(entry.path().string());
  }
  EXPECT_FALSE(files.empty()) << "no golden file in tests/golden/" << folder;
  std::sort(files.begin(), files.end());
  return files;
}

void CheckGolden(const std::string& path, const std::function<std::string(const GoldenCase&)>& run) {
  SCOPED_TRACE(path);
  const std::string text = ReadFile(path);
  const std::string kExpected = "== expected\n";
  const size_t expected_at = text.find(kExpected);
  ASSERT_NE(expected_at, std::string::npos) << "no '== expected' section";
  GoldenCase golden;
  std::string section;
  for (const std::string& line : std::vector<std::string>(absl::StrSplit(text.substr(0, expected_at), '\n'))) {
    if (line.rfind("== ", 0) == 0) {
      section = line.substr(3);
    } else if (section == "options" && !line.empty()) {
      const std::vector<std::string> pair = absl::StrSplit(line, absl::MaxSplits('=', 1));
      ASSERT_EQ(pair.size(), 2u) << line;
      golden.options[pair[0]] = pair[1];
    } else if (section == "input") {
      golden.input += line + "\n";
    }
  }
  const std::string actual = run(golden);
  if (std::getenv("MILLRACE_UPDATE_GOLDENS") != nullptr) {
    std::ofstream(path) << text.substr(0, expected_at) << kExpected << actual;
    return;
  }
  EXPECT_EQ(actual, text.substr(expected_at + kExpected.size()));
}

}  // namespace millrace
