// The conformance cases on the CUDA device's kernels: compiled for the host, where every launch is a loop, and on the
// device itself where there is one. What a kernel refuses runs on the CPU's kernels, which pass the cases themselves.
#include <algorithm>
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

std::string DataFile(const std::string& family) {
  return MILLRACE_SOURCE_DIR "/tests/conformance/data/" + family + ".pb";
}

std::vector<std::string> FamilyNames() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(MILLRACE_SOURCE_DIR "/tests/conformance/data")) {
    if (entry.path().extension() == ".pb") names.push_back(entry.path().stem());
  }
  std::sort(names.begin(), names.end());
  return names;
}

struct Tally {
  int passed = 0;
  std::map<std::string, int> refused;  // by op
};

// Runs the cases of ops that `device` has kernels of.
Tally RunCases(TestDevice& device, const std::vector<Case>& cases) {
  Tally tally;
  for (const Case& one : cases) {
    if (device.kernels().Find(one.op) == nullptr) continue;
    const absl::Status status = conformance::CheckCase(one, OpRegistry::Builtin(), device);
    // An index out of range is said in the device's words: it knows no node and no shape.
    const bool same_error = one.error && (status.message().find("INVALID_ARGUMENT: input ") != std::string::npos ||
                                          status.message().find("INVALID_ARGUMENT: label ") != std::string::npos);
    if (status.ok() || same_error) {
      ++tally.passed;
    } else if (status.message().find("no CUDA kernel") != std::string::npos ||
               status.message().find("no such product") != std::string::npos) {
      ++tally.refused[one.op];
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
  int refused = 0;
  std::set<std::string> covered;
  for (const std::string& family : FamilyNames()) {
    SCOPED_TRACE(family);
    const auto cases = conformance::LoadCases(DataFile(family));
    ASSERT_TRUE(cases.ok()) << cases.status();
    const Tally tally = RunCases(*device, *cases);
    all.passed += tally.passed;
    for (const auto& [op, count] : tally.refused) {
      std::printf("%s: %d cases of %s are left to the CPU's kernels\n", family.c_str(), count, op.c_str());
      refused += count;
    }
    if (tally.passed > 0) covered.insert(family);
  }
  std::printf("%d cases passed, %d are left to the CPU's kernels\n", all.passed, refused);
  EXPECT_GT(all.passed, 3600);
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
  double ulps() const override { return 16; }

 private:
  DeviceDriver& driver_;
  const DeviceStream stream_;
  InOrder runner_;
};

// A process per family is what bench/gpu_check.sh runs: an access out of bounds takes the device from all that comes
// after it in the same process.
class CudaDeviceTest : public ::testing::TestWithParam<std::string> {};

TEST_P(CudaDeviceTest, PassesTheConformanceCases) {
  const absl::StatusOr<const PluginTable*> plugin = LoadPlugin(MILLRACE_BINARY_DIR "/bin/libmillrace_cuda.so");
  if (!plugin.ok()) GTEST_SKIP() << plugin.status().message();
  auto driver = (*plugin)->open({.host_kernels = &CpuKernels()});
  if (!driver.ok()) GTEST_SKIP() << driver.status().message();
  DriverDevice device(**driver);
  const auto cases = conformance::LoadCases(DataFile(GetParam()));
  ASSERT_TRUE(cases.ok()) << cases.status();
  std::printf("%d cases passed on %s\n", RunCases(device, *cases).passed, (*driver)->info().name.c_str());
}

INSTANTIATE_TEST_SUITE_P(Families, CudaDeviceTest, ::testing::ValuesIn(FamilyNames()),
                         [](const auto& param) { return param.param; });

}  // namespace
}  // namespace millrace::cuda
