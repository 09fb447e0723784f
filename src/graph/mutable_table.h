// A table from keys to values that steps change, in a block of bytes: open addressing, so that the bytes follow from what was
// inserted and removed alone. A block of zeros is an empty table.
//
//   bytes   [marks: 1 byte a bucket][keys: key_bytes a bucket][values: value_bytes a bucket]
//
// There is a power of two of buckets, least_buckets() at least; how many, the size of the block tells.
#ifndef MILLRACE_SRC_GRAPH_MUTABLE_TABLE_H_
#define MILLRACE_SRC_GRAPH_MUTABLE_TABLE_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "millrace/attr.h"
#include "millrace/tensor.h"

namespace millrace {

// What a table is besides its size, from the attributes of an op that uses it.
struct TableLayout {
  DataType key_dtype = DataType::kInt64;
  Shape key_shape;  // a key is a tensor of that shape
  DataType value_dtype = DataType::kFloat;
  Shape value_shape;
  float max_load_factor = 0.8f;
  // Keys' places are those of TensorFlow's dense tables, where what is exported is in order of places.
  bool tensorflow_places = false;

  static absl::StatusOr<TableLayout> Of(const AttrMap& attrs);
  void WriteTo(AttrMap& attrs) const;

  int64_t key_bytes() const { return key_shape.num_elements() * DataTypeSize(key_dtype); }
  int64_t value_bytes() const { return value_shape.num_elements() * DataTypeSize(value_dtype); }
  int64_t bucket_bytes() const { return 1 + key_bytes() + value_bytes(); }
  // TensorFlow's dense tables show how many buckets they have.
  int64_t least_buckets() const { return tensorflow_places ? 4 : 64; }
  // Whether a block of so many bytes is a table.
  bool is_size(int64_t bytes) const;
  // The least number of buckets, from `buckets` on, in which so many keys have room.
  int64_t BucketsFor(int64_t keys, int64_t buckets) const;
};

class MutableTable {
 public:
  // `bytes`: whole buckets of that layout, a power of two of them.
  MutableTable(const TableLayout& layout, void* bytes, int64_t size);

  int64_t buckets() const { return buckets_; }
  int64_t size() const;      // keys
  int64_t occupied() const;  // buckets that are not empty: of keys, and of removed ones
  bool holds(int64_t bucket) const { return marks_[bucket] == kHeld; }
  bool removed(int64_t bucket) const { return marks_[bucket] == kRemoved; }
  const uint8_t* key(int64_t bucket) const { return keys_ + bucket * key_bytes_; }
  const uint8_t* value(int64_t bucket) const { return values_ + bucket * value_bytes_; }

  // The key's bucket, or -1.
  int64_t Find(const uint8_t* key) const;
  // A key that is there gets another value. False where there is no room for a new one.
  bool Insert(const uint8_t* key, const uint8_t* value);
  void Remove(const uint8_t* key);
  void Clear();

 private:
  enum Mark : uint8_t { kEmpty = 0, kHeld = 1, kRemoved = 2 };
  uint64_t Hash(const uint8_t* key) const;
  int64_t Element(const uint8_t* key, int64_t i) const;
  // The key's bucket, or where it would be inserted, or -1.
  int64_t FindPlace(const uint8_t* key, bool to_insert) const;

  const bool wide_keys_, tensorflow_places_;
  const int64_t key_elements_, key_bytes_, value_bytes_;
  const int64_t buckets_;
  uint8_t* const marks_;
  uint8_t* const keys_;
  uint8_t* const values_;
};

// The table of `bytes` (uint8[n]) in so many buckets, without what was removed.
absl::StatusOr<Tensor> WithBuckets(const TableLayout& layout, Tensor bytes, int64_t buckets);

}  // namespace millrace

#endif  // MILLRACE_SRC_GRAPH_MUTABLE_TABLE_H_
