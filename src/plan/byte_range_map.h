// A map from byte ranges to values: [0,64) -> a, [64,96) -> b, the rest unset.
#ifndef MILLRACE_SRC_PLAN_BYTE_RANGE_MAP_H_
#define MILLRACE_SRC_PLAN_BYTE_RANGE_MAP_H_

#include <cstdint>
#include <iterator>
#include <map>
#include <utility>

namespace millrace {

template <typename Value>
class ByteRangeMap {
 public:
  // Calls visit(begin, end, Value&) for every set part of [begin, end) in order, cutting ranges at the two ends, and
  // returns how many bytes of it are set.
  template <typename Visit>
  int64_t ForEach(int64_t begin, int64_t end, Visit&& visit) {
    Cut(begin);
    Cut(end);
    int64_t set = 0;
    for (auto it = ranges_.lower_bound(begin); it != ranges_.end() && it->first < end; ++it) {
      visit(it->first, it->second.first, it->second.second);
      set += it->second.first - it->first;
    }
    return set;
  }

  // Sets [begin, end) to one value.
  void Assign(int64_t begin, int64_t end, Value value) {
    if (begin >= end) return;
    Cut(begin);
    Cut(end);
    ranges_.erase(ranges_.lower_bound(begin), ranges_.lower_bound(end));
    ranges_.emplace(begin, std::pair(end, std::move(value)));
  }

 private:
  void Cut(int64_t at) {
    auto it = ranges_.lower_bound(at);
    if (it == ranges_.begin()) return;
    --it;
    if (it->second.first <= at) return;
    Value copy = it->second.second;
    const int64_t end = std::exchange(it->second.first, at);
    ranges_.emplace_hint(std::next(it), at, std::pair(end, std::move(copy)));
  }

  std::map<int64_t, std::pair<int64_t, Value>> ranges_;  // begin -> (end, value)
};

}  // namespace millrace

#endif  // MILLRACE_SRC_PLAN_BYTE_RANGE_MAP_H_
