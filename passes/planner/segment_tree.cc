#include "passes/planner/segment_tree.h"

#include <algorithm>

namespace millrace {
namespace {
constexpr int64_t kNothing = INT64_MIN / 4;
}  // namespace

SegmentTree::SegmentTree(const std::vector<int64_t>& values) {
  while (leaves_ < static_cast<int32_t>(values.size())) leaves_ *= 2;
  max_.assign(2 * leaves_, kNothing);
  added_.assign(2 * leaves_, 0);
  std::copy(values.begin(), values.end(), max_.begin() + leaves_);
  for (int32_t node = leaves_ - 1; node > 0; --node) max_[node] = std::max(max_[2 * node], max_[2 * node + 1]);
}

void SegmentTree::Add(int32_t begin, int32_t end, int64_t value) {
  if (begin >= end) return;
  const int32_t first = begin + leaves_, last = end - 1 + leaves_;
  for (int32_t left = first, right = last + 1; left < right; left /= 2, right /= 2) {
    if (left % 2 == 1) {
      max_[left] += value;
      added_[left++] += value;
    }
    if (right % 2 == 1) {
      max_[--right] += value;
      added_[right] += value;
    }
  }
  auto pull = [this](int32_t leaf) {
    for (int32_t node = leaf / 2; node > 0; node /= 2) {
      max_[node] = std::max(max_[2 * node], max_[2 * node + 1]) + added_[node];
    }
  };
  pull(first);
  pull(last);
}

int64_t SegmentTree::Max(int32_t begin, int32_t end) const {
  return begin >= end ? kNothing : MaxIn(1, 0, leaves_, begin, end);
}

int64_t SegmentTree::MaxIn(int32_t node, int32_t node_begin, int32_t node_end, int32_t begin, int32_t end) const {
  if (begin <= node_begin && node_end <= end) return max_[node];
  const int32_t middle = (node_begin + node_end) / 2;
  int64_t result = kNothing;
  if (begin < middle) result = MaxIn(2 * node, node_begin, middle, begin, end);
  if (end > middle) result = std::max(result, MaxIn(2 * node + 1, middle, node_end, begin, end));
  return result + added_[node];
}

int32_t SegmentTree::LastAbove(int32_t begin, int32_t end, int64_t limit) const {
  if (begin >= end) return begin - 1;
  const int32_t found = LastAboveIn(1, 0, leaves_, begin, end, limit);
  return found < 0 ? begin - 1 : found;
}

int32_t SegmentTree::LastAboveIn(int32_t node, int32_t node_begin, int32_t node_end, int32_t begin, int32_t end,
                                 int64_t limit) const {
  if (node_end <= begin || end <= node_begin || max_[node] <= limit) return -1;
  if (node_end - node_begin == 1) return node_begin;
  const int32_t middle = (node_begin + node_end) / 2;
  const int32_t right = LastAboveIn(2 * node + 1, middle, node_end, begin, end, limit - added_[node]);
  return right >= 0 ? right : LastAboveIn(2 * node, node_begin, middle, begin, end, limit - added_[node]);
}

}  // namespace millrace
