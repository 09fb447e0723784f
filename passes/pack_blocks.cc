#include "passes/pack_blocks.h"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include "millrace/types.h"
#include "passes/address_allocator.h"

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
constexpr double kEarlier = 4;  // times its key
// So many blocks are packed under one key only.
constexpr size_t kManyBlocks = 500'000;

// Blocks not yet placed, by where they lie in time: a k-d tree over (first, last) whose nodes know what is left below
// them.
class UnplacedBlocks {
 public:
  UnplacedBlocks(const std::vector<MemoryBlock>& blocks, const std::vector<double>& keys)
      : blocks_(blocks), keys_(keys), items_(blocks.size()), leaf_of_(blocks.size()), placed_(blocks.size(), false) {
    std::iota(items_.begin(), items_.end(), 0);
    while (static_cast<size_t>(leaves_) * kLeafSize < blocks.size()) leaves_ *= 2;
    nodes_.resize(2 * leaves_);
    leaf_begin_.resize(leaves_ + 1);
    leaf_begin_[leaves_] = static_cast<int32_t>(blocks.size());
    Build(1, 0, static_cast<int32_t>(blocks.size()), true);
  }

  // The block of the greatest key (the first of equals) that lives within [first, last]; -1 when there is none.
  int32_t BestWithin(int64_t first, int64_t last) {
    best_ = -1;
    first_ = first;
    last_ = last;
    Search(1);
    return best_;
  }

  void Remove(int32_t block) {
    placed_[block] = true;
    int32_t node = leaf_of_[block];
    SumUpLeaf(node);
    for (node /= 2; node > 0; node /= 2) SumUp(node);
  }

 private:
  static constexpr int32_t kLeafSize = 8;
  struct TreeNode {
    int64_t min_first = std::numeric_limits<int64_t>::max(), max_first = std::numeric_limits<int64_t>::min();
    int64_t min_last = std::numeric_limits<int64_t>::max(), max_last = std::numeric_limits<int64_t>::min();
    int32_t best = -1;  // by key
  };

  bool Better(int32_t a, int32_t b) const {
    if (a < 0 || b < 0) return b < 0 && a >= 0;
    return keys_[a] != keys_[b] ? keys_[a] > keys_[b] : a < b;
  }

  void Build(int32_t node, int32_t begin, int32_t end, bool by_first) {
    if (node >= leaves_) {
      leaf_begin_[node - leaves_] = begin;
      for (int32_t i = begin; i < end; ++i) leaf_of_[items_[i]] = node;
      SumUpRange(node, begin, end);
      return;
    }
    const int32_t middle = begin + (end - begin) / 2;
    std::nth_element(items_.begin() + begin, items_.begin() + middle, items_.begin() + end, [&](int32_t a, int32_t b) {
      const int64_t left = by_first ? blocks_[a].first : blocks_[a].last;
      const int64_t right = by_first ? blocks_[b].first : blocks_[b].last;
      return left != right ? left < right : a < b;
    });
    Build(2 * node, begin, middle, !by_first);
    Build(2 * node + 1, middle, end, !by_first);
    SumUp(node);
  }

  void SumUpRange(int32_t node, int32_t begin, int32_t end) {
    TreeNode sum;
    for (int32_t i = begin; i < end; ++i) {
      const int32_t b = items_[i];
      if (placed_[b]) continue;
      sum.min_first = std::min(sum.min_first, blocks_[b].first);
      sum.max_first = std::max(sum.max_first, blocks_[b].first);
      sum.min_last = std::min(sum.min_last, blocks_[b].last);
      sum.max_last = std::max(sum.max_last, blocks_[b].last);
      if (Better(b, sum.best)) sum.best = b;
    }
    nodes_[node] = sum;
  }

  void SumUpLeaf(int32_t node) { SumUpRange(node, leaf_begin_[node - leaves_], leaf_begin_[node - leaves_ + 1]); }

  void SumUp(int32_t node) {
    const TreeNode& a = nodes_[2 * node];
    const TreeNode& b = nodes_[2 * node + 1];
    nodes_[node] = {std::min(a.min_first, b.min_first), std::max(a.max_first, b.max_first),
                    std::min(a.min_last, b.min_last), std::max(a.max_last, b.max_last),
                    Better(a.best, b.best) ? a.best : b.best};
  }

  void Search(int32_t index) {
    const TreeNode& node = nodes_[index];
    if (node.max_first < first_ || node.min_last > last_ || !Better(node.best, best_)) return;
    if (node.min_first >= first_ && node.max_last <= last_) {
      best_ = node.best;
      return;
    }
    if (index >= leaves_) {
      for (int32_t i = leaf_begin_[index - leaves_]; i < leaf_begin_[index - leaves_ + 1]; ++i) {
        const int32_t b = items_[i];
        if (!placed_[b] && blocks_[b].first >= first_ && blocks_[b].last <= last_ && Better(b, best_)) best_ = b;
      }
      return;
    }
    const int32_t promising = Better(nodes_[2 * index].best, nodes_[2 * index + 1].best) ? 0 : 1;
    Search(2 * index + promising);
    Search(2 * index + 1 - promising);
  }

  const std::vector<MemoryBlock>& blocks_;
  const std::vector<double>& keys_;
  int32_t leaves_ = 1;  // a power of two; nodes [leaves_, 2 * leaves_) are leaves
  std::vector<int32_t> items_;       // by leaf
  std::vector<int32_t> leaf_begin_;  // into items_
  std::vector<TreeNode> nodes_;
  std::vector<int32_t> leaf_of_;
  std::vector<bool> placed_;
  // Of the search under way.
  int64_t first_ = 0, last_ = 0;
  int32_t best_ = -1;
};

// The upper edge of what is placed, as segments of equal height.
class Skyline {
 public:
  explicit Skyline(int64_t end) { Insert(0, end, 0); }

  struct Segment {
    int64_t begin = 0, end = 0, height = 0;
  };
  // The lowest, leftmost of equals.
  Segment Lowest() const {
    const auto [height, begin] = *by_height_.begin();
    return {begin, segments_.at(begin).end, height};
  }

  // Fills the segment up to its lower neighbour, which it joins.
  void Fill(const Segment& segment) {
    int64_t height = std::numeric_limits<int64_t>::max();
    const auto it = segments_.find(segment.begin);
    if (it != segments_.begin()) height = std::prev(it)->second.height;
    if (std::next(it) != segments_.end()) height = std::min(height, std::next(it)->second.height);
    Erase(segment);
    Insert(segment.begin, segment.end, height);
  }

  // Puts something of `bytes` over [begin, end) on the segment.
  void Place(const Segment& segment, int64_t begin, int64_t end, int64_t bytes) {
    Erase(segment);
    Insert(segment.begin, begin, segment.height);
    Insert(begin, end, segment.height + bytes);
    Insert(end, segment.end, segment.height);
  }

 private:
  struct Piece {
    int64_t end = 0, height = 0;
  };

  void Erase(const Segment& segment) {
    by_height_.erase({segment.height, segment.begin});
    segments_.erase(segment.begin);
  }

  // Joins neighbours of the same height.
  void Insert(int64_t begin, int64_t end, int64_t height) {
    if (begin >= end) return;
    auto next = segments_.lower_bound(begin);
    if (next != segments_.end() && next->first == end && next->second.height == height) {
      end = next->second.end;
      by_height_.erase({height, next->first});
      next = segments_.erase(next);
    }
    if (next != segments_.begin()) {
      const auto previous = std::prev(next);
      if (previous->second.end == begin && previous->second.height == height) {
        previous->second.end = end;
        return;
      }
    }
    segments_.emplace_hint(next, begin, Piece{end, height});
    by_height_.emplace(height, begin);
  }

  std::map<int64_t, Piece> segments_;                 // by begin
  std::set<std::pair<int64_t, int64_t>> by_height_;   // height, begin
};

}  // namespace

int64_t PeakBytes(const std::vector<MemoryBlock>& blocks) {
  std::vector<std::pair<int64_t, int64_t>> changes;
  changes.reserve(2 * blocks.size());
  for (const MemoryBlock& block : blocks) {
    changes.emplace_back(block.first, block.bytes);
    changes.emplace_back(block.last + 1, -block.bytes);
  }
  std::sort(changes.begin(), changes.end());  // what leaves goes before what comes
  int64_t live = 0, peak = 0;
  for (const auto& [position, bytes] : changes) {
    live += bytes;
    peak = std::max(peak, live);
  }
  return peak;
}

Packing PackSkyline(const std::vector<MemoryBlock>& blocks, const std::vector<double>& keys) {
  Packing packing;
  packing.offsets.assign(blocks.size(), 0);
  int64_t end = 1;
  for (const MemoryBlock& block : blocks) end = std::max(end, block.last + 1);
  UnplacedBlocks unplaced(blocks, keys);
  Skyline skyline(end);
  for (size_t placed = 0; placed < blocks.size();) {
    const Skyline::Segment valley = skyline.Lowest();
    const int32_t b = unplaced.BestWithin(valley.begin, valley.end - 1);
    if (b < 0) {
      skyline.Fill(valley);
      continue;
    }
    unplaced.Remove(b);
    ++placed;
    packing.offsets[b] = valley.height;
    packing.heap_bytes = std::max(packing.heap_bytes, valley.height + blocks[b].bytes);
    skyline.Place(valley, blocks[b].first, blocks[b].last + 1, blocks[b].bytes);
  }
  return packing;
}

namespace {

// Packs again with greater keys for what lies beyond the budget, until it fits or the rounds are over.
void Repair(const std::vector<MemoryBlock>& blocks, int64_t budget_bytes, std::vector<double> keys, Packing& best) {
  const int64_t rounds = std::min(kMostRepairs, kRepairedBlocks / static_cast<int64_t>(blocks.size() + 1));
  Packing last = best;
  for (int64_t round = 0; round < rounds && best.heap_bytes > budget_bytes; ++round) {
    for (size_t b = 0; b < blocks.size(); ++b) {
      if (last.offsets[b] + blocks[b].bytes > budget_bytes) keys[b] *= kEarlier;
    }
    last = PackSkyline(blocks, keys);
    if (last.heap_bytes < best.heap_bytes) best = last;
  }
}

}  // namespace

Packing PackSkylines(const std::vector<MemoryBlock>& blocks, int64_t budget_bytes, SkylineKey& key) {
  const SkylineKey wanted = key;
  Packing best;
  best.heap_bytes = std::numeric_limits<int64_t>::max();
  std::vector<double> keys(blocks.size()), best_keys;
  for (SkylineKey k : {SkylineKey::kBytes, SkylineKey::kArea, SkylineKey::kLife}) {
    if (wanted != SkylineKey::kAny && wanted != k) continue;
    if (k != SkylineKey::kBytes && wanted == SkylineKey::kAny && blocks.size() > kManyBlocks) break;
    for (size_t b = 0; b < blocks.size(); ++b) {
      const auto bytes = static_cast<double>(blocks[b].bytes);
      const auto life = static_cast<double>(blocks[b].last - blocks[b].first + 1);
      keys[b] = k == SkylineKey::kBytes ? bytes : k == SkylineKey::kArea ? bytes * life : life;
    }
    Packing packing = PackSkyline(blocks, keys);
    if (packing.heap_bytes < best.heap_bytes) {
      best = std::move(packing);
      best_keys = keys;
      key = k;
    }
    if (best.heap_bytes <= budget_bytes) break;
  }
  best.peak_bytes = PeakBytes(blocks);
  if (best.peak_bytes <= budget_bytes) Repair(blocks, budget_bytes, std::move(best_keys), best);
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
