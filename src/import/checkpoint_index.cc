// The index of a checkpoint.
#include "absl/strings/str_cat.h"
#include "graph/one_line.h"
#include "import/checkpoint.h"
#include "import/sorted_table.h"
#include "millrace/status.h"
#include "proto/parse.h"

namespace millrace {
namespace {

constexpr char kIndex[] = "the index of a TensorFlow checkpoint";

absl::Status NoIndex(const std::string& why) {
  return absl::InvalidArgumentError(absl::StrCat("truncated or corrupt (", why, "), expected ", kIndex));
}

absl::StatusOr<CheckpointIndex> Parse(std::string_view bytes) {
  MR_ASSIGN_OR_RETURN(const std::unique_ptr<SortedTable> table, SortedTable::Open(bytes, kIndex));
  CheckpointIndex index;
  bool has_header = false;
  MR_RETURN_IF_ERROR(table->ForEach([&](std::string_view key, std::string_view value) {
    has_header = has_header || key.empty();
    return key.empty() ? ParseBinary(value, &index.header) : ParseBinary(value, &index.entries[std::string(key)]);
  }));
  if (!has_header) return NoIndex("no header");
  if (index.header.endianness() != proto::BundleHeaderProto::LITTLE) {
    return absl::UnimplementedError("a checkpoint in big-endian byte order, expected little-endian");
  }
  if (index.header.num_shards() < 1) return NoIndex(absl::StrCat(index.header.num_shards(), " shards"));
  return index;
}

}  // namespace

absl::StatusOr<CheckpointIndex> ParseCheckpointIndex(std::string_view bytes) {
  absl::StatusOr<CheckpointIndex> index = Parse(bytes);
  if (!index.ok()) return OneLine(index.status());
  return index;
}

}  // namespace millrace
