// The conformance cases on a device behind a driver.
#ifndef MILLRACE_TESTS_CUDA_CONFORMANCE_DEVICE_H_
#define MILLRACE_TESTS_CUDA_CONFORMANCE_DEVICE_H_

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "conformance/harness.h"
#include "convolution_slack.h"
#include "stream/device_driver.h"

namespace millrace::cuda {

using conformance::Case;
using conformance::TestDevice;

inline std::string DataFile(const std::string& family) {
  const std::vector<std::string> files = conformance::CaseFiles(MILLRACE_SOURCE_DIR "/tests/conformance/data");
  const auto file = std::find_if(files.begin(), files.end(), [&](const std::string& path) { return conformance::FamilyOf(path) == family; });
  return file == files.end() ? family : *file;
}

inline std::vector<std::string> FamilyNames() {
  std::vector<std::string> names = conformance::CaseFiles(MILLRACE_SOURCE_DIR "/tests/conformance/data");
  std::transform(names.begin(), names.end(), names.begin(), conformance::FamilyOf);
  return names;
}

struct Tally {
  int passed = 0;
  std::map<std::string, int> refused;  // by op
};

// Runs the cases of ops that `device` has kernels of.
inline Tally RunCases(TestDevice& device, const std::vector<Case>& cases) {
  Tally tally;
  for (const Case& one : cases) {
    if (device.kernels().Find(one.op) == nullptr) continue;
    const absl::Status status = conformance::CheckCase(one, OpRegistry::Builtin(), device);
    if (status.ok()) {
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
  ~DriverDevice() override {
    ReleaseKept();
    driver_.DestroyStream(stream_);
  }
  const KernelRegistry& kernels() const override { return driver_.kernels(); }
  // A case is run several times: allocations are kept for those of just their size, whose ends compute-sanitizer knows.
  void* Allocate(int64_t bytes) override {
    const auto kept = kept_.find(bytes);
    if (kept == kept_.end()) {
      void* const memory = driver_.AllocateDevice(bytes).value();
      bytes_of_[memory] = bytes;
      return memory;
    }
    void* const memory = kept->second;
    kept_bytes_ -= bytes;
    kept_.erase(kept);
    return memory;
  }
  void Free(void* memory) override {
    const int64_t bytes = bytes_of_.at(memory);
    kept_.emplace(bytes, memory);
    kept_bytes_ += bytes;
    if (kept_bytes_ > kMostKept) ReleaseKept();
  }
  void CopyToDevice(void* to, const void* from, int64_t bytes) override {
    EXPECT_TRUE(driver_.CopyToDevice(to, from, bytes, stream_).ok());
    EXPECT_TRUE(driver_.Synchronize(stream_).ok());
  }
  void CopyToHost(void* to, const void* from, int64_t bytes) override {
    EXPECT_TRUE(driver_.CopyToHost(to, from, bytes, stream_).ok());
    EXPECT_TRUE(driver_.Synchronize(stream_).ok());
  }
  void* stream() override { return stream_; }
  absl::Status Synchronize(const OpInstance& node) override {
    absl::Status status = driver_.Synchronize(stream_);
    if (!status.ok()) return status;
    absl::StatusOr<KernelFault> fault = driver_.TakeFault(stream_, [&](int64_t) { return &node; });
    return fault.ok() ? fault->status : fault.status();
  }
  // There are no shards to reorder: run twice, the bits must be the same.
  std::vector<std::pair<std::string, ParallelRunner*>> runners() override { return {{"once", &runner_}, {"twice", &runner_}}; }
  bool is_host() const override { return false; }
  double ulps() const override { return 16; }
  double slack(const Case& test) const override { return ConvolutionSlack(test); }

 private:
  static constexpr int64_t kMostKept = int64_t{256} << 20;

  void ReleaseKept() {
    for (const auto& [bytes, memory] : kept_) {
      bytes_of_.erase(memory);
      driver_.FreeDevice(memory);
    }
    kept_.clear();
    kept_bytes_ = 0;
  }

  DeviceDriver& driver_;
  const DeviceStream stream_;
  std::multimap<int64_t, void*> kept_;  // by bytes
  int64_t kept_bytes_ = 0;
  std::map<void*, int64_t> bytes_of_;   // of those kept, and those given out
  InOrder runner_;
};

}  // namespace millrace::cuda

#endif  // MILLRACE_TESTS_CUDA_CONFORMANCE_DEVICE_H_
