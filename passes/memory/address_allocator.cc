#include "passes/memory/address_allocator.h"

#include <algorithm>
#include <iterator>

namespace millrace {

AddressAllocator::AddressAllocator(int64_t capacity_bytes) : capacity_(capacity_bytes) {
  if (capacity_bytes > 0) Free(0, capacity_bytes);
}

int64_t AddressAllocator::Allocate(int64_t bytes) {
  const auto fit = by_size_.lower_bound({bytes, 0});
  if (fit == by_size_.end()) return -1;
  const int64_t offset = fit->second;
  TakeFront(holes_.find(offset), bytes);
  high_water_ = std::max(high_water_, offset + bytes);
  return offset;
}

int64_t AddressAllocator::AllocateLowest(int64_t bytes) {
  if (by_size_.empty() || by_size_.rbegin()->first < bytes) return -1;
  const auto hole = std::find_if(holes_.begin(), holes_.end(), [&](const auto& h) { return h.second >= bytes; });
  const int64_t offset = hole->first;
  TakeFront(hole, bytes);
  high_water_ = std::max(high_water_, offset + bytes);
  return offset;
}

int64_t AddressAllocator::AllocateHighest(int64_t bytes) {
  if (by_size_.empty() || by_size_.rbegin()->first < bytes) return -1;
  auto hole = std::prev(holes_.end());
  while (hole->second < bytes) --hole;
  const int64_t end = hole->first + hole->second;
  TakeBack(hole, bytes);
  high_water_ = std::max(high_water_, end);
  return end - bytes;
}

void AddressAllocator::Free(int64_t offset, int64_t bytes) {
  auto next = holes_.lower_bound(offset);
  if (next != holes_.end() && next->first == offset + bytes) {
    by_size_.erase({next->second, next->first});
    bytes += next->second;
    next = holes_.erase(next);
  }
  if (next != holes_.begin()) {
    const auto previous = std::prev(next);
    if (previous->first + previous->second == offset) {
      by_size_.erase({previous->second, previous->first});
      previous->second += bytes;
      by_size_.emplace(previous->second, previous->first);
      return;
    }
  }
  holes_.emplace_hint(next, offset, bytes);
  by_size_.emplace(bytes, offset);
}

void AddressAllocator::TakeFront(Holes::iterator hole, int64_t bytes) {
  const auto [offset, hole_bytes] = *hole;
  by_size_.erase({hole_bytes, offset});
  const auto next = holes_.erase(hole);
  if (hole_bytes == bytes) return;
  holes_.emplace_hint(next, offset + bytes, hole_bytes - bytes);
  by_size_.emplace(hole_bytes - bytes, offset + bytes);
}

void AddressAllocator::TakeBack(Holes::iterator hole, int64_t bytes) {
  by_size_.erase({hole->second, hole->first});
  hole->second -= bytes;
  if (hole->second > 0) {
    by_size_.emplace(hole->second, hole->first);
  } else {
    holes_.erase(hole);
  }
}

}  // namespace millrace
