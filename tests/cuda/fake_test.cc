// The plugin's own code on a CUDA runtime, cuBLASLt and cuDNN that are faked on the host (runtime/devices/cuda/fake): what it tells them, what
// it does with their answers, and the ops that it leaves to the host.
#include <cstdio>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "conformance_device.h"
#include "cuda/plugin_loader.h"
#include "millrace/device.h"

namespace millrace::cuda {
namespace {

using ::testing::HasSubstr;

std::unique_ptr<DeviceDriver> OpenFake(const DriverOptions& options) {
  const auto plugin = LoadPlugin(MILLRACE_CUDA_FAKE);
  EXPECT_TRUE(plugin.ok()) << plugin.status();
  if (!plugin.ok()) return nullptr;
  auto driver = (*plugin)->open(options);
  EXPECT_TRUE(driver.ok()) << driver.status();
  return driver.ok() ? *std::move(driver) : nullptr;
}

class FakePluginTest : public ::testing::TestWithParam<bool> {};

// With and without measured convolutions.
TEST_P(FakePluginTest, PassesTheConformanceCases) {
  const auto driver = OpenFake({.measure_convolutions = GetParam(), .host_kernels = &CpuKernels()});
  ASSERT_NE(driver, nullptr);
  DriverDevice device(*driver);
  int passed = 0;
  for (const std::string& family : FamilyNames()) {
    if (GetParam() && family.find("conv") == std::string::npos) continue;
    SCOPED_TRACE(family);
    const auto cases = conformance::LoadCases(DataFile(family));
    ASSERT_TRUE(cases.ok()) << cases.status();
    const Tally tally = RunCases(device, *cases);
    passed += tally.passed;
    for (const auto& [op, count] : tally.refused) ADD_FAILURE() << op << " is refused in " << count << " cases";
  }
  std::printf("%d cases passed\n", passed);
  EXPECT_GT(passed, GetParam() ? 100 : 5000);
}

INSTANTIATE_TEST_SUITE_P(Choices, FakePluginTest, ::testing::Bool(),
                         [](const auto& param) { return param.param ? "MeasuredConvolutions" : "RankedConvolutions"; });

TEST(FakeDriverTest, MemoryThatIsNotThereIsRefusedWithFigures) {
  const auto driver = OpenFake({.host_kernels = &CpuKernels()});
  ASSERT_NE(driver, nullptr);
  const auto memory = driver->AllocateDevice(int64_t{3} << 30);
  EXPECT_EQ(memory.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(memory.status().message()), HasSubstr("1073741824 of 2147483648 are free"));
  const auto some = driver->AllocateDevice(1 << 20);  // the error is over
  ASSERT_TRUE(some.ok()) << some.status();
  driver->FreeDevice(*some);
}

TEST(FakeDriverTest, ARefusedCallNamesItAndIsNotBlamedOnTheNext) {
  const auto driver = OpenFake({.host_kernels = &CpuKernels()});
  ASSERT_NE(driver, nullptr);
  const auto stream = driver->CreateStream();
  ASSERT_TRUE(stream.ok()) << stream.status();
  const absl::Status captured = driver->BeginCapture(*stream);
  EXPECT_THAT(std::string(captured.message()), HasSubstr("cudaStreamBeginCapture"));
  EXPECT_TRUE(driver->Synchronize(*stream).ok());
  driver->DestroyStream(*stream);
}

}  // namespace
}  // namespace millrace::cuda
