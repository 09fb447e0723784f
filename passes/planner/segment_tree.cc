#include "passes/planner/segment_tree.h"

#include <algorithm>
#include <array>
#include <cstddef>

namespace millrace {
namespace {

constexpr int64_t kNothing = INT64_MIN / 4;

// What depends on where a range begins and ends is masked, not branched on: which way such a branch goes cannot be foretold, and a
// wrong guess takes longer than a block.
int64_t OnesIf(uint32_t bit) { return -static_cast<int64_t>(bit); }
int64_t Larger(int64_t a, int64_t b) { return a > b ? a : b; }

// Seen from `size - k` on: ones from the k-th of so many elements on.
template <size_t size>
constexpr std::array<int64_t, 2 * size> kOnes = [] {
  std::array<int64_t, 2 * size> ones{};
  for (size_t i = size; i < 2 * size; ++i) ones[i] = -1;
  return ones;
}();

template <size_t size>
int64_t LargestOf(const std::array<int64_t, size>& values) {
  std::array<int64_t, size> max = values;
  for (size_t width = size / 2; width > 0; width /= 2) {
    for (size_t i = 0; i < width; ++i) max[i] = Larger(max[i], max[i + width]);
  }
  return max[0];
}

}  // namespace

SegmentTree::SegmentTree(const std::vector<int64_t>& values) : size_(static_cast<int32_t>(values.size())) {
  const int32_t blocks = (size_ + kBlock - 1) / kBlock;
  while (leaves_ < blocks) leaves_ *= 2;
  values_.reserve(static_cast<size_t>(blocks) * kBlock);
  values_ = values;
  values_.resize(static_cast<size_t>(blocks) * kBlock, kNothing);
  trees_.assign(2 * leaves_, {kNothing, 0});
  for (int32_t b = 0; b < blocks; ++b) trees_[leaves_ + b].max = MaxWithin(b * kBlock, (b + 1) * kBlock);
  for (int32_t node = leaves_ - 1; node > 0; --node) {
    trees_[node].max = std::max(trees_[2 * node].max, trees_[2 * node + 1].max);
  }
}

int64_t SegmentTree::MaxWithin(int32_t begin, int32_t end) const {
  const int32_t first = begin / kBlock * kBlock;
  const int64_t* values = &values_[first];
  const int64_t* from = &kOnes<kBlock>[kBlock - (begin - first)];
  const int64_t* beyond = &kOnes<kBlock>[kBlock - (end - first)];
  std::array<int64_t, kBlock> max;
  for (int32_t i = 0; i < kBlock; ++i) {
    const int64_t inside = from[i] & ~beyond[i];
    max[i] = (values[i] & inside) | (kNothing & ~inside);
  }
  return LargestOf(max);
}

void SegmentTree::AddWithin(int32_t begin, int32_t end, int64_t value) {
  const int32_t first = begin / kBlock * kBlock;
  int64_t* values = &values_[first];
  const int64_t* from = &kOnes<kBlock>[kBlock - (begin - first)];
  const int64_t* beyond = &kOnes<kBlock>[kBlock - (end - first)];
  std::array<int64_t, kBlock> max;
  for (int32_t i = 0; i < kBlock; ++i) max[i] = values[i] += value & from[i] & ~beyond[i];
  Subtree& leaf = trees_[leaves_ + begin / kBlock];
  leaf.max = LargestOf(max) + leaf.added;
}

void SegmentTree::Add(int32_t begin, int32_t end, int64_t value) {
  if (begin >= end) return;
  const int32_t first_block = begin / kBlock, last_block = (end - 1) / kBlock;
  uint32_t left = first_block + leaves_, right = last_block + leaves_;
  if (left == right) {
    AddWithin(begin, end, value);
  } else {
    AddWithin(begin, (first_block + 1) * kBlock, value);
    AddWithin(last_block * kBlock, end, value);
    // Up from both ends until they meet: what lies between is in the inner siblings.
    while (left >> 1 != right >> 1) {
      Subtree& beside_left = trees_[left ^ 1];
      Subtree& beside_right = trees_[right ^ 1];
      const int64_t to_left = value & ~OnesIf(left & 1), to_right = value & OnesIf(right & 1);
      beside_left.max += to_left;
      beside_left.added += to_left;
      beside_right.max += to_right;
      beside_right.added += to_right;
      const int64_t left_max = Larger(beside_left.max, trees_[left].max), right_max = Larger(beside_right.max, trees_[right].max);
      left >>= 1;
      right >>= 1;
      trees_[left].max = left_max + trees_[left].added;
      trees_[right].max = right_max + trees_[right].added;
    }
  }
  for (uint32_t node = left >> 1; node > 0; node >>= 1) {
    const int64_t max = Larger(trees_[2 * node].max, trees_[2 * node + 1].max) + trees_[node].added;
    if (max == trees_[node].max) return;
    trees_[node].max = max;
  }
}

int64_t SegmentTree::AddedTo(uint32_t node) const {
  int64_t added = 0;
  for (; node > 0; node >>= 1) added += trees_[node].added;
  return added;
}

int64_t SegmentTree::Max(int32_t begin, int32_t end) const {
  if (begin >= end) return kNothing;
  const int32_t first_block = begin / kBlock, last_block = (end - 1) / kBlock;
  uint32_t left = first_block + leaves_, right = last_block + leaves_;
  if (left == right) return MaxWithin(begin, end) + AddedTo(left);
  int64_t left_max = MaxWithin(begin, (first_block + 1) * kBlock) + trees_[left].added;
  int64_t right_max = MaxWithin(last_block * kBlock, end) + trees_[right].added;
  while (left >> 1 != right >> 1) {
    // Of two nothings the sum is still a number.
    left_max = Larger(left_max, trees_[left ^ 1].max + (kNothing & OnesIf(left & 1)));
    right_max = Larger(right_max, trees_[right ^ 1].max + (kNothing & ~OnesIf(right & 1)));
    left >>= 1;
    right >>= 1;
    left_max += trees_[left].added;
    right_max += trees_[right].added;
  }
  return Larger(left_max, right_max) + AddedTo(left >> 1);
}

void SegmentTree::Read(std::vector<int64_t>& values) const {
  std::vector<int64_t> added(2 * leaves_, 0);  // to the node and its ancestors
  for (int32_t node = 1; node < 2 * leaves_; ++node) added[node] = trees_[node].added + (node > 1 ? added[node / 2] : 0);
  for (size_t i = 0; i < values.size(); ++i) values[i] = values_[i] + added[leaves_ + i / kBlock];
}

int32_t SegmentTree::LastAbove(int32_t begin, int32_t end, int64_t limit) const {
  if (begin >= end) return begin - 1;
  const auto look = [&](int32_t block, int32_t block_begin, int32_t block_end) {
    const int64_t least = limit - AddedTo(block + leaves_);
    int32_t i = block_end - 1;
    while (i >= block_begin && values_[i] <= least) --i;
    return i < block_begin ? -1 : i;
  };
  const int32_t first = begin / kBlock, last = (end - 1) / kBlock;
  int32_t found = look(last, std::max(begin, last * kBlock), end);
  if (found < 0 && first + 1 < last) {
    const int32_t block = LastBlockAbove(1, 0, leaves_, first + 1, last, limit);
    if (block >= 0) found = look(block, block * kBlock, (block + 1) * kBlock);
  }
  if (found < 0 && first < last) found = look(first, begin, (first + 1) * kBlock);
  return found < 0 ? begin - 1 : found;
}

int32_t SegmentTree::LastBlockAbove(int32_t node, int32_t node_begin, int32_t node_end, int32_t begin, int32_t end,
                                    int64_t limit) const {
  if (node_end <= begin || end <= node_begin || trees_[node].max <= limit) return -1;
  if (node_end - node_begin == 1) return node_begin;
  const int32_t middle = (node_begin + node_end) / 2;
  const int32_t right = LastBlockAbove(2 * node + 1, middle, node_end, begin, end, limit - trees_[node].added);
  return right >= 0 ? right : LastBlockAbove(2 * node, node_begin, middle, begin, end, limit - trees_[node].added);
}

}  // namespace millrace
