// A memory profile over operations: add bytes to a range, ask for the maximum of a range.
#ifndef MILLRACE_PASSES_PLANNER_SEGMENT_TREE_H_
#define MILLRACE_PASSES_PLANNER_SEGMENT_TREE_H_

#include <cstdint>
#include <vector>

namespace millrace {

// All ranges are half open, [begin, end); empty ones are allowed. O(log n) each.
class SegmentTree {
 public:
  explicit SegmentTree(const std::vector<int64_t>& values);

  void Add(int32_t begin, int32_t end, int64_t value);
  // INT64_MIN / 4 for an empty range.
  int64_t Max(int32_t begin, int32_t end) const;
  // Largest index in [begin, end) whose value exceeds `limit`; begin - 1 when there is none.
  int32_t LastAbove(int32_t begin, int32_t end, int64_t limit) const;

 private:
  int64_t MaxIn(int32_t node, int32_t node_begin, int32_t node_end, int32_t begin, int32_t end) const;
  int32_t LastAboveIn(int32_t node, int32_t node_begin, int32_t node_end, int32_t begin, int32_t end,
                      int64_t limit) const;

  int32_t leaves_ = 1;
  std::vector<int64_t> max_;    // of the subtree, its own pending additions included
  std::vector<int64_t> added_;  // to the whole subtree
};

}  // namespace millrace

#endif  // MILLRACE_PASSES_PLANNER_SEGMENT_TREE_H_
