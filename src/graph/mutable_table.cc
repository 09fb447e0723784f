#include "graph/mutable_table.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "millrace/status.h"

namespace millrace {

absl::StatusOr<TableLayout> TableLayout::Of(const AttrMap& attrs) {
  TableLayout layout;
  MR_ASSIGN_OR_RETURN(layout.key_dtype, attrs.Get<DataType>("key_dtype"));
  MR_ASSIGN_OR_RETURN(layout.value_dtype, attrs.Get<DataType>("value_dtype"));
  layout.key_shape = attrs.GetOr<Shape>("key_shape", Shape());
  layout.value_shape = attrs.GetOr<Shape>("value_shape", Shape());
  layout.max_load_factor = attrs.GetOr<float>("max_load_factor", layout.max_load_factor);
  layout.tensorflow_places = attrs.GetOr<bool>("tensorflow_places", false);
  if (layout.key_dtype != DataType::kInt32 && layout.key_dtype != DataType::kInt64) {
    return absl::InvalidArgumentError(absl::StrCat("keys are ", std::string(DataTypeName(layout.key_dtype)), ", expected int32 or int64"));
  }
  if (DataTypeSize(layout.value_dtype) == 0) {
    return absl::InvalidArgumentError(absl::StrCat("values are ", std::string(DataTypeName(layout.value_dtype)), ", expected numbers"));
  }
  if (!layout.key_shape.fully_known() || !layout.value_shape.fully_known()) {
    return absl::InvalidArgumentError(absl::StrCat("keys have shape ", layout.key_shape.ToString(), " and values ",
                                                   layout.value_shape.ToString(), ", expected known ones"));
  }
  if (!(layout.max_load_factor > 0 && layout.max_load_factor < 1)) {
    return absl::InvalidArgumentError(absl::StrCat("max_load_factor must be between 0 and 1, got: ", layout.max_load_factor));
  }
  return layout;
}

void TableLayout::WriteTo(AttrMap& attrs) const {
  attrs.Set("key_dtype", key_dtype);
  attrs.Set("key_shape", key_shape);
  attrs.Set("value_dtype", value_dtype);
  attrs.Set("value_shape", value_shape);
  attrs.Set("max_load_factor", max_load_factor);
  attrs.Set("tensorflow_places", tensorflow_places);
}

bool TableLayout::is_size(int64_t bytes) const {
  const int64_t buckets = bytes / bucket_bytes();
  return buckets >= least_buckets() && std::has_single_bit(static_cast<uint64_t>(buckets)) && buckets * bucket_bytes() == bytes;
}

int64_t TableLayout::BucketsFor(int64_t keys, int64_t buckets) const {
  buckets = std::max(buckets, least_buckets());
  while (static_cast<float>(keys) > static_cast<float>(buckets) * max_load_factor) buckets *= 2;
  return buckets;
}

MutableTable::MutableTable(const TableLayout& layout, void* bytes, int64_t size)
    : wide_keys_(layout.key_dtype == DataType::kInt64),
      tensorflow_places_(layout.tensorflow_places),
      key_elements_(layout.key_shape.num_elements()),
      key_bytes_(layout.key_bytes()),
      value_bytes_(layout.value_bytes()),
      buckets_(size / layout.bucket_bytes()),
      marks_(static_cast<uint8_t*>(bytes)),
      keys_(marks_ + buckets_),
      values_(keys_ + buckets_ * key_bytes_) {}

int64_t MutableTable::size() const { return std::count(marks_, marks_ + buckets_, kHeld); }
int64_t MutableTable::occupied() const { return buckets_ - std::count(marks_, marks_ + buckets_, kEmpty); }

int64_t MutableTable::Element(const uint8_t* key, int64_t i) const {
  if (wide_keys_) {
    int64_t element;
    std::memcpy(&element, key + i * sizeof(element), sizeof(element));
    return element;
  }
  int32_t element;
  std::memcpy(&element, key + i * sizeof(element), sizeof(element));
  return element;
}

uint64_t MutableTable::Hash(const uint8_t* key) const {
  if (tensorflow_places_ && key_elements_ == 1) return static_cast<uint64_t>(Element(key, 0));
  uint64_t hash = 0;
  for (int64_t i = 0; i < key_elements_; ++i) {
    hash ^= static_cast<uint64_t>(Element(key, i)) + 0x9E3779B97F4A7800u + (hash << 10) + (hash >> 4);
  }
  if (tensorflow_places_) return hash;
  hash = (hash ^ (hash >> 30)) * 0xBF58476D1CE4E5B9u;
  hash = (hash ^ (hash >> 27)) * 0x94D049BB133111EBu;
  return hash ^ (hash >> 31);
}

// Steps of 1, 2, 3, … visit every bucket of a power of two.
int64_t MutableTable::FindPlace(const uint8_t* key, bool to_insert) const {
  const uint64_t mask = static_cast<uint64_t>(buckets_) - 1;
  uint64_t at = Hash(key) & mask;
  int64_t free = -1;
  for (int64_t probes = 1; probes <= buckets_; ++probes) {
    if (marks_[at] == kHeld && std::memcmp(keys_ + at * key_bytes_, key, key_bytes_) == 0) return static_cast<int64_t>(at);
    if (marks_[at] != kHeld && free < 0) free = static_cast<int64_t>(at);
    if (marks_[at] == kEmpty) break;
    at = (at + static_cast<uint64_t>(probes)) & mask;
  }
  return to_insert ? free : -1;
}

int64_t MutableTable::Find(const uint8_t* key) const { return FindPlace(key, false); }

bool MutableTable::Insert(const uint8_t* key, const uint8_t* value) {
  const int64_t at = FindPlace(key, true);
  if (at < 0) return false;
  marks_[at] = kHeld;
  std::memcpy(keys_ + at * key_bytes_, key, key_bytes_);
  if (value_bytes_ > 0) std::memcpy(values_ + at * value_bytes_, value, value_bytes_);
  return true;
}

void MutableTable::Remove(const uint8_t* key) {
  const int64_t at = Find(key);
  if (at < 0) return;
  marks_[at] = kRemoved;
  std::memset(keys_ + at * key_bytes_, 0, key_bytes_);
  std::memset(values_ + at * value_bytes_, 0, value_bytes_);
}

void MutableTable::Clear() { std::memset(marks_, 0, buckets_ * (1 + key_bytes_ + value_bytes_)); }

absl::StatusOr<Tensor> WithBuckets(const TableLayout& layout, Tensor bytes, int64_t buckets) {
  const MutableTable from(layout, bytes.mutable_data(), bytes.size_bytes());
  Tensor moved(DataType::kUint8, Shape({buckets * layout.bucket_bytes()}));
  std::memset(moved.mutable_data(), 0, moved.size_bytes());
  MutableTable to(layout, moved.mutable_data(), moved.size_bytes());
  for (int64_t i = 0; i < from.buckets(); ++i) {
    if (!from.holds(i) || to.Insert(from.key(i), from.value(i))) continue;
    return absl::InternalError(absl::StrCat("a table of ", from.size(), " keys has no room in ", buckets, " buckets"));
  }
  return moved;
}

}  // namespace millrace
