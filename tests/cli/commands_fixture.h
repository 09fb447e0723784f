// What tests of commands share: a folder of their own, a training step's options, and a session without an engine.
#ifndef MILLRACE_TESTS_CLI_COMMANDS_FIXTURE_H_
#define MILLRACE_TESTS_CLI_COMMANDS_FIXTURE_H_

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "cli/commands.h"
#include "fake_session.h"

namespace millrace::cli {

class CommandsFixture : public ::testing::Test {
 protected:
  // `name`: of the folder, before the process.
  explicit CommandsFixture(const std::string& name) : folder_(std::filesystem::path(::testing::TempDir()) / absl::StrCat(name, "_", getpid())) {}

  void SetUp() override {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
    options_.input.graph = "graph.pb";
    options_.input.fetches = {"logits:0", "loss:0"};
    options_.input.targets = {"train"};
    options_.input.init_targets = {"init"};
    options_.input.steps = 3;
    options_.strategy.strategy = "tensorflowmem";
    options_.strategy.strategies = {"baseline", "tensorflowmem", "lru"};
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string Path(const std::string& name) const { return (folder_ / name).string(); }
  std::string Read(const std::string& name) const {
    std::stringstream text;
    text << std::ifstream(Path(name)).rdbuf();
    return text.str();
  }

  const std::filesystem::path folder_;
  Options options_;
  FakeWorld world_;
};

}  // namespace millrace::cli

#endif  // MILLRACE_TESTS_CLI_COMMANDS_FIXTURE_H_
