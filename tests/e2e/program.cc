#include "program.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <fstream>
#include <sstream>
#include <stdexcept>

extern char** environ;

namespace millrace {
namespace {

constexpr char kOut[] = "stdout.txt";
constexpr char kErr[] = "stderr.txt";

}  // namespace

TestedProgram::TestedProgram() {
  static std::atomic<int> count{0};
  folder_ = std::filesystem::temp_directory_path() /
            ("millrace_e2e_" + std::to_string(getpid()) + "_" + std::to_string(count.fetch_add(1)));
  std::filesystem::create_directories(folder_);
}

TestedProgram::~TestedProgram() { std::filesystem::remove_all(folder_); }

pid_t TestedProgram::Start(const std::vector<std::string>& arguments, int out) const {
  std::vector<std::string> words = {MILLRACE_PROGRAM};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);

  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, Path(kOut).c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  if (out == kClosed) posix_spawn_file_actions_addclose(&actions, STDOUT_FILENO);
  if (out >= 0) posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, Path(kErr).c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  pid_t pid = 0;
  const int error = posix_spawn(&pid, MILLRACE_PROGRAM, &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) throw std::runtime_error("cannot start " MILLRACE_PROGRAM);
  return pid;
}

Outcome TestedProgram::Wait(pid_t pid) const {
  int status = 0;
  while (waitpid(pid, &status, 0) < 0) {
  }
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, Read(kOut), Read(kErr)};
}

Outcome TestedProgram::Run(const std::vector<std::string>& arguments) const { return Wait(Start(arguments)); }

void TestedProgram::Write(const std::string& name, const std::string& bytes) const {
  std::ofstream(Path(name), std::ios::binary) << bytes;
}

std::string TestedProgram::Read(const std::string& name) const {
  std::stringstream text;
  text << std::ifstream(Path(name), std::ios::binary).rdbuf();
  return text.str();
}

std::vector<std::string> TestedProgram::Files() const {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
    const std::string name = entry.path().filename().string();
    if (name != kOut && name != kErr) names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace millrace
