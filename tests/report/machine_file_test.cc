#include "report/machine_file.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

namespace millrace {
namespace {

TEST(MachineFileTest, ReadsRatesAndSizesAndKeepsDefaults) {
  const auto machine = ParseMachine("name: 'm' device_memory: '12GiB' to_host_bytes_per_second: 12e9");
  ASSERT_TRUE(machine.ok()) << machine.status();
  EXPECT_EQ(machine->name, "m");
  EXPECT_EQ(machine->device_memory_bytes, int64_t{12} << 30);
  EXPECT_EQ(machine->host_memory_bytes, 0);
  EXPECT_EQ(machine->to_host_bytes_per_second, 12e9);
  EXPECT_EQ(machine->to_device_bytes_per_second, Machine().to_device_bytes_per_second);
}

TEST(MachineFileTest, ReadsWhatItWrites) {
  Machine machine;
  machine.name = "a \"b\"";
  machine.device_memory_bytes = int64_t{3} << 30;
  machine.flops_per_second = 1.25e12;
  machine.convolution_flops_per_second = 0.75e12;
  machine.launch_seconds = 2.5e-6;
  machine.disk_bytes_per_second = 3.5e9;
  machine.disk_latency_seconds = 40e-6;
  machine.tensor_alignment_bytes = 256;
  const auto read = ParseMachine(MachineToText(machine));
  ASSERT_TRUE(read.ok()) << read.status() << MachineToText(machine);
  EXPECT_EQ(read->name, machine.name);
  EXPECT_EQ(read->device_memory_bytes, machine.device_memory_bytes);
  EXPECT_EQ(read->host_memory_bytes, 0);
  EXPECT_EQ(read->flops_per_second, machine.flops_per_second);
  EXPECT_EQ(read->convolution_flops_per_second, machine.convolution_flops_per_second);
  EXPECT_EQ(read->launch_seconds, machine.launch_seconds);
  EXPECT_EQ(read->disk_bytes_per_second, machine.disk_bytes_per_second);
  EXPECT_EQ(read->disk_latency_seconds, machine.disk_latency_seconds);
  EXPECT_EQ(read->tensor_alignment_bytes, machine.tensor_alignment_bytes);
}

TEST(MachineFileTest, NamesTheLineOrFieldThatIsWrong) {
  const auto message = [](const char* text) { return std::string(ParseMachine(text).status().message()); };
  EXPECT_NE(message("name: 'm'\nspeed: 3").find("line 2"), std::string::npos) << message("name: 'm'\nspeed: 3");
  EXPECT_NE(message("device_memory: '12 parsecs'").find("device_memory"), std::string::npos);
  EXPECT_NE(message("flops_per_second: 0").find("flops_per_second"), std::string::npos);
  EXPECT_NE(message("convolution_flops_per_second: 0").find("convolution_flops_per_second"), std::string::npos);
  EXPECT_NE(message("to_host_bytes_per_second: nan").find("to_host"), std::string::npos);
  EXPECT_NE(message("launch_seconds: -1").find("launch_seconds"), std::string::npos);
  EXPECT_NE(message("copy_launch_seconds: 1e308").find("copy_launch_seconds"), std::string::npos);
  EXPECT_NE(message("to_device_bytes_per_second: 1e-9").find("to_device"), std::string::npos);
  EXPECT_NE(message("disk_bytes_per_second: 0").find("disk_bytes_per_second"), std::string::npos);
  EXPECT_NE(message("disk_latency_seconds: -1").find("disk_latency_seconds"), std::string::npos);
  EXPECT_NE(message("tensor_alignment_bytes: 96").find("tensor_alignment_bytes: 96, expected a power of two from 64"), std::string::npos);
  EXPECT_NE(message("memory_bytes_per_second: 1e300").find("memory_bytes_per_second"), std::string::npos);
}

TEST(MachineFileTest, EveryCheckedInMachineLoadsAndIsNamedAsItsFile) {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(MILLRACE_SOURCE_DIR "/configs/machines")) {
    const auto machine = LoadMachine(entry.path().string());
    ASSERT_TRUE(machine.ok()) << machine.status();
    EXPECT_EQ(machine->name, entry.path().stem().string());
    ++count;
  }
  EXPECT_GE(count, 9);
  const auto missing = LoadMachine("no/such.pbtxt");
  EXPECT_EQ(missing.status().code(), absl::StatusCode::kNotFound);
}

TEST(MachineFileTest, TheCpuIsAsMachineMeasureWritesIt) {
  const std::string path = MILLRACE_SOURCE_DIR "/configs/machines/cpu.pbtxt";
  std::ifstream file(path);
  std::string comment;
  ASSERT_TRUE(std::getline(file, comment));
  EXPECT_EQ(comment.rfind("# Measured by millrace machine --measure on the device cpu", 0), 0) << comment;
  std::stringstream rates;
  rates << file.rdbuf();
  const auto machine = LoadMachine(path);
  ASSERT_TRUE(machine.ok()) << machine.status();
  EXPECT_EQ(rates.str(), MachineToText(*machine));
}

}  // namespace
}  // namespace millrace
