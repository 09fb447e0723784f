// The conformance cases on the CUDA device's kernels: compiled for the host, where every launch is a loop, and on the
// device itself where there is one. What a kernel refuses runs on the CPU's kernels, which pass the cases themselves.
#include <filesystem>
#include <map>
#include <set>

#include <gtest/gtest.h>

#include "conformance/harness.h"
#include "cuda/emulated/host_services.h"
#include "cuda/kernels/register.h"
#include "cuda/plugin_loader.h"
#include "millrace/device.h"

namespace millrace::cuda {
namespace {

using conformance::Case;
using conformance::TestDevice;

std::map<std::string, std::vector<Case>> LoadAllCases() {
  std::map<std::string, std::vector<Case>> families;
  for (const auto& entry : std::filesystem::directory_iterator(MILLRACE_SOURCE_DIR "/tests/conformance/data")) {
    if (entry.path().extension() != ".pb") continue;
    absl::StatusOr<std::vector<Case>> cases = conformance::LoadCases(entry.path());
    EXPECT_TRUE(cases.ok()) << cases.status();
    if (cases.ok()) families[entry.path().stem()] = *std::move(cases);
  }
  return families;
}

struct Tally {
  int passed = 0;
  int refused = 0;
};

// Runs the cases of ops that `device` has kernels of.
Tally RunCases(TestDevice& device, const std::vector<Case>& cases) {
  Tally tally;
  for (const Case& one : cases) {
    if (device.kernels().Find(one.op) == nullptr) continue;
    const absl::Status status = conformance::CheckCase(one, OpRegistry::Builtin(), device);
    // An index out of range is said in the device's words: it knows no node and no shape.
    const bool same_error = one.error && status.message().find("INVALID_ARGUMENT: input ") != std::string::npos;
    if (status.ok() || same_error) {
      ++tally.passed;
    } else if (status.message().find("no CUDA kernel") != std::string::npos ||
               status.message().find("float only") != std::string::npos) {
      ++tally.refused;
    } else {
      ADD_FAILURE() << one.op << " " << one.name << ": " << status;
    }
  }
  return tally;
}

TEST(CudaKernelsTest, LaunchedOnTheHostTheyPassTheConformanceCases) {
  HostServices services(/*written_out=*/true);
  KernelRegistry registry;
  RegisterCudaKernels(registry, services);
  const auto device = conformance::MakeHostDevice(registry);
  Tally all;
  std::set<std::string> covered;
  for (const auto& [family, cases] : LoadAllCases()) {
    SCOPED_TRACE(family);
    const Tally tally = RunCases(*device, cases);
    all.passed += tally.passed;
    all.refused += tally.refused;
    if (tally.passed > 0) covered.insert(family);
  }
  std::printf("%d cases passed, %d are left to the CPU's kernels\n", all.passed, all.refused);
  EXPECT_GT(all.passed, 2000);
  for (const char* family : {"array", "binary", "conv", "gather_scatter", "matmul", "reduction", "slice", "unary", "variable"}) {
    EXPECT_EQ(covered.count(family), 1) << family;
  }
}

class InOrder final : public ParallelRunner {
 public:
  void For(int64_t shards, absl::FunctionRef<void(int64_t)> fn) override {
    for (int64_t i = 0; i < shards; ++i) fn(i);
  }
};

// A device behind a driver.
class DriverDevice final : public TestDevice {
 public:
  explicit DriverDevice(DeviceDriver& driver) : driver_(driver), stream_(driver.CreateStream().value()) {}
  ~DriverDevice() override { driver_.DestroyStream(stream_); }
  const KernelRegistry& kernels() const override { return driver_.kernels(); }
  void* Allocate(int64_t bytes) override { return driver_.AllocateDevice(bytes).value(); }
  void Free(void* memory) override { driver_.FreeDevice(memory); }
  void CopyToDevice(void* to, const void* from, int64_t bytes) override {
    EXPECT_TRUE(driver_.CopyToDevice(to, from, bytes, stream_).ok());
    EXPECT_TRUE(driver_.Synchronize(stream_).ok());
  }
  void CopyToHost(void* to, const void* from, int64_t bytes) override {
    EXPECT_TRUE(driver_.CopyToHost(to, from, bytes, stream_).ok());
    EXPECT_TRUE(driver_.Synchronize(stream_).ok());
  }
  void* stream() override { return stream_; }
  absl::Status Synchronize() override {
    absl::Status status = driver_.Synchronize(stream_);
    if (!status.ok()) return status;
    absl::StatusOr<KernelFault> fault = driver_.TakeFault(stream_);
    return fault.ok() ? fault->status : fault.status();
  }
  // There are no shards to reorder: run twice, the bits must be the same.
  std::vector<std::pair<std::string, ParallelRunner*>> runners() override { return {{"once", &runner_}, {"twice", &runner_}}; }
  bool is_host() const override { return false; }

 private:
  DeviceDriver& driver_;
  const DeviceStream stream_;
  InOrder runner_;
};

TEST(CudaDeviceTest, PassesTheConformanceCases) {
  const absl::StatusOr<const PluginTable*> plugin = LoadPlugin(MILLRACE_BINARY_DIR "/bin/libmillrace_cuda.so");
  if (!plugin.ok()) GTEST_SKIP() << plugin.status().message();
  auto driver = (*plugin)->open({.host_kernels = &CpuKernels()});
  if (!driver.ok()) GTEST_SKIP() << driver.status().message();
  DriverDevice device(**driver);
  Tally all;
  for (const auto& [family, cases] : LoadAllCases()) {
    SCOPED_TRACE(family);
    all.passed += RunCases(device, cases).passed;
  }
  std::printf("%d cases passed on %s\n", all.passed, (*driver)->info().name.c_str());
  EXPECT_GT(all.passed, 900);
}

}  // namespace
}  // namespace millrace::cuda
