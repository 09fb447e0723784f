// leveldb reads it.
#include "import/sorted_table.h"

#include <leveldb/env.h>
#include <leveldb/iterator.h>
#include <leveldb/options.h>
#include <leveldb/table.h>

#include <cstring>
#include <new>

#include "absl/strings/str_cat.h"
#include "graph/one_line.h"
#include "millrace/status.h"

namespace millrace {
namespace {

class BytesFile : public leveldb::RandomAccessFile {
 public:
  explicit BytesFile(std::string_view bytes) : bytes_(bytes) {}
  leveldb::Status Read(uint64_t offset, size_t count, leveldb::Slice* result, char* scratch) const override {
    if (offset > bytes_.size() || count > bytes_.size() - offset) {
      return leveldb::Status::Corruption("a block lies beyond the end of the file");
    }
    std::memcpy(scratch, bytes_.data() + offset, count);
    *result = leveldb::Slice(scratch, count);
    return leveldb::Status::OK();
  }

 private:
  std::string_view bytes_;
};

class LeveldbTable final : public SortedTable {
 public:
  LeveldbTable(std::string_view bytes, std::string what) : file_(bytes), what_(std::move(what)) {}

  absl::Status OpenBytes(size_t size) {
    return Guarded([&]() -> absl::Status {
      leveldb::Options options;
      options.paranoid_checks = true;
      leveldb::Table* opened = nullptr;
      const leveldb::Status status = leveldb::Table::Open(options, &file_, size, &opened);
      table_.reset(opened);
      return status.ok() ? absl::OkStatus() : Corrupt(status.ToString());
    });
  }

  absl::Status ForEach(Look look) const override {
    return Guarded([&]() -> absl::Status {
      const std::unique_ptr<leveldb::Iterator> at = Entries();
      for (at->SeekToFirst(); at->Valid(); at->Next()) MR_RETURN_IF_ERROR(look(TextOf(at->key()), TextOf(at->value())));
      return at->status().ok() ? absl::OkStatus() : Corrupt(at->status().ToString());
    });
  }

  absl::Status Find(std::string_view key, Look look) const override {
    return Guarded([&]() -> absl::Status {
      const std::unique_ptr<leveldb::Iterator> at = Entries();
      at->Seek(leveldb::Slice(key.data(), key.size()));
      if (!at->status().ok()) return Corrupt(at->status().ToString());
      if (!at->Valid() || TextOf(at->key()) != key) return absl::NotFoundError("no such key");
      return look(key, TextOf(at->value()));
    });
  }

 private:
  static std::string_view TextOf(const leveldb::Slice& slice) { return {slice.data(), slice.size()}; }

  std::unique_ptr<leveldb::Iterator> Entries() const {
    leveldb::ReadOptions read;
    read.verify_checksums = true;
    return std::unique_ptr<leveldb::Iterator>(table_->NewIterator(read));
  }

  absl::Status Corrupt(const std::string& why) const {
    return OneLine(absl::InvalidArgumentError(absl::StrCat("truncated or corrupt (", why, "), expected ", what_)));
  }

  // leveldb allocates what a file's last bytes and its blocks claim before it reads.
  absl::Status Guarded(absl::FunctionRef<absl::Status()> read) const {
    try {
      return read();
    } catch (const std::bad_alloc&) {
      return Corrupt("a block of absurd size");
    }
  }

  BytesFile file_;
  const std::string what_;
  std::unique_ptr<leveldb::Table> table_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<SortedTable>> SortedTable::Open(std::string_view bytes, const std::string& what) {
  auto table = std::make_unique<LeveldbTable>(bytes, what);
  MR_RETURN_IF_ERROR(table->OpenBytes(bytes.size()));
  return std::unique_ptr<SortedTable>(std::move(table));
}

}  // namespace millrace
