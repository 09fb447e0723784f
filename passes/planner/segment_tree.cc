#include "passes/planner/segment_tree.h"

#include <algorithm>
#include <array>
#include <cstddef>

namespace millrace {
namespace {
constexpr int64_t kNothing = INT64_MIN / 4;
}  // namespace

SegmentTree::SegmentTree(const std::vector<int64_t>& values) : size_(static_cast<int32_t>(values.size())) {
  const int32_t blocks = (size_ + kBlock - 1) / kBlock;
  while (leaves_ < blocks) leaves_ *= 2;
  values_.reserve(static_cast<size_t>(blocks) * kBlock);
  values_ = values;
  values_.resize(static_cast<size_t>(blocks) * kBlock, kNothing);
  trees_.assign(2 * leaves_, {kNothing, 0});
  for (int32_t b = 0; b < blocks; ++b) trees_[leaves_ + b].max = MaxOfBlock(b);
  for (int32_t node = leaves_ - 1; node > 0; --node) {
    trees_[node].max = std::max(trees_[2 * node].max, trees_[2 * node + 1].max);
  }
}

int64_t SegmentTree::MaxOf(int32_t begin, int32_t end) const {
  int64_t max = values_[begin];
  for (int32_t i = begin + 1; i < end; ++i) max = std::max(max, values_[i]);
  return max;
}

int64_t SegmentTree::MaxOfBlock(int32_t block) const {
  std::array<int64_t, kBlock> max;
  std::copy_n(values_.begin() + static_cast<std::ptrdiff_t>(block) * kBlock, kBlock, max.begin());
  for (int32_t width = kBlock / 2; width > 0; width /= 2) {
    for (int32_t i = 0; i < width; ++i) max[i] = std::max(max[i], max[i + width]);
  }
  return max[0];
}

void SegmentTree::AddWithin(int32_t begin, int32_t end, int64_t value) {
  int64_t max = kNothing;
  for (int32_t i = begin; i < end; ++i) max = std::max(max, values_[i] += value);
  const int32_t block = begin / kBlock;
  Subtree& leaf = trees_[leaves_ + block];
  leaf.max = value > 0 ? std::max(leaf.max, max + leaf.added) : MaxOfBlock(block) + leaf.added;
}

void SegmentTree::Add(int32_t begin, int32_t end, int64_t value) {
  if (begin >= end) return;
  if (end == size_) end = static_cast<int32_t>(values_.size());  // nothing stays nothing
  const int32_t first_block = begin / kBlock, last_block = (end - 1) / kBlock;
  const bool whole_first = begin % kBlock == 0, whole_last = end % kBlock == 0;
  if (first_block == last_block && !(whole_first && whole_last)) {
    AddWithin(begin, end, value);
  } else {
    if (!whole_first) AddWithin(begin, (first_block + 1) * kBlock, value);
    if (!whole_last) AddWithin(last_block * kBlock, end, value);
  }
  const auto add = [&](uint32_t node) {
    trees_[node].max += value;
    trees_[node].added += value;
  };
  const uint32_t first = first_block + leaves_, last = last_block + leaves_;
  int levels = 0;  // on which something was added
  for (uint32_t left = first + (whole_first ? 0 : 1), right = last + (whole_last ? 1 : 0); left < right;
       left >>= 1, right >>= 1, ++levels) {
    if (left & 1) add(left++);
    if (right & 1) add(--right);
  }
  const auto pull = [this](uint32_t node) {
    const int64_t former = trees_[node].max;
    trees_[node].max = std::max(trees_[2 * node].max, trees_[2 * node + 1].max) + trees_[node].added;
    return trees_[node].max != former;
  };
  // Above what was added to, what does not change says that nothing above it does.
  uint32_t left = first >> 1, right = last >> 1;
  for (; left != right; left >>= 1, right >>= 1, --levels) {
    const bool left_changed = pull(left), right_changed = pull(right);
    if (levels <= 1 && !left_changed && !right_changed) return;
  }
  for (; left > 0; left >>= 1, --levels) {
    if (!pull(left) && levels <= 1) return;
  }
}

int64_t SegmentTree::AddedTo(uint32_t node) const {
  int64_t added = 0;
  for (; node > 0; node >>= 1) added += trees_[node].added;
  return added;
}

int64_t SegmentTree::Max(int32_t begin, int32_t end) const {
  if (begin >= end) return kNothing;
  if (end == size_) end = static_cast<int32_t>(values_.size());
  const int32_t first_block = begin / kBlock, last_block = (end - 1) / kBlock;
  const bool whole_first = begin % kBlock == 0, whole_last = end % kBlock == 0;
  // Up from both ends until they meet: what lies between is in the inner siblings.
  uint32_t left = first_block + leaves_, right = last_block + leaves_;
  if (left == right && !(whole_first && whole_last)) return MaxOf(begin, end) + AddedTo(left);
  int64_t left_max = whole_first ? trees_[left].max : MaxOf(begin, (first_block + 1) * kBlock) + trees_[left].added;
  int64_t right_max = whole_last ? trees_[right].max : MaxOf(last_block * kBlock, end) + trees_[right].added;
  if (left == right) return left_max + AddedTo(left >> 1);
  while (left >> 1 != right >> 1) {
    if ((left & 1) == 0) left_max = std::max(left_max, trees_[left + 1].max);
    if ((right & 1) == 1) right_max = std::max(right_max, trees_[right - 1].max);
    left >>= 1;
    right >>= 1;
    left_max += trees_[left].added;
    right_max += trees_[right].added;
  }
  return std::max(left_max, right_max) + AddedTo(left >> 1);
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
