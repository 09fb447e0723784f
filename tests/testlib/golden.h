// Golden text tests. A case is a file of sections:
//
//   # what the case shows
//   == options
//   budget=48
//   == input
//   a = Op()
//   == expected
//   …
//
// The driver turns options and input into text, which must equal the last section. With the environment variable
// MILLRACE_UPDATE_GOLDENS set the file is rewritten instead: review the difference.
#ifndef MILLRACE_TESTS_TESTLIB_GOLDEN_H_
#define MILLRACE_TESTS_TESTLIB_GOLDEN_H_

#include <functional>
#include <map>
#include <string>
#include <vector>

namespace millrace {

struct GoldenCase {
  std::map<std::string, std::string> options;
  std::string input;

  int64_t Int(const std::string& name, int64_t fallback) const;
  // Split at commas; empty when absent.
  std::vector<std::string> List(const std::string& name) const;
};

// Files of tests/golden/FOLDER, sorted by name.
std::vector<std::string> GoldenFiles(const std::string& folder);
// Fails the current test when the text differs.
void CheckGolden(const std::string& path, const std::function<std::string(const GoldenCase&)>& run);

}  // namespace millrace

#endif  // MILLRACE_TESTS_TESTLIB_GOLDEN_H_
