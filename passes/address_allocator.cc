#include "passes/address_allocator.h"

#include <algorithm>
#include <iterator>

namespace millrace {

AddressAllocator::AddressAllocator(int64_t capacity_bytes) : capacity_(capacity_bytes) {
  if (capacity_bytes > 0) AddHole(0, capacity_bytes);
}

int64_t AddressAllocator::Allocate(int64_t bytes) {
  auto fit = by_size_.lower_bound({bytes, 0});
  if (fit == by_size_.end()) return -1;
  const auto [hole_bytes, offset] = *fit;
  EraseHole(holes_.find(offset));
  if (hole_bytes > bytes) AddHole(offset + bytes, hole_bytes - bytes);
  high_water_ = std::max(high_water_, offset + bytes);
  return offset;
}

int64_t AddressAllocator::AllocateLowest(int64_t bytes) {
  if (by_size_.empty() || by_size_.rbegin()->first < bytes) return -1;
  auto hole = std::find_if(holes_.begin(), holes_.end(), [&](const auto& h) { return h.second >= bytes; });
  const auto [offset, hole_bytes] = *hole;
  EraseHole(hole);
  if (hole_bytes > bytes) AddHole(offset + bytes, hole_bytes - bytes);
  high_water_ = std::max(high_water_, offset + bytes);
  return offset;
}

int64_t AddressAllocator::AllocateHighest(int64_t bytes) {
  if (by_size_.empty() || by_size_.rbegin()->first < bytes) return -1;
  auto hole = std::prev(holes_.end());
  while (hole->second < bytes) --hole;
  const auto [offset, hole_bytes] = *hole;
  EraseHole(hole);
  if (hole_bytes > bytes) AddHole(offset, hole_bytes - bytes);
  high_water_ = std::max(high_water_, offset + hole_bytes);
  return offset + hole_bytes - bytes;
}

void AddressAllocator::Free(int64_t offset, int64_t bytes) {
  auto next = holes_.lower_bound(offset);
  if (next != holes_.end() && next->first == offset + bytes) {
    bytes += next->second;
    next = std::next(next);
    EraseHole(std::prev(next));
  }
  if (next != holes_.begin()) {
    auto previous = std::prev(next);
    if (previous->first + previous->second == offset) {
      offset = previous->first;
      bytes += previous->second;
      EraseHole(previous);
    }
  }
  AddHole(offset, bytes);
}

void AddressAllocator::AddHole(int64_t offset, int64_t bytes) {
  holes_.emplace(offset, bytes);
  by_size_.emplace(bytes, offset);
}

void AddressAllocator::EraseHole(std::map<int64_t, int64_t>::iterator hole) {
  by_size_.erase({hole->second, hole->first});
  holes_.erase(hole);
}

}  // namespace millrace
