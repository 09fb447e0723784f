// Runs the program as a person would and keeps what it says.
#ifndef MILLRACE_TESTS_E2E_PROGRAM_H_
#define MILLRACE_TESTS_E2E_PROGRAM_H_

#include <sys/types.h>

#include <filesystem>
#include <string>
#include <vector>

namespace millrace {

struct Outcome {
  int exit_status = -1;  // -1: ended by a signal
  std::string out;
  std::string err;
};

// A folder of its own for files, and the program under test.
class TestedProgram {
 public:
  TestedProgram();
  ~TestedProgram();
  TestedProgram(const TestedProgram&) = delete;
  TestedProgram& operator=(const TestedProgram&) = delete;

  Outcome Run(const std::vector<std::string>& arguments) const;
  // Starts it; Wait gives what became of it. `out` stands for standard output: a descriptor, kKept (Outcome::out) or kClosed.
  static constexpr int kKept = -1, kClosed = -2;
  pid_t Start(const std::vector<std::string>& arguments, int out = kKept) const;
  Outcome Wait(pid_t pid) const;

  std::string Path(const std::string& name) const { return (folder_ / name).string(); }
  void Write(const std::string& name, const std::string& bytes) const;
  std::string Read(const std::string& name) const;
  // Names of the files in the folder, without what the program printed.
  std::vector<std::string> Files() const;

 private:
  std::filesystem::path folder_;
};

}  // namespace millrace

#endif  // MILLRACE_TESTS_E2E_PROGRAM_H_
