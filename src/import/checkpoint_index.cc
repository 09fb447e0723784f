// The index of a checkpoint, a table in leveldb's format: leveldb reads and writes it.
#include <leveldb/env.h>
#include <leveldb/iterator.h>
#include <leveldb/options.h>
#include <leveldb/table.h>

#include <cstring>
#include <memory>
#include <new>

#include "absl/strings/str_cat.h"
#include "graph/one_line.h"
#include "import/checkpoint.h"
#include "millrace/status.h"
#include "proto/parse.h"

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

absl::Status Corrupt(const std::string& why) {
  return absl::InvalidArgumentError(
      absl::StrCat("truncated or corrupt (", why, "), expected the index of a TensorFlow checkpoint"));
}

absl::StatusOr<CheckpointIndex> Parse(std::string_view bytes) {
  BytesFile file(bytes);
  leveldb::Options options;
  options.paranoid_checks = true;
  leveldb::Table* opened = nullptr;
  const leveldb::Status status = leveldb::Table::Open(options, &file, bytes.size(), &opened);
  const std::unique_ptr<leveldb::Table> table(opened);
  if (!status.ok()) return Corrupt(status.ToString());
  leveldb::ReadOptions read;
  read.verify_checksums = true;
  const std::unique_ptr<leveldb::Iterator> at(table->NewIterator(read));
  CheckpointIndex index;
  bool has_header = false;
  for (at->SeekToFirst(); at->Valid(); at->Next()) {
    const std::string_view value(at->value().data(), at->value().size());
    if (at->key().empty()) {
      has_header = true;
      MR_RETURN_IF_ERROR(ParseBinary(value, &index.header));
    } else {
      MR_RETURN_IF_ERROR(ParseBinary(value, &index.entries[at->key().ToString()]));
    }
  }
  if (!at->status().ok()) return Corrupt(at->status().ToString());
  if (!has_header) return Corrupt("no header");
  if (index.header.endianness() != proto::BundleHeaderProto::LITTLE) {
    return absl::UnimplementedError("a checkpoint in big-endian byte order, expected little-endian");
  }
  if (index.header.num_shards() < 1) return Corrupt(absl::StrCat(index.header.num_shards(), " shards"));
  return index;
}

}  // namespace

absl::StatusOr<CheckpointIndex> ParseCheckpointIndex(std::string_view bytes) {
  // leveldb allocates what the file's last bytes claim before it reads.
  try {
    absl::StatusOr<CheckpointIndex> index = Parse(bytes);
    if (!index.ok()) return OneLine(index.status());
    return index;
  } catch (const std::bad_alloc&) {
    return Corrupt("a block of absurd size");
  }
}

}  // namespace millrace
