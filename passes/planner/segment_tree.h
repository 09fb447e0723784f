// A memory profile over operations: add bytes to a range, ask for the maximum of a range.
#ifndef MILLRACE_PASSES_PLANNER_SEGMENT_TREE_H_
#define MILLRACE_PASSES_PLANNER_SEGMENT_TREE_H_

#include <cstdint>
#include <vector>

namespace millrace {

// All ranges are half open, [begin, end); empty ones are allowed. O(log n) each. The leaves are blocks, which are looked
// through: what lies above those of a million operations fits a cache.
class SegmentTree {
 public:
  explicit SegmentTree(const std::vector<int64_t>& values);

  void Add(int32_t begin, int32_t end, int64_t value);
  // INT64_MIN / 4 for an empty range.
  int64_t Max(int32_t begin, int32_t end) const;
  // All values; of as many elements as there are.
  void Read(std::vector<int64_t>& values) const;
  // Largest index in [begin, end) whose value exceeds `limit`; begin - 1 when there is none.
  int32_t LastAbove(int32_t begin, int32_t end, int64_t limit) const;

 private:
  static constexpr int32_t kBlock = 8;

  struct Subtree {
    int64_t max = 0;    // its own additions included, those of its ancestors not
    int64_t added = 0;  // to all of it
  };

  // Of values of one block, without what was added to all of it and above it.
  int64_t MaxWithin(int32_t begin, int32_t end) const;
  // To values of one block; what lies above it does not know yet.
  void AddWithin(int32_t begin, int32_t end, int64_t value);
  // To the node and its ancestors.
  int64_t AddedTo(uint32_t node) const;
  int32_t LastBlockAbove(int32_t node, int32_t node_begin, int32_t node_end, int32_t begin, int32_t end, int64_t limit) const;

  int32_t size_ = 0;             // elements
  int32_t leaves_ = 1;           // blocks, and nothing up to a power of two
  std::vector<int64_t> values_;  // whole blocks
  std::vector<Subtree> trees_;   // the children of i are 2i and 2i + 1, the root is 1, the leaves are blocks
};

}  // namespace millrace

#endif  // MILLRACE_PASSES_PLANNER_SEGMENT_TREE_H_
