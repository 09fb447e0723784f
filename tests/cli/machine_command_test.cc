// machine: what is planned for, as it is printed, written and measured.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "cli/commands.h"
#include "cli/exit_status.h"
#include "report/machine_file.h"

namespace millrace::cli {
namespace {

namespace fs = std::filesystem;

class MachineCommandTest : public testing::Test {
 protected:
  MachineCommandTest() {
    environment_.out = &out_;
    options_.engine.device = "null";
  }

  std::ostringstream out_;
  Environment environment_;
  Options options_;
};

TEST_F(MachineCommandTest, MeasuringIsOfThisMachineNotOfAFile) {
  options_.measure = true;
  options_.engine.device = "cpu";
  options_.engine.machine = MILLRACE_SOURCE_DIR "/configs/machines/titanx.pbtxt";
  EXPECT_EQ(ExitStatus(MachineCommand(options_, environment_)), kExitUsage);
}

TEST_F(MachineCommandTest, PrintsWhatIsReadBack) {
  ASSERT_TRUE(MachineCommand(options_, environment_).ok());
  const absl::StatusOr<Machine> machine = ParseMachine(out_.str());
  ASSERT_TRUE(machine.ok()) << machine.status();
  EXPECT_EQ(machine->to_host_bytes_per_second, Machine().to_host_bytes_per_second);
}

TEST_F(MachineCommandTest, WritesAFile) {
  const fs::path file = fs::path(testing::TempDir()) / absl::StrCat("machine_", getpid(), ".pbtxt");
  options_.engine.machine = file.string();
  std::ofstream(file) << "name: \"tiny\" flops_per_second: 5e9 device_memory: \"4KiB\"";
  options_.out = file.string() + ".copy";
  const absl::Status status = MachineCommand(options_, environment_);
  ASSERT_TRUE(status.ok()) << status;
  std::stringstream text;
  text << std::ifstream(options_.out).rdbuf();
  const absl::StatusOr<Machine> machine = ParseMachine(text.str());
  ASSERT_TRUE(machine.ok()) << machine.status();
  EXPECT_EQ(machine->name, "tiny");
  EXPECT_EQ(machine->flops_per_second, 5e9);
  EXPECT_EQ(machine->device_memory_bytes, 4096);
  fs::remove(file);
  fs::remove(options_.out);
}

TEST_F(MachineCommandTest, StandardOutputGoesByItsName) {
  options_.out = "-";
  const absl::Status status = MachineCommand(options_, environment_);
  EXPECT_EQ(ExitStatus(status), kExitUsage);
  EXPECT_EQ(status.message(), "--out=-: expected the name of a file; standard output is /dev/stdout, the file of this name ./-");
}

TEST_F(MachineCommandTest, TheNullDeviceHasNothingToMeasure) {
  options_.measure = true;
  EXPECT_EQ(ExitStatus(MachineCommand(options_, environment_)), kExitUsage);
}

}  // namespace
}  // namespace millrace::cli
