// Memory of the runtime: what is asked for, what is resident, and that steps ask for nothing.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/mapped_region.h"
#include "testlib/executor_fixture.h"
#include "testlib/inline_task_runner.h"
#include "testlib/plan_builder.h"

namespace millrace::testing {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kMiB = int64_t{1} << 20;

int64_t ResidentBytes() {
  std::ifstream file("/proc/self/statm");
  int64_t all = 0, resident = 0;
  file >> all >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

TEST(MappedRegionTest, IsAlignedAndNotResidentBeforeItIsTouched) {
  const int64_t before = ResidentBytes();
  auto region = MappedRegion::Create(1024 * kMiB, "a test");
  ASSERT_TRUE(region.ok()) << region.status();
  EXPECT_EQ(reinterpret_cast<intptr_t>(region->data()) % (2 * kMiB), 0);
  EXPECT_EQ(region->size_bytes(), 1024 * kMiB);
  EXPECT_LT(ResidentBytes() - before, 4 * kMiB);
}

TEST(MappedRegionTest, AbsurdSizesAreRefused) {
  for (int64_t bytes : {int64_t{-1}, int64_t{1} << 62}) {
    EXPECT_EQ(MappedRegion::Create(bytes, "a test").status().code(), absl::StatusCode::kResourceExhausted);
  }
}

TEST(HostMemoryTest, WhatADeviceMayUseStillStaysMapped) {
  struct Device : HostMemoryListener {
    void Mapped(void* data, int64_t) override { mapped.push_back(data); }
    bool Unmapped(void*) override { return !uses; }
    std::vector<void*> mapped;
    bool uses = false;
  };
  const auto is_mapped = [](void* data) {
    unsigned char resident = 0;
    return mincore(data, 1, &resident) == 0;
  };
  for (const bool uses : {false, true}) {
    Device device;
    {
      HostMemory memory;
      memory.set_listener(&device);
      ASSERT_TRUE(memory.AllocateHome(40 * kMiB, "w").ok());
      ASSERT_TRUE(memory.ReservePool(8 * kMiB, 0).ok());
      device.uses = uses;
      ASSERT_TRUE(memory.ReservePool(16 * kMiB, 0).ok());
    }
    ASSERT_EQ(device.mapped.size(), 3);
    if (!uses) continue;  // others may have the addresses now
    for (void* data : device.mapped) EXPECT_TRUE(is_mapped(data));
  }
}

TEST(HostMemoryTest, LimitCoversHomesPoolAndConstants) {
  HostMemory memory(1000);
  ASSERT_TRUE(memory.AllocateHome(256, "w").ok());
  ASSERT_TRUE(memory.ReservePool(512, 128).ok());
  EXPECT_EQ(memory.home_bytes(), 256);
  EXPECT_EQ(memory.pool_bytes(), 512);
  EXPECT_THAT(memory.AllocateHome(128, "variable 'v'").status().ToString(),
              HasSubstr("variable 'v' needs 128 bytes of host memory; the limit is 1000 bytes, of which 896 are in use "
                        "(variables 256, swapped tensors 512, constants 128); short by 24 bytes"));
  ASSERT_TRUE(memory.ReservePool(64, 0).ok());
  EXPECT_TRUE(memory.AllocateHome(128, "variable 'v'").ok());
}

TEST(HostMemoryTest, HomesAreZeroAlignedAndApart) {
  HostMemory memory;
  char* last = nullptr;
  for (int64_t bytes : {int64_t{1}, int64_t{100}, 40 * kMiB, int64_t{64}, int64_t{0}}) {
    auto home = memory.AllocateHome(bytes, "w");
    ASSERT_TRUE(home.ok());
    char* data = static_cast<char*>(*home);
    EXPECT_EQ(reinterpret_cast<intptr_t>(data) % kTensorAlignment, 0);
    for (int64_t i = 0; i < std::min<int64_t>(bytes, 1000); ++i) ASSERT_EQ(data[i], 0);
    std::memset(data, 1, bytes);
    EXPECT_NE(data, last);
    last = data;
  }
}

TEST(HostMemoryTest, AHomeThatIsGivenBackIsOfUseAgain) {
  HostMemory memory(100 * kMiB);
  void* const kept = *memory.AllocateHome(100, "w");
  void* const small = *memory.AllocateHome(100, "w");
  std::memset(small, 1, 100);
  memory.FreeHome(small, 100);
  EXPECT_NE(*memory.AllocateHome(300, "another size"), small);
  char* const again = static_cast<char*>(*memory.AllocateHome(90, "v"));
  EXPECT_EQ(again, small);
  EXPECT_TRUE(std::all_of(again, again + 100, [](char byte) { return byte == 0; }));
  EXPECT_NE(*memory.AllocateHome(100, "u"), kept);
  // Large ones go back to the system.
  for (int i = 0; i < 3; ++i) {
    const auto large = memory.AllocateHome(80 * kMiB, "large");
    ASSERT_TRUE(large.ok()) << large.status();
    memory.FreeHome(*large, 80 * kMiB);
  }
}

// Sanitizers keep memory of their own beside every byte.
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define MILLRACE_SKIP_RESIDENT_BYTES() GTEST_SKIP() << "resident memory is the sanitizer's, too"
#else
#define MILLRACE_SKIP_RESIDENT_BYTES() static_cast<void>(0)
#endif

// `tensors` tensors of 16 MiB each: all are made, every other one goes out to the pool and comes back.
PlanBuilder BigPlan(int64_t tensors) {
  const int64_t elements = 4 * kMiB, bytes = 16 * kMiB;
  PlanBuilder b(tensors * bytes);
  for (int64_t i = 0; i < tensors; ++i) b.Compute(absl::StrCat("n", i), "Mix", {}, {{i * bytes, elements}});
  for (int64_t i = 0; i < tensors; i += 2) {
    const std::string name = absl::StrCat("n", i, ":0");
    b.Out(name, i * bytes, bytes, b.PoolRef(i / 2 * bytes), {b.AfterCompute(i + 1)});
    b.In(name, b.PoolRef(i / 2 * bytes), i * bytes, bytes, {b.AfterOut()});
  }
  return b;
}

TEST(ExecutorMemoryTest, ResidentSetIsArenaAndPoolAndLittleElse) {
  MILLRACE_SKIP_RESIDENT_BYTES();
  Runtime runtime;
  const int64_t before = ResidentBytes();
  auto executor = runtime.Make(BigPlan(4).Build());
  ASSERT_TRUE(executor.ok()) << executor.status();
  EXPECT_LT(ResidentBytes() - before, 4 * kMiB) << "nothing is touched before the first step";
  StepStats stats;
  for (int step = 0; step < 2; ++step) ASSERT_TRUE((*executor)->RunStep({}, nullptr, &stats).ok());
  const int64_t planned = 64 * kMiB + 32 * kMiB;
  EXPECT_EQ(stats.peak_device_bytes, 64 * kMiB);
  EXPECT_EQ(stats.peak_host_bytes, 32 * kMiB);
  EXPECT_GE(ResidentBytes() - before, planned - kMiB);
  EXPECT_LE(ResidentBytes() - before, planned + 4 * kMiB);
}

TEST(ExecutorMemoryTest, ExecutorsOfASessionShareArenaAndPool) {
  MILLRACE_SKIP_RESIDENT_BYTES();
  Runtime runtime;
  const int64_t before = ResidentBytes();
  auto large = runtime.Make(BigPlan(4).Build());
  auto small = runtime.Make(BigPlan(2).Build());
  ASSERT_TRUE(large.ok() && small.ok());
  for (int turn = 0; turn < 2; ++turn) {
    ASSERT_TRUE((*large)->RunStep({}, nullptr, nullptr).ok());
    ASSERT_TRUE((*small)->RunStep({}, nullptr, nullptr).ok());
  }
  EXPECT_LE(ResidentBytes() - before, 96 * kMiB + 4 * kMiB);
}

// Counts what the executor asks of a device.
class CountingDevice final : public RuntimeDevice {
 public:
  CountingDevice() : device_(cpu::MakeCpuDevice(0, SharedTestKernels())) {}
  const std::string& name() const override { return device_->name(); }
  int64_t memory_bytes() const override { return device_->memory_bytes(); }
  const KernelRegistry& kernels() const override { return device_->kernels(); }
  bool has_data() const override { return true; }
  absl::StatusOr<void*> ReserveArena(int64_t bytes) override {
    ++reservations;
    return device_->ReserveArena(bytes);
  }
  absl::Status CopyToDevice(void* to, const void* from, int64_t bytes) override {
    ++copies;
    return device_->CopyToDevice(to, from, bytes);
  }
  absl::Status CopyToHost(void* to, const void* from, int64_t bytes) override {
    ++copies;
    return device_->CopyToHost(to, from, bytes);
  }
  absl::StatusOr<std::unique_ptr<LaneEngine>> MakeEngine(const Program& program, const EngineOptions& options) override {
    return device_->MakeEngine(program, options);
  }

  int reservations = 0;
  int copies = 0;

 private:
  std::unique_ptr<RuntimeDevice> device_;
};

TEST(ExecutorMemoryTest, DeviceMemoryIsReservedOnceAndResidentsLoadedOnce) {
  auto owned = std::make_unique<CountingDevice>();
  CountingDevice* device = owned.get();
  Runtime runtime(std::make_unique<InlineTaskRunner>(), std::move(owned));
  PlanBuilder b(256);
  b.Constant("c", {1, 2}, 0);
  const int32_t w = b.Variable("w", 2, 64);
  b.plan().variables[w].read_before_write = b.plan().variables[w].written = true;
  ComputeStep& step = b.Compute("update", "AddTo", {{64, 2}, {0, 2}}, {});
  step.input_variables = {w, -1};
  step.writes_variables = {w};
  auto executor = runtime.Make(b.Build());
  ASSERT_TRUE(executor.ok());
  ASSERT_TRUE(runtime.variables.Set("w", Tensor::Vector<float>({0, 0})).ok());
  for (int i = 0; i < 3; ++i) ASSERT_TRUE((*executor)->RunStep({}, nullptr, nullptr).ok());
  EXPECT_EQ(device->reservations, 1);
  EXPECT_EQ(device->copies, 2) << "c and w in";
  ASSERT_TRUE(runtime.variables.Read().ok());
  EXPECT_EQ(device->copies, 3) << "w home";
  ASSERT_TRUE(runtime.variables.Read().ok());
  EXPECT_EQ(device->copies, 3) << "nothing new to copy";
}

TEST(MappedRegionTest, HugePagesAreCountedWhereTheRegionLies) {
  const std::string text =
      "7f0000000000-7f0000200000 rw-p 00000000 00:00 0\nRss: 2048 kB\nAnonHugePages:      2048 kB\n"
      "7f0000200000-7f0000800000 rw-p 00000000 00:00 0\nRss: 6144 kB\nAnonHugePages:      4096 kB\n"
      "7f0000900000-7f0000a00000 rw-p 00000000 00:00 0 [heap]\nAnonHugePages:         0 kB\n";
  const auto huge = [&](uintptr_t from, int64_t bytes) {
    std::istringstream smaps(text);
    return HugePageBytes(smaps, reinterpret_cast<const void*>(from), bytes);
  };
  EXPECT_EQ(huge(0x7f0000000000, 0x200000), 2 << 20);
  EXPECT_EQ(huge(0x7f0000200000, 0x600000), 4 << 20);
  EXPECT_EQ(huge(0x7f0000100000, 0x200000), 6 << 20);
  EXPECT_EQ(huge(0x7f0000800000, 0x200000), 0);
}

}  // namespace
}  // namespace millrace::testing
