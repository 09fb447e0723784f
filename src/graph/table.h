// A table of keys and values that never changes, from the attributes "keys" and "values" of the op _FindInTable; with "replaces" the last
// value of a key is the one that counts, as where a mutable table was filled.
#ifndef MILLRACE_SRC_GRAPH_TABLE_H_
#define MILLRACE_SRC_GRAPH_TABLE_H_

#include <string>
#include <unordered_map>

#include "absl/status/statusor.h"
#include "millrace/attr.h"
#include "millrace/tensor.h"

namespace millrace {

class Table {
 public:
  // InvalidArgument for keys that are neither integers nor strings, for as many values as there are not keys, and for a key
  // that has two values of which the last does not replace the first.
  static absl::StatusOr<Table> Create(const AttrMap& attrs);

  const Tensor& values() const { return values_; }
  int64_t num_keys() const { return static_cast<int64_t>(by_number_.size() + by_text_.size()); }
  // Where the value of a key is; -1 when it is not in the table.
  int64_t Find(int64_t key) const;
  int64_t Find(const Tensor& keys, int64_t i) const;

 private:
  Tensor values_;
  std::unordered_map<int64_t, int64_t> by_number_;
  std::unordered_map<std::string, int64_t> by_text_;
};

}  // namespace millrace

#endif  // MILLRACE_SRC_GRAPH_TABLE_H_
