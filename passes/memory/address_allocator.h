// A best-fit allocator of addresses, for planning: it hands out offsets, not memory.
#ifndef MILLRACE_PASSES_MEMORY_ADDRESS_ALLOCATOR_H_
#define MILLRACE_PASSES_MEMORY_ADDRESS_ALLOCATOR_H_

#include <cstdint>
#include <utility>

#include "absl/container/btree_map.h"
#include "absl/container/btree_set.h"

namespace millrace {

class AddressAllocator {
 public:
  // Offsets lie in [0, capacity_bytes).
  explicit AddressAllocator(int64_t capacity_bytes);

  // Offset of `bytes` (a positive multiple of kTensorAlignment) in the smallest hole that holds them, lowest
  // first; -1 when there is none.
  int64_t Allocate(int64_t bytes);
  // The same in the lowest hole that holds them, or at the top of the highest; linear in holes.
  int64_t AllocateLowest(int64_t bytes);
  int64_t AllocateHighest(int64_t bytes);
  // Joins neighbouring holes. Requires a range that Allocate gave.
  void Free(int64_t offset, int64_t bytes);
  // Highest end of any allocation so far.
  int64_t high_water() const { return high_water_; }
  int64_t capacity() const { return capacity_; }

 private:
  using Holes = absl::btree_map<int64_t, int64_t>;

  // Takes the first or the last of the hole's bytes.
  void TakeFront(Holes::iterator hole, int64_t bytes);
  void TakeBack(Holes::iterator hole, int64_t bytes);

  const int64_t capacity_;
  Holes holes_;                                          // offset -> bytes
  absl::btree_set<std::pair<int64_t, int64_t>> by_size_;  // bytes, offset
  int64_t high_water_ = 0;
};

}  // namespace millrace

#endif  // MILLRACE_PASSES_MEMORY_ADDRESS_ALLOCATOR_H_
