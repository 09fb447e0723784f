#include "passes/planner/segment_tree.h"

#include <algorithm>

namespace millrace {
namespace {
constexpr int64_t kNothing = INT64_MIN / 4;
}  // namespace

SegmentTree::SegmentTree(const std::vector<int64_t>& values) {
  while (leaves_ < static_cast<int32_t>(values.size())) leaves_ *= 2;
  trees_.assign(2 * leaves_, {kNothing, 0});
  for (size_t i = 0; i < values.size(); ++i) trees_[leaves_ + i].max = values[i];
  for (int32_t node = leaves_ - 1; node > 0; --node) {
    trees_[node].max = std::max(trees_[2 * node].max, trees_[2 * node + 1].max);
  }
}

void SegmentTree::Add(int32_t begin, int32_t end, int64_t value) {
  if (begin >= end) return;
  const uint32_t first = begin + leaves_, last = end - 1 + leaves_;
  const auto add = [&](uint32_t node) {
    trees_[node].max += value;
    trees_[node].added += value;
  };
  int levels = 0;  // on which something was added
  for (uint32_t left = first, right = last + 1; left < right; left >>= 1, right >>= 1, ++levels) {
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

int64_t SegmentTree::Max(int32_t begin, int32_t end) const {
  if (begin >= end) return kNothing;
  // Up from both ends until they meet: what lies between is in the inner siblings.
  uint32_t left = begin + leaves_, right = end - 1 + leaves_;
  int64_t left_max = trees_[left].max, right_max = trees_[right].max;
  while (left >> 1 != right >> 1) {
    if ((left & 1) == 0) left_max = std::max(left_max, trees_[left + 1].max);
    if ((right & 1) == 1) right_max = std::max(right_max, trees_[right - 1].max);
    left >>= 1;
    right >>= 1;
    left_max += trees_[left].added;
    right_max += trees_[right].added;
  }
  int64_t result = std::max(left_max, right_max);
  for (left >>= 1; left > 0; left >>= 1) result += trees_[left].added;
  return result;
}

void SegmentTree::Read(std::vector<int64_t>& values) const {
  std::vector<int64_t> added(leaves_, 0);  // of the node and its ancestors; inner nodes only
  for (int32_t node = 1; node < leaves_; ++node) added[node] = trees_[node].added + (node > 1 ? added[node / 2] : 0);
  for (size_t i = 0; i < values.size(); ++i) {
    const size_t leaf = leaves_ + i;
    values[i] = trees_[leaf].max + (leaf > 1 ? added[leaf / 2] : 0);
  }
}

int32_t SegmentTree::LastAbove(int32_t begin, int32_t end, int64_t limit) const {
  if (begin >= end) return begin - 1;
  const int32_t found = LastAboveIn(1, 0, leaves_, begin, end, limit);
  return found < 0 ? begin - 1 : found;
}

int32_t SegmentTree::LastAboveIn(int32_t node, int32_t node_begin, int32_t node_end, int32_t begin, int32_t end,
                                 int64_t limit) const {
  if (node_end <= begin || end <= node_begin || trees_[node].max <= limit) return -1;
  if (node_end - node_begin == 1) return node_begin;
  const int32_t middle = (node_begin + node_end) / 2;
  const int32_t right = LastAboveIn(2 * node + 1, middle, node_end, begin, end, limit - trees_[node].added);
  return right >= 0 ? right : LastAboveIn(2 * node, node_begin, middle, begin, end, limit - trees_[node].added);
}

}  // namespace millrace
