#include "passes/memory/pack_in_time.h"

#include <algorithm>
#include <limits>
#include <random>

#include "gtest/gtest.h"
#include "passes/memory/sweep_input.h"

namespace millrace {
namespace {

using Blocks = std::vector<LateBlock>;

constexpr HolePolicy kSmallest{HolePolicy::Kind::kSmallest, 0};

int32_t Below(std::mt19937& random, int32_t n) { return static_cast<int32_t>(random() % static_cast<uint32_t>(n)); }

// A block that is there from `first` to `last`.
LateBlock Fixed(int64_t bytes, int32_t first, int32_t last) { return {bytes, first, first, last, last, 0}; }

// Blocks of which no more than `budget` must be there at any slot; a third may come late, a third may leave early.
Blocks RandomBlocks(uint32_t seed, int32_t count, int32_t slots, int64_t budget) {
  std::mt19937 random(seed);
  std::vector<int64_t> must(slots, 0);
  Blocks blocks;
  for (int32_t k = 0; k < count; ++k) {
    LateBlock block = Fixed(64 * (1 + Below(random, 1 << Below(random, 6))), Below(random, slots), 0);
    block.latest = std::min(slots - 1, block.first + (Below(random, 3) == 0 ? Below(random, 8) : 0));
    block.leaves = std::min(slots - 1, block.latest + Below(random, 1 + Below(random, slots)));
    block.last = std::min(slots - 1, block.leaves + (Below(random, 3) == 0 ? Below(random, 8) : 0));
    block.copy = block.leaves;
    bool fits = true;
    for (int32_t t = block.latest; t <= block.leaves; ++t) fits = fits && must[t] + block.bytes <= budget;
    if (!fits) continue;
    for (int32_t t = block.latest; t <= block.leaves; ++t) must[t] += block.bytes;
    blocks.push_back(block);
  }
  return blocks;
}

void ExpectApart(const Blocks& blocks, const TimePacking& packing) {
  for (size_t a = 0; a < blocks.size(); ++a) {
    ASSERT_EQ(packing.offsets[a] % 64, 0);
    for (size_t b = 0; b < a; ++b) {
      const bool meet = packing.first[a] <= packing.last[b] && packing.first[b] <= packing.last[a];
      const bool overlap = packing.offsets[a] < packing.offsets[b] + blocks[b].bytes &&
                           packing.offsets[b] < packing.offsets[a] + blocks[a].bytes;
      ASSERT_FALSE(meet && overlap) << "blocks " << a << " and " << b;
    }
  }
}

TEST(PackInTimeTest, BlocksLiveAsLongAsTheyMustAndNeverShareBytes) {
  for (uint32_t seed = 0; seed < 60; ++seed) {
    const int64_t budget = 64 * 100;
    const Blocks blocks = RandomBlocks(seed, 150, 60, budget);
    for (int tries : {1, 2, 12}) {
      SCOPED_TRACE(testing::Message() << "seed " << seed << ", tries " << tries);
      const TimePacking packing = PackInTimeBest(blocks, budget, tries);
      ExpectApart(blocks, packing);
      int64_t heap = 0;
      for (size_t b = 0; b < blocks.size(); ++b) {
        EXPECT_GE(packing.first[b], blocks[b].first);
        EXPECT_LE(packing.first[b], blocks[b].latest);
        EXPECT_GE(packing.last[b], blocks[b].leaves);
        EXPECT_LE(packing.last[b], blocks[b].last);
        const bool failed = std::find(packing.failed.begin(), packing.failed.end(), b) != packing.failed.end();
        if (!failed) {
          EXPECT_LE(packing.offsets[b] + blocks[b].bytes, budget);
        }
        heap = std::max(heap, packing.offsets[b] + blocks[b].bytes);
      }
      EXPECT_EQ(packing.heap_bytes, heap);
    }
  }
}

TEST(PackInTimeTest, MoreTriesFailNoMore) {
  int better = 0;
  for (uint32_t seed = 0; seed < 40; ++seed) {
    const Blocks blocks = RandomBlocks(seed, 200, 60, 64 * 100);
    const int64_t one = PackInTimeBest(blocks, 64 * 100, 1).failed_bytes;
    const int64_t many = PackInTimeBest(blocks, 64 * 100, 12).failed_bytes;
    EXPECT_LE(many, one);
    better += many < one ? 1 : 0;
    const TimePacking first = PackInTimeBest(blocks, 64 * 100, 0);
    EXPECT_EQ(first.failed.empty(), one == 0);
    EXPECT_LE(first.failed_bytes, one);
  }
  EXPECT_GT(better, 0);
}

// a and c lie on either side of b, so that what they leave is in two pieces until b leaves, too.
TEST(PackInTimeTest, ACopyInThatFindsRoomInPiecesComesLater) {
  const Blocks blocks = {Fixed(256, 0, 1), Fixed(256, 0, 2), Fixed(256, 0, 1), {512, 2, 4, 6, 6, 0}};
  const TimePacking packing = PackInTime(blocks, 768, kSmallest, {});
  ExpectApart(blocks, packing);
  EXPECT_TRUE(packing.failed.empty());
  EXPECT_LE(packing.heap_bytes, 768);
  EXPECT_GE(packing.first[3], 2);
  EXPECT_LE(packing.first[3], 3);
}

TEST(PackInTimeTest, WhatIsThereEarlyIsTakenBackForWhatMustBeThere) {
  // x is there from 0 on, though needed at 5; y needs the whole budget at 2.
  const Blocks blocks = {{256, 0, 5, 6, 6, 0}, Fixed(512, 2, 3)};
  const TimePacking packing = PackInTime(blocks, 512, kSmallest, {});
  EXPECT_TRUE(packing.failed.empty());
  EXPECT_EQ(packing.first[0], 4);
}

// Six thousand copies in came early and fill the memory; looking at all of them for each of what must be there would take 600,000 steps.
TEST(PackInTimeTest, RoomIsTakenBackWithoutALookAtAllThatCameEarly) {
  constexpr int32_t kEarly = 6000, kLarge = 20;
  Blocks blocks;
  for (int32_t k = 0; k < kEarly; ++k) blocks.push_back({64, 0, kLarge + 1, kLarge + 1, kLarge + 1, 0});
  const int64_t of_early = PackInTimeBest(blocks, 64 * kEarly, 1).work;
  for (int32_t k = 1; k <= kLarge; ++k) blocks.push_back(Fixed(640, k, k));
  const TimePacking packing = PackInTimeBest(blocks, 64 * kEarly, 1);
  EXPECT_TRUE(packing.failed.empty());
  EXPECT_EQ(packing.failed_bytes, 0);
  EXPECT_LT(packing.work - of_early, 300'000);
}

TEST(PackInTimeTest, CopiesOutAreAwaitedInTheirOrderAndNoMoreThanNeeded) {
  // x, y and z leave after 0 and their copies take until 9; w needs the room of two.
  Blocks blocks = {Fixed(256, 0, 9), Fixed(256, 0, 9), Fixed(256, 0, 9), Fixed(512, 4, 5)};
  for (int32_t b = 0; b < 3; ++b) {
    blocks[b].leaves = 0;
    blocks[b].copy = 10 + b;
  }
  const TimePacking packing = PackInTime(blocks, 768, kSmallest, {});
  EXPECT_TRUE(packing.failed.empty());
  EXPECT_EQ(packing.awaited_copies, 2);
  EXPECT_EQ(packing.last[0], 3);
  EXPECT_EQ(packing.last[1], 3);
  EXPECT_EQ(packing.last[2], 9);
}

TEST(PackInTimeTest, WhatFailsIsToldWithWhatWasFree) {
  const Blocks blocks = {Fixed(256, 0, 4), Fixed(256, 1, 4), Fixed(512, 2, 3)};
  const TimePacking packing = PackInTime(blocks, 896, kSmallest, {});
  ASSERT_EQ(packing.failed, std::vector<int32_t>{2});
  EXPECT_EQ(packing.free_bytes, std::vector<int64_t>{896 - 512});
  EXPECT_EQ(packing.failed_bytes, 512);
  EXPECT_GT(packing.heap_bytes, 896);
}

// From the top of a budget that is no multiple of the alignment, and by sizes that fall short of a multiple by no more than it.
TEST(PackInTimeTest, OffsetsHaveTheirAlignment) {
  const Blocks small = {Fixed(256, 0, 0)};
  const HolePolicy by_life{HolePolicy::Kind::kByLife, 2};  // the highest place
  EXPECT_EQ(PackInTime(small, 1000, by_life, {}).offsets[0], 704);
  EXPECT_EQ(PackInTime(small, 1000, by_life, {}, {}, 256).offsets[0], 512);
  // 600 bytes, aligned, and 1200 of the same.
  const Blocks twice = {Fixed(768, 0, 9), Fixed(1280, 0, 0)};
  EXPECT_EQ(SweepInput(twice, {}, 64).sizes[1], 1280);
  EXPECT_EQ(SweepInput(twice, {}, 256).sizes[1], 1536);
}

TEST(PackInTimeTest, WhatIsReservedHasItsPlace) {
  // b settles in the middle when a leaves; with room reserved for c it does not.
  const Blocks blocks = {Fixed(256, 0, 1), Fixed(256, 0, 9), Fixed(512, 3, 5)};
  const TimePacking packing = PackInTime(blocks, 768, kSmallest, {2});
  EXPECT_TRUE(packing.failed.empty());
  EXPECT_EQ(packing.offsets[2], 256);
}

TEST(PackInTimeTest, WhatLeavesAndReturnsHasOneAddressAndLendsItsPlaceMeanwhile) {
  const int64_t budget = 64 * 130;
  int lent = 0;
  for (uint32_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Blocks blocks = RandomBlocks(seed, 120, 60, 64 * 90);
    const auto n = static_cast<int32_t>(blocks.size());
    blocks.push_back(Fixed(64 * 10, 0, 59));
    for (int32_t k = 0; k < 3; ++k) {
      blocks.push_back(Fixed(64 * 10, 0, 8 - 2 * k));
      blocks.push_back({64 * 10, 30, 45 + 4 * k, 59, 59, 0});
    }
    const std::vector<PinnedPair> pinned = {{n, n}, {n + 1, n + 2}, {n + 3, n + 4}, {n + 5, n + 6}};
    const TimePacking packing = PackInTimeBest(blocks, budget, 4, std::numeric_limits<int64_t>::max(), pinned);
    ExpectApart(blocks, packing);
    for (const PinnedPair& pair : pinned) EXPECT_EQ(packing.offsets[pair.first], packing.offsets[pair.last]);
    EXPECT_GT(packing.offsets[n], packing.offsets[n + 1]);
    for (int32_t b = 0; b < n; ++b) lent += packing.offsets[b] + blocks[b].bytes > packing.offsets[n + 5] ? 1 : 0;
  }
  EXPECT_GT(lent, 0);
}

// One block of 1984 bytes leaves; two aligned ones of half its elements (1000 and 992 bytes) come.
TEST(PackInTimeTest, HolesOfLargerTensorsHoldWholeNumbersOfSmallerOnes) {
  Blocks blocks;
  for (int32_t k = 0; k < 4; ++k) blocks.push_back(Fixed(1984, 0, k == 3 ? 9 : 1));
  for (int32_t k = 0; k < 6; ++k) blocks.push_back(Fixed(1024, 2, 9));
  const TimePacking packing = PackInTime(blocks, 8192, kSmallest, {});
  EXPECT_TRUE(packing.failed.empty());
}

// Every block is idle between its first slot and its last but for every third one.
class EveryThird : public IdleTimes {
 public:
  EveryThird(const Blocks& blocks, double most_cost) : IdleTimes(most_cost), blocks_(blocks) {}
  bool Find(int32_t b, int32_t slot, IdleTime& time) const override {
    const LateBlock& block = blocks_[b];
    const int32_t since = (slot - block.latest) % 3, before = slot - since + 3;
    if (slot <= block.latest || since == 0 || before > block.leaves) return false;
    time = {slot - since, before, 0, static_cast<double>(block.bytes)};
    return true;
  }

 private:
  const Blocks& blocks_;
};

TEST(PackInTimeTest, WhatNothingUsesLeavesAndComesBackWhereRoomIsInPieces) {
  const int64_t budget = 64 * 100;
  int64_t with = 0, without = 0, returns = 0;
  for (uint32_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const Blocks blocks = RandomBlocks(seed, 200, 60, budget);
    const EveryThird idle(blocks, 1e9);
    const TimePacking packing = PackInTimeBest(blocks, budget, 1, std::numeric_limits<int64_t>::max(), {}, &idle);
    without += PackInTimeBest(blocks, budget, 1).failed_bytes;
    with += packing.failed_bytes;
    returns += static_cast<int64_t>(packing.returns.size());
    // Stays one after another, as blocks of their own.
    Blocks stays = blocks;
    TimePacking all = packing;
    for (const TimePacking::Return& stay : packing.returns) {
      EXPECT_LE(stay.first, stay.before);
      EXPECT_GT(stay.first, stay.after + 1);
      EXPECT_EQ(stay.before - stay.after, 3);
      EXPECT_LE(stay.last, blocks[stay.block].last);
      EXPECT_LT(packing.last[stay.block], stay.first);
      EXPECT_GE(packing.last[stay.block], blocks[stay.block].latest);
      stays.push_back(blocks[stay.block]);
      all.offsets.push_back(stay.offset);
      all.first.push_back(stay.first);
      all.last.push_back(stay.last);
    }
    ExpectApart(stays, all);
    EXPECT_EQ(packing.failed.size(), packing.failed_at.size());
  }
  EXPECT_GT(returns, 0);
  EXPECT_LT(with, without * 2 / 3);
}

// a and c lie on either side of b and leave; d needs the room of both. b is cheap to bring back, and nothing uses it but at 0 and 3.
TEST(PackInTimeTest, NoMoreLeavesThanMayCost) {
  const Blocks blocks = {Fixed(2560, 0, 1), Fixed(2048, 0, 5), Fixed(1536, 0, 1), Fixed(4096, 2, 2), Fixed(64, 40, 40)};
  for (const double most_cost : {0.0, -1.0}) {
    const EveryThird idle(blocks, most_cost);
    const TimePacking packing = PackInTimeBest(blocks, 6144, 1, std::numeric_limits<int64_t>::max(), {}, &idle);
    EXPECT_EQ(packing.failed.empty(), most_cost >= 0);
    ASSERT_EQ(packing.returns.size(), most_cost >= 0 ? 1 : 0);
    if (most_cost < 0) continue;
    EXPECT_EQ(packing.last[1], 1);
    EXPECT_EQ(packing.returns[0].block, 1);
    EXPECT_EQ(packing.returns[0].before, 3);
    EXPECT_EQ(packing.returns[0].first, 3);
    EXPECT_EQ(packing.returns[0].last, 5);
  }
}

}  // namespace
}  // namespace millrace
