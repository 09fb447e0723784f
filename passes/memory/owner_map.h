// Who touched which bytes last: the waits that the next owner of an address must make.
#ifndef MILLRACE_PASSES_MEMORY_OWNER_MAP_H_
#define MILLRACE_PASSES_MEMORY_OWNER_MAP_H_

#include <algorithm>
#include <array>
#include <cstdint>
#include <iterator>
#include <utility>

#include "absl/container/btree_map.h"
#include "absl/container/inlined_vector.h"

namespace millrace {

// The lanes of one device.
inline constexpr int kComputeLane = 0, kToHostLane = 1, kToDeviceLane = 2, kNumLanes = 3;

// Per lane of one device, the number of steps that must be complete. Small: there is one for each stay in device memory.
using LaneCounts = std::array<int32_t, kNumLanes>;
// Per lane of all devices (kNumLanes each, in their order); lanes beyond its end: none.
using AllLaneCounts = absl::InlinedVector<int64_t, kNumLanes>;

// into[i] = max(into[i], from[i]).
inline void Raise(LaneCounts& into, const LaneCounts& from) {
  for (size_t i = 0; i < into.size(); ++i) into[i] = std::max(into[i], from[i]);
}
inline void Raise(AllLaneCounts& into, const AllLaneCounts& from) {
  if (into.size() < from.size()) into.resize(from.size(), 0);
  for (size_t i = 0; i < from.size(); ++i) into[i] = std::max(into[i], from[i]);
}

// `Counts` is LaneCounts for device memory and AllLaneCounts for the host pool, which all devices use.
template <typename Counts>
class OwnerMap {
 public:
  // What the new owner of [offset, offset + bytes) must wait for: every step that touched any of these bytes.
  Counts Claim(int64_t offset, int64_t bytes) const {
    Counts needed{};
    for (auto it = FirstAt(offset); it != ranges_.end() && it->first < offset + bytes; ++it) Raise(needed, it->second.touched);
    return needed;
  }

  // The owner of these bytes has been touched by these steps and is gone.
  void Release(int64_t offset, int64_t bytes, const Counts& touched) {
    const int64_t end = offset + bytes;
    auto first = FirstAt(offset);
    if (first != ranges_.end() && first->first == offset && first->second.end == end) {
      first->second.touched = touched;
      return;
    }
    // What reaches out at both ends stays there.
    auto last = first;
    Range after;
    for (; last != ranges_.end() && last->first < end; ++last) {
      if (last->second.end > end) after = {last->second.end, last->second.touched};
    }
    if (first != last && first->first < offset) {
      first->second.end = offset;
      ++first;
    }
    auto next = ranges_.erase(first, last);
    if (after.end > 0) next = ranges_.emplace_hint(next, end, std::move(after));
    ranges_.emplace_hint(next, offset, Range{end, touched});
  }

 private:
  struct Range {
    int64_t end = 0;
    Counts touched{};
  };
  using Ranges = absl::btree_map<int64_t, Range>;

  // The first range that ends behind `offset`.
  template <typename Self>
  static auto FirstAtOf(Self& ranges, int64_t offset) {
    auto it = ranges.upper_bound(offset);
    if (it != ranges.begin() && std::prev(it)->second.end > offset) --it;
    return it;
  }
  typename Ranges::iterator FirstAt(int64_t offset) { return FirstAtOf(ranges_, offset); }
  typename Ranges::const_iterator FirstAt(int64_t offset) const { return FirstAtOf(ranges_, offset); }

  Ranges ranges_;  // by offset, disjoint
};

}  // namespace millrace

#endif  // MILLRACE_PASSES_MEMORY_OWNER_MAP_H_
