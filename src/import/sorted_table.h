// Tables of keys and values in leveldb's format, as checkpoints have them.
#ifndef MILLRACE_SRC_IMPORT_SORTED_TABLE_H_
#define MILLRACE_SRC_IMPORT_SORTED_TABLE_H_

#include <memory>
#include <string>
#include <string_view>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"

namespace millrace {

class SortedTable {
 public:
  // `bytes` stay where they are while the table is used. InvalidArgument when they are truncated or corrupt; `what` says what they should be.
  static absl::StatusOr<std::unique_ptr<SortedTable>> Open(std::string_view bytes, const std::string& what);
  virtual ~SortedTable() = default;

  // All entries in the order of their keys, until `look` fails.
  using Look = absl::FunctionRef<absl::Status(std::string_view key, std::string_view value)>;
  virtual absl::Status ForEach(Look look) const = 0;
  // Calls `look` with the entry of that key. NotFound: there is none.
  virtual absl::Status Find(std::string_view key, Look look) const = 0;
};

}  // namespace millrace

#endif  // MILLRACE_SRC_IMPORT_SORTED_TABLE_H_
