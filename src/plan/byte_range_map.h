// A map from byte ranges to values: [0,64) -> a, [64,96) -> b, the rest unset.
#ifndef MILLRACE_SRC_PLAN_BYTE_RANGE_MAP_H_
#define MILLRACE_SRC_PLAN_BYTE_RANGE_MAP_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/container/btree_map.h"

namespace millrace {

template <typename Value>
class ByteRangeMap {
 public:
  // Calls visit(begin, end, Value&) for every set part of [begin, end) in order, cutting ranges at the two ends, and
  // returns how many bytes of it are set.
  template <typename Visit>
  int64_t ForEach(int64_t begin, int64_t end, Visit&& visit) {
    auto it = ranges_.lower_bound(begin);
    if (it == ranges_.end() || it->first != begin || it->second.end != end) {
      Cut(begin);
      Cut(end);
      it = ranges_.lower_bound(begin);
    }
    int64_t set = 0;
    for (; it != ranges_.end() && it->first < end; ++it) {
      visit(it->first, it->second.end, values_[it->second.value]);
      set += it->second.end - it->first;
    }
    return set;
  }

  // Sets [begin, end) to one value.
  void Assign(int64_t begin, int64_t end, Value value) {
    if (begin >= end) return;
    auto it = ranges_.lower_bound(begin);
    if (it != ranges_.end() && it->first == begin && it->second.end == end) {
      values_[it->second.value] = std::move(value);
      return;
    }
    Cut(begin);
    Cut(end);
    it = ranges_.lower_bound(begin);
    while (it != ranges_.end() && it->first < end) {
      free_.push_back(it->second.value);
      it = ranges_.erase(it);
    }
    ranges_.emplace_hint(it, begin, Range{end, Add(std::move(value))});
  }

 private:
  struct Range {
    int64_t end = 0;
    int32_t value = 0;  // into values_
  };

  void Cut(int64_t at) {
    auto it = ranges_.lower_bound(at);
    if (it == ranges_.begin()) return;
    const auto next = it--;
    if (it->second.end <= at) return;
    const int64_t end = std::exchange(it->second.end, at);
    Value copy = values_[it->second.value];
    ranges_.emplace_hint(next, at, Range{end, Add(std::move(copy))});
  }

  int32_t Add(Value value) {
    if (free_.empty()) {
      values_.push_back(std::move(value));
      return static_cast<int32_t>(values_.size()) - 1;
    }
    const int32_t index = free_.back();
    free_.pop_back();
    values_[index] = std::move(value);
    return index;
  }

  absl::btree_map<int64_t, Range> ranges_;  // by begin, disjoint
  std::vector<Value> values_;
  std::vector<int32_t> free_;  // of values_
};

}  // namespace millrace

#endif  // MILLRACE_SRC_PLAN_BYTE_RANGE_MAP_H_
