// What is in memory while blocks are packed in order of time (pack_in_time.h): blocks in order of addresses, the holes
// between them, and which of those a policy gives to a block.
#ifndef MILLRACE_PASSES_MEMORY_LIVE_BLOCKS_H_
#define MILLRACE_PASSES_MEMORY_LIVE_BLOCKS_H_

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "passes/memory/hole_list.h"
#include "passes/memory/pack_in_time.h"

namespace millrace {

class LiveBlocks {
 public:
  // Beyond all addresses.
  static constexpr int64_t kNoEnd = std::numeric_limits<int64_t>::max() / 2;

  // A block, and its neighbours while it is live. The wall is below the lowest and above the highest.
  struct Stay {
    int64_t offset = 0, bytes = 0;
    int32_t below = 0, above = 0;
    int32_t latest = 0, leaves = 0, last = 0;
  };
  // An address, and the block below it.
  struct Place {
    int64_t offset = -1;
    int32_t below = 0;
  };
  struct Range {
    int64_t begin = 0, end = 0;
  };

  // `sizes`: what is taken for each of the blocks.
  LiveBlocks(const std::vector<LateBlock>& blocks, const std::vector<int64_t>& sizes, int64_t budget_bytes,
             const HolePolicy& policy, int32_t slots);

  const Stay& operator[](int32_t b) const { return stays_[b]; }
  int32_t wall() const { return wall_; }
  bool is_live(int32_t b) const { return live_[b]; }
  int64_t EndOf(int32_t b) const { return stays_[b].offset + stays_[b].bytes; }
  // Where the room that block b could have begins and ends if only its neighbours stay.
  int64_t EndBelow(int32_t b) const { return EndOf(stays_[b].below); }
  int64_t BeginAbove(int32_t b) const { return stays_[b].above == wall_ ? kNoEnd : stays_[stays_[b].above].offset; }

  // Another block; its number.
  int32_t Add(const LateBlock& block, int64_t bytes);

  // For a block that begins now, below the limit; its offset is -1 where there is no room.
  Place Find(int32_t b, int32_t now, int64_t limit) const;
  // The address, if that is free.
  Place At(int64_t offset, int32_t b) const;
  // Beyond the budget, above all.
  Place Beyond() const { return {std::max(budget_, EndBelow(wall_)), stays_[wall_].below}; }

  void Insert(int32_t b, const Place& place);
  void Remove(int32_t b);

  int64_t FreeBytes() const;
  int64_t LargestHole() const { return BySize() ? holes_.LargestFirstKey() : holes_.LargestSecondKey(); }
  // All holes below the budget: (the block below, bytes).
  template <typename Visit>
  void VisitHoles(Visit&& visit) const {
    holes_.VisitAll([&](const Hole& hole) {
      visit(hole.below, BytesOf(hole));
      return true;
    });
  }

 private:
  using Hole = HoleList::Hole;  // in the order in which the policy looks

  bool BySize() const { return policy_.kind == HolePolicy::Kind::kSmallest; }
  int64_t BeginOf(const Hole& hole) const { return BySize() ? hole.second_key : hole.first_key; }
  int64_t BytesOf(const Hole& hole) const { return BySize() ? hole.first_key : hole.second_key; }
  Hole HoleAbove(int32_t b) const {
    const int64_t begin = EndOf(b), bytes = std::min(BeginAbove(b), budget_) - begin;
    return BySize() ? Hole{bytes, begin, b} : Hole{begin, bytes, b};
  }
  void AddHole(int32_t below) {
    const Hole hole = HoleAbove(below);
    if (BytesOf(hole) > 0) holes_.Insert(hole);
  }
  void DropHole(int32_t below) {
    const Hole hole = HoleAbove(below);
    if (BytesOf(hole) > 0) holes_.Erase(hole);
  }

  double Apart(int32_t b, int32_t neighbour) const;
  Place Smallest(int32_t b, int64_t limit) const;
  Place Lowest(int32_t b, int64_t limit) const;
  Place Highest(int32_t b, int64_t limit) const;

  const int64_t budget_;
  const HolePolicy policy_;
  const int32_t slots_;
  const int32_t wall_;         // index of both ends of memory among the blocks
  std::vector<Stay> stays_;    // per block
  std::vector<bool> live_;
  HoleList holes_;
};

}  // namespace millrace

#endif  // MILLRACE_PASSES_MEMORY_LIVE_BLOCKS_H_
