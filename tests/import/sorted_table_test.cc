// Tables whose checksums are right and whose lengths are not.
#include "import/sorted_table.h"

#include <cstdint>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <snappy.h>

#include "absl/strings/str_cat.h"
#include "files/crc32c.h"

namespace millrace {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string Fixed(uint64_t number, int bytes) { return std::string(reinterpret_cast<const char*>(&number), bytes); }

std::string Varint(uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes.push_back(static_cast<char>(value | 0x80));
  bytes.push_back(static_cast<char>(value));
  return bytes;
}

std::string Entry(uint64_t shared, uint64_t more, uint64_t length, const std::string& bytes) {
  return absl::StrCat(Varint(shared), Varint(more), Varint(length), bytes);
}

std::string Block(const std::string& entries) { return absl::StrCat(entries, Fixed(0, 4), Fixed(1, 4)); }

std::string Stored(const std::string& block, char kind) {
  const std::string with_kind = block + kind;
  return with_kind + Fixed(MaskCrc32c(ExtendCrc32c(0, with_kind)), 4);
}

std::string WithFooter(const std::string& blocks, const std::string& index) {
  std::string handles = absl::StrCat(Varint(0), Varint(0), index);
  handles.resize(40);
  return absl::StrCat(blocks, handles, Fixed(0xdb4775248b80fb57, 8));
}

// Of one block of data, as it is stored, and where the index says it is.
std::string TableOf(const std::string& block, char kind, const std::string& handle) {
  const std::string data = Stored(block, kind), index = Block(Entry(0, 1, handle.size(), "z" + handle));
  return WithFooter(data + Stored(index, 0), Varint(data.size()) + Varint(index.size()));
}

std::string TableOf(const std::string& block, char kind = 0) { return TableOf(block, kind, Varint(0) + Varint(block.size())); }

// "key=value" of all entries, or the error.
std::vector<std::string> Read(const std::string& bytes) {
  std::vector<std::string> found;
  const auto table = SortedTable::Open(bytes, "a table");
  const absl::Status status = !table.ok() ? table.status() : (*table)->ForEach([&](std::string_view key, std::string_view value) {
    found.push_back(absl::StrCat(std::string(key), "=", std::string(value)));
    return absl::OkStatus();
  });
  if (!status.ok()) found = {std::string(status.message())};
  return found;
}

const char kEntry[] = "an entry does not end within its block";
const char kBeyond[] = "a block lies beyond the end of the file";
const char kSnappy[] = "a block is not as Snappy compresses";

TEST(SortedTable, KeysShareWhatTheyBeginWith) {
  const std::string block = Block(Entry(0, 2, 1, "ab1") + Entry(1, 1, 2, "c23") + Entry(2, 0, 0, ""));
  EXPECT_THAT(Read(TableOf(block)), ElementsAre("ab=1", "ac=23", "ac="));
  std::string compressed;
  snappy::Compress(block.data(), block.size(), &compressed);
  EXPECT_THAT(Read(TableOf(compressed, 1)), ElementsAre("ab=1", "ac=23", "ac="));
}

TEST(SortedTable, LengthsOfEntriesAreChecked) {
  const uint64_t narrow = UINT32_MAX, wide = UINT64_MAX;
  for (const std::string& entry : {Entry(0, narrow, 2, "a"), Entry(0, 2, narrow, "a"), Entry(0, wide, 2, "a"), Entry(0, 1, wide, "a"), Entry(1, 1, 0, "a"),
                                   std::string("\xff"), std::string(11, '\xff')}) {
    EXPECT_THAT(Read(TableOf(Block(entry))), ElementsAre(HasSubstr(kEntry)));
  }
}

TEST(SortedTable, PlacesOfBlocksAreChecked) {
  const std::string block = Block("");
  for (uint64_t most = 0; most < 8; ++most) {
    EXPECT_THAT(Read(TableOf(block, 0, Varint(0) + Varint(UINT64_MAX - most))), ElementsAre(HasSubstr(kBeyond)));
    EXPECT_THAT(Read(TableOf(block, 0, Varint(UINT64_MAX - most) + Varint(block.size()))), ElementsAre(HasSubstr(kBeyond)));
    EXPECT_THAT(Read(WithFooter("", Varint(0) + Varint(UINT64_MAX - most))), ElementsAre(HasSubstr(kBeyond)));
  }
  EXPECT_THAT(Read(TableOf(block, 0, Varint(0))), ElementsAre(HasSubstr("does not say where a block is")));
  EXPECT_THAT(Read(WithFooter("", std::string(38, '\xff'))), ElementsAre(HasSubstr("no index")));
}

TEST(SortedTable, BlocksThemselvesAreChecked) {
  for (const std::string& block : {std::string(), std::string("\1\2"), Fixed(1, 4), Fixed(1u << 30, 4), Fixed(uint64_t{UINT32_MAX} << 32, 8)}) {
    EXPECT_THAT(Read(TableOf(block)), ElementsAre(HasSubstr("a block is too short")));
  }
  EXPECT_THAT(Read(TableOf(Varint(UINT32_MAX) + "12345", 1)), ElementsAre(HasSubstr(kSnappy)));
  EXPECT_THAT(Read(TableOf(Varint(100) + "12345", 1)), ElementsAre(HasSubstr(kSnappy)));
  EXPECT_THAT(Read(TableOf(Block(""), 2)), ElementsAre(HasSubstr("a way of number 2")));
}

}  // namespace
}  // namespace millrace
