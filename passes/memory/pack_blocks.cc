#include "passes/memory/pack_blocks.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "millrace/types.h"
#include "passes/memory/address_allocator.h"
#include "passes/memory/skyline.h"

namespace millrace {
namespace {

// Without a budget a heap this close to the peak is not worth another try.
constexpr double kGoodEnough = 1.02;

// In order of time, best fit. Blocks that live longest among those starting together come first.
Packing PackInOrderOfTime(const std::vector<MemoryBlock>& blocks) {
  Packing packing;
  packing.offsets.assign(blocks.size(), 0);
  std::vector<int32_t> starts(blocks.size());
  std::iota(starts.begin(), starts.end(), 0);
  std::vector<int32_t> ends = starts;
  std::stable_sort(starts.begin(), starts.end(), [&](int32_t a, int32_t b) {
    return blocks[a].first != blocks[b].first ? blocks[a].first < blocks[b].first : blocks[a].last > blocks[b].last;
  });
  std::stable_sort(ends.begin(), ends.end(), [&](int32_t a, int32_t b) { return blocks[a].last < blocks[b].last; });
  AddressAllocator allocator(std::numeric_limits<int64_t>::max() / 2 / kTensorAlignment * kTensorAlignment);
  size_t next_end = 0;
  for (int32_t b : starts) {
    while (next_end < ends.size() && blocks[ends[next_end]].last < blocks[b].first) {
      const int32_t ended = ends[next_end++];
      allocator.Free(packing.offsets[ended], blocks[ended].bytes);
    }
    packing.offsets[b] = allocator.Allocate(blocks[b].bytes);
  }
  packing.heap_bytes = allocator.high_water();
  return packing;
}

// Rounds in which what lies beyond the budget comes earlier, for packings of few blocks: about so many blocks are placed.
constexpr int64_t kRepairedBlocks = 8'000;
constexpr int64_t kMostRepairs = 32;
constexpr int64_t kTreeWork = 340;  // of a block, in units of WorkBudget
constexpr double kEarlier = 4;  // times its key
constexpr int64_t kNever = std::numeric_limits<int64_t>::max();
// So many blocks are packed under one key only.
constexpr size_t kManyBlocks = 500'000;

}  // namespace

int64_t PeakBytes(const std::vector<MemoryBlock>& blocks) {
  int64_t end = 0;
  for (const MemoryBlock& block : blocks) end = std::max(end, block.last + 1);
  std::vector<int64_t> change(end + 1, 0);
  for (const MemoryBlock& block : blocks) {
    change[block.first] += block.bytes;
    change[block.last + 1] -= block.bytes;
  }
  int64_t live = 0, peak = 0;
  for (int64_t bytes : change) {
    live += bytes;
    peak = std::max(peak, live);
  }
  return peak;
}

namespace {

// Packs again with greater keys for what lies beyond the budget, until it fits or the rounds are over.
void Repair(const std::vector<MemoryBlock>& blocks, int64_t budget_bytes, SkylinePacker& packer, std::vector<double> keys,
            Packing& best, int64_t& work) {
  const int64_t rounds = std::min(kMostRepairs, kRepairedBlocks / static_cast<int64_t>(blocks.size() + 1));
  Packing last = best;
  for (int64_t round = 0; round < rounds && best.heap_bytes > budget_bytes; ++round) {
    for (size_t b = 0; b < blocks.size(); ++b) {
      if (last.offsets[b] + blocks[b].bytes > budget_bytes) keys[b] *= kEarlier;
    }
    last = packer.Pack(keys, round + 1 == rounds ? best.heap_bytes : kNever);
    work += last.work;
    if (last.heap_bytes < best.heap_bytes) best = last;
  }
}

}  // namespace

Packing PackSkylines(const std::vector<MemoryBlock>& blocks, int64_t budget_bytes, SkylineKey& key,
                     const std::vector<PlacedBlock>& floor) {
  const SkylineKey wanted = key;
  SkylinePacker packer(blocks, floor);
  Packing best;
  int64_t work = kTreeWork * static_cast<int64_t>(blocks.size());
  best.heap_bytes = kNever;
  std::vector<double> keys(blocks.size()), best_keys;
  for (SkylineKey k : {SkylineKey::kBytes, SkylineKey::kArea, SkylineKey::kLife}) {
    if (wanted != SkylineKey::kAny && wanted != k) continue;
    if (k != SkylineKey::kBytes && wanted == SkylineKey::kAny && blocks.size() > kManyBlocks) break;
    for (size_t b = 0; b < blocks.size(); ++b) {
      const auto bytes = static_cast<double>(blocks[b].bytes);
      const auto life = static_cast<double>(blocks[b].last - blocks[b].first + 1);
      keys[b] = k == SkylineKey::kBytes ? bytes : k == SkylineKey::kArea ? bytes * life : life;
    }
    Packing packing = packer.Pack(keys, best.heap_bytes);
    work += packing.work;
    if (packing.heap_bytes < best.heap_bytes) {
      best = std::move(packing);
      best_keys = keys;
      key = k;
    }
    if (best.heap_bytes <= budget_bytes) break;
  }
  std::vector<MemoryBlock> all = blocks;
  for (const PlacedBlock& placed : floor) all.push_back(placed.block);
  const int64_t peak = PeakBytes(all);
  if (peak <= budget_bytes) Repair(blocks, budget_bytes, packer, std::move(best_keys), best, work);
  best.peak_bytes = peak;
  best.work = work;
  return best;
}

Packing PackBlocks(const std::vector<MemoryBlock>& blocks, int64_t budget_bytes) {
  const int64_t peak = PeakBytes(blocks);
  const int64_t target = budget_bytes > 0 ? budget_bytes : static_cast<int64_t>(kGoodEnough * static_cast<double>(peak));
  Packing best = PackInOrderOfTime(blocks);
  if (best.heap_bytes > target && peak <= target) {
    SkylineKey key = SkylineKey::kAny;
    Packing skyline = PackSkylines(blocks, target, key);
    if (skyline.heap_bytes < best.heap_bytes) best = std::move(skyline);
  }
  best.peak_bytes = peak;
  return best;
}

}  // namespace millrace
