#include <cstdlib>
#include <cstring>
#include <thread>

#include "conformance/harness.h"

namespace millrace::conformance {
namespace {

class InOrder final : public ParallelRunner {
 public:
  void For(int64_t shards, absl::FunctionRef<void(int64_t)> fn) override {
    for (int64_t i = 0; i < shards; ++i) fn(i);
  }
};

class Reversed final : public ParallelRunner {
 public:
  void For(int64_t shards, absl::FunctionRef<void(int64_t)> fn) override {
    for (int64_t i = shards - 1; i >= 0; --i) fn(i);
  }
};

class FourThreads final : public ParallelRunner {
 public:
  void For(int64_t shards, absl::FunctionRef<void(int64_t)> fn) override {
    std::vector<std::thread> threads;
    for (int64_t t = 0; t < 4; ++t) {
      threads.emplace_back([&, t] {
        for (int64_t i = t; i < shards; i += 4) fn(i);
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
};

class HostDevice final : public TestDevice {
 public:
  explicit HostDevice(const KernelRegistry& kernels) : kernels_(kernels) {}
  const KernelRegistry& kernels() const override { return kernels_; }
  void* Allocate(int64_t bytes) override { return std::aligned_alloc(kTensorAlignment, AlignUp(bytes)); }
  void Free(void* memory) override { std::free(memory); }
  void CopyToDevice(void* to, const void* from, int64_t bytes) override { std::memcpy(to, from, bytes); }
  void CopyToHost(void* to, const void* from, int64_t bytes) override { std::memcpy(to, from, bytes); }
  std::vector<std::pair<std::string, ParallelRunner*>> runners() override {
    return {{"shards in order", &in_order_}, {"shards in reverse", &reversed_}, {"four threads", &four_threads_}};
  }
  bool is_host() const override { return true; }

 private:
  const KernelRegistry& kernels_;
  InOrder in_order_;
  Reversed reversed_;
  FourThreads four_threads_;
};

}  // namespace

std::unique_ptr<TestDevice> MakeHostDevice(const KernelRegistry& kernels) {
  return std::make_unique<HostDevice>(kernels);
}

}  // namespace millrace::conformance
