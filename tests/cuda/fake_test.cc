// The plugin's own code on a CUDA runtime, cuBLASLt and cuDNN that are faked on the host (runtime/devices/cuda/fake): what it tells them, what
// it does with their answers, and the ops that it leaves to the host.
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "conformance_device.h"
#include "cuda/plugin_loader.h"
#include "fake_library.h"
#include "millrace/device.h"
#include "millrace/op.h"
#include "product_sums.h"
#include "runtime/mapped_region.h"

namespace millrace::cuda {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::unique_ptr<DeviceDriver> OpenFake(DriverOptions options = {}) {
  options.host = HostOpsOf(CpuKernels(), OpRegistry::Builtin());
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
  const auto driver = OpenFake({.measure_convolutions = GetParam()});
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

// 257 and 2,049 are no halves of these types: parts of a sum that were rounded would come to 0 in the end.
TEST(FakeDriverTest, ProductsOfHalvesAreSummedInFloat) {
  const auto driver = OpenFake();
  ASSERT_NE(driver, nullptr);
  DriverDevice device(*driver);
  const struct {
    DataType dtype;
    uint16_t one, large, minus_large;
  } halves[] = {{DataType::kHalf, 0x3c00, 0x6800, 0xe800}, {DataType::kBfloat16, 0x3f80, 0x4380, 0xc380}};
  constexpr int64_t kRows = 4, kInner = 64, kColumns = 8;
  for (const auto& half : halves) {
    conformance::Case test;
    test.name = "halves";
    test.op = "MatMul";
    test.attrs.Set("T", half.dtype);
    Tensor a(half.dtype, Shape({kRows, kInner})), b(half.dtype, Shape({kInner, kColumns})), c(half.dtype, Shape({kRows, kColumns}));
    auto *terms = static_cast<uint16_t*>(a.mutable_data()), *ones = static_cast<uint16_t*>(b.mutable_data());
    std::fill_n(terms, a.num_elements(), uint16_t{0});
    for (int64_t row = 0; row < kRows; ++row) {
      terms[row * kInner] = half.large;
      terms[row * kInner + 1] = half.one;
      terms[row * kInner + kInner / 2] = half.minus_large;
    }
    std::fill_n(ones, b.num_elements(), half.one);
    std::fill_n(static_cast<uint16_t*>(c.mutable_data()), c.num_elements(), half.one);
    test.inputs = {a, b};
    test.is_variable = {false, false};
    test.outputs[0] = {c.type(), 1, c};
    const absl::Status checked = conformance::CheckCase(test, OpRegistry::Builtin(), device);
    EXPECT_TRUE(checked.ok()) << checked;
  }
}

TEST(FakeProductsTest, SumsOfProductsAreExactInEveryType) {
  const auto driver = OpenFake();
  ASSERT_NE(driver, nullptr);
  DriverDevice device(*driver);
  const auto cases = ProductSums({DataType::kFloat, DataType::kDouble, DataType::kHalf, DataType::kBfloat16});
  EXPECT_EQ(RunCases(device, cases).passed, static_cast<int>(cases.size()));
}

TEST(FakeDriverTest, MemoryThatIsNotThereIsRefusedWithFigures) {
  const auto driver = OpenFake();
  ASSERT_NE(driver, nullptr);
  const auto memory = driver->AllocateDevice(int64_t{3} << 30);
  EXPECT_EQ(memory.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(memory.status().message()),
              AllOf(HasSubstr("cannot allocate 3221225472 bytes of device memory"), HasSubstr(" of 2147483648 are free")));
  const auto some = driver->AllocateDevice(1 << 20);  // the error is over
  ASSERT_TRUE(some.ok()) << some.status();
  driver->FreeDevice(*some);
}

TEST(FakeDriverTest, PageLockedMemoryPrefersTheNodeNearTheDevice) {
  constexpr int kPreferred = 1;            // MPOL_PREFERRED
  constexpr unsigned long kOfAddress = 2;  // MPOL_F_ADDR
  const auto driver = OpenFake();
  ASSERT_NE(driver, nullptr);
  ASSERT_EQ(driver->info().numa_node, 0);
  auto region = MappedRegion::Create(1 << 20, "a test");
  ASSERT_TRUE(region.ok()) << region.status();
  int mode = -1;
  unsigned long nodes[16] = {};
  const auto ask = [&] { return syscall(SYS_get_mempolicy, &mode, nodes, 8 * sizeof nodes, region->data(), kOfAddress); };
  if (ask() != 0) GTEST_SKIP() << "policies of memory cannot be asked for: " << std::strerror(errno);
  ASSERT_EQ(mode, 0) << "the default";
  if (syscall(SYS_mbind, region->data(), 4096UL, 0, nullptr, 0UL, 0U) != 0) {
    GTEST_SKIP() << "policies of memory cannot be set: " << std::strerror(errno);
  }
  ASSERT_TRUE(driver->PinHost(region->data(), region->size_bytes()).ok());
  ASSERT_EQ(ask(), 0) << std::strerror(errno);
  EXPECT_EQ(mode, kPreferred);
  EXPECT_EQ(nodes[0], 1) << "node 0 alone";
  driver->UnpinHost(region->data());
}

// The lock holds its pages, which would be another mapping's at the same address.
TEST(FakeDriverTest, HostMemoryOfADeviceThatWasGivenUpStaysAndTheDeviceIsNotOpenedAgain) {
  testing::Throw("hang@1");  // its fault word is cleared before
  {
    const auto driver = OpenFake({.timeout_seconds = 0.002});
    ASSERT_NE(driver, nullptr);
    auto kept = MappedRegion::Create(1 << 20, "a test"), given_back = MappedRegion::Create(1 << 20, "a test");
    ASSERT_TRUE(kept.ok() && given_back.ok());
    for (const auto* region : {&*kept, &*given_back}) ASSERT_TRUE(driver->PinHost(region->data(), region->size_bytes()).ok());
    EXPECT_TRUE(driver->UnpinHost(given_back->data()));
    const DeviceStream stream = driver->CreateStream().value();
    const DeviceEvent event = driver->CreateEvent(false).value();
    ASSERT_TRUE(driver->Record(event, stream).ok());
    EXPECT_TRUE(absl::IsUnavailable(driver->Synchronize(stream)));
    EXPECT_FALSE(driver->UnpinHost(kept->data()));
    kept->KeepForever();
  }
  const auto plugin = LoadPlugin(MILLRACE_CUDA_FAKE);
  ASSERT_TRUE(plugin.ok()) << plugin.status();
  const absl::Status again = (*plugin)->open({.host = HostOpsOf(CpuKernels(), OpRegistry::Builtin())}).status();
  EXPECT_EQ(again.code(), absl::StatusCode::kUnavailable) << again;
  EXPECT_THAT(std::string(again.message()), AllOf(HasSubstr("fake (cuda:0) was lost (it did not answer"), HasSubstr("a new process is needed")));
  testing::Throw("");
  EXPECT_NE(OpenFake(), nullptr);
}

// Where the thread has set a device that the process does not use, CUDA would make a context on it.
TEST(FakeDriverTest, CallsAreMadeOnTheDeviceOfWhatTheyAreAbout) {
  testing::Throw("");
  const auto other = OpenFake(), driver = OpenFake({.index = 1});
  ASSERT_TRUE(other != nullptr && driver != nullptr);
  OpInstance node;
  node.op = "MatrixSquareRoot";
  node.attrs.Set("T", DataType::kFloat);
  node.inputs = node.outputs = {{DataType::kFloat, Shape({2, 2})}};
  auto of_host = (*driver->kernels().Find(node.op))(node);
  ASSERT_TRUE(of_host.ok()) << of_host.status();
  const DeviceStream stream = driver->CreateStream().value();
  const DeviceEvent from = driver->CreateEvent(true).value(), to = driver->CreateEvent(true).value();
  ASSERT_TRUE(driver->Record(from, stream).ok());
  ASSERT_TRUE(driver->Record(to, stream).ok());
  ASSERT_TRUE(driver->Synchronize(stream).ok());
  ASSERT_TRUE(driver->BeginCapture(stream).ok());
  const auto graph = driver->EndCapture(stream);
  ASSERT_TRUE(graph.ok()) << graph.status();
  const auto leave = [&] { EXPECT_TRUE(other->FreeBytes().ok()); };  // the thread has set its device then
  leave();
  EXPECT_TRUE(driver->SecondsBetween(from, to).ok());
  leave();
  driver->DestroyEvent(from);
  leave();
  driver->DestroyEvent(to);
  leave();
  driver->DestroyGraph(*graph);
  leave();
  of_host->reset();
  leave();
  driver->DestroyStream(stream);
  EXPECT_EQ(testing::Count("stray"), 0);
}

TEST(FakeDriverTest, ARefusedCallNamesItAndIsNotBlamedOnTheNext) {
  const auto driver = OpenFake();
  ASSERT_NE(driver, nullptr);
  const auto stream = driver->CreateStream();
  ASSERT_TRUE(stream.ok()) << stream.status();
  const absl::Status ended = driver->EndCapture(*stream).status();
  EXPECT_THAT(std::string(ended.message()), HasSubstr("cudaStreamEndCapture"));
  EXPECT_TRUE(driver->Synchronize(*stream).ok());
  driver->DestroyStream(*stream);
}

// What a device would refuse is refused: the plugin's other tests show that it does none of it.
class FakeRefusesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    driver_ = OpenFake();
    ASSERT_NE(driver_, nullptr);
    first_ = driver_->CreateStream().value();
    second_ = driver_->CreateStream().value();
    event_ = driver_->CreateEvent(false).value();
    timed_ = driver_->CreateEvent(true).value();
    device_ = static_cast<char*>(driver_->AllocateDevice(kBytes).value());
    ASSERT_TRUE(driver_->PinHost(host_, sizeof host_).ok());
  }
  void TearDown() override {
    if (driver_ == nullptr) return;
    driver_->UnpinHost(host_);
    driver_->FreeDevice(device_);
    for (DeviceEvent event : {event_, timed_}) driver_->DestroyEvent(event);
    for (DeviceStream stream : {first_, second_}) driver_->DestroyStream(stream);
  }
  // In a capture of the first stream. Whatever it does, the streams are usable afterwards.
  template <typename Call>
  absl::Status InCapture(const Call& call) {
    EXPECT_TRUE(driver_->BeginCapture(first_).ok());
    const absl::Status called = call();
    auto graph = driver_->EndCapture(first_);
    EXPECT_EQ(graph.ok(), called.ok());
    if (graph.ok()) driver_->DestroyGraph(*graph);
    EXPECT_TRUE(driver_->Synchronize(first_).ok());
    EXPECT_TRUE(driver_->Synchronize(second_).ok());
    return called;
  }

  static constexpr int64_t kBytes = 256;
  std::unique_ptr<DeviceDriver> driver_;
  DeviceStream first_ = nullptr, second_ = nullptr;
  DeviceEvent event_ = nullptr, timed_ = nullptr;
  char* device_ = nullptr;
  alignas(4096) char host_[2 * kBytes] = {};  // which others share its page is not chance's
};

TEST_F(FakeRefusesTest, CopiesBeyondAnAllocationOrWithinTheHost) {
  EXPECT_TRUE(driver_->CopyToDevice(device_, host_, kBytes, first_).ok());
  EXPECT_FALSE(driver_->CopyToDevice(device_ + 1, host_, kBytes, first_).ok());
  EXPECT_FALSE(driver_->CopyToHost(host_, device_, kBytes + 1, first_).ok());
  EXPECT_FALSE(driver_->CopyToDevice(host_, host_ + kBytes, 8, first_).ok());
  EXPECT_FALSE(driver_->CopyToHost(device_, device_ + 8, 8, first_).ok());
}

TEST_F(FakeRefusesTest, PagesThatArePageLockedAlready) {
  EXPECT_FALSE(driver_->PinHost(host_, sizeof host_).ok());
  EXPECT_FALSE(driver_->PinHost(host_ + sizeof host_, 1).ok()) << "the rest of their page";
}

TEST_F(FakeRefusesTest, StreamsAndEventsThatAreNotThere) {
  const DeviceStream gone = driver_->CreateStream().value();
  driver_->DestroyStream(gone);
  EXPECT_FALSE(driver_->CopyToDevice(device_, host_, 8, gone).ok());
  EXPECT_FALSE(driver_->Record(event_, gone).ok());
  EXPECT_FALSE(driver_->CopyToDevice(device_, host_, 8, nullptr).ok());
  EXPECT_FALSE(driver_->WaitFor(first_, event_).ok()) << "it was never recorded";
  EXPECT_TRUE(driver_->Record(event_, first_).ok());
  EXPECT_TRUE(driver_->WaitFor(second_, event_).ok());
}

TEST_F(FakeRefusesTest, TimesOfEventsThatHaveNotComeToPass) {
  EXPECT_FALSE(driver_->SecondsBetween(timed_, timed_).ok());
  EXPECT_TRUE(driver_->Record(timed_, first_).ok());
  EXPECT_FALSE(driver_->SecondsBetween(timed_, timed_).ok());
  EXPECT_TRUE(driver_->Synchronize(first_).ok());
  EXPECT_TRUE(driver_->SecondsBetween(timed_, timed_).ok());
  EXPECT_FALSE(driver_->SecondsBetween(timed_, event_).ok()) << "one is not timed";
}

TEST_F(FakeRefusesTest, CallsThatACaptureForbids) {
  EXPECT_TRUE(InCapture([&] { return driver_->CopyToDevice(device_, host_, 8, first_); }).ok());
  EXPECT_FALSE(InCapture([&] { return driver_->Synchronize(first_); }).ok());
  EXPECT_FALSE(InCapture([&] { return driver_->Synchronize(second_); }).ok());
  EXPECT_FALSE(InCapture([&] { return driver_->AllocateDevice(8).status(); }).ok());
  char pageable[8];
  EXPECT_FALSE(InCapture([&] { return driver_->CopyToHost(pageable, device_, 8, first_); }).ok());
  EXPECT_TRUE(driver_->Record(event_, second_).ok());
  EXPECT_FALSE(InCapture([&] { return driver_->WaitFor(first_, event_); }).ok()) << "an event from outside";
}

TEST_F(FakeRefusesTest, StreamsThatACaptureDoesNotWaitFor) {
  ASSERT_TRUE(driver_->BeginCapture(first_).ok());
  EXPECT_TRUE(driver_->Record(event_, first_).ok());
  EXPECT_TRUE(driver_->WaitFor(second_, event_).ok());
  EXPECT_TRUE(driver_->CopyToDevice(device_, host_, 8, second_).ok());
  EXPECT_FALSE(driver_->EndCapture(first_).ok());
  EXPECT_FALSE(driver_->WaitFor(second_, event_).ok()) << "the event is of a capture that has ended";
  EXPECT_TRUE(driver_->Synchronize(second_).ok());
}

TEST_F(FakeRefusesTest, WhatIsCapturedRunsInEveryLaunchAndNotBefore) {
  ASSERT_TRUE(driver_->BeginCapture(first_).ok());
  ASSERT_TRUE(driver_->CopyToDevice(device_, host_, 8, first_).ok());
  ASSERT_TRUE(driver_->Record(event_, first_).ok());
  ASSERT_TRUE(driver_->WaitFor(second_, event_).ok());
  ASSERT_TRUE(driver_->CopyToHost(host_ + 8, device_, 8, second_).ok());
  const DeviceEvent joined = driver_->CreateEvent(false).value();
  ASSERT_TRUE(driver_->Record(joined, second_).ok());
  ASSERT_TRUE(driver_->WaitFor(first_, joined).ok());
  const auto graph = driver_->EndCapture(first_);
  ASSERT_TRUE(graph.ok()) << graph.status();
  for (const char value : {3, 5}) {
    host_[0] = value;
    EXPECT_NE(host_[8], value);
    ASSERT_TRUE(driver_->LaunchGraph(*graph, first_).ok());
    ASSERT_TRUE(driver_->Synchronize(first_).ok());
    EXPECT_EQ(host_[8], value);
  }
  driver_->DestroyGraph(*graph);
  driver_->DestroyEvent(joined);
}

}  // namespace
}  // namespace millrace::cuda
