#include "passes/memory/pack_blocks.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include "gtest/gtest.h"
#include "passes/memory/skyline.h"

namespace millrace {
namespace {

using Blocks = std::vector<MemoryBlock>;

int64_t Below(std::mt19937& random, int64_t n) { return static_cast<int64_t>(random() % static_cast<uint64_t>(n)); }

Blocks RandomBlocks(uint32_t seed, int64_t count, int64_t positions, int64_t longest) {
  std::mt19937 random(seed);
  Blocks blocks;
  for (int64_t b = 0; b < count; ++b) {
    const int64_t first = Below(random, positions);
    const int64_t life = 1 + Below(random, 1 + Below(random, longest));
    blocks.push_back({64 * (1 + Below(random, 1 + Below(random, 100))), first, std::min(first + life, positions - 1)});
  }
  return blocks;
}

// Blocks within blocks: two of them are apart in time, or one lives within the other.
void Nest(std::mt19937& random, int64_t first, int64_t last, Blocks& blocks) {
  if (first > last) return;
  blocks.push_back({64 * (1 + Below(random, 50)), first, last});
  if (first == last) return;
  const int64_t cut = first + Below(random, last - first);
  Nest(random, first + Below(random, 2), cut, blocks);
  Nest(random, cut + 1 + Below(random, 2), last - Below(random, 2), blocks);
}

// What each of many steps of a recurrent network keeps for the way back, and what it needs only for a while: lives that
// are not nested and differ in size.
Blocks RecurrentBlocks(int64_t steps) {
  Blocks blocks;
  const int64_t end = 40 * steps;
  for (int64_t t = 0; t < steps; ++t) {
    const int64_t now = 10 * t, back = end - 20 * t;
    for (int64_t k = 0; k < 4; ++k) blocks.push_back({64 * 100, now + k, back - 3 * k});
    blocks.push_back({64 * (400 + 37 * (t % 5)), now + 1, now + 4});
    blocks.push_back({64 * (103 + 11 * (t % 3)), now + 4, now + 35});
    blocks.push_back({64 * 1007, now + 2, back});
    blocks.push_back({64 * (411 + 29 * (t % 7)), back - 12, back - 2});
    blocks.push_back({64 * 97, back - 39, back + 27});
  }
  return blocks;
}

// The most bytes live at one position, one position at a time.
int64_t SlowPeak(const Blocks& blocks) {
  int64_t peak = 0;
  for (const MemoryBlock& at : blocks) {
    int64_t live = 0;
    for (const MemoryBlock& b : blocks) live += b.first <= at.first && at.first <= b.last ? b.bytes : 0;
    peak = std::max(peak, live);
  }
  return peak;
}

void ExpectValid(const Blocks& blocks, const Packing& packing) {
  ASSERT_EQ(packing.offsets.size(), blocks.size());
  int64_t heap = 0;
  for (size_t a = 0; a < blocks.size(); ++a) {
    ASSERT_GE(packing.offsets[a], 0);
    heap = std::max(heap, packing.offsets[a] + blocks[a].bytes);
    for (size_t b = 0; b < a; ++b) {
      const bool meet = blocks[a].first <= blocks[b].last && blocks[b].first <= blocks[a].last;
      const bool overlap = packing.offsets[a] < packing.offsets[b] + blocks[b].bytes &&
                           packing.offsets[b] < packing.offsets[a] + blocks[a].bytes;
      ASSERT_FALSE(meet && overlap) << "blocks " << a << " and " << b;
    }
  }
  EXPECT_EQ(packing.heap_bytes, heap);
}

std::vector<double> Lives(const Blocks& blocks) {
  std::vector<double> keys;
  for (const MemoryBlock& b : blocks) keys.push_back(static_cast<double>(b.last - b.first));
  return keys;
}

// First fit, the largest first: the reference.
int64_t FirstFitHeap(const Blocks& blocks) {
  std::vector<size_t> order(blocks.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return blocks[a].bytes > blocks[b].bytes; });
  std::vector<std::pair<int64_t, size_t>> placed;  // by offset
  int64_t heap = 0;
  for (size_t b : order) {
    int64_t offset = 0;
    for (const auto& [other_offset, other] : placed) {
      if (blocks[other].first > blocks[b].last || blocks[other].last < blocks[b].first) continue;
      if (other_offset >= offset + blocks[b].bytes) break;
      offset = std::max(offset, other_offset + blocks[other].bytes);
    }
    placed.insert(std::upper_bound(placed.begin(), placed.end(), std::make_pair(offset, b)), {offset, b});
    heap = std::max(heap, offset + blocks[b].bytes);
  }
  return heap;
}

TEST(PackBlocks, NoTwoLiveBlocksShareBytes) {
  for (uint32_t seed = 0; seed < 60; ++seed) {
    const Blocks blocks = RandomBlocks(seed, 1 + seed * 5, 1 + seed * 4, 1 + seed);
    SCOPED_TRACE(seed);
    ExpectValid(blocks, SkylinePacker(blocks).Pack(Lives(blocks)));
    for (int64_t budget : {int64_t{0}, SlowPeak(blocks), 2 * SlowPeak(blocks)}) {
      const Packing packing = PackBlocks(blocks, budget);
      ExpectValid(blocks, packing);
      EXPECT_EQ(packing.peak_bytes, SlowPeak(blocks));
      EXPECT_GE(packing.heap_bytes, packing.peak_bytes);
    }
  }
}

TEST(PackBlocks, WhatHasItsPlaceAlreadyLiesBelowTheOthers) {
  for (uint32_t seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE(seed);
    const Blocks blocks = RandomBlocks(seed, 1 + seed * 4, 2 + seed * 4, 1 + seed);
    // Nested holes in the middle: as of variables that stay over the step's end.
    std::vector<PlacedBlock> floor;
    Blocks all = blocks;
    int64_t top = 0;
    for (int64_t k = 0; k < 1 + seed / 8; ++k) {
      for (const auto& [first, last] : {std::pair(int64_t{0}, int64_t{seed} - k), std::pair(int64_t{2 * seed} + k + 2, int64_t{4 * seed} + 9)}) {
        if (first > last) continue;
        floor.push_back({{64 * (k + 1), first, last}, top});
        all.push_back(floor.back().block);
      }
      top += 64 * (k + 1);
    }
    Packing packing = SkylinePacker(blocks, floor).Pack(Lives(blocks));
    for (const PlacedBlock& placed : floor) packing.offsets.push_back(placed.offset);
    ExpectValid(all, packing);
    SkylineKey key = SkylineKey::kAny;
    packing = PackSkylines(blocks, SlowPeak(all), key, floor);
    EXPECT_EQ(packing.peak_bytes, SlowPeak(all));
    for (const PlacedBlock& placed : floor) packing.offsets.push_back(placed.offset);
    ExpectValid(all, packing);
  }
}

TEST(PackBlocks, NothingAndOneBlockPack) {
  EXPECT_EQ(PackBlocks({}, 0).heap_bytes, 0);
  EXPECT_EQ(PackBlocks({{128, 5, 9}}, 0).heap_bytes, 128);
}

TEST(PackBlocks, NestedLivesPackWithoutWaste) {
  for (uint32_t seed = 0; seed < 100; ++seed) {
    std::mt19937 random(seed);
    Blocks blocks;
    Nest(random, 0, 200, blocks);
    std::shuffle(blocks.begin(), blocks.end(), random);
    EXPECT_EQ(SkylinePacker(blocks).Pack(Lives(blocks)).heap_bytes, PeakBytes(blocks)) << "seed " << seed << ", " << blocks.size();
  }
}

TEST(PackBlocks, RandomLivesPackAsFirstFitOrBetterOnTheWhole) {
  double log_ratio = 0, worst = 0;
  constexpr uint32_t kCases = 40;
  for (uint32_t seed = 0; seed < kCases; ++seed) {
    const Blocks blocks = RandomBlocks(1000 + seed, 400, 300, 200);
    const double peak = static_cast<double>(PeakBytes(blocks));
    const double heap = static_cast<double>(PackBlocks(blocks, PeakBytes(blocks)).heap_bytes);
    worst = std::max(worst, heap / peak);
    log_ratio += std::log(heap / static_cast<double>(FirstFitHeap(blocks)));
  }
  EXPECT_LE(log_ratio, 0);
  EXPECT_LT(worst, 1.10);
}

TEST(PackBlocks, ARecurrentNetworkPacksIntoAFewThousandthsAboveItsPeak) {
  const Blocks blocks = RecurrentBlocks(200);
  const int64_t peak = PeakBytes(blocks);
  // With room for anything the packing in order of time is taken.
  EXPECT_GT(PackBlocks(blocks, 10 * peak).heap_bytes, peak + peak / 200);
  EXPECT_LE(PackBlocks(blocks, peak + peak / 200).heap_bytes, peak + peak / 200);
}

TEST(PackBlocks, TheSameBlocksPackTheSameWay) {
  const Blocks blocks = RandomBlocks(7, 500, 300, 100);
  EXPECT_EQ(PackBlocks(blocks, 1).offsets, PackBlocks(blocks, 1).offsets);
}

}  // namespace
}  // namespace millrace
