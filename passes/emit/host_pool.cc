#include "passes/emit/host_pool.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "millrace/types.h"
#include "passes/memory/assign_memory.h"

namespace millrace {

int32_t HostPool::AddSlot(int64_t bytes, int64_t position, CopyTimes times) {
  Slot slot;
  slot.bytes = AlignUp(bytes);
  slot.first = slot.last = position;
  slot.life = times;
  slots_.push_back(std::move(slot));
  return static_cast<int32_t>(slots_.size()) - 1;
}

void HostPool::ExtendSlot(int32_t index, int64_t position, CopyTimes times) {
  Slot& slot = slots_[index];
  slot.last = std::max(slot.last, position);
  slot.life.end = std::max(slot.life.end, times.end);
}

// Per slot: the position until which others may not have its bytes, that of the last write that begins before it has been read.
std::vector<int64_t> HostPool::LastPositions() const {
  std::vector<std::pair<double, int64_t>> writes;  // when, where
  for (const Slot& slot : slots_) writes.push_back({slot.life.begin, slot.first});
  std::sort(writes.begin(), writes.end());
  for (size_t k = 1; k < writes.size(); ++k) writes[k].second = std::max(writes[k].second, writes[k - 1].second);
  std::vector<int64_t> last;
  for (const Slot& slot : slots_) {
    const auto after = std::lower_bound(writes.begin(), writes.end(), std::pair(slot.life.end, int64_t{0}));
    last.push_back(after == writes.begin() ? slot.last : std::max(slot.last, std::prev(after)->second));
  }
  return last;
}

int64_t HostPool::AssignAddresses(int32_t num_lanes) {
  const std::vector<int64_t> last = LastPositions();
  std::vector<MemoryBlock> blocks;
  for (size_t i = 0; i < slots_.size(); ++i) blocks.push_back({slots_[i].bytes, slots_[i].first, last[i]});
  const Packing packing = PackBlocks(blocks, 0);
  for (size_t i = 0; i < slots_.size(); ++i) {
    slots_[i].offset = packing.offsets[i];
    slots_[i].touched.assign(num_lanes, 0);
  }
  return packing.heap_bytes;
}

void HostPool::Write(int32_t index, int32_t lane, int64_t count, int64_t position, std::vector<int64_t>& needed) {
  Slot& slot = slots_[index];
  const AllLaneCounts before = owners_.Claim(slot.offset, slot.bytes);
  for (size_t l = 0; l < before.size(); ++l) needed[l] = std::max(needed[l], before[l]);
  slot.writer_lane = lane;
  slot.written = count;
  Touch(slot, lane, count, position);
}

void HostPool::Read(int32_t index, int32_t lane, int64_t count, int64_t position, std::vector<int64_t>& needed) {
  Slot& slot = slots_[index];
  needed[slot.writer_lane] = std::max(needed[slot.writer_lane], slot.written);
  Touch(slot, lane, count, position);
}

void HostPool::Touch(Slot& slot, int32_t lane, int64_t count, int64_t position) {
  slot.touched[lane] = count;
  if (slot.last == position) owners_.Release(slot.offset, slot.bytes, slot.touched);
}

}  // namespace millrace
