// What is free in memory while blocks are packed, in an order of its own: of so many bytes upwards, or from an address on.
//
// A list of short sorted runs: a change moves no more than a run, and a search for the first or the last hole of some
// size passes over runs that hold none.
#ifndef MILLRACE_PASSES_MEMORY_HOLE_LIST_H_
#define MILLRACE_PASSES_MEMORY_HOLE_LIST_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace millrace {

class HoleList {
 public:
  // A hole's bytes and its begin, or the other way round, as its owner wishes to search; no two have the same of both.
  struct Hole {
    int64_t first_key = 0, second_key = 0;
    int32_t below = 0;  // the block below it
    friend bool operator<(const Hole& a, const Hole& b) {
      return a.first_key != b.first_key ? a.first_key < b.first_key : a.second_key < b.second_key;
    }
  };

  void Insert(const Hole& hole);
  void Erase(const Hole& hole);  // which is there

  // From the first that is not less than `from` on, in order, while `visit` returns true.
  template <typename Visit>
  void VisitFrom(const Hole& from, Visit&& visit) const {
    size_t r = RunOf(from);
    for (size_t k = r < runs_.size() ? LowerBound(runs_[r], from) : 0; r < runs_.size(); ++r, k = 0) {
      for (; k < runs_[r].holes.size(); ++k) {
        if (!visit(runs_[r].holes[k])) return;
      }
    }
  }
  // All, in order, while `visit` returns true.
  template <typename Visit>
  void VisitAll(Visit&& visit) const {
    for (const Run& run : runs_) {
      for (const Hole& hole : run.holes) {
        if (!visit(hole)) return;
      }
    }
  }

  // The first or the last whose first key is at most `first_key` and whose second key is at least `second_key`; nullptr
  // when there is none.
  const Hole* First(int64_t first_key, int64_t second_key) const;
  const Hole* Last(int64_t first_key, int64_t second_key) const;
  // 0 when there is none.
  int64_t LargestFirstKey() const { return runs_.empty() ? 0 : runs_.back().holes.back().first_key; }
  int64_t LargestSecondKey() const {
    int64_t largest = 0;
    for (const Run& run : runs_) largest = std::max(largest, run.largest);
    return largest;
  }

 private:
  struct Run {
    int64_t largest = 0;  // second key
    std::vector<Hole> holes;
  };

  // The last run that begins at or before the hole, the first when there is none.
  size_t RunOf(const Hole& hole) const;
  static size_t LowerBound(const Run& run, const Hole& hole);
  static void FindLargest(Run& run);

  std::vector<Run> runs_;  // none is empty
};

}  // namespace millrace

#endif  // MILLRACE_PASSES_MEMORY_HOLE_LIST_H_
