// The format is leveldb's (doc/table_format.md there). It is not read by leveldb, which trusts lengths in a file whose
// checksums are right, and sizes of blocks. Those of index and data look alike:
//
//   entry: shared, more, length (varints), `more` bytes of key after the first `shared` of the former, `length` bytes of value
//   block: entries, where keys are whole (32 bits each), how many these are (32 bits)
//   in the file: block, 0 or 1 (Snappy), checksum (32 bits)
//   at the end: where a block of filters and the index are (offset and size as varints, each), zeros to 40 bytes, the magic number
#include "import/sorted_table.h"

#include <snappy.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "absl/strings/str_cat.h"
#include "files/crc32c.h"
#include "graph/one_line.h"
#include "import/varint.h"
#include "millrace/status.h"

namespace millrace {
namespace {

constexpr size_t kFooter = 48, kTrailer = 5;
constexpr uint64_t kMagic = 0xdb4775248b80fb57;
constexpr size_t kMostPerByte = 32;  // that Snappy gives for one: a copy of 64 bytes takes 3

template <typename T>
T NumberAt(std::string_view bytes, size_t at) {
  T number;
  std::memcpy(&number, bytes.data() + at, sizeof(number));
  return number;
}

struct Handle {
  uint64_t offset = 0, size = 0;
};

bool TakeHandle(std::string_view& bytes, Handle* handle) { return TakeVarint(bytes, &handle->offset) && TakeVarint(bytes, &handle->size); }

class TableOfBlocks final : public SortedTable {
 public:
  TableOfBlocks(std::string_view bytes, std::string what) : bytes_(bytes), what_(std::move(what)) {}

  absl::Status ReadIndex() {
    if (bytes_.size() < kFooter || NumberAt<uint64_t>(bytes_, bytes_.size() - sizeof(kMagic)) != kMagic) return Corrupt("it does not end as a table does");
    std::string_view footer = bytes_.substr(bytes_.size() - kFooter, kFooter - sizeof(kMagic));
    Handle filters, index;
    if (!TakeHandle(footer, &filters) || !TakeHandle(footer, &index)) return Corrupt("no index");
    return ForEachIn(index, [&](std::string_view last_key, std::string_view value) {
      Block block{std::string(last_key), {}};
      if (!TakeHandle(value, &block.handle)) return Corrupt("the index does not say where a block is");
      blocks_.push_back(std::move(block));
      return absl::OkStatus();
    });
  }

  absl::Status ForEach(Look look) const override {
    for (const Block& block : blocks_) MR_RETURN_IF_ERROR(ForEachIn(block.handle, look));
    return absl::OkStatus();
  }

  absl::Status Find(std::string_view key, Look look) const override {
    const auto ends_before = [](const Block& block, std::string_view sought) { return block.last_key < sought; };
    const auto block = std::lower_bound(blocks_.begin(), blocks_.end(), key, ends_before);
    bool found = false;
    if (block != blocks_.end()) {
      MR_RETURN_IF_ERROR(ForEachIn(block->handle, [&](std::string_view at, std::string_view value) {
        if (found || at != key) return absl::OkStatus();
        found = true;
        return look(at, value);
      }));
    }
    return found ? absl::OkStatus() : absl::NotFoundError("no such key");
  }

 private:
  struct Block {
    std::string last_key;  // or one between it and the first of the next block
    Handle handle;
  };

  absl::Status ForEachIn(Handle handle, Look look) const {
    std::string storage;
    MR_ASSIGN_OR_RETURN(std::string_view entries, Entries(handle, storage));
    std::string key;
    while (!entries.empty()) {
      uint64_t shared = 0, more = 0, length = 0;
      const bool is_whole = TakeVarint(entries, &shared) && TakeVarint(entries, &more) && TakeVarint(entries, &length);
      if (!is_whole || shared > key.size() || more > entries.size() || length > entries.size() - more) {
        return Corrupt("an entry does not end within its block");
      }
      key.resize(shared);
      key += entries.substr(0, more);
      MR_RETURN_IF_ERROR(look(key, entries.substr(more, length)));
      entries.remove_prefix(more + length);
    }
    return absl::OkStatus();
  }

  // In the file, or in `storage` where they are compressed there.
  absl::StatusOr<std::string_view> Entries(Handle handle, std::string& storage) const {
    if (bytes_.size() < kTrailer || handle.offset > bytes_.size() - kTrailer || handle.size > bytes_.size() - kTrailer - handle.offset) {
      return Corrupt("a block lies beyond the end of the file");
    }
    const std::string_view with_kind = bytes_.substr(handle.offset, handle.size + 1);  // which the checksum is of
    if (NumberAt<uint32_t>(bytes_, handle.offset + with_kind.size()) != MaskCrc32c(ExtendCrc32c(0, with_kind))) {
      return Corrupt("the checksum of a block is wrong");
    }
    std::string_view block = with_kind.substr(0, handle.size);
    if (with_kind.back() == 1) {
      size_t size = 0;
      const bool is_possible = snappy::GetUncompressedLength(block.data(), block.size(), &size) && size / kMostPerByte <= block.size();
      if (!is_possible || !snappy::Uncompress(block.data(), block.size(), &storage)) return Corrupt("a block is not as Snappy compresses");
      block = storage;
    } else if (with_kind.back() != 0) {
      return Corrupt(absl::StrCat("a block is compressed in a way of number ", static_cast<int>(with_kind.back()), ", expected 0 or 1"));
    }
    constexpr size_t kNumber = sizeof(uint32_t);
    if (block.size() < kNumber) return Corrupt("a block is too short");
    const size_t restarts = NumberAt<uint32_t>(block, block.size() - kNumber);
    if (restarts > block.size() / kNumber - 1) return Corrupt("a block is too short");
    return block.substr(0, block.size() - (restarts + 1) * kNumber);
  }

  absl::Status Corrupt(const std::string& why) const {
    return OneLine(absl::InvalidArgumentError(absl::StrCat("truncated or corrupt (", why, "), expected ", what_)));
  }

  const std::string_view bytes_;
  const std::string what_;
  std::vector<Block> blocks_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<SortedTable>> SortedTable::Open(std::string_view bytes, const std::string& what) {
  auto table = std::make_unique<TableOfBlocks>(bytes, what);
  MR_RETURN_IF_ERROR(table->ReadIndex());
  return std::unique_ptr<SortedTable>(std::move(table));
}

}  // namespace millrace
