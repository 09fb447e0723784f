// The plugin as a program finds it: absent, of another build, without a device.
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cuda/plugin_loader.h"
#include "millrace/device.h"
#include "millrace/op.h"

namespace millrace::cuda {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;

TEST(PluginLoaderTest, APluginThatIsNotThereIsNotFound) {
  const absl::Status status = LoadPlugin("/nonexistent/libmillrace_cuda.so").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()), HasSubstr("/nonexistent/libmillrace_cuda.so: no such file); it is built where"));
}

TEST(PluginLoaderTest, APathThatCannotBeLookedAtIsNotFoundAndSaysWhy) {
  const std::string loop = ::testing::TempDir() + "/loop.so";
  std::filesystem::remove(loop);
  std::filesystem::create_symlink(loop, loop);
  for (const std::string& path : {"/" + std::string(300, 'a'), loop}) {
    const absl::Status status = LoadPlugin(path).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kNotFound) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(path + ": " + (path == loop ? "Too many levels of symbolic links" : "File name too long")));
  }
  std::filesystem::remove(loop);
}

TEST(PluginLoaderTest, AFileThatIsNoLibraryIsNotFoundAndSaysWhy) {
  const std::string path = ::testing::TempDir() + "/not_a_library.so";
  std::ofstream(path) << "not a library";
  const absl::Status status = LoadPlugin(path).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()), HasSubstr("did not load"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("); the loader must find CUDA's libraries"));
  std::remove(path.c_str());
}

#ifdef MILLRACE_HAS_CUDA_PLUGIN
TEST(PluginTest, OpensADeviceOrSaysWhatIsMissing) {
  const auto plugin = LoadPlugin(MILLRACE_BINARY_DIR "/bin/libmillrace_cuda.so");
  ASSERT_TRUE(plugin.ok()) << plugin.status();
  EXPECT_EQ(PluginAbi(), (*plugin)->abi);
  const auto driver = (*plugin)->open({.host = HostOpsOf(CpuKernels(), OpRegistry::Builtin())});
  if (driver.ok()) {
    EXPECT_GT((*driver)->info().total_bytes, 0);
    EXPECT_GT((*driver)->info().context_bytes, 0);
  } else {
    EXPECT_EQ(driver.status().code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(driver.status().message()),
                AnyOf(HasSubstr("no CUDA driver"), HasSubstr("no CUDA device"), HasSubstr("the CUDA driver supports")));
  }
}

TEST(PluginTest, ADeviceThatIsNotThereIsRefused) {
  const auto plugin = LoadPlugin(MILLRACE_BINARY_DIR "/bin/libmillrace_cuda.so");
  ASSERT_TRUE(plugin.ok()) << plugin.status();
  EXPECT_EQ((*plugin)->open({.index = 4711, .host = HostOpsOf(CpuKernels(), OpRegistry::Builtin())}).status().code(),
            absl::StatusCode::kFailedPrecondition);
}
#endif

}  // namespace
}  // namespace millrace::cuda
