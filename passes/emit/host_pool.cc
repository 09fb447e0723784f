#include "passes/emit/host_pool.h"

#include <algorithm>

#include "millrace/types.h"
#include "passes/memory/assign_memory.h"

namespace millrace {

int32_t HostPool::AddSlot(int64_t bytes, int64_t position) {
  Slot slot;
  slot.bytes = AlignUp(bytes);
  slot.first = slot.last = position;
  slots_.push_back(std::move(slot));
  return static_cast<int32_t>(slots_.size()) - 1;
}

void HostPool::ExtendSlot(int32_t slot, int64_t position) {
  slots_[slot].last = std::max(slots_[slot].last, position);
}

int64_t HostPool::AssignAddresses(int32_t num_lanes) {
  std::vector<MemoryBlock> blocks;
  for (const Slot& slot : slots_) blocks.push_back({slot.bytes, slot.first, slot.last});
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
