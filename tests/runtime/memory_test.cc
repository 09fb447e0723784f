// Memory of the runtime: what is asked for, what is resident, and that steps ask for nothing.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <map>
#include <numeric>
#include <sstream>
#include <vector>

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
  // Neighbours are one, of which anything that fits may take a part; what is given back is not in use.
  char* const first = static_cast<char*>(*memory.AllocateHome(6000, "a"));
  void* const second = *memory.AllocateHome(9000, "b");
  const int64_t used = memory.home_bytes();
  memory.FreeHome(second, 9000);
  memory.FreeHome(first, 6000);
  EXPECT_EQ(memory.home_bytes(), used - AlignUp(6000) - AlignUp(9000));
  EXPECT_EQ(*memory.AllocateHome(12'000, "c"), first);
  EXPECT_EQ(*memory.AllocateHome(1000, "d"), first + AlignUp(12'000));
  // Large ones go back to the system.
  for (int i = 0; i < 3; ++i) {
    const auto large = memory.AllocateHome(80 * kMiB, "large");
    ASSERT_TRUE(large.ok()) << large.status();
    memory.FreeHome(*large, 80 * kMiB);
  }
}

TEST(HostMemoryTest, HomesDoNotCrossBlocksOfWhichOthersWereFreed) {
  HostMemory memory;
  constexpr int64_t kPart = 4 * kMiB;
  std::vector<char*> homes;  // of three blocks
  for (int i = 0; i < 12; ++i) {
    homes.push_back(static_cast<char*>(*memory.AllocateHome(kPart, "w")));
    std::memset(homes.back(), 1, kPart);
  }
  std::vector<char*> blocks = {homes[0], homes[4], homes[8]};
  const auto crosses = [&](const char* home, int64_t bytes) {
    return std::any_of(blocks.begin(), blocks.end(), [&](const char* block) { return home < block && home + bytes > block; });
  };
  // What is free at the end of one and at the beginning of another, whichever lies before the other.
  for (const int i : {0, 3, 4, 7}) memory.FreeHome(homes[i], kPart);
  for (int i = 0; i < 3; ++i) {
    char* const home = static_cast<char*>(*memory.AllocateHome(kPart + 4096, "v"));
    EXPECT_FALSE(crosses(home, kPart + 4096));
    EXPECT_EQ(std::count(homes.begin(), homes.end(), home), 0) << "nothing that was left is as large";
  }
  for (int i = 0; i < 4; ++i) {
    char* const home = static_cast<char*>(*memory.AllocateHome(kPart, "u"));
    EXPECT_EQ(std::count(homes.begin(), homes.end(), home), 1);
    EXPECT_TRUE(std::all_of(home, home + kPart, [](char byte) { return byte == 0; }));
  }
}

TEST(HostMemoryTest, WhatABlockHasLeftIsOfUseToSmallerHomes) {
  HostMemory memory;
  char* const first = static_cast<char*>(*memory.AllocateHome(10 * kMiB, "w"));
  ASSERT_TRUE(memory.AllocateHome(10 * kMiB, "v").ok());
  EXPECT_EQ(*memory.AllocateHome(6 * kMiB, "u"), first + 10 * kMiB);
}

// Which is mapped, and how much of it.
struct CountingListener : HostMemoryListener {
  void Mapped(void* data, int64_t bytes) override { mapped[data] = bytes; }
  bool Unmapped(void* data) override { return mapped.erase(data) > 0; }
  int64_t bytes() const {
    return std::accumulate(mapped.begin(), mapped.end(), int64_t{0}, [](int64_t sum, const auto& one) { return sum + one.second; });
  }
  std::map<void*, int64_t> mapped;
};

TEST(HostMemoryTest, BlocksOfWhichNothingIsUsedGoBackToTheSystem) {
  CountingListener device;
  HostMemory memory(64 * kMiB);
  memory.set_listener(&device);
  for (int turn = 0; turn < 3; ++turn) {
    std::vector<void*> homes;
    for (int i = 0; i < 16; ++i) homes.push_back(*memory.AllocateHome(4 * kMiB, "w"));
    EXPECT_EQ(device.bytes(), 64 * kMiB);
    for (void* home : homes) memory.FreeHome(home, 4 * kMiB);
    EXPECT_EQ(device.bytes(), 0) << "all were full";
    void* const large = *memory.AllocateHome(16 * kMiB, "v");
    memory.FreeHome(large, 16 * kMiB);
    EXPECT_EQ(device.bytes(), 0);
  }
}

TEST(HostMemoryTest, WhatStaysPageLockedCountsAsInUse) {
  CountingListener device;
  HostMemory memory(20 * kMiB);
  memory.set_listener(&device);
  ASSERT_TRUE(memory.AllocateHome(kMiB, "kept").ok());
  char* const home = static_cast<char*>(*memory.AllocateHome(12 * kMiB, "w"));
  std::memset(home, 1, 12 * kMiB);
  memory.FreeHome(home, 12 * kMiB);
  EXPECT_EQ(memory.home_bytes(), kMiB);
  EXPECT_THAT(memory.ReservePool(10 * kMiB, 0).status().ToString(), HasSubstr("constants 0, page-locked beside variables 12582912); short by 3145728"));
  const auto again = memory.AllocateHome(12 * kMiB, "what needs no more than that");
  ASSERT_EQ(*again, home);
  EXPECT_TRUE(std::all_of(home, home + 12 * kMiB, [](char byte) { return byte == 0; }));
  memory.FreeHome(home, 12 * kMiB);
  memory.set_listener(nullptr);
  EXPECT_TRUE(memory.ReservePool(10 * kMiB, 0).ok()) << "its pages are not resident then";
}

// Sanitizers keep memory of their own beside every byte.
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define MILLRACE_SKIP_RESIDENT_BYTES() GTEST_SKIP() << "resident memory is the sanitizer's, too"
#else
#define MILLRACE_SKIP_RESIDENT_BYTES() static_cast<void>(0)
#endif

int64_t ResidentPages(char* begin, int64_t bytes) {
  const int64_t page = sysconf(_SC_PAGESIZE);
  std::vector<unsigned char> resident(bytes / page);
  EXPECT_EQ(mincore(begin, bytes, resident.data()), 0);
  return std::count_if(resident.begin(), resident.end(), [](unsigned char byte) { return (byte & 1) != 0; });
}

TEST(HostMemoryTest, WhatAHomeLeavesIsNotResident) {
  MILLRACE_SKIP_RESIDENT_BYTES();
  HostMemory memory;
  std::vector<char*> homes;
  const int64_t bytes = kMiB - 64;  // they share pages
  for (int i = 0; i < 6; ++i) {
    homes.push_back(static_cast<char*>(*memory.AllocateHome(bytes, "w")));
    std::memset(homes.back(), 1, bytes);
  }
  for (const int i : {1, 3, 2}) memory.FreeHome(homes[i], bytes);
  const int64_t page = sysconf(_SC_PAGESIZE), first = AlignUp(homes[1] - homes[0], page), last = (homes[4] - homes[0]) / page * page;
  EXPECT_EQ(ResidentPages(homes[0] + first, last - first), 0);
  EXPECT_EQ(homes[0][bytes - 1], 1);
  EXPECT_EQ(homes[4][0], 1);
  char* const again = static_cast<char*>(*memory.AllocateHome(3 * bytes, "v"));
  EXPECT_EQ(again, homes[1]);
  EXPECT_EQ(ResidentPages(homes[0] + first, last - first), 0) << "nor what another gets before it is written";
  EXPECT_TRUE(std::all_of(again, again + 3 * bytes, [](char byte) { return byte == 0; }));
}

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
