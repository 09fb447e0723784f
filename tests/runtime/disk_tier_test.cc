#include "runtime/disk_tier.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "plan/disk_layout.h"
#include "runtime/mapped_region.h"

namespace {

bool without_fallocate = false;  // the file system

}  // namespace

// In place of the library's, with what it does on file systems without fallocate: it writes a byte of every block.
extern "C" int posix_fallocate(int descriptor, off_t offset, off_t bytes) {
  if (!without_fallocate) return fallocate(descriptor, 0, offset, bytes) == 0 ? 0 : errno;
  constexpr off_t kBlock = 4096;
  for (off_t at = offset + kBlock - 1; at < offset + bytes; at += kBlock) {
    if (pwrite(descriptor, "", 1, at) != 1) return errno;
  }
  return 0;
}

namespace millrace {
namespace {

using ::testing::HasSubstr;

// A folder of its own, removed at the end.
class DiskTierTest : public ::testing::TestWithParam<std::tuple<bool, bool>> {
 protected:
  void SetUp() override {
    std::string path = absl::StrCat(::testing::TempDir(), "/disk_tier.XXXXXX");
    ASSERT_NE(mkdtemp(path.data()), nullptr);
    folder_ = path;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  DiskTierOptions Options() const {
    return {.folder = folder_, .use_uring = std::get<0>(GetParam()), .direct = std::get<1>(GetParam())};
  }
  absl::StatusOr<std::unique_ptr<DiskTier>> Make(const DiskTierOptions& options) {
    return DiskTier::Create(options, &memory_);
  }

  // What the file system has given to the tiers' files, which have no names.
  int64_t BytesOfFiles() const {
    const std::string folder = std::filesystem::canonical(folder_).string();
    int64_t bytes = 0;
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
      std::error_code error;
      const std::string path = std::filesystem::read_symlink(entry.path(), error).string();
      struct stat file;
      if (path.rfind(folder, 0) == 0 && stat(entry.path().c_str(), &file) == 0) bytes += int64_t{file.st_blocks} * 512;
    }
    return bytes;
  }

  std::string folder_;
  HostMemory memory_;
};

INSTANTIATE_TEST_SUITE_P(Ways, DiskTierTest, ::testing::Combine(::testing::Bool(), ::testing::Bool()),
                         [](const auto& way) {
                           return absl::StrCat(std::get<0>(way.param) ? "Uring" : "Sync",
                                               std::get<1>(way.param) ? "Direct" : "Cached");
                         });

TEST_P(DiskTierTest, WhatIsWrittenIsReadBack) {
  auto tier = Make(Options());
  ASSERT_TRUE(tier.ok()) << tier.status();
  auto pool = MappedRegion::Create(32 << 20, "a pool");
  ASSERT_TRUE(pool.ok());
  const auto channel = (*tier)->MakeChannel(pool->data(), pool->size_bytes());
  std::mt19937 random(1);
  struct Value {
    int64_t offset, bytes;
    std::string data;
  };
  std::vector<Value> values;
  for (int64_t bytes : {1, 4096, 5000, 3 << 20, (12 << 20) + 17}) {
    const auto offset = (*tier)->Reserve(bytes, "a value");
    ASSERT_TRUE(offset.ok()) << offset.status();
    std::string data(bytes, '\0');
    for (char& c : data) c = static_cast<char>(random());
    std::memcpy(pool->data(), data.data(), bytes);
    ASSERT_TRUE(channel->Write(*offset, pool->data(), bytes).ok());
    values.push_back({*offset, bytes, std::move(data)});
  }
  for (const Value& value : values) {
    char* const place = pool->data() + kDiskPageBytes;
    ASSERT_TRUE(channel->Read(value.offset, place, value.bytes).ok());
    EXPECT_EQ(std::memcmp(place, value.data.data(), value.bytes), 0) << value.bytes;
    std::string pieces(value.bytes, '\0');
    ASSERT_TRUE((*tier)->ReadPieces(value.offset, value.bytes, [&](const void* piece, int64_t at, int64_t size) {
      std::memcpy(pieces.data() + at, piece, size);
      return absl::OkStatus();
    }).ok());
    EXPECT_TRUE(pieces == value.data) << value.bytes;
  }
}

TEST_P(DiskTierTest, RoomOfSwappedTensorsIsTheLargestPlans) {
  auto tier = Make(Options());
  ASSERT_TRUE(tier.ok()) << tier.status();
  ASSERT_TRUE((*tier)->ReserveScratch(1 << 20).ok());
  ASSERT_TRUE((*tier)->ReserveScratch(3 << 20).ok());
  ASSERT_TRUE((*tier)->ReserveScratch(2 << 20).ok());
  EXPECT_EQ((*tier)->reserved_bytes(), 3 << 20);
  // A variable comes behind it, so it must move to grow, and must not meet the variable.
  const int64_t before = (*tier)->scratch_offset();
  const auto variable = (*tier)->Reserve(1 << 20, "a variable");
  ASSERT_TRUE(variable.ok());
  ASSERT_TRUE((*tier)->ReserveScratch(8 << 20).ok());
  EXPECT_NE((*tier)->scratch_offset(), before);
  EXPECT_GE((*tier)->scratch_offset(), *variable + (1 << 20));
  EXPECT_EQ((*tier)->reserved_bytes(), 9 << 20);
  EXPECT_NEAR(static_cast<double>(BytesOfFiles()), 9 << 20, 1 << 19);
  ASSERT_TRUE((*tier)->ReserveScratch(10 << 20).ok());
  EXPECT_EQ((*tier)->reserved_bytes(), 11 << 20);
}

// Memory that the kernel holds for this process whatever it unmaps.
int64_t PinnedBytes() {
  std::ifstream status("/proc/self/status");
  int64_t kib = 0;
  for (std::string line; std::getline(status, line);) {
    if (line.rfind("VmPin:", 0) == 0) std::istringstream(line.substr(6)) >> kib;
  }
  return kib << 10;
}

TEST_P(DiskTierTest, TransfersMeetTheEndsOfFixedBuffers) {
  DiskTierOptions options = Options();
  options.fixed_buffer_bytes = (1 << 20) + 3 * kDiskPageBytes;
  auto tier = Make(options);
  ASSERT_TRUE(tier.ok()) << tier.status();
  constexpr int64_t kBytes = 9 << 20;
  auto pool = MappedRegion::Create(2 * kBytes, "a pool");
  ASSERT_TRUE(pool.ok() && (*tier)->Reserve(kBytes, "a value").ok());
  auto channel = (*tier)->MakeChannel(pool->data(), pool->size_bytes());
  const int64_t pinned = PinnedBytes();
  EXPECT_TRUE(pinned == 0 || pinned >= 2 * kBytes) << pinned;
  for (int64_t i = 0; i < kBytes; ++i) pool->data()[i] = static_cast<char>(i * 31 >> 7);
  for (int64_t begin : {0, 5 * 4096}) {
    const int64_t bytes = kBytes - begin;
    ASSERT_TRUE(channel->Write(0, pool->data() + begin, bytes).ok());
    ASSERT_TRUE(channel->Read(0, pool->data() + kBytes, bytes).ok());
    EXPECT_EQ(std::memcmp(pool->data() + begin, pool->data() + kBytes, bytes), 0) << begin;
  }
  channel.reset();
  EXPECT_EQ(PinnedBytes(), 0);
}

// The kernel takes no buffer above 1 GiB. This one has few pages, one after another again and again.
TEST_P(DiskTierTest, APoolAboveOneGibibyteBecomesFixedBuffers) {
  auto tier = Make(Options());
  ASSERT_TRUE(tier.ok()) << tier.status();
  constexpr int64_t kPart = 2 << 20, kBytes = (int64_t{1} << 30) + kPart;
  auto pool = MappedRegion::Create(kBytes, "a pool");
  ASSERT_TRUE(pool.ok());
  const int pages = memfd_create("pages", 0);
  ASSERT_TRUE(pages >= 0 && ftruncate(pages, kPart) == 0);
  for (int64_t at = 0; at < kBytes; at += kPart) {
    ASSERT_NE(mmap(pool->data() + at, kPart, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, pages, 0), MAP_FAILED);
  }
  close(pages);
  auto channel = (*tier)->MakeChannel(pool->data(), kPart);
  if (PinnedBytes() == 0) GTEST_SKIP() << "no fixed buffers of io_uring here";
  channel.reset();
  channel = (*tier)->MakeChannel(pool->data(), kBytes);
  EXPECT_GE(PinnedBytes(), kPart);
}

TEST_P(DiskTierTest, NothingIsSeenInTheFolder) {
  auto tier = Make(Options());
  ASSERT_TRUE(tier.ok()) << tier.status();
  ASSERT_TRUE((*tier)->Reserve(1 << 20, "a value").ok());
  EXPECT_TRUE(std::filesystem::is_empty(folder_));
}

TEST_P(DiskTierTest, FailingTransfersSayWhere) {
  DiskTierOptions options = Options();
  int error = EIO;
  options.fault = [&error](bool write, int64_t, int64_t) { return write ? error : 0; };
  auto tier = Make(options);
  ASSERT_TRUE(tier.ok()) << tier.status();
  const auto channel = (*tier)->MakeChannel(nullptr, 0);
  auto page = MappedRegion::Create(kDiskPageBytes, "a page");
  ASSERT_TRUE((*tier)->Reserve(kDiskPageBytes, "a value").ok());
  const absl::Status failed = channel->Write(0, page->data(), kDiskPageBytes);
  EXPECT_EQ(failed.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(failed.message()), HasSubstr(folder_));
  error = ENOSPC;
  EXPECT_EQ(channel->Write(0, page->data(), kDiskPageBytes).code(), absl::StatusCode::kResourceExhausted);
  error = 0;
  EXPECT_TRUE(channel->Write(0, page->data(), kDiskPageBytes).ok());
  // Beyond the end of the file.
  EXPECT_EQ(channel->Read(int64_t{1} << 40, page->data(), kDiskPageBytes).code(), absl::StatusCode::kDataLoss);
}

// What io_uring_enter may end with under load.
TEST_P(DiskTierTest, AKernelThatIsShortOfMemoryIsAskedAgain) {
  int asked = 0;
  DiskTierOptions options = Options();
  options.submit_fault = [&asked] { return ++asked % 3 == 0 ? 0 : asked % 3 == 1 ? EAGAIN : EBUSY; };
  auto tier = Make(options);
  ASSERT_TRUE(tier.ok()) << tier.status();
  constexpr int64_t kBytes = 20 << 20;
  auto pool = MappedRegion::Create(2 * kBytes, "a pool");
  ASSERT_TRUE(pool.ok() && (*tier)->Reserve(kBytes, "a value").ok());
  const auto channel = (*tier)->MakeChannel(pool->data(), pool->size_bytes());
  for (int64_t i = 0; i < kBytes; ++i) pool->data()[i] = static_cast<char>(i * 31 >> 7);
  ASSERT_TRUE(channel->Write(0, pool->data(), kBytes).ok());
  ASSERT_TRUE(channel->Read(0, pool->data() + kBytes, kBytes).ok());
  EXPECT_EQ(std::memcmp(pool->data(), pool->data() + kBytes, kBytes), 0);
}

TEST_P(DiskTierTest, AfterABrokenRingTheMemoryIsTheCallersAgain) {
  int asked = 0, breaks_at = -1;
  DiskTierOptions options = Options();
  options.submit_fault = [&] { return ++asked == breaks_at ? EBADF : 0; };
  auto tier = Make(options);
  ASSERT_TRUE(tier.ok()) << tier.status();
  constexpr int64_t kBytes = 64 << 20;
  auto pool = MappedRegion::Create(kBytes, "a pool");
  ASSERT_TRUE(pool.ok() && (*tier)->Reserve(kBytes, "a value").ok());
  const auto channel = (*tier)->MakeChannel(pool->data(), pool->size_bytes());
  std::memset(pool->data(), 1, kBytes);
  ASSERT_TRUE(channel->Write(0, pool->data(), kBytes).ok());
  if (asked == 0) GTEST_SKIP() << "no io_uring here";
  breaks_at = asked + 2;
  EXPECT_EQ(channel->Read(0, pool->data(), kBytes).code(), absl::StatusCode::kDataLoss);
  std::memset(pool->data(), 2, kBytes);
  // No piece comes late, and none is sent that was left over.
  EXPECT_EQ(channel->Read(0, pool->data(), kDiskPageBytes).code(), absl::StatusCode::kDataLoss);
  usleep(20'000);
  EXPECT_TRUE(std::all_of(pool->data(), pool->data() + kBytes, [](char byte) { return byte == 2; }));
  const auto another = (*tier)->MakeChannel(nullptr, 0);
  EXPECT_TRUE(another->Read(0, pool->data(), kDiskPageBytes).ok());
}

TEST_P(DiskTierTest, AFullDiskIsFoundWhenRoomIsReserved) {
  auto tier = Make(Options());
  ASSERT_TRUE(tier.ok()) << tier.status();
  rlimit limit;
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &limit), 0);
  const auto former = signal(SIGXFSZ, SIG_IGN);
  const rlimit small{1 << 20, limit.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  const absl::Status status = (*tier)->Reserve(2 << 20, "variable 'w'").status();
  EXPECT_TRUE((*tier)->ReserveScratch(1 << 19).ok());
  const int64_t scratch = (*tier)->scratch_offset();
  EXPECT_EQ((*tier)->ReserveScratch(2 << 20).code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE((*tier)->Reserve(4096, "a value").ok());
  EXPECT_EQ((*tier)->ReserveScratch(2 << 20).code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ((*tier)->scratch_offset(), scratch);
  EXPECT_EQ((*tier)->reserved_bytes(), (1 << 19) + 4096);
  setrlimit(RLIMIT_FSIZE, &limit);
  signal(SIGXFSZ, former);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()), HasSubstr("2097152 bytes of variable 'w'"));
  EXPECT_TRUE((*tier)->Reserve(4096, "a value").ok());
}

TEST_P(DiskTierTest, RoomIsReservedOnFileSystemsWithoutFallocate) {
  auto tier = Make(Options());
  ASSERT_TRUE(tier.ok()) << tier.status();
  const auto buffer = MappedRegion::Create(kDiskPageBytes, "a buffer");
  ASSERT_TRUE(buffer.ok()) << buffer.status();
  without_fallocate = true;
  const auto offset = (*tier)->Reserve(3 * kDiskPageBytes, "a value");
  without_fallocate = false;
  ASSERT_TRUE(offset.ok()) << offset.status();
  EXPECT_GE(BytesOfFiles(), 3 * kDiskPageBytes);
  EXPECT_TRUE((*tier)->MakeChannel(nullptr, 0)->Write(*offset, buffer->data(), kDiskPageBytes).ok());
}

TEST_P(DiskTierTest, AFolderThatIsNotThereIsAnError) {
  DiskTierOptions options = Options();
  options.folder += "/nowhere";
  const absl::Status status = Make(options).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("/nowhere"));
}

}  // namespace
}  // namespace millrace
