#include "graph/table.h"

#include "absl/strings/str_cat.h"
#include "millrace/status.h"

namespace millrace {
namespace {

// As TensorFlow has it: a key may be given twice with one value.
bool SameValue(const Tensor& values, int64_t a, int64_t b) {
  if (values.dtype() == DataType::kString) return values.strings()[a] == values.strings()[b];
  if (IsFloating(values.dtype())) return values.DoubleAt(a) == values.DoubleAt(b);
  return values.IntAt(a) == values.IntAt(b);
}

}  // namespace

absl::StatusOr<Table> Table::Create(const AttrMap& attrs) {
  MR_ASSIGN_OR_RETURN(const Tensor keys, attrs.Get<Tensor>("keys"));
  Table table;
  MR_ASSIGN_OR_RETURN(table.values_, attrs.Get<Tensor>("values"));
  if (keys.num_elements() != table.values_.num_elements()) {
    return absl::InvalidArgumentError(absl::StrCat("the table has ", keys.num_elements(), " keys and ",
                                                   table.values_.num_elements(), " values"));
  }
  const bool text = keys.dtype() == DataType::kString;
  if (!text && !IsInteger(keys.dtype())) {
    return absl::InvalidArgumentError(absl::StrCat("the table has keys of type ", std::string(DataTypeName(keys.dtype())),
                                                   ", expected integers or strings"));
  }
  const bool replaces = attrs.GetOr("replaces", false);
  for (int64_t i = 0; i < keys.num_elements(); ++i) {
    int64_t& at = text ? table.by_text_.emplace(keys.strings()[i], i).first->second
                       : table.by_number_.emplace(keys.IntAt(i), i).first->second;
    if (replaces) at = i;
    if (!SameValue(table.values_, at, i)) {
      return absl::InvalidArgumentError(absl::StrCat("key ", text ? keys.strings()[i] : absl::StrCat(keys.IntAt(i)),
                                                     " has two values in the table"));
    }
  }
  return table;
}

int64_t Table::Find(int64_t key) const {
  const auto found = by_number_.find(key);
  return found == by_number_.end() ? -1 : found->second;
}

int64_t Table::Find(const Tensor& keys, int64_t i) const {
  if (keys.dtype() != DataType::kString) return Find(keys.IntAt(i));
  const auto found = by_text_.find(keys.strings()[i]);
  return found == by_text_.end() ? -1 : found->second;
}

}  // namespace millrace
